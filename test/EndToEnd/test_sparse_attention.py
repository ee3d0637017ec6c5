#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training with block-sparse attention has the losses, norms and weights of PyTorch with
a dense mask, on one rank and on meshes. HEDDLE_TEST_LONG=1 draws more layouts."""

import json
import unittest

import numpy as np

import heddle_test as h
import test_bert

ROWS, STEPS, LAYERS, HEADS, VOCAB = 4, 6, 3, 4, 97


def write_layout(path, layout, block):
    """Writes [heads, blocks, blocks] as `heddle layout` does."""
    h.write_safetensors(path, {"layout": layout.astype(np.uint8)},
                        metadata={"block": str(block)})
    return path


def draw_layout(rng, heads, seq, block, is_causal):
    """Each block of queries sees its own block of keys, and others at random. Some
    block of queries in a head sees none."""
    blocks = -(-seq // block)
    layout = rng.random((heads, blocks, blocks)) < rng.uniform(0.1, 0.6)
    layout |= np.eye(blocks, dtype=bool)
    layout[rng.integers(heads), rng.integers(blocks)] = False
    return np.tril(layout) if is_causal else layout


def hidden_by(layout, block, length):
    """The keys [heads, queries, keys] that a layout hides."""
    import torch
    wide = np.repeat(np.repeat(layout, block, 1), block, 2)[:, :length, :length]
    return torch.from_numpy(~wide)


class SparseTest(h.HeddleTest):
    def setUp(self):
        self.rng = np.random.default_rng(len(self._testMethodName))

    def make_gpt2(self, seq):
        self.model, self.config, self.weights = self.make_model(
            vocab=VOCAB, positions=seq, embed=32, layers=LAYERS, heads=HEADS)
        self.data, self.tokens = self.make_tokens(STEPS * ROWS * seq + 1, VOCAB)

    def make_bert(self, seq):
        """Writes a BERT without dropout to the folder `bert`."""
        config = dict(test_bert.CONFIG, num_hidden_layers=LAYERS, pad_token_id=None,
                      hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                      max_position_embeddings=seq)
        weights = test_bert.random_weights(config)
        h.write_model(self.path("bert"), config, weights, prefix="")
        return config, weights

    def build(self, model, seq, *flags, output="job", **more):
        import test_optimizers
        config = dict(test_optimizers.config_of("AdamW"), gradient_clipping=0.8, **more)
        return self.compile(model, "--batch", ROWS, "--seq", seq, "--threads", 2, *flags,
                            output=output, config=config)

    def sparse(self, base, layouts, block):
        """A model of the class `base` in which a layer's path chooses its layout."""
        import torch

        class Sparse(base):
            def hidden(self, name, length, *lengths):
                dense = super().hidden(name, length, *lengths)
                layer = int([word for word in name.split(".") if word.isdigit()][0])
                return dense | hidden_by(layouts[layer], block, length)

        return Sparse


@h.needs_torch
class AgainstPyTorch(SparseTest):
    def check(self, oracle, binary, data, batches, prefix=""):
        """`oracle` is the model in PyTorch, with its first weights."""
        import dropping
        import test_optimizers
        steps = self.train(binary, data, STEPS, "--save", self.path("out"), "--overwrite")
        everything = {step: list(range(LAYERS)) for step in range(1, STEPS + 1)}
        losses, norms = dropping.train(
            oracle, batches, everything, lambda step, layer: 1, 0.8,
            dropping.adamw(oracle.parameters(), test_optimizers.RATES["AdamW"], 0.1))
        np.testing.assert_allclose([step["loss"] for step in steps], losses, rtol=1e-5)
        np.testing.assert_allclose([step["grad_norm"] for step in steps], norms, rtol=1e-5)
        saved = h.read_saved(self.path("out"))
        for name, value in oracle.arrays().items():
            self.assertLess(h.relative(saved[prefix + name], value), 2e-5, name)

    def test_gpt2(self):
        """Layouts of one head and of all, the same in all layers and others in each."""
        import dropping
        for block, seq in [(16, 80), (32, 90)] + [(64, 256), (128, 300)] * h.LONG:
            for heads in (1, HEADS):
                with self.subTest(block=block, heads=heads):
                    self.make_gpt2(seq)
                    layouts = [draw_layout(self.rng, heads, seq, block, True)
                               for _ in range(LAYERS)]
                    layouts[1] = layouts[0]
                    flags = []
                    for layer in (0, 2):
                        file = self.path(f"{layer}-{block}-{heads}.safetensors")
                        write_layout(file, np.repeat(layouts[layer], HEADS // heads, 0),
                                     block)
                        glob = "h.2=" if layer else ""
                        flags += ["--attention-layout", glob + file]
                    binary = self.build(self.model, seq, *flags)
                    self.check(self.sparse(dropping.Gpt2, layouts, block)(
                        self.config, self.weights), binary, self.data,
                        [h.batch(self.tokens, step, ROWS, seq) for step in range(STEPS)],
                        "transformer.")

    def test_bert(self):
        """Rows of unequal lengths, and the section of ds_config.json."""
        import dropping
        seq, block = 64, 16
        config, weights = self.make_bert(seq)
        rows, data = test_bert.make_inputs(ROWS, STEPS, seq), self.path("rows.safetensors")
        h.write_safetensors(data, rows)
        # Local windows of two blocks, the last of which all queries see.
        layout = np.zeros((1, 4, 4), bool)
        layout[0, :2, :2] = layout[0, 2:, 2:] = layout[0, :, 1] = layout[0, :, 3] = True
        binary = self.build(
            self.path("bert"), seq, sparse_attention={
                "mode": "fixed", "block": block, "num_local_blocks": 2})
        batches = [[rows[name][step * ROWS:][:ROWS]
                    for name in ("ids", "labels", "segments", "lengths")]
                   for step in range(STEPS)]
        self.check(self.sparse(dropping.Bert, [layout] * LAYERS, block)(config, weights),
                   binary, data, batches)

    def test_llama(self):
        """Queries that share keys have layouts of their own."""
        import dropping
        import families
        seq, block = 80, 16
        config = families.config(num_hidden_layers=LAYERS, max_position_embeddings=seq)
        weights = families.random_weights(config)
        h.write_model(self.path("llama"), config, weights, prefix="")
        data, tokens = self.make_tokens(STEPS * ROWS * seq + 1, config["vocab_size"])
        layout = draw_layout(self.rng, config["num_attention_heads"], seq, block, True)
        file = write_layout(self.path("layout.safetensors"), layout, block)
        binary = self.build(self.path("llama"), seq, "--attention-layout", file)
        self.check(self.sparse(dropping.Llama, [layout] * LAYERS, block)(config, weights),
                   binary, data,
                   [h.batch(tokens, step, ROWS, seq) for step in range(STEPS)])


class SparseAttention(SparseTest):
    @h.needs_mpi
    def test_meshes_have_the_numbers_of_one_rank(self):
        seq, block = 128, 16
        self.make_gpt2(seq)
        layout = draw_layout(self.rng, HEADS, seq, block, True)
        file = write_layout(self.path("layout.safetensors"), layout, block)

        def numbers(name, ranks, flags):
            binary = self.build(self.model, seq, "--attention-layout", file, *flags,
                                output=name)
            return self.train(binary, self.data, 4, name=name, ranks=ranks)
        one = numbers("one", 1, [])
        for ranks, flags in [
                (2, "--mesh data=2 --zero 3"), (2, "--mesh tensor=2 --sequence-parallel"),
                (2, "--mesh seq=2 --context ulysses"), (2, "--mesh seq=2 --context ring"),
                (2, "--mesh pipe=2 --accumulate 2 --recompute full"),
                (1, "--place optimizer=file,parameters=file --recompute selective")]:
            with self.subTest(flags):
                steps = numbers("mesh", ranks, flags.split())
                for key in ("loss", "grad_norm"):
                    np.testing.assert_allclose([step[key] for step in steps],
                                               [step[key] for step in one], rtol=1e-5)

    def test_a_layout_of_all_blocks_is_dense(self):
        seq, block = 64, 16
        self.make_gpt2(seq)
        file = write_layout(self.path("layout.safetensors"), np.ones((HEADS, 4, 4)), block)
        sparse = self.build(self.model, seq, "--attention-layout", file,
                            "--attention-layout-causal")
        dense = self.build(self.model, seq, output="dense")
        for binary in (sparse, dense):
            self.train(binary, self.data, 3, "--save", binary + ".out")
        self.assertEqual(*[h.bytes_saved(binary + ".out") for binary in (sparse, dense)])

    def test_explain(self):
        """Densities are the layout's, and FLOPs are those of its blocks: without the
        layout they are those of a dense model."""
        seq, block = 128, 16
        self.make_gpt2(seq)
        layout = draw_layout(self.rng, HEADS, seq, block, True)
        file = write_layout(self.path("layout.safetensors"), layout, block)
        sparse = self.explain(self.build(self.model, seq, "--attention-layout",
                                         "h.1=" + file))
        dense = self.explain(self.build(self.model, seq, output="dense"))
        (layer,) = sparse["attention"]
        self.assertEqual((layer["layer"], layer["block"]), ("h.1", block))
        np.testing.assert_allclose(layer["heads"], layout.mean((1, 2)))
        self.assertAlmostEqual(layer["density"], layout.mean())
        self.assertEqual(sparse["dense_flops_per_step"], dense["flops_per_step"])
        # Pairs of a query and a key: two products forward, four in the gradient.
        blocks = seq // block
        pairs = layout.mean() * seq ** 2 - seq * (block - 1) / 2
        left = seq * (seq + 1) / 2 - pairs
        np.testing.assert_allclose(
            dense["flops_per_step"] - sparse["flops_per_step"],
            6 * 2 * ROWS * self.config["n_embd"] * left, rtol=1e-6)
        self.assertEqual(sparse["memory"]["owners"]["attention layouts"],
                         max(HEADS * blocks * 4, 256))
        self.assertNotIn("attention", dense)

    @h.needs_mpi
    def test_explain_ring(self):
        """How evenly the ranks of a ring share the blocks, and how long they wait."""
        seq, block = 64, 16
        self.make_gpt2(seq)
        # Rank 0 has blocks 0 and 1. Its queries see 3 blocks, those of rank 1 three of
        # their own and two of rank 0's.
        layout = np.tril(np.ones((1, 4, 4)))
        layout[0, 2:, 1] = 0
        file = write_layout(self.path("layout.safetensors"), np.repeat(layout, HEADS, 0),
                            block)
        said = self.explain(self.build(self.model, seq, "--attention-layout", file,
                                       "--mesh", "seq=2", "--context", "ring"))
        layer = said["attention"][0]
        np.testing.assert_allclose(layer["ranks"], [3 / 8, 5 / 8])
        # In step 0 both have 3 blocks; in step 1 rank 1 has 2, and rank 0 none.
        np.testing.assert_allclose(layer["busy"], 4 / 5)
        # All steps of the ring together compute what one rank does.
        one = self.explain(self.build(self.model, seq, "--attention-layout", file,
                                      output="one"))
        np.testing.assert_allclose(said["flops_per_step"], one["flops_per_step"])

    @h.needs_mpi
    def test_explain_ulysses(self):
        """Ranks that exchange heads are no ring, also if generation joins parts of a
        cache, and the number of blocks need not be one of ranks."""
        seq, block = 640, 128
        self.make_gpt2(seq)
        layout = np.eye(5)[None].repeat(HEADS, 0)
        file = write_layout(self.path("layout.safetensors"), layout, block)
        said = self.explain(self.build(self.model, seq, "--attention-layout", file,
                                       "--mesh", "seq=2", "--context", "ulysses"))
        self.assertIn("paged_attention_join",
                      [kernel["ops"] for kernel in said["kernels"]])
        self.assertNotIn("ranks", said["attention"][0])

    def test_warns_of_queries_that_see_nothing(self):
        seq = 64
        self.make_gpt2(seq)
        layout = np.eye(4)[None].repeat(HEADS, 0)
        layout[1, 2] = 0
        file = write_layout(self.path("layout.safetensors"), layout, 16)
        said = h.run([h.HEDDLE, "compile", self.model, "--seq", seq, "--dry-run",
                      "--attention-layout", file]).stderr
        self.assertEqual(said.count("warning: H0143: some queries attend to no key"), 1)

    def refused(self, seq, *flags, **more):
        file = self.path("refused.json")
        with open(file, "w") as stream:
            json.dump(more, stream)
        return h.run([h.HEDDLE, "compile", self.model, "--batch", ROWS, "--seq", seq,
                      "-o", self.path("none"), "--config", file, *flags],
                     status=2).stderr

    def test_refuses(self):
        seq = 64
        self.make_gpt2(seq)
        whole = write_layout(self.path("whole.safetensors"), np.ones((HEADS, 4, 4)), 16)
        for flags, error in [
                (["--attention-layout", whole], "error[H0143]: a layout lets queries"),
                (["--attention-layout", "h.9=" + whole],
                 "error[H0143]: --attention-layout h.9="),
        ]:
            with self.subTest(error):
                self.assertIn(error, self.refused(seq, *flags))
        self.assertIn("error[H0143]", self.refused(
            seq, sparse_attention={"mode": "fixed"}))


if __name__ == "__main__":
    unittest.main()
