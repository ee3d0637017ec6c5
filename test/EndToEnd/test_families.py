#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""llama, mistral and qwen2 have PyTorch's loss, gradients and weights after
twenty steps; save what they were loaded from; and give the same numbers on
meshes as on one rank. HEDDLE_TEST_LONG=1 takes more shapes and all meshes."""

import json
import os
import shutil
import unittest

import numpy as np

import families
import heddle_test as h
from test_parallel import BATCH, SEQ, flags_of, ranks_of

STEPS = 20
ODD = dict(hidden_size=30, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
           intermediate_size=37)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(type="yarn", factor=4.0, original_max_position_embeddings=16,
            beta_fast=4.0)
CASES = {"llama": families.config(rope_scaling=LLAMA3),
         "llama-odd": families.config(tie_word_embeddings=True, attention_bias=True,
                                      mlp_bias=True, **ODD),
         "mistral": families.config("mistral", head_dim=6),
         "qwen2": families.config("qwen2", rope_scaling=YARN, tie_word_embeddings=True)}
MORE = {"llama-linear": families.config(rope_scaling=dict(type="linear", factor=4.0)),
        "llama-default": families.config(rope_scaling=dict(rope_type="default")),
        "llama-parameters": families.config(
            rope_theta=None, rope_parameters=dict(LLAMA3, rope_theta=50.0)),
        "llama-yarn": families.config(
            rope_scaling=dict(YARN, attention_factor=1.3), **ODD),
        "llama-one-layer": families.config(num_hidden_layers=1, vocab_size=101,
                                           num_key_value_heads=4),
        "mistral-odd": families.config("mistral", sliding_window=1, **ODD),
        "mistral-no-window": dict(families.config("mistral"), sliding_window=None),
        "qwen2-odd": families.config("qwen2", **ODD)}
MESHES = {"llama": [dict(mesh={"tensor": 2, "data": 2}, zero=2)],
          "mistral": [dict(mesh={"seq": 2, "data": 2}, zero=3),
                      dict(mesh={"seq": 2}, context="ring")],
          "qwen2": [dict(mesh={"tensor": 2, "pipe": 2}, accumulate=2,
                         recompute="full", sequence_parallel=True)]}
MORE_MESHES = [dict(mesh={"data": 2}, zero=zero) for zero in range(4)]
MORE_MESHES += [dict(mesh={"pipe": 2, "data": 2}, accumulate=2, zero=1)]
MORE_MESHES += [dict(mesh={"tensor": 2}, sequence_parallel=shares)
                for shares in (False, True)]
MORE_MESHES += [dict(mesh={"seq": 2}, context="ring"), dict(mesh={"seq": 2}),
                dict(mesh={"pipe": 2}, accumulate=4),
                dict(mesh={"data": 2, "pipe": 2}, accumulate=2, schedule="zb-h1", zero=2),
                dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, accumulate=2, zero=1)]


class Families(h.HeddleTest):
    def setUp(self):
        self.settings = h.ds_config(lr=3e-3, clip=0.5, eps=1e-5)
        self.data, self.tokens = self.make_tokens(BATCH * SEQ * STEPS + 1, 97)

    def make(self, name, config, seed=1):
        weights = families.random_weights(config, seed)
        directory = self.path("model-" + name)
        shutil.rmtree(directory, ignore_errors=True)
        h.write_model(directory, config, weights, prefix="")
        return directory, weights

    def train_plan(self, directory, **plan):
        saved = self.path("saved")
        shutil.rmtree(saved, ignore_errors=True)
        binary = self.compile(directory, *flags_of(**plan), config=self.settings)
        steps = self.train(binary, self.data, STEPS, "--save", saved,
                           ranks=ranks_of(plan["mesh"]))
        return steps, h.read_saved(saved)

    def assert_like(self, trained, expected):
        """Losses, norms and the weights at the end."""
        for key in ("loss", "grad_norm"):
            np.testing.assert_allclose(*([step[key] for step in steps]
                                         for steps, _ in (trained, expected)),
                                       rtol=1e-5, err_msg=key)
        for tensor, value in expected[1].items():
            self.assert_close(trained[1][tensor], value, 1e-5, tensor)

    def check_gradients(self, directory, config, weights):
        binary = self.compile(directory, *flags_of(mesh={}), "--keep", "logits,grads",
                              config=self.settings, output="dumping")
        dump = self.path("dump.safetensors")
        self.train(binary, self.data, 1, "--dump", dump)
        ours = h.read_safetensors(dump)
        model = families.Decoder(config, weights)
        loss, logits, grads = model.gradients(*h.batch(self.tokens, 0, BATCH, SEQ))
        total = np.sqrt(sum((g ** 2).sum() for g in grads.values()))
        self.assert_close(ours["logits"], logits, 1e-5, "logits")
        self.assertLessEqual(abs(float(ours["loss"]) / loss - 1), 1e-5)
        for name, grad in grads.items():
            self.assertLessEqual(h.relative(ours["grad." + name], grad, 1e-3 * total),
                                 1e-5, name)

    @h.needs_torch
    def test_the_numbers_of_pytorch(self):
        import oracle
        for name, config in {**CASES, **(MORE if h.LONG else {})}.items():
            with self.subTest(name):
                directory, weights = self.make(name, config)
                self.check_gradients(directory, config, weights)
                model = families.Decoder(config, weights)
                batches = [h.batch(self.tokens, step, BATCH, SEQ)
                           for step in range(STEPS)]
                losses, norms = oracle.train(model, batches, [3e-3] * STEPS, clip=0.5,
                                             eps=1e-5)
                steps, saved = self.train_plan(directory, mesh={})
                for key, wanted in (("loss", losses), ("grad_norm", norms)):
                    np.testing.assert_allclose([step[key] for step in steps], wanted,
                                               rtol=1e-5, err_msg=key)
                self.assertEqual({name: value.shape for name, value in saved.items()},
                                 families.shapes(config))
                for name, value in model.arrays().items():
                    self.assert_close(saved[name], value, 1e-5, name)

    @h.needs_mpi
    def test_meshes_have_the_numbers_of_one_rank(self):
        for name, plans in MESHES.items():
            config = dict(CASES[name], num_hidden_layers=4)
            directory, _ = self.make(name, config)
            expected, weights = self.train_plan(directory, mesh={})
            self.assertLess(expected[-1]["loss"], expected[0]["loss"])
            for plan in plans + (MORE_MESHES if h.LONG else []):
                with self.subTest(name, **plan):
                    self.assert_like(self.train_plan(directory, **plan),
                                     (expected, weights))

    @h.needs_mpi
    def test_norms_of_heads_over_ranks(self):
        """Of their gradients a tensor rank has a part, for its heads."""
        config = families.config("qwen3", head_dim=8)
        weights = families.random_weights(config, 1)
        rng = np.random.default_rng(2)
        for layer in range(config["num_hidden_layers"]):
            for norm in ("q_norm", "k_norm"):
                weights[f"model.layers.{layer}.self_attn.{norm}.weight"] = (
                    1 + 0.1 * rng.standard_normal(8)).astype(np.float32)
        directory = self.path("model")
        h.write_model(directory, config, weights, prefix="")
        expected = self.train_plan(directory, mesh={})
        for mesh, zero, shared in (({"tensor": 2}, 0, True),
                                   ({"data": 2, "tensor": 2}, 3, True),
                                   ({"data": 2, "tensor": 2}, 1, False),
                                   *[({"data": 2, "tensor": 2}, 0, False)] * h.LONG):
            with self.subTest(mesh=mesh, zero=zero, sequence_parallel=shared):
                self.assert_like(self.train_plan(directory, mesh=mesh, zero=zero,
                                                 sequence_parallel=shared), expected)

    @h.needs_mpi
    def test_one_row_whose_loss_is_split_by_tokens(self):
        config = dict(families.config("gemma2", head_dim=8, hidden_act=None),
                      hidden_activation="gelu_pytorch_tanh", final_logit_softcapping=30.0)
        model, logs = self.path("model.json"), []
        with open(model, "w") as file:
            json.dump(config, file)
        for mesh in {}, {"tensor": 2}:
            binary = self.compile(model, "--init", "random", "--batch", 1, "--seq", SEQ,
                                  *(["--mesh", "tensor=2", "--sequence-parallel"]
                                    if mesh else []), config=self.settings)
            logs.append(self.train(binary, self.data, STEPS, ranks=ranks_of(mesh)))
        for key in ("loss", "grad_norm"):
            np.testing.assert_allclose(*([step[key] for step in log] for log in logs),
                                       rtol=1e-5, err_msg=key)

    def test_shards_with_an_index_and_a_checkpoint_there_and_back(self):
        config = CASES["llama"]
        directory, weights = self.make("shards", config)
        whole = os.path.join(directory, "model.safetensors")
        os.remove(whole)
        names, index = sorted(weights), {}
        for i, part in enumerate((names[::2], names[1::2])):
            file = f"model-{i + 1:05}-of-00002.safetensors"
            h.write_safetensors(os.path.join(directory, file),
                                {name: weights[name] for name in part})
            index.update({name: file for name in part})
        with open(whole + ".index.json", "w") as file:
            json.dump({"metadata": {}, "weight_map": index}, file)
        saved = self.path("saved")
        shutil.rmtree(saved, ignore_errors=True)
        binary = self.compile(directory, *flags_of(mesh={}),
                              config=h.ds_config(lr=1e-30, decay=0.0))
        self.train(binary, self.data, 1, "--save", saved)
        for name, value in h.read_saved(saved).items():
            np.testing.assert_array_equal(value, weights[name], name)
        # What was saved is a model of its own.
        again = self.compile(saved, *flags_of(mesh={}), config=self.settings)
        self.assertEqual(len(self.train(again, self.data, 1)), 1)

    @h.needs_torch
    def test_generates_what_is_most_probable(self):
        import torch
        config = CASES["qwen2"]
        directory, weights = self.make("generating", config)
        binary = self.compile(directory, "--seq", 16, "--threads", 1)
        prompt = [5, 17, 80, 2]
        text = h.run([binary, "generate", "--prompt-ids", ",".join(map(str, prompt)),
                      "--max-new-tokens", 6, "--temperature", 0]).stdout
        ids = list(prompt)
        model = families.Decoder(config, weights)
        with torch.no_grad():
            for _ in range(6):
                ids.append(int(model.logits([ids])[0, -1].argmax()))
        self.assertEqual([int(word) for word in text.replace(",", " ").split()][-6:],
                         ids[-6:])


if __name__ == "__main__":
    unittest.main()
