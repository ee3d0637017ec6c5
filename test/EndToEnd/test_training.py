# Training over many steps: losses, weights, precision, determinism.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses, norms and weights of whole trainings, against the oracle and between
settings that must not change the numbers."""

import json
import os
import unittest

import numpy as np

import heddle_test as h

STEPS, ROWS, SEQ = 24, 4, 16
RATE, WARMUP, CLIP = 3e-3, 6, 1.6
EXACT = 1e-5


class Training(h.HeddleTest):
    def setUp(self):
        self.config = h.ds_config(lr=RATE, clip=CLIP, warmup=WARMUP)

    def prepare(self, **options):
        model, config, weights = self.make_model(**options)
        data, tokens = self.make_tokens(STEPS * ROWS * SEQ + 1, config["vocab_size"])
        return model, data, config, weights, tokens

    def build(self, model, *flags, output="job", config=None):
        return self.compile(model, "--batch", ROWS, "--seq", SEQ, *flags,
                            output=output, config=config or self.config)

    def losses(self, binary, data, *flags, name="run", steps=STEPS):
        return np.array([step["loss"] for step in
                         self.train(binary, data, steps, *flags, name=name)])

    @h.needs_torch
    def test_follows_pytorch(self):
        import oracle

        model, data, config, weights, tokens = self.prepare()
        binary = self.build(model, "--threads", 2)
        steps = self.train(binary, data, STEPS, "--save", self.path("out"))
        reference = oracle.Gpt2(config, weights)
        batches = [h.batch(tokens, step, ROWS, SEQ) for step in range(STEPS)]
        rates = h.warmup_rates(RATE, WARMUP, STEPS)
        losses, norms = oracle.train(reference, batches, rates, CLIP)

        self.assertLess(losses[-1], 0.9 * losses[0], "the loss must fall by 10 %")
        clipped = [norm > CLIP for norm in norms]
        self.assertTrue(any(clipped) and not all(clipped), norms)
        for step, loss, norm, rate in zip(steps, losses, norms, rates):
            self.assertLessEqual(abs(step["loss"] / loss - 1), EXACT, step)
            self.assertLessEqual(abs(step["grad_norm"] / norm - 1), 1e-4, step)
            self.assertAlmostEqual(step["lr"], rate, delta=1e-7 * RATE)

        saved = h.read_safetensors(
            self.path("out", f"step-{STEPS:06}", "model.safetensors"))
        final = reference.arrays()
        apart = travelled = 0.0
        for name, value in final.items():
            apart += ((saved["transformer." + name] - value) ** 2).sum()
            travelled += ((weights[name] - value) ** 2).sum()
        self.assertLessEqual((apart / travelled) ** 0.5, 1e-3)

    @h.needs_torch
    def test_constant_rate_without_clipping_or_decay(self):
        import oracle

        model, data, config, weights, tokens = self.prepare()
        binary = self.build(model, config=h.ds_config(lr=1e-3, clip=0, decay=0))
        ours = self.losses(binary, data, steps=8)
        batches = [h.batch(tokens, step, ROWS, SEQ) for step in range(8)]
        theirs, _ = oracle.train(oracle.Gpt2(config, weights), batches, [1e-3] * 8,
                                 clip=0, decay=0)
        np.testing.assert_allclose(ours, theirs, rtol=EXACT)

    @h.needs_torch
    def test_label_smoothing(self):
        import oracle

        # A vocabulary that two ranks cannot share evenly.
        model, data, config, weights, tokens = self.prepare(vocab=101)
        batches = [h.batch(tokens, step, ROWS, SEQ) for step in range(6)]
        theirs, norms = oracle.train(oracle.Gpt2(config, weights, label_smoothing=0.2),
                                     batches, [RATE] * 6, CLIP)
        settings = h.ds_config(lr=RATE, clip=CLIP)
        plain = self.build(model, config=settings, output="plain")
        for mesh in ([], ["--mesh", "tensor=2"]):
            binary = self.build(model, "--label-smoothing", 0.2, *mesh, config=settings)
            steps = self.train(binary, data, 6, ranks=2 if mesh else 1)
            for key, expected in (("loss", theirs), ("grad_norm", norms)):
                np.testing.assert_allclose([step[key] for step in steps], expected,
                                           rtol=1e-5)
        # The loss of `eval` is not smoothed.
        losses = [json.loads(h.run([job, "eval", "--data", data, "--json",
                                    "--weights", model]).stdout.splitlines()[-1])["loss"]
                  for job in (plain, self.build(model, "--label-smoothing", 0.2))]
        self.assertEqual(losses[0], losses[1])

    def test_bf16_follows_fp32(self):
        model, data, *_ = self.prepare()
        exact = self.losses(self.build(model), data)
        config = dict(self.config, bf16={"enabled": True})
        binary = self.build(model, config=config, output="bf16")
        np.testing.assert_allclose(self.losses(binary, data), exact, rtol=1e-2)

    def test_accumulation_changes_nothing(self):
        model, data, *_ = self.prepare()
        whole = self.losses(self.build(model), data)
        parts = self.build(model, "--accumulate", 4, output="parts")
        np.testing.assert_allclose(self.losses(parts, data), whole, rtol=EXACT)

    def test_accumulation_draws_the_same_dropout(self):
        model, data, *_ = self.prepare(dropout=0.1)
        whole = self.losses(self.build(model), data, steps=6)
        parts = self.build(model, "--accumulate", 4, output="parts")
        np.testing.assert_allclose(self.losses(parts, data, steps=6), whole,
                                   rtol=EXACT)

    def test_recompute_changes_memory_alone(self):
        model, data, *_ = self.prepare(dropout=0.1, layers=6)
        losses, arenas = {}, {}
        for policy in ("none", "selective", "full"):
            binary = self.build(model, "--recompute", policy, output=policy)
            losses[policy] = self.losses(binary, data)
            arenas[policy] = self.explain(binary)["memory"]["arena"]
        np.testing.assert_allclose(losses["selective"], losses["none"], rtol=1e-6)
        np.testing.assert_allclose(losses["full"], losses["none"], rtol=1e-6)
        self.assertGreater(arenas["none"], arenas["selective"])
        self.assertGreater(arenas["selective"], arenas["full"])

    def test_twice_the_same_bits(self):
        model, data, *_ = self.prepare(dropout=0.1)
        binary = self.build(model, "--threads", 2)
        found = []
        for name in ("first", "second"):
            losses = self.losses(binary, data, "--save", self.path(name), name=name)
            files = {}
            top = self.path(name, f"step-{STEPS:06}")
            for folder, _, names in os.walk(top):
                for file in names:
                    if file.endswith(".safetensors"):
                        with open(os.path.join(folder, file), "rb") as stream:
                            key = os.path.relpath(os.path.join(folder, file), top)
                            files[key] = stream.read()
            found.append((losses.tolist(), files))
        self.assertEqual(found[0][0], found[1][0])
        self.assertEqual(found[0][1].keys(), found[1][1].keys())
        self.assertTrue(found[0][1] == found[1][1], "checkpoints differ")

    def test_seed_decides_dropout(self):
        model, data, *_ = self.prepare(dropout=0.2)
        binary = self.build(model)
        one, same, other = (self.losses(binary, data, "--seed", seed, steps=3)
                            for seed in (1, 1, 2))
        self.assertEqual(one.tolist(), same.tolist())
        self.assertNotEqual(one.tolist(), other.tolist())

    def test_dropout_keeps_its_share_and_scales_it(self):
        p = 0.3
        model, data, config, weights, tokens = self.prepare(dropout=p)
        binary = self.build(model, "--keep", "drop")
        dump = self.path("dump.safetensors")
        self.train(binary, data, 1, "--dump", dump)
        found = h.read_safetensors(dump)["value.drop"].reshape(ROWS, SEQ, -1)
        ids, _ = h.batch(tokens, 0, ROWS, SEQ)
        whole = weights["wte.weight"][ids] + weights["wpe.weight"][:SEQ]
        kept = found != 0
        # Four standard deviations of a binomial.
        spread = 4 * (p * (1 - p) / found.size) ** 0.5
        self.assertAlmostEqual(kept.mean(), 1 - p, delta=spread)
        np.testing.assert_allclose(found[kept], whole[kept] / (1 - p), rtol=1e-5)

    def test_threads_agree(self):
        model, data, *_ = self.prepare()
        binary = self.build(model, "--threads", 2)
        one = self.losses(binary, data, "--threads", 1)
        two = self.losses(binary, data, "--threads", 2)
        np.testing.assert_allclose(one, two, rtol=EXACT)

    def test_random_initialisation_learns(self):
        with open(self.path("config.json"), "w") as file:
            json.dump(h.gpt2_config(), file)
        data, _ = self.make_tokens(STEPS * ROWS * SEQ + 1, 97)
        binary = self.build(self.path("config.json"), "--init", "random", "--seed", 7)
        losses = self.losses(binary, data)
        self.assertAlmostEqual(losses[0], np.log(97), delta=0.1)
        self.assertLess(losses[-1], 0.9 * losses[0])


if __name__ == "__main__":
    unittest.main()
