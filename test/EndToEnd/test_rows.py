# Rows of embeddings on GPUs.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPU's plan fetches the rows of a micro-batch's tokens from a table that is in the
host's memory or on file. test_offload.py is about those of x86-64."""

import json
import os
import unittest

import heddle_test as h


class Rows(h.HeddleTest):
    def test_emulated_gpus(self):
        """Copied by the host in the order of the stream, also in a captured graph."""
        model = self.make_model("wide", vocab=1031, embed=36)[0]
        data, _ = self.make_tokens(200, 1031)
        emulate = [h.HEDDLE, "emulate", "--"]
        flags = ["--micro-batch", 1, "--accumulate", 2, "--seq", 5, "--target", "sm_90",
                 "--precision", "bf16"]
        expected = None
        for place in ("device", "file", "host"):
            binary = self.compile(model, *flags, "--place", f"parameters={place}",
                                  output=f"gpu-{place}")
            log, counts = self.path(f"rows-{place}.jsonl"), self.path("counts")
            h.run([*emulate, binary, "train", "--data", data, "--steps", 3, "--log", log,
                   "--progress", "none"],
                  env=dict(os.environ, HEDDLE_EMULATE_COUNTS=counts))
            losses = [(step["loss"], step["grad_norm"]) for step in h.read_log(log)]
            expected = expected or losses
            self.assertEqual(losses, expected)
            plan = self.explain(binary)
            with open(counts) as file:
                self.assertEqual(json.load(file)["device_bytes"],
                                 sum(plan["memory"]["kinds"]["device"].values()))
            pinned = plan["memory"]["kinds"].get("pinned", {})
            self.assertEqual(pinned.get("staging", 0),
                             {"device": 0, "file": 2 ** 24, "host": 2 ** 23}[place])
            (end,) = h.read_log(log, "end")
            self.assertEqual(end["peak_bytes"]["planned"], end["peak_bytes"]["mapped"])
            said = h.run([h.HEDDLE, "explain", binary]).stdout
            self.assertEqual("copies of rows" in said, place != "device")
            if place == "file":
                read = sum(move["bytes"] for move in plan["moves"]
                           if move["from"] == "file")
                found = json.loads(h.run([*emulate, binary, "bench", "--steps", 2,
                                          "--json"]).stdout)
                self.assertEqual(found["file_bytes_read"], read)


    @h.needs_mpi
    def test_emulated_gpus_with_parts(self):
        """Each rank copies the rows that are in its part of the table."""
        model = self.make_model("wide", vocab=2063, embed=36)[0]
        data, _ = self.make_tokens(200, 2063)
        expected = None
        for place in ("device", "file", "host"):
            binary = self.compile(
                model, "--micro-batch", 1, "--accumulate", 2, "--seq", 5, "--target",
                "sm_90", "--mesh", "tensor=2", "--place", f"parameters={place}",
                output=f"parts-{place}")
            log = self.path(f"parts-{place}.jsonl")
            h.run_ranks(2, [h.HEDDLE, "emulate", "--devices", 2, "--", binary, "train",
                            "--data", data, "--steps", 3, "--log", log, "--progress",
                            "none"])
            losses = [(step["loss"], step["grad_norm"]) for step in h.read_log(log)]
            expected = expected or losses
            self.assertEqual(losses, expected)
            said = h.run([h.HEDDLE, "explain", binary]).stdout
            self.assertEqual("rows of a table of which ranks have a part" in said,
                             place != "device")


if __name__ == "__main__":
    unittest.main()
