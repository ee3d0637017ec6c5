#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer dropping: 20 steps have the losses, norms and weights of PyTorch code that is
written here from the paper (Zhang and He, NeurIPS 2020) and drops the same layers; a
resumed run drops the layers of the run that was not interrupted."""

import math
import os
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ, STEPS, RATE, CLIP, LAYERS = 4, 16, 20, 3e-3, 0.8, 5
THETA, GAMMA = 0.4, 0.1
MODEL = dict(vocab=97, positions=SEQ, embed=32, layers=LAYERS, heads=4)

MESHES = [(2, "--mesh data=2 --zero 1"),
          (2, "--mesh tensor=2 --sequence-parallel"),
          (2, "--mesh seq=2 --context ulysses"),
          (2, "--mesh pipe=2 --accumulate 4 --schedule zb-h1 --recompute selective"),
          (1, "--place optimizer=file,parameters=file --chunk-tokens 8"),
          (8, "--mesh data=2,tensor=2,pipe=2 --zero 1 --accumulate 2")]
MORE_MESHES = [(2, "--mesh data=2"), (2, "--mesh tensor=2"),
               (2, "--mesh seq=2 --context ring"),
               (2, "--mesh pipe=2 --accumulate 4 --schedule gpipe"),
               (2, "--mesh pipe=2 --accumulate 4"),
               (2, "--mesh pipe=2 --accumulate 4 --schedule interleaved "
                   "--virtual-stages 2"),
               (8, "--mesh data=2,tensor=2,seq=2 --zero 1 --context ulysses"),
               (4, "--mesh data=2,pipe=2 --zero 1 --accumulate 2 --schedule zb-h1")]


def theta(step):
    """Equation 7 of the paper, for steps counted from 0."""
    return (1 - THETA) * math.exp(-GAMMA * step) + THETA


def keep_probability(step, layer):
    """For layers counted from 1."""
    return 1 - layer / LAYERS * (1 - theta(step))


class LayerDrop(h.HeddleTest):
    def setUp(self):
        self.model, self.config, self.weights = self.make_model(**MODEL)
        self.data, self.tokens = self.make_tokens(STEPS * ROWS * SEQ + 1, MODEL["vocab"])

    def build(self, *flags, output="job", **more):
        config = h.ds_config(lr=RATE, clip=CLIP, eps=1e-5, **more)
        return self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--threads", 1,
                            *flags, output=output, config=config)

    def kept(self, binary, steps, *flags):
        """What --print-kept-layers says: the layers of each step, and the log."""
        log = self.path(f"log-{len(os.listdir(self.folder))}.jsonl")
        said = h.run([binary, "train", "--data", self.data, "--steps", steps,
                      "--print-kept-layers", steps, "--log", log, "--progress", "none",
                      *flags]).stdout
        layers = {}
        for line in said.splitlines():
            step, rest = line.removeprefix("step ").split(":")
            layers[int(step)] = [int(layer) for layer in rest.split()]
        return layers, h.read_log(log)

    def reference(self, kept, scale, optimizer):
        """Losses, norms and weights of PyTorch, given the layers of each step and the
        factor of a layer's branches in a step."""
        import oracle
        import torch

        class Dropping(oracle.Gpt2):
            def logits(self, ids):
                ids = torch.as_tensor(ids)
                x = self.weights["wte.weight"][ids]
                x = x + self.weights["wpe.weight"][:ids.shape[1]]
                activation = oracle.ACTIVATIONS[self.config["activation_function"]]
                for layer in kept[self.step + 1]:
                    name, factor = f"h.{layer}", scale(self.step, layer)
                    mixed = self.attention(self.norm(x, name + ".ln_1"), name + ".attn")
                    x = x + factor * mixed
                    inner = self.conv1d(self.norm(x, name + ".ln_2"), name + ".mlp.c_fc")
                    x = x + factor * self.conv1d(activation(inner), name + ".mlp.c_proj")
                return self.norm(x, "ln_f") @ self.weights["wte.weight"].T

        model = Dropping(self.config, self.weights)
        made = optimizer(model)
        losses, norms = [], []
        for step in range(STEPS):
            model.step = step
            loss, _ = model.loss(*h.batch(self.tokens, step, ROWS, SEQ))
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            loss.backward()
            norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
            made(model)
            losses.append(loss.item())
        return losses, norms, model.arrays()

    def adamw(self, model):
        import torch
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999),
                                      eps=1e-5, weight_decay=0.01)
        return lambda model: optimizer.step()

    def check(self, binary, scale, *flags):
        kept, steps = self.kept(binary, STEPS, "--save", self.path("out"), *flags)
        losses, norms, weights = self.reference(kept, scale, self.adamw)
        np.testing.assert_allclose([step["loss"] for step in steps], losses, rtol=1e-5)
        np.testing.assert_allclose([step["grad_norm"] for step in steps], norms, rtol=1e-5)
        saved = h.read_saved(self.path("out"))
        for name, value in weights.items():
            self.assertLess(h.relative(saved["transformer." + name], value), 1e-5, name)
        self.assertEqual([kept[step["step"]] for step in steps],
                         [step["kept_layers"] for step in steps])
        return kept, steps

    @h.needs_torch
    def test_progressive(self):
        binary = self.build(progressive_layer_drop={"enabled": True, "theta": THETA,
                                                    "gamma": GAMMA})
        kept, steps = self.check(binary, lambda step, layer:
                                 1 / keep_probability(step, layer + 1))
        np.testing.assert_allclose([step["theta"] for step in steps],
                                   [theta(step) for step in range(STEPS)], rtol=1e-8)
        self.assertEqual(kept[1], list(range(LAYERS)))
        self.assertGreater(sum(len(layers) < LAYERS for layers in kept.values()), 5)

    @h.needs_torch
    def test_constant_rates(self):
        rates = [0.0, 0.3, 0.5, 0.7, 0.9]
        binary = self.build("--layer-drop-schedule", ",".join(map(str, rates)),
                            "--accumulate", 2, "--recompute", "selective")
        kept, steps = self.check(binary, lambda step, layer: 1 / (1 - rates[layer]))
        self.assertTrue(all(0 in layers for layers in kept.values()))
        self.assertFalse(any("theta" in step for step in steps))

    def test_resumes_with_the_same_layers(self):
        binary = self.build("--layer-drop-schedule", "0.5")
        _, whole = self.kept(binary, 8, "--save", self.path("whole"))
        _, first = self.kept(binary, 3, "--save", self.path("first"))
        _, rest = self.kept(binary, 8, "--resume", self.path("first"), "--save",
                            self.path("rest"))
        for key in ("loss", "grad_norm", "kept_layers"):
            self.assertEqual([step[key] for step in whole],
                             [step[key] for step in first + rest], key)
        self.assertEqual(h.bytes_saved(self.path("whole")), h.bytes_saved(self.path("rest")))

    @h.needs_mpi
    def test_meshes_have_the_numbers_of_one_rank(self):
        def numbers(name, ranks, flags):
            binary = self.build("--layer-drop-schedule", "0.5", *flags, output=name)
            return self.train(binary, self.data, 5, name=name, ranks=ranks)
        one = numbers("one", 1, [])
        for ranks, flags in MESHES + MORE_MESHES * h.LONG:
            with self.subTest(flags):
                steps = numbers("mesh", ranks, flags.split())
                self.assertEqual([step["kept_layers"] for step in steps],
                                 [step["kept_layers"] for step in one])
                for key in ("loss", "grad_norm"):
                    np.testing.assert_allclose([step[key] for step in steps],
                                               [step[key] for step in one], rtol=1e-5)

    def test_counts_what_is_computed(self):
        """A step's MFU times its seconds is what it has computed. Without layers that
        is the head alone, and each kept layer adds the same."""
        binary = self.build("--layer-drop-schedule", "0.5")
        kept, steps = self.kept(binary, 12)
        computed = {}
        for step in steps:
            computed.setdefault(len(kept[step["step"]]), []).append(
                step["mfu"] * step["time_s"])
        counts = sorted(computed)
        self.assertGreater(len(counts), 2, kept)
        work = [np.median(computed[count]) for count in counts]
        each = [(b - a) / (d - c) for a, b, c, d in
                zip(work, work[1:], counts, counts[1:])]
        np.testing.assert_allclose(each, each[0], rtol=1e-3)

    def test_every_layer_may_be_dropped(self):
        """A step that drops all layers trains the embedding and the last norm."""
        binary = self.build("--layer-drop-schedule", "0.95")
        kept, steps = self.kept(binary, 20)
        self.assertIn([], kept.values())
        self.assertTrue(all(math.isfinite(step["loss"]) for step in steps))


if __name__ == "__main__":
    unittest.main()
