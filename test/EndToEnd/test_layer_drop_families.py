#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer dropping in every family that Heddle imports, against transformers, whose layers
and branches are changed by hooks. Needs transformers; HEDDLE_TEST_LONG=1 installs it."""

import unittest

import numpy as np

import heddle_test as h
import test_recorded
from test_fine_tuning import has_transformers
from test_recorded import models

RATE = 0.4
THETA, GAMMA = 0.3, 0.2
# For each family: its layers, and the modules in a layer that return what is added to the
# residual stream.
SEQUENTIAL = ("model.layers", ["self_attn", "mlp"])
MODULES = {"bert": ("bert.encoder.layer", ["attention.output.dense", "output.dense"]),
           "gpt2": ("transformer.h", ["attn", "mlp"]),
           "gpt_neo": ("transformer.h", ["attn", "mlp"]),
           "gpt_neox": ("gpt_neox.layers", ["attention", "mlp"]),
           "opt": ("model.decoder.layers", ["self_attn", "fc2"]),
           # Norms follow the branches.
           "gemma2": ("model.layers", ["post_attention_layernorm",
                                       "post_feedforward_layernorm"]),
           "llama": SEQUENTIAL, "mistral": SEQUENTIAL, "qwen2": SEQUENTIAL,
           "qwen3": SEQUENTIAL}


class Hooked:
    """A model of transformers that drops layers, in the interface of dropping.py."""

    def __init__(self, config):
        import record
        self.config = config
        self.model, _ = record.build(config)
        layers, branches = MODULES[config["model_type"]]
        self.layers = self.model.get_submodule(layers)
        for number, layer in enumerate(self.layers):
            layer.register_forward_hook(self.dropping(number), with_kwargs=True)
            for branch in branches:
                layer.get_submodule(branch).register_forward_hook(self.scaling(number))

    def dropping(self, number):
        """A dropped layer returns its input."""
        def hook(module, args, kwargs, output):
            if number in self.kept:
                return None
            stream = args[0] if args else kwargs["hidden_states"]
            return (stream, *output[1:]) if isinstance(output, tuple) else stream
        return hook

    def scaling(self, number):
        def hook(module, args, output):
            if number not in self.kept:
                return None
            factor = self.factor(number)
            return ((factor * output[0], *output[1:]) if isinstance(output, tuple)
                    else factor * output)
        return hook

    def parameters(self):
        return list(self.model.parameters())

    def loss(self, make, data, step):
        import torch
        logits, labels = make(self.model, data, step)
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.tensor(labels).flatten()), logits

    def arrays(self):
        return {name: parameter.detach().numpy()
                for name, parameter in self.model.named_parameters()}


@h.long_only
@unittest.skipUnless(has_transformers(), "needs transformers")
class WithTransformers(test_recorded.RecordedTest):
    def check_family(self, name, record, is_progressive):
        import dropping
        import record as recording
        from test_layer_drop import kept_layers

        folder, data = self.make(name, record)
        config, oracle = record["config"], Hooked(record["config"])
        count = len(oracle.layers)
        rates = [RATE + 0.1 * layer for layer in range(count)]
        settings, (_, flags) = self.settings(), self.flags()
        if is_progressive:
            settings["progressive_layer_drop"] = {"enabled": True, "theta": THETA,
                                                  "gamma": GAMMA}
        else:
            flags += ["--layer-drop-schedule", ",".join(map(str, rates))]
        binary = self.compile(folder, *flags, config=settings, output=name + "-job")
        saved = self.path(f"{name}-saved-{is_progressive}")
        kept, steps = kept_layers(self, binary, data, models.STEPS, "--save", saved)
        self.assertGreater(sum(len(layers) < count for layers in kept.values()), 3)

        def scale(step, layer):
            return 1 / (dropping.keep_probability(step, layer + 1, count, THETA, GAMMA)
                        if is_progressive else 1 - rates[layer])

        batches = ([recording.masked_batch, models.masked_rows(config)]
                   if config["model_type"] == "bert" else
                   [recording.causal_batch, models.tokens(config["vocab_size"])])
        losses, norms = dropping.train(
            oracle, [[*batches, step] for step in range(models.STEPS)], kept, scale,
            models.CLIP, dropping.adamw(oracle.parameters(), models.ADAMW["lr"],
                                        models.ADAMW["weight_decay"]))
        np.testing.assert_allclose([step["loss"] for step in steps], losses, rtol=1e-5)
        # In fp32 a few norms of gemma2's gradients have fewer digits.
        np.testing.assert_allclose([step["grad_norm"] for step in steps], norms, rtol=5e-5)
        tensors = h.read_saved(saved)
        for each, value in oracle.arrays().items():
            self.assertLess(h.relative(tensors[each], value), 1e-5, each)

    def test_families_drop_layers(self):
        for name, record in test_recorded.records().items():
            for is_progressive in (True, False):
                with self.subTest(name, is_progressive=is_progressive):
                    self.check_family(name, record, is_progressive)


class Families(h.HeddleTest):
    @h.long_only
    def test_with_packages(self):
        h.run_with_packages(__file__, "WithTransformers.test_families_drop_layers")


if __name__ == "__main__":
    unittest.main()
