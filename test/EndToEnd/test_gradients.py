# Logits, loss and every gradient against PyTorch in float64.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One step of the compiled binary against the oracle, over many shapes."""

import unittest

import numpy as np

import heddle_test as h

TOLERANCE = 1e-5
FLOOR = 1e-3  # Of the global gradient norm: key biases' gradients are zero.


@h.needs_torch
class Gradients(h.HeddleTest):
    def check(self, rows, seq, flags=(), keep="logits,grads", **options):
        import oracle

        options.setdefault("positions", max(seq, 8))
        model, config, weights = self.make_model(**options)
        data, tokens = self.make_tokens(rows * seq * 2 + 1, config["vocab_size"])
        binary = self.compile(model, "--batch", rows, "--seq", seq, "--keep",
                              keep, "--threads", 2, *flags, config=h.ds_config())
        dump = self.path("dump.safetensors")
        steps = self.train(binary, data, 1, "--dump", dump)
        ours = h.read_safetensors(dump)
        ids, labels = h.batch(tokens, 0, rows, seq)
        loss, logits, grads = oracle.Gpt2(config, weights).gradients(ids, labels)
        total = np.sqrt(sum((g ** 2).sum() for g in grads.values()))

        if "logits" in keep:
            self.assertEqual(ours["logits"].shape, logits.shape)
            self.assertLessEqual(h.relative(ours["logits"], logits), TOLERANCE)
        self.assertLessEqual(abs(steps[0]["loss"] / loss - 1), TOLERANCE)
        self.assertLessEqual(abs(float(ours["loss"]) / loss - 1), TOLERANCE)
        self.assertLessEqual(abs(steps[0]["grad_norm"] / total - 1), TOLERANCE)
        for name, grad in grads.items():
            source = name if name.startswith("lm_head") else "transformer." + name
            self.assertIn("grad." + source, ours)
            actual = ours["grad." + source]
            self.assertEqual(actual.shape, grad.shape, name)
            error = h.relative(actual, grad, FLOOR * total)
            self.assertLessEqual(error, TOLERANCE, name)

    def test_small(self):
        self.check(4, 16)

    def test_no_power_of_two(self):
        self.check(3, 19, vocab=101, embed=42, heads=3, layers=3)

    def test_one_layer_one_head(self):
        self.check(2, 8, layers=1, heads=1, embed=20)

    def test_sequence_of_one(self):
        self.check(4, 1, positions=4)

    def test_batch_of_one(self):
        self.check(1, 24)

    def test_vocabulary_of_gpt2(self):
        self.check(2, 8, vocab=50257, embed=16, layers=1, heads=2)

    def test_untied_head(self):
        self.check(2, 12, tie_word_embeddings=False)

    def test_wide_head_and_long_sequence(self):
        self.check(1, 130, embed=160, heads=2, layers=1)

    def test_width_of_gpt2(self):
        self.check(2, 64, vocab=1000, embed=768, heads=12, layers=1)

    def test_activations(self):
        for name in ("gelu", "quick_gelu", "relu2"):
            with self.subTest(name):
                self.check(2, 8, activation_function=name, name=name)

    def test_micro_batches(self):
        self.check(6, 8, flags=("--micro-batch", 2))

    def test_recompute_full(self):
        self.check(2, 16, flags=("--recompute", "full"))


if __name__ == "__main__":
    unittest.main()
