#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Binaries of `--mode serve` and `--mode encode` with block-sparse attention have the
logits and texts of PyTorch with a dense mask, and token by token the bits of what they
compute at once."""

import json
import unittest

import numpy as np

import families
import heddle_test as h
import serving
import test_sparse_attention as sparse
from test_gpu import emulated
from test_sparse_attention import HEADS, LAYERS, VOCAB

# More keys than a part of 256.
CONTEXT = 300


class SparseServing(sparse.SparseTest, serving.ServingTest):
    def draw(self, block, heads=HEADS, context=CONTEXT):
        layout = sparse.draw_layout(self.rng, heads, context, block, True)
        # The last tokens see no key of the first part in one head. In another one,
        # some tokens see no key at all.
        layout[0, -2:, :256 // block] = False
        layout[-1, 3] = False
        return layout, sparse.write_layout(self.path(f"{block}.safetensors"), layout, block)

    def gpt2(self, context=CONTEXT):
        self.model, self.config, self.weights = self.make_model(
            vocab=VOCAB, positions=context, embed=32, layers=LAYERS, heads=HEADS)
        return h.random_tokens(context, VOCAB, 3)

    @staticmethod
    def oracle_logits(oracle, tokens):
        ids = h.torch.tensor(np.asarray(tokens)[None].astype(np.int64))
        return oracle.logits(ids)[0].detach().numpy()

    def check(self, oracle, model, tokens, *flags, types=()):
        wanted = self.oracle_logits(oracle, tokens)
        for precision, tolerance in (("fp32", 1e-4), *types):
            binary = self.serve(model, "--precision", precision, *flags)
            for count in (1, 49, len(tokens)):
                with self.subTest(precision=precision, tokens=count):
                    once = self.logits(binary, tokens[:count])
                    np.testing.assert_allclose(once, wanted[:count], rtol=0,
                                               atol=tolerance)
                    np.testing.assert_array_equal(
                        once, self.logits(binary, tokens[:count], "--decode"))
            if precision == "fp32":
                text = list(tokens[:270])
                for _ in range(8):
                    text.append(int(self.oracle_logits(oracle, text)[-1].argmax()))
                self.assertEqual(self.generate(binary, text[:270], 8), text[270:])

    @h.needs_torch
    def test_gpt2(self):
        import oracle
        tokens = self.gpt2()
        for block in (16, 64) + (32, 128) * h.LONG:
            layout, file = self.draw(block)
            model = self.sparse(oracle.Gpt2, [layout] * LAYERS, block)(
                self.config, self.weights)
            self.check(model, self.model, tokens, "--attention-layout", file,
                       types=[("bf16", 0.1), ("fp16", 0.015)] * h.LONG)

    @h.needs_torch
    def test_llama(self):
        """Queries that share keys have layouts of their own, and layers too."""
        config = families.config(num_hidden_layers=2, vocab_size=VOCAB,
                                 max_position_embeddings=CONTEXT)
        weights = families.random_weights(config)
        h.write_model(self.path("llama"), config, weights, prefix="")
        (first, file), (second, other) = self.draw(16), self.draw(32)

        class Sparse(families.Decoder):
            def hidden(self, name, length):
                layout, block = (first, 16) if ".0." in name else (second, 32)
                return super().hidden(name, length) | sparse.hidden_by(layout, block, length)

        self.check(Sparse(config, weights), self.path("llama"),
                   h.random_tokens(CONTEXT, VOCAB, 3), "--attention-layout",
                   "*.0=" + file, "--attention-layout", "*.1=" + other,
                   types=[("bf16", 0.1)])

    def test_types_of_the_cache(self):
        tokens = self.gpt2()
        _, file = self.draw(32)
        for flags in (["--kv-type", "int8"],
                      *[["--precision", "bf16", "--kv-type", "int8"],
                        ["--precision", "bf16", "--kv-type", "fp32"],
                        ["--precision", "fp16"]] * h.LONG):
            with self.subTest(flags=flags):
                binary = self.serve(self.model, "--attention-layout", file, *flags)
                once = self.logits(binary, tokens)
                for threads in (1, 2):
                    np.testing.assert_array_equal(once, self.logits(
                        binary, tokens, "--decode", "--threads", threads))

    def test_drafts_are_dense(self):
        tokens = self.gpt2(100)
        _, file = self.draw(16, context=100)
        flags = ["--attention-layout", file]
        texts = [self.generate(self.serve(self.model, *flags, *more), tokens[:60], 24)
                 for more in ([], ["--draft", self.model])]
        self.assertEqual(*texts)

    @h.needs_mpi
    def test_ranks_have_their_heads(self):
        tokens = self.gpt2(100)
        _, file = self.draw(16, context=100)
        flags = ["--attention-layout", file]
        one = self.logits(self.serve(self.model, *flags), tokens)
        binary = self.serve(self.model, "--mesh", "tensor=2", *flags, output="ranks")
        np.testing.assert_allclose(self.logits(binary, tokens, ranks=2), one, rtol=0,
                                   atol=1e-4)

    def test_gpus_serve_alike(self):
        context = 64
        tokens = self.gpt2(context)
        layout, file = self.draw(16, context=context)
        binary = self.serve(self.model, "--target", "x86-64,sm_90", "--attention-layout",
                            file)
        gpu = emulated(binary)
        found = self.logits(gpu, tokens)
        np.testing.assert_allclose(found, self.logits(binary, tokens), rtol=0, atol=1e-4)
        np.testing.assert_array_equal(self.logits(gpu, tokens[:19], "--decode", **h.LIGHT),
                                      found[:19])
        # The prediction of a step counts the keys that the layout has.
        explain = [h.HEDDLE, "explain", binary, "--target", "sm_90", "--kernels", "--json",
                   "--program", "decode/1", "--context"]
        moved = [json.loads(h.run([*explain, count]).stdout)["predicted"]["bytes"]
                 for count in (20, context)]
        keys = self.seen(layout, 16, context - 1) - self.seen(layout, 16, 19)
        self.assertAlmostEqual(moved[1] - moved[0], LAYERS * 2 * 32 * 4 * keys)
        # Kernels are checked with the layout of the plan.
        h.run_ranks(1, [*gpu, "check"], **h.LIGHT)

    @staticmethod
    def seen(layout, block, position):
        """Keys that a token sees, as the mean over heads."""
        row = layout[:, position // block].repeat(block, 1)
        return row[:, :position + 1].sum() / HEADS

    def test_counts_the_keys_of_a_layout(self):
        """Of a decoding step: for each head those that the row of its token has."""
        context, block = 96, 16
        self.gpt2(context)
        layout, file = self.draw(block, context=context)
        binary = self.serve(self.model, "--attention-layout", file)
        dense = self.serve(self.model, output="dense")

        found, whole = [json.loads(h.run([h.HEDDLE, "explain", each, "--json", "--program",
                                          "decode/1"]).stdout) for each in (binary, dense)]
        self.assertEqual([cache["positions"] for cache in whole["cache"]], [context])
        (cache,) = found["cache"]
        self.assertEqual(cache["positions"], round(self.seen(layout, block, context - 1)))
        self.assertEqual(found["bytes"] - found["state_bytes"],
                         cache["bytes_per_position"]
                         * self.seen(layout, block, context - 1))
        width = whole["cache"][0]["bytes_per_position"]
        for prompt in (8, 50):
            line = json.loads(h.run([binary, "bench", "--decode", "--tokens", 4,
                                     "--context", prompt, "--json"]).stdout)
            keys = np.mean([self.seen(layout, block, prompt + step)
                            for step in range(4)])
            self.assertAlmostEqual(line["bytes_per_token"],
                                   found["state_bytes"] + width * keys, delta=1)

    def test_sections_and_dense_layouts(self):
        """The section of a ds_config.json has the bits of the file that `heddle layout`
        writes. A layout of all blocks is dense attention."""
        context = 100
        tokens = self.gpt2(context)
        file = self.path("fixed.safetensors")
        h.run([h.HEDDLE, "layout", "fixed", "--heads", HEADS, "--seq", 112, "--block", 16,
               "--num-local-blocks", 2, "--attention", "unidirectional", "-o", file])
        section = {"mode": "fixed", "block": 16, "num_local_blocks": 2,
                   "attention": "unidirectional"}
        whole = sparse.write_layout(self.path("whole.safetensors"),
                                    np.tril(np.ones((1, 7, 7))), 16)
        for flags, others in (
                (dict(config={"sparse_attention": section}),
                 ["--attention-layout", file, "--attention-layout-causal"]),
                ({}, ["--attention-layout", whole])):
            found = [self.logits(self.compile(
                self.model, "--mode", "serve", "--threads", 2, "--max-batch", 1, *more,
                output=name, **options), tokens) for name, more, options in (
                    ("one", [], flags), ("other", others, {}))]
            np.testing.assert_array_equal(*found)

    @h.needs_torch
    def test_trained_binaries_generate(self):
        import oracle
        tokens = self.gpt2(96)
        layout, file = self.draw(16, context=96)
        model = self.sparse(oracle.Gpt2, [layout] * LAYERS, 16)(self.config, self.weights)
        binary = self.build(self.model, 96, "--attention-layout", file)
        text = list(tokens[:60])
        for _ in range(8):
            text.append(int(self.oracle_logits(model, text)[-1].argmax()))
        self.assertEqual(self.generate(binary, text[:60], 8), text[60:])

    @h.needs_torch
    def test_encodes(self):
        import dropping
        seq, block = 64, 16
        config, weights = self.make_bert(seq)
        layout = sparse.draw_layout(self.rng, config["num_attention_heads"], seq, block,
                                    False)
        file = sparse.write_layout(self.path("layout.safetensors"), layout, block)
        binary = self.compile(self.path("bert"), "--mode", "encode", "--threads", 2,
                              "--seq", seq // 2, "--max-context", seq, "--max-batch", 3,
                              "--attention-layout", file)
        lengths = (64, 33, 7)
        texts = [h.random_tokens(length, config["vocab_size"], length)
                 for length in lengths]
        out = self.path("encoded.safetensors")
        h.run([binary, "encode", "--logits", "-o", out,
               *[word for text in texts for word in ("--ids", ",".join(map(str, text)))]])
        model = self.sparse(dropping.Bert, [layout] * LAYERS, block)(config, weights)
        model.kept, model.factor = range(LAYERS), lambda layer: 1
        for text, logits in zip(texts, h.read_safetensors(out)["logits"]):
            ids = np.zeros((1, seq), np.int64)
            ids[0, :len(text)] = text
            _, wanted = model.loss(ids, ids, 0 * ids, np.array([len(text)]))
            np.testing.assert_allclose(
                logits[:len(text)], wanted[0, :len(text)].detach().numpy(), rtol=0,
                atol=1e-4)

    def test_refuses(self):
        self.gpt2(96)
        _, file = self.draw(16, context=96)
        said = h.run([h.HEDDLE, "compile", self.model, "--mode", "serve", "--max-context",
                      64, "--attention-layout", file, "-o", self.path("none")], status=2)
        self.assertIn("error[H0198]", said.stderr)
        said = h.run([h.HEDDLE, "compile", self.model, "--batch", 1, "--seq", 80,
                      "--max-context", 96, "--attention-layout", file, "-o",
                      self.path("none")], status=2)
        self.assertIn("error[H0143]: --max-context 96", said.stderr)


if __name__ == "__main__":
    unittest.main()
