#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step that drops layers computes and transfers nothing for them: the kernels, the
collectives and the copies of a trace are those of the kept layers, and of the updates."""

import json
import unittest

import heddle_test as h

ROWS, SEQ, STEPS, LAYERS, VOCAB = 4, 16, 2, 4, 97
MODEL = dict(vocab=VOCAB, positions=SEQ, embed=64, layers=LAYERS, heads=4)
# Every second layer is dropped in all steps of this seed.
NONE, HALF = "0", "0,0.999999,0,0.999999"
DROPPED = {"h.1", "h.3"}


class LayerDropTransfersTest(h.HeddleTest):
    def setUp(self):
        self.model, _, _ = self.make_model(**MODEL)
        self.data, _ = self.make_tokens(STEPS * ROWS * SEQ + 1, VOCAB)

    def run_with(self, rates, ranks, *flags):
        """The events of rank 0's trace, and the last line of the log."""
        name = f"{len(rates)}-{'-'.join(map(str, flags)).replace('/', '')}"[:80]
        binary = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--threads", 1,
                              "--layer-drop-schedule", rates, *flags, output=name)
        trace, log = self.path(f"{name}.trace"), self.path(f"{name}.jsonl")
        h.run_ranks(ranks, [binary, "train", *h.batches_of(self.data), "--steps", STEPS,
                            "--trace", trace, "--log", log, "--progress", "none"])
        steps = h.read_log(log)
        for step in steps:
            expected = [0, 2] if rates == HALF else list(range(LAYERS))
            self.assertEqual(step["kept_layers"], expected)
        files = h.trace_files(trace, ranks)
        with open(files[0]) as file:
            events = json.load(file)["traceEvents"]
        with open(log) as file:
            end = [json.loads(line) for line in file][-1]
        return [event for event in events if event["ph"] == "X"], end
