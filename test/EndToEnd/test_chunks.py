#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--chunk-tokens makes no number another one: gradients against PyTorch, records of
transformers, meshes against one rank, a GPU's kernels in emulation. Whole logits,
and whole rows of an MLP, are nowhere in the plan. HEDDLE_TEST_LONG=1 takes every
family, mesh and size."""

import json
import os
import re
import unittest

import numpy as np

import heddle_test as h
import test_gradients
import test_recorded
from test_parallel import flags_of, ranks_of

ROWS, SEQ, STEPS = 4, 19, 4
MESHES = [dict(mesh={"data": 2, "tensor": 2}, sequence_parallel=True, zero=3),
          dict(mesh={"seq": 2, "pipe": 2}, accumulate=2, recompute="selective"),
          dict(mesh={"data": 2, "pipe": 2}, zero=2, accumulate=2, schedule="zb-h1")]
if h.LONG:
    MESHES += [dict(mesh={"tensor": 2}, accumulate=2)]
    MESHES += [dict(mesh={"data": 2}, zero=zero, accumulate=accumulate)
               for zero in range(4) for accumulate in (1, 2)]
    MESHES += [dict(mesh={"seq": 2}, context="ring", recompute="full"),
               dict(mesh={"pipe": 2}, accumulate=4, recompute="full"),
               dict(mesh={"pipe": 4}, accumulate=2, schedule="gpipe"),
               dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, accumulate=2, zero=1)]


class Chunks(h.HeddleTest):
    def assert_alike(self, steps, expected, tolerance=1e-6):
        self.assertEqual(len(steps), len(expected))
        for key in ("loss", "grad_norm"):
            np.testing.assert_allclose([step[key] for step in steps],
                                       [step[key] for step in expected],
                                       rtol=tolerance, err_msg=key)

    @h.needs_torch
    def test_gradients(self):
        # A token at a time; a part of a row; some rows; more than there are.
        cases = [(2, 7, 1, {}), (3, 19, 5, dict(vocab=101, embed=42, heads=3)),
                 (5, 3, 7, dict(tie_word_embeddings=False)), (2, 8, 1000, {})]
        if h.LONG:
            cases += [(1, 13, 4, dict(heads=1, layers=1, embed=21)),
                      (4, 6, 10, dict(dropout=0.0, activation_function="relu2"))]
        for rows, seq, chunk, options in cases:
            with self.subTest(rows=rows, seq=seq, chunk=chunk):
                test_gradients.Gradients.check(
                    self, rows, seq, ("--chunk-tokens", chunk), keep="grads", **options)

    def test_families(self):
        """Heads with a product more, with capped logits, and gated MLPs."""
        records = test_recorded.records()
        names = records if h.LONG else ["bert", "gemma2", "llama"]
        for name in names:
            with self.subTest(name):
                record = records[name]
                folder, data = test_recorded.Recorded.make(self, name, record)
                binary = self.compile(
                    folder, *test_recorded.Recorded.flags(self)[1], "--keep", "grads",
                    "--chunk-tokens", 5, config=test_recorded.Recorded.settings(self),
                    output=name + "-job")
                dump = self.path(name + ".safetensors")
                steps = self.train(binary, data, test_recorded.models.STEPS, "--dump",
                                   dump, name=name)
                test_recorded.Recorded.assert_steps(self, steps, record)

    @h.needs_mpi
    def test_meshes(self):
        model, config, _ = self.make_model(vocab=103, embed=36, layers=4, heads=4,
                                           dropout=0.1, positions=20)
        data, _ = self.make_tokens(ROWS * 20 * STEPS + 1, config["vocab_size"])
        one = self.compile(model, *flags_of({}, batch=ROWS, seq=20),
                           config=h.ds_config())
        expected = self.train(one, data, STEPS)
        for combination in MESHES:
            with self.subTest(**combination):
                flags = flags_of(**combination, batch=ROWS, seq=20)
                binary = self.compile(model, *flags, "--chunk-tokens", 3,
                                      config=h.ds_config(), output="mesh")
                ranks = ranks_of(combination["mesh"])
                self.assert_alike(self.train(binary, data, STEPS, ranks=ranks),
                                  expected, 1e-5)

    @h.needs_mpi
    def test_gradients_in_bf16(self):
        """Replicas store gradients in the type that they send: sums over chunks are
        rounded to it once."""
        (whole, chunked), _ = self.pair("--precision", "bf16", "--mesh", "data=2",
                                        "--micro-batch", ROWS // 2, chunk=5, vocab=101)
        expected = self.train(whole, self.data, STEPS, ranks=2)
        self.assert_alike(self.train(chunked, self.data, STEPS, ranks=2), expected,
                          1e-3)

    def pair(self, *flags, chunk=6, **options):
        """Without chunks and with them: binaries, and dumps of the plans."""
        model, config, _ = self.make_model(**options)
        self.data, _ = self.make_tokens(ROWS * SEQ * STEPS + 1, config["vocab_size"])
        binaries, plans = [], []
        for name, more in (("whole", []), ("chunked", ["--chunk-tokens", chunk])):
            binaries.append(self.compile(
                model, "--batch", ROWS, "--seq", SEQ, "--threads", 2, *flags, *more,
                "--dump-phases", self.path(name + "-dumps"), output=name,
                config=h.ds_config()))
            with open(self.path(name + "-dumps", "memory.mlir")) as file:
                plans.append(file.read())
        return binaries, plans

    @staticmethod
    def widest(plan, columns):
        """The most rows of buffers with so many columns."""
        shapes = re.findall(r"plan\.buffer .*memref<(\d+)x(\d+)x(\d+)x", plan)
        return max(int(rows) * int(tokens) for rows, tokens, last in shapes
                   if int(last) == columns)

    def test_bytes(self):
        vocab, inner = 2003, 192
        for precision, recompute, size in (("fp32", "none", 4), ("bf16", "selective", 2),
                                           ("fp32", "full", 4)):
            with self.subTest(precision, recompute=recompute):
                (whole, chunked), plans = self.pair(
                    "--precision", precision, "--recompute", recompute, vocab=vocab)
                for columns in (vocab, inner):
                    self.assertEqual(self.widest(plans[0], columns), ROWS * SEQ)
                    self.assertLessEqual(self.widest(plans[1], columns), 6)
                saved = (self.explain(whole)["memory"]["arena"] -
                         self.explain(chunked)["memory"]["arena"])
                # Most of the logits; what saves the MLP's values is less.
                self.assertGreater(saved, 0.8 * ROWS * SEQ * vocab * size)

    def test_saved_values(self):
        """Rows of MLPs are not kept for the backward pass."""
        (whole, chunked), _ = self.pair(vocab=11, layers=8, embed=32)
        saved = (self.explain(whole)["memory"]["arena"] -
                 self.explain(chunked)["memory"]["arena"])
        self.assertGreater(saved, 0.9 * 8 * 2 * ROWS * SEQ * 4 * 32 * 4)

    def test_same_bits(self):
        """A row of a product depends on no other: all but sums over tokens."""
        (whole, chunked), _ = self.pair(vocab=211)
        first = [self.train(binary, self.data, 1)[0]["loss"]
                 for binary in (whole, chunked)]
        self.assertEqual(*first)
        said = [re.search(r"loss (\S+)", h.run([binary, "eval", "--data", self.data])
                          .stdout)[1] for binary in (whole, chunked)]
        self.assertEqual(*said)

    def test_kernels_are_compiled_once(self):
        """19 positions: nine chunks of two and one of one."""
        _, plans = self.pair(chunk=2 * ROWS, vocab=499)
        for name in ("cross_entropy_cross_entropy_grad", "linear_gelu_tanh_grad"):
            kernels = re.findall(rf"plan\.kernel @{name}(?:_\d+)?\(", plans[1])
            launches = re.findall(rf"plan\.launch @{name}(?:_\d+)?\(", plans[1])
            self.assertEqual((len(kernels), len(launches)), (2, 10), name)

    def test_gpu(self):
        """As on a CPU, and nothing of the emulator's to find: rows of chunks begin
        where those of whole tensors do."""
        model, _, _ = self.make_model(vocab=97, embed=30, heads=3, layers=1)
        data, _ = self.make_tokens(ROWS * SEQ * 3 + 1, 97)
        steps = []
        for target, start in (("x86-64", []), ("sm_90", [h.HEDDLE, "emulate", "--"])):
            binary = self.compile(model, "--batch", ROWS, "--seq", SEQ, "--target",
                                  target, "--chunk-tokens", 7, config=h.ds_config(),
                                  output=target)
            log = self.path(target + ".jsonl")
            h.run([*start, binary, "train", "--data", data, "--steps", 3, "--log", log,
                   "--progress", "none"])
            steps.append(h.read_log(log))
        self.assert_alike(steps[1], steps[0], 1e-5)

    def test_no_product_twice(self):
        """Where the first product of an MLP is computed again anyway, tensor cores do
        no more with chunks, and the device's memory is smaller."""
        model, _, _ = self.make_model(vocab=256, embed=32, layers=1, positions=32)
        data, _ = self.make_tokens(ROWS * 32 + 1, 256)
        operations, memory = [], []
        for chunk in (0, 64):
            binary = self.compile(model, "--batch", ROWS, "--seq", 32, "--target",
                                  "sm_80", "--precision", "bf16", "--recompute", "full",
                                  "--chunk-tokens", chunk, config=h.ds_config())
            counts = self.path("counts.json")
            h.run([h.HEDDLE, "emulate", "--", binary, "train", "--data", data, "--steps",
                   1, "--gemm", "generated"],
                  env=dict(os.environ, HEDDLE_EMULATE_COUNTS=counts))
            with open(counts) as file:
                found = json.load(file)
            operations.append(sum(kernel["tensor_operations"]
                                  for kernel in found["counted"].values()))
            memory.append(found["device_bytes"])
        self.assertGreater(operations[1], 0)
        self.assertLessEqual(operations[1], operations[0])
        self.assertLess(memory[1], memory[0])


if __name__ == "__main__":
    unittest.main()
