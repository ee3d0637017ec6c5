# Training whose states are on file: figures, requests, traces.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary whose optimizer is on file gives the bits of one that has it in memory, and
moves as many bytes as its plan says."""

import json
import os
import shutil
import unittest

import heddle_test as h
from swapping import BATCH, EVERYTHING, SEQ, WAYS, SwapTest


class Swap(SwapTest):
    def test_every_way_gives_the_same_bits(self):
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                             config=h.ds_config(), output="plain")
        expected = self.losses(plain)
        kept = h.bytes_saved(self.saved)
        binary = self.compile_for()
        for way in WAYS:
            for flags in ([], ["--swap-check"]):
                with self.subTest(way=way, flags=flags):
                    shutil.rmtree(self.saved)
                    self.assertEqual(self.losses(binary, *flags, way=way), expected)
                    self.assertEqual(h.bytes_saved(self.saved), kept)
        self.assertEqual(os.listdir(self.swap), [])

    def test_resumes_from_one_placement_in_the_other(self):
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                             config=h.ds_config(), output="plain")
        binary = self.compile_for()
        expected = self.losses(plain)
        kept = h.bytes_saved(self.saved)
        for first, second in ((plain, binary), (binary, plain)):
            with self.subTest(first=os.path.basename(first)):
                shutil.rmtree(self.saved)
                h.run(self.words(first, steps=4), env=self.environment())
                found = self.losses(second, "--resume", self.saved)
                self.assertEqual(found, {step: expected[step] for step in (5, 6)})
                self.assertEqual(h.bytes_saved(self.saved), kept)

    def test_moves_what_the_plan_says(self):
        for place in (EVERYTHING, "optimizer=file"):
            binary = self.compile_for(place=place)
            plan = self.explain(binary)
            planned = {"read": 0, "written": 0}
            for move in plan["moves"]:
                planned["read"] += move["bytes"] if move["from"] == "file" else 0
                planned["written"] += move["bytes"] if move["to"] == "file" else 0
            for way in WAYS:
                found = json.loads(h.run(
                    [binary, "bench", "--steps", 3, "--warmup", 1, "--json", "--swap-dir",
                     self.swap], env=self.environment(way=way)).stdout)
                self.assertEqual(found["file_bytes_read"], planned["read"])
                self.assertEqual(found["file_bytes_written"], planned["written"])
        # Two moments of four bytes, in whole pages.
        least = 8 * plan["parameters"]
        for direction in ("read", "written"):
            self.assertGreaterEqual(planned[direction], least)
            self.assertLess(planned[direction], least + 64 * 4096)
        said = h.run([binary, "info"], env=self.environment()).stdout
        self.assertRegex(said, r"swap +\S+, by threads in requests of 1.00 MiB, 16 at")

    def test_requests_are_as_the_compiler_is_told(self):
        whole, cut = (self.compile_for(*flags, output=name) for name, flags in
                      (("whole", []),
                       ("cut", ["--swap-block-size", "10000", "--swap-queue-depth", 3])))
        self.assertEqual(self.losses(cut), self.losses(whole))
        # Of whole pages.
        self.assertGreater(self.requests(cut), self.requests(whole))
        for target in ("x86-64", "sm_90"):
            binary = self.compile_for("--swap-block-size", "10000", "--swap-queue-depth", 3,
                                      "--target", target, output="told")
            said = h.run([binary, "info"], env=self.environment()).stdout
            self.assertRegex(said, r"swap +\S+, by threads in requests of 8.00 KiB, 3 at")

    def test_files_in_memory_are_said(self):
        """The plan's memory is not all of it then."""
        memory = "/dev/shm/heddle-test-swap"
        self.addCleanup(shutil.rmtree, memory, ignore_errors=True)
        binary = self.compile_for()
        for self.swap, is_memory in ((self.swap, False), (memory, True)):
            os.makedirs(self.swap, exist_ok=True)
            kind = h.run(["stat", "-f", "-c", "%T", self.swap]).stdout.strip()
            if (kind == "tmpfs") != is_memory:
                self.skipTest(f"{self.swap} is on {kind}")
            said = h.run(self.words(binary, steps=1), env=self.environment()).stderr
            self.assertEqual("warning[H0463]" in said, is_memory, said)
        said = h.run([binary, "info"], env=dict(os.environ, TMPDIR=memory)).stdout
        self.assertIn(f"{memory} (in memory, or through its cache), by", said)
        plain = self.compile_for(place="activations=device", output="plain")
        said = h.run(self.words(plain, steps=1)).stderr
        self.assertNotIn("H0463", said)

    def test_traces_show_copies_beside_kernels(self):
        binary = self.compile_for("--sub-group-size", 1024)
        trace = self.path("trace.json")
        self.losses(binary, "--trace", trace, fault="slow 0")
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        self.check_copies(events)

    def check_copies(self, events):
        """Each takes as long as the slow disk needs, and kernels run beside them."""
        copies = [event for event in events if event["tid"] > 0]
        self.assertEqual({event["tid"] for event in copies}, {1, 2})
        host = [event for event in events if event["tid"] == 0]
        for copy in copies:
            self.assertGreaterEqual(copy["dur"], 5000)  # That is how slow it is.
            self.assertGreater(copy["args"]["bytes"], 0)
        beside = sum(copy["ts"] < kernel["ts"] + kernel["dur"] and
                     kernel["ts"] < copy["ts"] + copy["dur"]
                     for copy in copies for kernel in host
                     if kernel["args"]["command"] == "launch")
        self.assertGreater(beside, 0)

    def test_gpus(self):
        """What is on file goes through requests there too: the plan's bytes, the bits
        of a GPU that has all in its memory, and the same faults."""
        flags = ["--target", "sm_90"]
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, *flags,
                             config=h.ds_config(), output="plain-gpu")
        binary = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, *flags,
                              "--place", "optimizer=file,activations=file",
                              config=h.ds_config(), output="gpu")
        plan = self.explain(binary)
        moved = {(move["from"], move["to"]): move["bytes"] for move in plan["moves"]}
        emulate = [h.HEDDLE, "emulate", "--"]
        steps, expected = 2, None
        for program, order, way in ((plain, "late", "threads"), (binary, "late", "threads"),
                                    (binary, "early", "auto"), (binary, "seed:4", "auto")):
            with self.subTest(order=order, way=way):
                log = self.path("gpu.jsonl")
                if os.path.exists(log):
                    os.remove(log)
                h.run([*emulate, program, "train", "--data", self.data, "--steps", steps,
                       "--log", log, "--progress", "none", "--swap-dir", self.swap],
                      env=dict(self.environment(way=way), HEDDLE_EMULATE=order))
                found = [(step["loss"], step["grad_norm"]) for step in h.read_log(log)]
                expected = expected or found
                self.assertEqual(found, expected)
                end = h.read_log(log, "end")[0]
                if program == binary:
                    self.assertEqual(end["file_bytes_read"],
                                     steps * moved["file", "device"])
                    self.assertEqual(end["file_bytes_written"],
                                     steps * moved["device", "file"])
        self.assertEqual(os.listdir(self.swap), [])
        trace = self.path("gpu-trace.json")
        h.run([*emulate, *self.words(binary, "--trace", trace, steps=1)],
              env=self.environment("slow 0"))
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        self.check_copies(events)
        for fault in ("read EIO 3", "write EIO 3"):
            with self.subTest(fault=fault):
                found = h.run([*emulate, *self.words(binary)], 5,
                              env=self.environment(fault))
                self.assertIn("error[H0461]: cannot " + fault.split()[0], found.stderr)
                self.assertEqual(os.listdir(self.swap), [])


if __name__ == "__main__":
    unittest.main()
