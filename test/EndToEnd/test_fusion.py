#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`--fusion none`, `generic` and `deep` give the same logits and texts, each the
same bits token by token and at once; each has fewer launches than the one before;
and what is not fused is remarked upon. HEDDLE_TEST_LONG=1 takes more families, in more
precisions."""

import unittest

import numpy as np

import heddle_test as h
import serving
import test_serve_recorded as recorded

POLICIES = ("none", "generic", "deep")
LENGTH = 37  # Two pages and a part of one; chunks of several rows.
# Norms of two kinds, of heads, and behind attention and MLP; heads turned as a whole,
# in part and not at all; q, k and v in one product and in three; a layer with two
# branches.
FAMILIES = ("gemma2", "gpt2", "gpt_neo", "gpt_neox", "llama", *["opt"] * h.LONG, "qwen3")
CASES = {"gemma2": [(["--precision", "bf16"], 0.1)],
         "gpt2": [(["--precision", "bf16", "--kv-type", "int8"], 0.1)],
         "gpt_neox": [(["--quantize", "int8", "--kv-type", "bf16"], 0.05)],
         "llama": [(["--precision", "bf16", "--quantize", "int8",
                     "--quantize-zeros"], 0.1)],
         "qwen3": [(["--precision", "bf16", "--kv-type", "int8"], 0.1)]}
if not h.LONG:  # Two types of caches, and quantized weights.
    CASES = {name: CASES[name] for name in ("gpt2", "gpt_neox")}


class Fusion(serving.ServingTest):
    takes_long = True
    make = recorded.ServeRecorded.make

    def binaries(self, folder, *flags):
        return {policy: self.serve(folder, "--max-context", LENGTH + 20, "--max-batch",
                                   2, "--fusion", policy, *flags, output=policy)
                for policy in POLICIES}

    def launches(self, binary, program):
        found = self.explain(binary, "--program", program)
        self.assertEqual(found["launches"],
                         sum(kernel["calls"] for kernel in found["kernels"]))
        return found["launches"], found["launch_bytes"]

    def test_same_logits(self):
        known = dict(recorded.records())
        for name in FAMILIES:
            for flags, tolerance in [([], 1e-4), *CASES.get(name, [])]:
                with self.subTest(name, flags=flags):
                    binaries = self.binaries(self.make(name, known[name]), *flags)
                    once = [self.logits(binaries[policy], recorded.TOKENS[:LENGTH])
                            for policy in POLICIES]
                    for policy, logits in zip(POLICIES, once):
                        np.testing.assert_allclose(logits, once[0], rtol=0,
                                                   atol=tolerance)
                        np.testing.assert_array_equal(
                            self.logits(binaries[policy], recorded.TOKENS[:LENGTH], "--decode"),
                            logits)
                    if not flags:
                        texts = [self.generate(binaries[policy], recorded.TOKENS[:5], 20)
                                 for policy in POLICIES]
                        self.assertEqual(texts, texts[:1] * len(texts))

    def test_launches(self):
        # Of a layer, and beside the layers. Gemma 2 has a norm more behind each half
        # of a layer: one makes the rows of the gate, the other is a kernel of its own.
        wanted = {"llama": {"deep": (5, 2)}, "gpt2": {"deep": (5, 3)},
                  "qwen3": {"deep": (5, 2)}, "gemma2": {"deep": (6, 3)}}
        known = dict(recorded.records())
        for name, counts in wanted.items():
            if not h.LONG and name in ("gpt2", "qwen3"):
                continue
            config = known[name]["config"]
            layers = config.get("num_hidden_layers", config.get("n_layer"))
            binaries = self.binaries(self.make(name, known[name]))
            for program in ("decode/1", "decode/2"):
                found = [self.launches(binaries[policy], program) for policy in POLICIES]
                for policy, (launches, _) in zip(POLICIES, found):
                    if policy in counts:
                        inside, beside = counts[policy]
                        self.assertEqual(launches, layers * inside + beside)
                # Each has fewer launches than the one before it, and moves fewer bytes.
                for before, after in zip(found, found[1:]):
                    self.assertGreater(before[0], after[0], (name, program, found))
                    self.assertGreater(before[1], after[1], (name, program, found))

    def test_remarks(self):
        model = self.make_model()[0]
        for policy, why in (("none", "--fusion none gives every operation a kernel"),
                            ("generic", "--fusion generic gives every product a kernel"),
                            ("deep", "more than 16")):
            said = h.run([h.HEDDLE, "compile", model, "--mode", "serve", "--fusion",
                          policy, "--verbose", "--stop-after", "fuse"]).stderr
            self.assertRegex(said, r"remark: nn\.\w+ is not fused with nn\.layer_norm: ")
            self.assertIn(why, said)


if __name__ == "__main__":
    unittest.main()
