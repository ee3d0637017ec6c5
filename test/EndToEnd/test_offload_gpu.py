# States outside of the device's memory, on emulated GPUs.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary for a GPU trains to the same bits wherever its states are, in any order of
streams, and copies the bytes that its plan says."""

import filecmp
import json
import os
import unittest

import heddle_test as h
from test_offload import FILES, STEPS, model_of


class OffloadOnGpus(h.HeddleTest):
    def test_emulated_gpus(self):
        """Whatever the order of streams; each byte that the plan moves is copied once."""
        model = self.make_model()[0]
        data, _ = self.make_tokens(200, 97)
        for precision in ("fp32", "bf16"):
            logs, copied = [], []
            short = 3 if precision == "fp32" and not h.LONG else None
            for number, place in enumerate((
                          "optimizer=device", "optimizer=host,parameters=file",
                          "optimizer=host,gradients=host", "optimizer=host",
                          "optimizer=file", "parameters=pinned", "gradients=file",
                          "optimizer=host,gradients=host --host-updates 1")[:short]):
                order = ("late", "early", "seed:1", "seed:2")[number % 4]
                binary = self.compile(
                    model, "--micro-batch", 1, "--accumulate", 2, "--seq", 8,
                    "--precision", precision, "--target", "sm_90",
                    "--place", *place.split(), "--sub-group-size", 7000, output="gpu")
                counts = self.path("counts")
                found = []
                for steps in (1, 2):
                    log = self.path(f"gpu-{precision}-{place}-{steps}.jsonl")
                    h.run([h.HEDDLE, "emulate", "--", binary, "train", "--data", data,
                           "--steps", steps, "--log", log, "--progress", "none"],
                          env=dict(os.environ, HEDDLE_EMULATE=order,
                                   HEDDLE_EMULATE_COUNTS=counts,
                                   **(h.LIGHT if steps == 1 else {})))
                    with open(counts) as file:
                        found.append(json.load(file))
                plan = self.explain(binary)
                self.assertEqual(found[0]["device_bytes"],
                                 sum(plan["memory"]["kinds"]["device"].values()))
                # What copies go through is of the plan, too: two rings for files, and
                # one for the rows of a pinned table that generated tokens look up.
                pinned = plan["memory"]["kinds"].get("pinned", {})
                self.assertEqual(pinned.get("staging", 0), 2 ** 24 if "file" in place
                                 else 2 ** 23 if "parameters=pinned" in place else 0)
                self.assertGreaterEqual(found[0]["pinned_bytes"], sum(pinned.values()))
                (end,) = h.read_log(log, "end")
                self.assertEqual(end["peak_bytes"]["planned"], end["peak_bytes"]["mapped"])
                # What a step copies more than one that has all on the device: its
                # inputs, and what it gives.
                copied.append({end: found[1][f"copied_{end}_bytes"]
                               - found[0][f"copied_{end}_bytes"] for end in ("in", "out")})
                if "file" not in place:
                    self.assertEqual(
                        {end: bytes_ - copied[0][end] for end, bytes_ in copied[-1].items()},
                        {end: sum(move["bytes"] for move in plan["moves"]
                                  if move[here] == "device")
                         for end, here in (("in", "to"), ("out", "from"))})
                logs.append([(step["loss"], step["grad_norm"])
                             for step in h.read_log(log)])
            for log in logs[1:]:
                self.assertEqual(logs[0], log)

    def test_families_on_emulated_gpus(self):
        """Sums of rows are parts of the same kernels wherever states are."""
        data, _ = self.make_tokens(400, 97)
        for family, rows in (("bert", ["--mask-probability", 0.3, "--mask-token", 3]),
                             ("llama", [])):
            model, kept = model_of(self, family, 1), []
            for place in ("optimizer=device", "optimizer=file", "parameters=host",
                          "gradients=host,activations=host"):
                binary = self.compile(model, "--init", "random", "--batch", 2, "--seq", 8,
                                      "--recompute", "full", "--target", "sm_90",
                                      "--place", place, output="gpu")
                folder = self.path(f"{family}-{place}")
                h.run([h.HEDDLE, "emulate", "--", binary, "train", "--data", data, *rows,
                       "--steps", STEPS, "--save", folder, "--progress", "none"])
                kept.append(h.latest_of(folder))
                for file in FILES:
                    self.assertTrue(
                        filecmp.cmp(*(os.path.join(folder, file)
                                      for folder in (kept[0], kept[-1])), shallow=False),
                        (family, place, file))


if __name__ == "__main__":
    unittest.main()
