#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An architecture as the user's text (examples/parallel-block): trains with
PyTorch's numbers on one rank and on tensor=2,data=2, from safetensors, and saves
the tensors and the config.json that it came with. Mistakes in the text are
errors with code, place and an edit that passes."""

import json
import os
import shutil
import sys
import unittest

import numpy as np

import heddle_test as h
from test_parallel import BATCH, SEQ, flags_of, ranks_of

STEPS = 20
EXAMPLE = os.path.join(h.ROOT, "examples", "parallel-block")
TEXT = os.path.join(EXAMPLE, "arch.mlir")


class Oracle(h.Parameters):
    """The example in PyTorch, in the interface of `oracle.Gpt2`."""

    def norm(self, x, weight):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * weight

    def unseen(self, tokens):
        """Which tokens each token does not see: those after it."""
        return self.torch.ones(tokens, tokens, dtype=self.torch.bool).triu(1)

    def loss(self, ids, labels):
        torch, w = self.torch, self.weights
        x = w["embed.weight"][torch.as_tensor(ids)]
        later = self.unseen(x.shape[1])
        for layer in range(2):
            path = f"blocks.{layer}."
            n = self.norm(x, w[path + "norms"][0])
            q, k, v = ((n @ w[f"{path}{part}.weight"].T).unflatten(-1, (-1, 8))
                       .transpose(1, 2) for part in "qkv")
            k, v = (part.repeat_interleave(2, 1) for part in (k, v))
            scores = (q @ k.transpose(-1, -2) / 8 ** 0.5).masked_fill(later, -np.inf)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            mixed = self.norm(mixed @ w[path + "out.weight"].T, w[path + "norms"][1])
            inner = torch.nn.functional.gelu(n @ w[path + "up.weight"].T)
            x = x + mixed + inner @ w[path + "down.weight"].T
        logits = self.norm(x, w["last.weight"]) @ w["embed.weight"].T
        labels = torch.as_tensor(labels).reshape(-1)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels), logits

    def arrays(self):
        return {name: value.detach().numpy().copy()
                for name, value in self.weights.items()}


class Architecture(h.HeddleTest):
    def setUp(self):
        self.weights_path = self.path("weights")
        h.run([sys.executable, os.path.join(EXAMPLE, "make_weights.py"),
               self.weights_path])
        self.weights = h.read_safetensors(
            os.path.join(self.weights_path, "model.safetensors"))

    def train_plan(self, data, **plan):
        saved = self.path("saved")
        shutil.rmtree(saved, ignore_errors=True)
        binary = self.compile(TEXT, "--weights", self.weights_path, *flags_of(**plan),
                              config=h.ds_config(lr=3e-3, clip=0.5, eps=1e-5))
        return self.train(binary, data, STEPS, "--save", saved,
                          ranks=ranks_of(plan["mesh"])), saved

    @h.needs_torch
    @h.needs_mpi
    def test_the_numbers_of_pytorch(self):
        import oracle
        data, tokens = self.make_tokens(BATCH * SEQ * STEPS + 1, 256)
        model = Oracle(self.weights)
        batches = [h.batch(tokens, step, BATCH, SEQ) for step in range(STEPS)]
        losses, norms = oracle.train(model, batches, [3e-3] * STEPS, clip=0.5, eps=1e-5)
        for plan in (dict(mesh={}), dict(mesh={"tensor": 2, "data": 2}, zero=2)):
            with self.subTest(**plan):
                steps, folder = self.train_plan(data, **plan)
                for key, wanted in (("loss", losses), ("grad_norm", norms)):
                    np.testing.assert_allclose([step[key] for step in steps], wanted,
                                               rtol=1e-5, err_msg=key)
                saved = h.read_saved(folder)
                self.assertEqual(set(saved), set(self.weights))
                for name, value in model.arrays().items():
                    self.assert_close(saved[name], value, 1e-5, name)
                self.check_checkpoint(folder)

    def check_checkpoint(self, folder):
        """The config.json is that of the weights; moments have their names."""
        latest = os.path.join(folder, "step-%06d" % STEPS)
        with open(os.path.join(latest, "config.json")) as saved, \
                open(os.path.join(self.weights_path, "config.json")) as given:
            self.assertEqual(json.load(saved), {**json.load(given), "dtype": "float32",
                                                "torch_dtype": "float32"})
        moments = h.read_safetensors(os.path.join(latest, "heddle",
                                                  "optimizer.safetensors"))
        self.assertEqual(moments["exp_avg.blocks.1.k.weight"].shape, (16, 32))
        self.assertEqual(moments["exp_avg.blocks.1.norms"].shape, (2, 32))
        # It is compiled, and resumed, as the weights were.
        h.run([h.HEDDLE, "compile", TEXT, "--weights", latest, "--seq", SEQ,
               "--stop-after", "import"])

    def test_a_checkpoint_is_what_was_loaded(self):
        data, _ = self.make_tokens(2 * 16 + 1, 256)
        saved = self.path("saved")
        for precision in ("fp32", "bf16"):
            shutil.rmtree(saved, ignore_errors=True)
            binary = self.compile(TEXT, "--weights", self.weights_path, "--batch", 2,
                                  "--seq", 16, "--precision", precision,
                                  config=h.ds_config(lr=1e-30, decay=0.0))
            self.train(binary, data, 1, "--save", saved)
            found = h.read_saved(saved)
            for name, value in self.weights.items():
                np.testing.assert_array_equal(found[name], value, name)

    def test_kept_values(self):
        data, _ = self.make_tokens(2 * 16 + 1, 256)
        binary = self.compile(TEXT, "--weights", self.weights_path, "--batch", 2,
                              "--seq", 16, "--keep", "blocks.1.attention,grads")
        dump = self.path("dump.safetensors")
        self.train(binary, data, 1, "--dump", dump)
        found = h.read_safetensors(dump)
        self.assertEqual(found["value.blocks.1.attention"].shape, (2, 16, 32))
        self.assertEqual(found["grad.blocks.0.v.weight"].shape, (16, 32))

    @h.needs_mpi
    def test_a_weight_that_is_computed(self):
        """Norms by 1 + w, with w less by 1. The gradient of w comes through a
        function of replicas' partial sums."""
        with open(TEXT) as file:
            text = file.read()
        text = text.replace("    %n, %n_rms = nn.rms_norm %x, %norm ", """
    %scale = nn.map (%w = %norm) : (tensor<32xf32>) -> tensor<32xf32> {
      %one = arith.constant 1.0 : f64
      %sum = arith.addf %w, %one : f64
      nn.return %sum : f64
    }
    %n, %n_rms = nn.rms_norm %x, %scale """)
        edited, less = self.path("computed.mlir"), self.path("less")
        with open(edited, "w") as file:
            file.write(text)
        shutil.copytree(self.weights_path, less)
        weights = {name: np.array(value) for name, value in self.weights.items()}
        for layer in range(2):
            weights[f"blocks.{layer}.norms"][0] -= 1
        h.write_safetensors(os.path.join(less, "model.safetensors"), weights)
        data, _ = self.make_tokens(BATCH * SEQ * STEPS + 1, 256)

        def steps_of(text, weights, plan):
            # w and 1 + w would not decay alike.
            binary = self.compile(text, "--weights", weights, *flags_of(**plan),
                                  config=h.ds_config(lr=3e-3, decay=0.0, eps=1e-5))
            return self.train(binary, data, STEPS, ranks=ranks_of(plan["mesh"]))

        wanted = steps_of(TEXT, self.weights_path, dict(mesh={}))
        for plan in (dict(mesh={}), dict(mesh={"data": 2}),
                     dict(mesh={"data": 2}, zero=1, accumulate=2),
                     dict(mesh={"data": 2, "tensor": 2}, zero=3)):
            with self.subTest(**plan):
                steps = steps_of(edited, less, plan)
                for key in ("loss", "grad_norm"):
                    np.testing.assert_allclose([step[key] for step in steps],
                                               [step[key] for step in wanted],
                                               rtol=1e-5, err_msg=key)

    def refused(self, before, after, status, seq=16, weights=None):
        """What is printed when the text is edited."""
        with open(TEXT) as file:
            text = file.read()
        self.assertIn(before, text)
        edited = self.path("edited.mlir")
        with open(edited, "w") as file:
            file.write(text.replace(before, after, 1))
        command = [h.HEDDLE, "compile", edited, "--weights",
                   weights or self.weights_path, "--seq", seq, "--stop-after", "import"]
        return h.run(command, status=status).stderr

    def assert_error(self, text, code, message, place=True):
        self.assertIn(f"error[{code}]", text)
        self.assertIn(message, text)
        self.assertIn("help: ", text)
        if place:
            self.assertRegex(text, r"edited\.mlir:\d+:\d+")

    def test_a_table_of_weights_that_does_not_fit(self):
        half = '"blocks.0.norms" : tensor<2x32xf32>'
        text = self.refused(f"slice(0, 1, 1, {half})", f"slice(0, 0, 1, {half})", 3)
        self.assert_error(text, "H0357", 'the tensor "blocks.0.norms" is in blocks.0.norm')
        text = self.refused('"blocks.0.up.weight"', '"blocks.0.upp.weight"', 3)
        self.assert_error(text, "H0335", "blocks.0.up.weight", place=False)
        text = self.refused("slice(0, 1, 1,", "slice(0, 1, 2,", 3)
        self.assert_error(text, "H0356", "a slice of 2 from 1 is not in 2")
        text = self.refused('source = #nn.source<"blocks.0.up.weight" : tensor<64x32xf32>',
                            'source = #nn.source<"blocks.0.up.weight" : tensor<32x64xf32>',
                            3)
        self.assert_error(text, "H0356", "[32, 64]")
        # A tensor of the files that no state has.
        more = self.path("more")
        h.write_model(more, {"vocab_size": 256},
                      dict(self.weights, extra=np.zeros(3, np.float32)), prefix="")
        text = self.refused("// A decoder", "// A decoder", 3, weights=more)
        self.assert_error(text, "H0395", '"extra"', place=False)
        short = {**self.weights, "last.weight": np.zeros(31, np.float32)}
        h.write_model(more, {"vocab_size": 256}, short, prefix="")
        text = self.refused("// A decoder", "// A decoder", 3, weights=more)
        self.assert_error(text, "H0393", "[31], not [32]", place=False)

    def test_a_text_that_is_wrong(self):
        text = self.refused("%s = nn.add %m, %d", "%s = nn.plus %m, %d", 3)
        self.assert_error(text, "H0396", "nn.plus")
        text = self.refused("nn.return %logits", "nn.return %z", 3)
        self.assert_error(text, "H0396", "%z")
        text = self.refused("#nn.port<ids>", "#nn.port<tokens>", 3)
        self.assert_error(text, "H0396", "tokens")
        text = self.refused("inputs = [#nn.port<ids>]", "inputs = []", 3)
        self.assert_error(text, "H0396", "1 arguments but 0 ports")
        text = self.refused("#nn.port<ids>", "#nn.port<labels>", 3)
        self.assert_error(text, "H0358", "labels")
        text = self.refused("#dist.strategy<{}>", "#dist.strategy<{precision = bf16}>", 2)
        self.assert_error(text, "H0113", "said by flags")
        text = self.refused("// A decoder", "// A decoder", 2, seq=1024)
        self.assert_error(text, "H0116", "max_positions = 512")

    def test_its_place_on_the_command_line(self):
        text = h.run([h.HEDDLE, "compile", TEXT, "--stop-after", "import"],
                     status=2).stderr
        self.assertIn("with --weights DIR", text)
        text = h.run([h.HEDDLE, "compile", self.weights_path, "--weights",
                      self.weights_path, "--stop-after", "import"], status=2).stderr
        self.assertIn("error[H0113]", text)
        dumps = self.path("dumps")
        h.run([h.HEDDLE, "compile", TEXT, "--weights", self.weights_path, "--seq", 16,
               "--stop-after", "import", "--dump-phases", dumps])
        text = h.run([h.HEDDLE, "compile", os.path.join(dumps, "import.mlir"),
                      "--weights", self.weights_path, "--stop-after", "import"],
                     status=2).stderr
        self.assertIn("leave out --weights", text)


if __name__ == "__main__":
    unittest.main()
