#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step that drops layers computes and transfers nothing for them: the kernels, the
collectives and the copies of a trace are those of the kept layers, and of the updates."""

import collections
import json
import unittest

import heddle_test as h

ROWS, SEQ, STEPS, LAYERS, VOCAB = 4, 16, 2, 4, 97
MODEL = dict(vocab=VOCAB, positions=SEQ, embed=64, layers=LAYERS, heads=4)
# Every second layer is dropped in all steps of this seed.
NONE, HALF = "0", "0,0.999999,0,0.999999"
DROPPED = {"h.1", "h.3"}


class LayerDropTransfers(h.HeddleTest):
    def setUp(self):
        self.model, _, _ = self.make_model(**MODEL)
        self.data, _ = self.make_tokens(STEPS * ROWS * SEQ + 1, VOCAB)

    def run_with(self, rates, ranks, *flags):
        """The events of rank 0's trace, and the last line of the log."""
        name = f"{len(rates)}-{ranks}"
        binary = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--threads", 1,
                              "--layer-drop-schedule", rates, *flags, output=name)
        trace, log = self.path(f"{name}.trace"), self.path(f"{name}.jsonl")
        h.run_ranks(ranks, [binary, "train", *h.batches_of(self.data), "--steps", STEPS,
                            "--trace", trace, "--log", log, "--progress", "none"])
        for step in h.read_log(log):
            self.assertEqual(step["kept_layers"],
                             [0, 2] if rates == HALF else list(range(LAYERS)))
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        return [event["args"] for event in events if event["ph"] == "X"], \
            h.read_log(log, "end")[0]

    def count(self, events, command):
        """How often modules run a command. Layers have one name in launches."""
        return collections.Counter(event["path"] for event in events
                                   if event["command"] == command and event["path"])

    def check(self, ranks, *flags):
        """Compares what is computed and sent with and without half of the layers.
        Returns the ends of both logs."""
        (whole, before), (half, after) = (self.run_with(rates, ranks, *flags)
                                          for rates in (NONE, HALF))
        for command in ["launch", "collective", "wait"]:
            expected = self.count(whole, command)
            for path in expected:
                if path in DROPPED:
                    # Parameters of dropped layers are updated all the same.
                    expected[path] = self.count(
                        [event for event in whole if event.get("ops") == "adamw"],
                        command)[path]
                elif path.startswith("h.*"):
                    expected[path] //= 2
            self.assertEqual(self.count(half, command), +expected, command)
        return before, after

    def test_zero_3(self):
        whole, _ = self.run_with(NONE, 2, "--mesh", "data=2", "--zero", 3)
        gathers = self.count(whole, "collective")
        # Two all-gathers and one reduce-scatter a step.
        self.assertEqual([gathers[f"h.{layer}"] for layer in range(LAYERS)],
                         [3 * STEPS] * LAYERS)
        self.check(2, "--mesh", "data=2", "--zero", 3)

    def test_stages(self):
        self.check(4, "--mesh", "data=2,pipe=2", "--zero", 2, "--accumulate", 2)

    def test_files(self):
        before, after = self.check(1, "--place", "optimizer=file,parameters=file")
        # A layer's parameters are read for its forward and its backward pass, in pages.
        # The last layer's passes follow each other, so they read them once.
        parameters = 4 * (12 * 64 * 64 + 13 * 64)
        saved = before["file_bytes_read"] - after["file_bytes_read"]
        reads = (2 * len(DROPPED) - 1) * STEPS
        self.assertGreaterEqual(saved, reads * parameters)
        self.assertLess(saved, reads * (parameters + 2 * 4096))
        self.assertEqual(before["file_bytes_written"], after["file_bytes_written"])


if __name__ == "__main__":
    unittest.main()
