#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A LLaMA in the nn dialect trains with PyTorch's numbers on one rank and on
meshes, however its weights are stored; tensor ranks sum four times a layer and
micro-batch. HEDDLE_TEST_LONG=1 takes all meshes."""

import json
import os
import shutil
import unittest

import numpy as np

import heddle_test as h
import llama
from test_parallel import BATCH, SEQ, flags_of, ranks_of

STEPS = 20
SHORT = [dict(mesh={"tensor": 2}), dict(mesh={"tensor": 2}, sequence_parallel=True),
         dict(mesh={"tensor": 2, "data": 2}, zero=2, accumulate=2),
         dict(mesh={"tensor": 2, "pipe": 2}, accumulate=2, zero=1, recompute="full"),
         dict(mesh={"seq": 2, "data": 2}, zero=3)]
MORE = [dict(mesh={"tensor": 2, "data": 2}, zero=zero, sequence_parallel=shares)
        for zero in range(4) for shares in (False, True)]
MORE += [dict(mesh={"tensor": 2}, sequence_parallel=True, recompute=recompute,
              accumulate=2) for recompute in ("selective", "full")]
MORE += [dict(mesh={"seq": 2}, context="ring"), dict(mesh={"pipe": 2}, accumulate=4),
         dict(mesh={"seq": 2, "pipe": 2}, accumulate=2),
         dict(mesh={"seq": 2, "tensor": 2}, context="ring", sequence_parallel=True),
         dict(mesh={"tensor": 2, "pipe": 2}, accumulate=2, sequence_parallel=True),
         dict(mesh={"data": 2, "pipe": 2}, accumulate=2, schedule="zb-h1", zero=2)]


class Llama(h.HeddleTest):
    def setUp(self):
        self.model, _, _ = self.make_model("frame", positions=SEQ)
        self.settings = h.ds_config(lr=3e-3, clip=0.5, eps=1e-5)
        self.data, self.tokens = self.make_tokens(BATCH * SEQ * STEPS + 1,
                                                  llama.CONFIG["vocab"])

    def compile_text(self, transposed=True, config=llama.CONFIG, **plan):
        """The binary of a plan, from text."""
        weights = llama.random_weights(config, transposed=transposed)
        directory = self.path(f"weights-{transposed}")
        h.write_model(directory, {}, weights, prefix="")
        dumps, text = self.path("dumps"), self.path("llama.mlir")
        self.compile(self.model, *flags_of(**plan), "--dump-phases", dumps,
                     "--stop-after", "import", config=self.settings)
        rows = BATCH // plan.get("accumulate", 1)
        with open(os.path.join(dumps, "import.mlir")) as file:
            made = llama.write(file.read(), directory, config, rows, SEQ, transposed)
        with open(text, "w") as file:
            file.write(made)
        return self.compile(text, "--start-from", "import")

    def train_text(self, transposed=True, **plan):
        saved = self.path("saved")
        shutil.rmtree(saved, ignore_errors=True)
        binary = self.compile_text(transposed, **plan)
        steps = self.train(binary, self.data, STEPS, "--save", saved,
                           ranks=ranks_of(plan["mesh"]))
        return steps, h.read_saved(saved)

    @h.needs_torch
    def test_one_rank_has_the_numbers_of_pytorch(self):
        import oracle
        for transposed in (True, False):
            weights = llama.random_weights(llama.CONFIG, transposed=transposed)
            model = llama.Llama(llama.CONFIG, weights, transposed)
            batches = [h.batch(self.tokens, step, BATCH, SEQ) for step in range(STEPS)]
            losses, norms = oracle.train(model, batches, [3e-3] * STEPS, clip=0.5,
                                         eps=1e-5)
            steps, saved = self.train_text(transposed, mesh={})
            np.testing.assert_allclose([s["loss"] for s in steps], losses, rtol=1e-5)
            np.testing.assert_allclose([s["grad_norm"] for s in steps], norms,
                                       rtol=1e-5)
            for name, value in model.arrays().items():
                self.assert_close(saved[name], value, 1e-5, name)

    @h.needs_mpi
    def test_meshes_have_the_numbers_of_one_rank(self):
        expected, weights = self.train_text(mesh={})
        self.assertLess(expected[-1]["loss"], expected[0]["loss"])
        for plan in SHORT + MORE if h.LONG else SHORT:
            with self.subTest(**plan):
                steps, saved = self.train_text(**plan)
                for key in ("loss", "grad_norm"):
                    np.testing.assert_allclose([step[key] for step in steps],
                                               [step[key] for step in expected],
                                               rtol=1e-5, err_msg=key)
                for name, value in weights.items():
                    self.assert_close(saved[name], value, 1e-5, name)

    def sums(self, binary):
        """How often rank 0 adds up over the tensor ranks in a step."""
        text = h.run([h.HEDDLE, "explain", binary, "--json"]).stdout
        return sum(line["calls"] for line in json.loads(text)["communication"]
                   if (line["axis"], line["kind"]) == ("tensor", "all_reduce"))

    def test_a_layer_is_summed_four_times(self):
        plan = dict(mesh={"tensor": 2}, accumulate=2)

        def gpt2(layers):
            model, _, _ = self.make_model(f"gpt2-{layers}", positions=SEQ,
                                          layers=layers)
            return self.compile(model, *flags_of(**plan), output="gpt2")

        def text(layers, transposed):
            config = dict(llama.CONFIG, layers=layers)
            return self.compile_text(transposed, config, **plan)

        models = {"gpt2": gpt2, "[out, in]": lambda layers: text(layers, True),
                  "[in, out]": lambda layers: text(layers, False)}
        for name, compiled in models.items():
            with self.subTest(name):
                two, four = (self.sums(compiled(layers)) for layers in (2, 4))
                self.assertEqual(four - two, 4 * 2 * plan["accumulate"])


if __name__ == "__main__":
    unittest.main()
