#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer dropping: 20 steps have the losses, norms and weights of PyTorch code that is
written from the paper (dropping.py) and drops the same layers; a resumed run drops the
layers of the run that was not interrupted."""

import json
import math
import os
import unittest

import numpy as np

import heddle_test as h
import test_bert

ROWS, SEQ, STEPS, CLIP, LAYERS, VOCAB, DECAY = 4, 16, 20, 0.8, 5, 97, 0.1
THETA, GAMMA = 0.4, 0.1
PROGRESSIVE = {"progressive_layer_drop": {"enabled": True, "theta": THETA,
                                          "gamma": GAMMA}}
RATES = [0.0, 0.3, 0.5, 0.7, 0.9]
MODEL = dict(vocab=VOCAB, positions=SEQ, embed=32, layers=LAYERS, heads=4)
# Several micro-batches drop the same layers, and layers that are computed again too.
MICRO_BATCHES = ["--accumulate", 2, "--recompute", "selective"]

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



def without_keys(name, bias):
    """A tensor without the biases of keys. Softmax takes them away, so their gradients
    are rounding, of which Lion takes the signs."""
    if name.endswith("c_attn.bias"):
        return np.delete(bias.reshape(3, -1), 1, 0)
    return bias[:0] if name.endswith("key.bias") else bias


def kept_layers(test, binary, data, steps, *flags):
    """What --print-kept-layers says: the layers of each step, and the log."""
    log = test.path(f"log-{len(os.listdir(test.folder))}.jsonl")
    said = h.run([binary, "train", *h.batches_of(data), "--steps", steps,
                  "--print-kept-layers", steps, "--log", log, "--progress", "none",
                  *flags]).stdout
    layers = {}
    for line in said.splitlines():
        step, rest = line.removeprefix("step ").split(":")
        layers[int(step)] = [int(layer) for layer in rest.split()]
    return layers, h.read_log(log)


class LayerDropTest(h.HeddleTest):
    def setUp(self):
        self.model, self.config, self.weights = self.make_model(**MODEL)
        self.data, self.tokens = self.make_tokens(STEPS * ROWS * SEQ + 1, VOCAB)

    def build(self, *flags, model=None, output="job", optimizer="AdamW", **more):
        import test_optimizers
        config = dict(test_optimizers.config_of(optimizer), gradient_clipping=CLIP,
                      **more)
        return self.compile(model or self.model, "--batch", ROWS, "--seq", SEQ,
                            "--threads", 1, *flags, output=output, config=config)

    def kept(self, binary, steps, *flags, data=None):
        return kept_layers(self, binary, data or self.data, steps, *flags)


@h.needs_torch
class AgainstPyTorch(LayerDropTest):
    """Each family with both optimizers, progressively and at constant rates."""

    def check(self, oracle_of, model, batches, data, prefix=""):
        """`oracle_of` makes the model in PyTorch, with its first weights."""
        for optimizer in ("AdamW", "Lion"):
            for is_progressive in (True, False):
                with self.subTest(optimizer=optimizer, is_progressive=is_progressive):
                    self.check_form(oracle_of(), model, batches, data, prefix, optimizer,
                                    is_progressive)

    def check_form(self, oracle, model, batches, data, prefix, optimizer, is_progressive,
                   *groups):
        import dropping
        import test_optimizers

        flags, more = [], PROGRESSIVE
        if not is_progressive:
            flags, more = [*MICRO_BATCHES, "--layer-drop-schedule",
                           ",".join(map(str, RATES))], {}
        binary = self.build(*flags, *groups, model=model, optimizer=optimizer, **more)
        kept, steps = self.kept(binary, STEPS, "--save", self.path("out"), "--overwrite",
                                data=data)
        self.assertGreater(sum(len(layers) < LAYERS for layers in kept.values()), 5)

        def scale(step, layer):
            return 1 / (dropping.keep_probability(step, layer + 1, LAYERS, THETA, GAMMA)
                        if is_progressive else 1 - RATES[layer])

        losses, norms = dropping.train(
            oracle, batches, kept, scale, CLIP, dropping.OPTIMIZERS[optimizer](
                oracle.parameters(), test_optimizers.RATES[optimizer], DECAY))
        np.testing.assert_allclose([step["loss"] for step in steps], losses, rtol=1e-5)
        np.testing.assert_allclose([step["grad_norm"] for step in steps], norms, rtol=1e-5)
        saved = h.read_saved(self.path("out"))
        for name, value in oracle.arrays().items():
            found, value = (without_keys(name, x) for x in (saved[prefix + name], value))
            self.assertLess(h.relative(found, value), 1e-5, name)
        self.assertEqual([kept[step["step"]] for step in steps],
                         [step["kept_layers"] for step in steps])

    def test_gpt2(self):
        import dropping
        batches = [h.batch(self.tokens, step, ROWS, SEQ) for step in range(STEPS)]
        self.check(lambda: dropping.Gpt2(self.config, self.weights), self.model, batches,
                   self.data, prefix="transformer.")

    def test_frozen_layers(self):
        """Layers that are not trained are dropped as others."""
        import dropping
        batches = [h.batch(self.tokens, step, ROWS, SEQ) for step in range(STEPS)]
        # No gradient is needed of the first layers, or of one between others.
        for frozen in (("wte", "wpe", "h.0.", "h.1."), ("h.3.",)):
            model = dropping.Gpt2(self.config, self.weights)
            model.freeze(frozen)
            groups = [word for name in frozen
                      for word in ("--group", name.replace(".", r"\.") + ":frozen")]
            with self.subTest(frozen):
                self.check_form(model, self.model, batches, self.data, "transformer.",
                                "AdamW", False, *groups)

    def test_bert(self):
        """Masked tokens, rows of unequal lengths, and segments."""
        import dropping
        # transformers gives the row of padding no gradient.
        config = dict(test_bert.CONFIG, num_hidden_layers=LAYERS, pad_token_id=None,
                      hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        weights = test_bert.random_weights(config)
        h.write_model(self.path("bert"), config, weights, prefix="")
        rows, data = test_bert.make_inputs(ROWS, STEPS, SEQ), self.path("rows.safetensors")
        h.write_safetensors(data, rows)
        batches = [[rows[name][step * ROWS:][:ROWS]
                    for name in ("ids", "labels", "segments", "lengths")]
                   for step in range(STEPS)]
        self.check(lambda: dropping.Bert(config, weights), self.path("bert"), batches, data)

    def test_llama(self):
        """Groups of queries that share a key, and gated MLPs."""
        import dropping
        import families
        config = families.config(num_hidden_layers=LAYERS)
        weights = families.random_weights(config)
        h.write_model(self.path("llama"), config, weights, prefix="")
        batches = [h.batch(self.tokens, step, ROWS, SEQ) for step in range(STEPS)]
        self.check(lambda: dropping.Llama(config, weights), self.path("llama"), batches,
                   self.data)


class LayerDrop(LayerDropTest):
    def test_theta(self):
        """The log has the theta of the paper, of which the first step's is 1, and of
        DeepSpeed's class if that is installed."""
        binary = self.build(**PROGRESSIVE)
        kept, steps = self.kept(binary, STEPS)
        found = [step["theta"] for step in steps]
        self.assertEqual((found[0], kept[1]), (1, list(range(LAYERS))))
        np.testing.assert_allclose(found, [(1 - THETA) * math.exp(-GAMMA * step) + THETA
                                           for step in range(STEPS)], rtol=1e-8)
        try:
            from deepspeed.runtime.progressive_layer_drop import ProgressiveLayerDrop
        except ImportError:
            return
        drop = ProgressiveLayerDrop(THETA, GAMMA)
        for step, value in enumerate(found):
            drop.update_state(step)
            np.testing.assert_allclose(value, drop.get_theta(), rtol=1e-8)

    def test_constant_rates_have_no_theta(self):
        binary = self.build("--layer-drop-schedule", ",".join(map(str, RATES)))
        kept, steps = self.kept(binary, STEPS)
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

    def test_evaluations_use_all_layers(self):
        dropping = self.build(*MICRO_BATCHES, "--layer-drop-schedule", "0.9")
        plain = self.build(*MICRO_BATCHES, output="plain")
        for command in (["eval", "--data", self.data, "--json"],
                        ["generate", "--prompt-ids", "1,2,3", "--max-new-tokens", 9]):
            said = [h.run([binary, *command]).stdout for binary in (dropping, plain)]
            self.assertEqual(*said)

    def test_a_binary_that_drops_nothing_prints_no_layers(self):
        binary = self.build()
        said = h.run([binary, "train", "--data", self.data, "--steps", 1,
                      "--print-kept-layers", 1], status=2).stderr
        self.assertIn("error[H0179]: --print-kept-layers 1: this binary drops no layers",
                      said)
        self.assertNotIn("layer_drop", self.explain(binary))

    def test_info(self):
        for flags, text, data in (
                (["--layer-drop", "theta=0.5,gamma=0.25"],
                 "drops        layers progressively, theta 0.5, gamma 0.25\n",
                 {"theta": 0.5, "gamma": 0.25}),
                (["--layer-drop-schedule", ",".join(map(str, RATES))],
                 "drops        layers with the probabilities 0, 0.3, 0.5, 0.7, 0.9\n",
                 {"rates": RATES})):
            binary = self.build(*flags)
            self.assertIn(text, h.run([binary, "info"]).stdout)
            said = json.loads(h.run([binary, "info", "--json"]).stdout)
            self.assertEqual(said["layer_drop"], data)

    def check_explained(self, kept, *flags):
        """`heddle explain` gives a step that keeps so many layers on average the cost on
        the line between those of steps that drop all layers and that drop none. Every
        layer costs the same."""
        binary = self.build(*flags)
        plan = self.explain(binary)
        drop = plan["layer_drop"]
        self.assertEqual(drop["all_kept"]["flops"], plan["flops_per_step"])
        self.assertEqual(drop["all_kept"]["bytes_sent"],
                         sum(each["bytes_sent"] for each in plan["communication"]))
        self.assertEqual(drop["all_kept"]["bytes_moved"],
                         sum(each["bytes"] for each in plan["moves"]))
        for name, layers in dict(kept, all_kept=LAYERS, all_dropped=0).items():
            self.assertAlmostEqual(drop[name]["layers"], layers, places=6)
            for key in ("flops", "bytes_sent", "bytes_moved"):
                whole, rest = drop["all_kept"][key], drop["all_dropped"][key]
                np.testing.assert_allclose(
                    drop[name][key], rest + (whole - rest) * layers / LAYERS, rtol=1e-6)
        return binary, drop

    def test_explain(self):
        limit = sum(1 - layer / LAYERS * (1 - 0.4) for layer in range(1, LAYERS + 1))
        constant = sum(1 - rate for rate in RATES)
        cluster = os.path.join(h.ROOT, "examples/clusters/cpu-2x.json")
        binary, drop = self.check_explained(
            {"expected_first": LAYERS, "expected_limit": limit},
            "--layer-drop", "theta=0.4,gamma=0.1", "--mesh", "tensor=2")
        self.assertGreater(drop["all_kept"]["bytes_sent"], drop["all_dropped"]["bytes_sent"])
        self.assertNotIn("seconds", drop["all_kept"])
        timed = self.explain(binary, "--cluster", cluster)["layer_drop"]
        seconds = {name: step["seconds"] for name, step in timed.items()}
        self.assertEqual(seconds["expected_first"], seconds["all_kept"])
        span = seconds["all_kept"] - seconds["all_dropped"]
        self.assertGreater(span, 0)
        # The mean of draws is near the expectation.
        self.assertAlmostEqual((seconds["expected_limit"] - seconds["all_dropped"]) / span,
                               limit / LAYERS, delta=0.1)
        self.check_explained(
            {"expected_first": constant, "expected_limit": constant},
            "--layer-drop-schedule", ",".join(map(str, RATES)), "--mesh", "data=2,pipe=2",
            "--accumulate", 2, "--pipeline-layout", "2,3")
        _, drop = self.check_explained(
            {"expected_first": LAYERS / 2, "expected_limit": LAYERS / 2},
            "--layer-drop-schedule", 0.5, "--mesh", "data=2", "--zero", 3, "--place",
            "parameters=host,gradients=host")
        for key in ("bytes_sent", "bytes_moved"):
            self.assertLess(drop["all_dropped"][key], drop["all_kept"][key], key)

    def test_every_layer_may_be_dropped(self):
        """A step that drops all layers trains the embedding and the last norm."""
        binary = self.build("--layer-drop-schedule", "0.95")
        kept, steps = self.kept(binary, 20)
        self.assertIn([], kept.values())
        self.assertTrue(all(math.isfinite(step["loss"]) for step in steps))


if __name__ == "__main__":
    unittest.main()
