# The bytes of a plan: what is dead, what is around, how many they are.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans are executed with dead bytes made NaN, and edited so that they are wrong:
the independent checker, the interpreter, or both must see it."""

import os
import re
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ, STEPS = 4, 8, 2
THREADS = 2
PAGE = 4096


class Memory(h.HeddleTest):
    def prepare(self, *flags, **options):
        model, config, _ = self.make_model(embed=24, heads=3, **options)
        tokens = h.random_tokens(ROWS * SEQ * STEPS + 1, config["vocab_size"])
        dumps = self.path("dumps")
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ, "--threads",
                              THREADS, "--dump-phases", dumps, *flags,
                              config=h.ds_config(lr=2e-3))
        h.write_inputs(self.path("inputs.safetensors"), tokens, STEPS, ROWS, SEQ)
        self.data = self.path("tokens.bin")
        h.write_tokens(self.data, tokens)
        return binary, os.path.join(dumps, "memory.mlir")

    def evaluate(self, file, *flags, status=0):
        output = self.path("eval.safetensors")
        h.run([h.HEDDLE, "eval", file, "--inputs", self.path("inputs.safetensors"),
               "--steps", STEPS, "--output", output, "--threads", THREADS, *flags],
              status=status)
        return h.read_safetensors(output)

    def edit(self, file, pattern, change):
        """A copy of the dump with the first match changed."""
        with open(file) as stream:
            text = stream.read()
        edited, count = re.subn(pattern, change, text, count=1)
        self.assertEqual(count, 1, pattern)
        name = self.path("edited.mlir")
        with open(name, "w") as stream:
            stream.write(edited)
        return name

    def refuse(self, file):
        """The checker refuses to go on from the dump."""
        result = h.run([h.HEDDLE, "compile", file, "--start-from", "memory", "-o",
                        self.path("refused")], status=3)
        self.assertIn("H0354", result.stderr)
        self.assertFalse(os.path.exists(self.path("refused")))

    def check_poison(self, *flags, **options):
        _, file = self.prepare(*flags, **options)
        plain, poisoned = self.evaluate(file), self.evaluate(file, "--poison")
        self.assertEqual(plain.keys(), poisoned.keys())
        for name, value in plain.items():
            np.testing.assert_array_equal(poisoned[name], value, name)

    def test_nobody_reads_dead_bytes(self):
        self.check_poison("--accumulate", 2, "--keep", "logits", dropout=0.1)

    def test_nobody_reads_dead_bytes_when_recomputing(self):
        self.check_poison("--recompute", "full", dropout=0.1)

    def test_nobody_reads_dead_bytes_in_bf16(self):
        self.check_poison("--precision", "bf16")

    def test_nobody_reads_dead_bytes_of_chunks(self):
        self.check_poison("--accumulate", 2, "--chunk-tokens", 5, dropout=0.1)

    def test_lifetime_that_ends_too_early(self):
        _, file = self.prepare()
        edited = self.edit(file, r"live\[(\d+), (\d+)\](?= owner \"activations\")",
                           lambda match: f"live[{match[1]}, {int(match[2]) - 1}]")
        self.refuse(edited)
        found = self.evaluate(edited, "--poison", status=5)
        self.assertTrue(np.isnan(found["grad_norm"]), found["grad_norm"])

    def test_buffers_that_overlap(self):
        _, file = self.prepare()
        self.refuse(self.edit(
            file, r"(plan\.buffer at )\d+(.*\n.*plan\.buffer at )(\d+)",
            lambda match: match[1] + match[3] + match[2] + match[3]))

    def test_arena_one_page_short(self):
        _, file = self.prepare()
        edited = self.edit(file, r"arena_bytes = #plan.bytes<device (\d+)",
                           lambda match: f"arena_bytes = #plan.bytes<device "
                           f"{int(match[1]) - PAGE}")
        self.refuse(edited)
        with self.assertRaises(h.Failed):
            self.evaluate(edited)

    def test_planned_bytes_are_mapped(self):
        binary, _ = self.prepare()
        explained = self.explain(binary)["memory"]
        self.train(binary, self.data, STEPS)
        (end,) = h.read_log(self.path("run.jsonl"), "end")
        self.assertEqual(end["peak_bytes"]["mapped"], explained["peak"])
        self.assertEqual(explained["peak"],
                         explained["arena"] + explained["persistent"])
        self.assertEqual(sum(explained["owners"].values()), explained["peak"])


if __name__ == "__main__":
    unittest.main()
