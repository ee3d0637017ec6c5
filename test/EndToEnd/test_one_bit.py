#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""1-bit Adam against its algorithm in double precision. Each step is computed from the
checkpoint before it, with the gradients of each rank's own rows, and compared with the
checkpoint after it: signs of small numbers may differ in fp32, and a run that goes on
from another sign soon has other losses."""

import json
import os
import sys
import types
import unittest

import numpy as np

import deepspeed_sources
import heddle_test as h
import test_traffic

ORACLES = os.path.join(h.ROOT, "test", "Oracles")
sys.path.insert(0, ORACLES)

SEQ, VOCAB, CLIP, DECAY, EPS, RATE = 16, 97, 0.8, 0.1, 1e-5, 3e-3
BETAS = (0.9, 0.99)
MODEL = dict(vocab=VOCAB, positions=SEQ + 8, embed=40, layers=2, heads=4)
ROWS = 2  # Of each rank.
# A number this small beside the scale may get another sign in fp32.
UNSURE = 1e-4


def config_of(freeze, **params):
    return {"optimizer": {"type": "OneBitAdam", "params": {
        "lr": RATE, "betas": BETAS, "eps": EPS, "weight_decay": DECAY,
        "freeze_step": freeze, **params}}, "gradient_clipping": CLIP}


def up_to(value, unit):
    return -(-value // unit) * unit


def compress(x):
    """Signs times the scale, and where a sign is not sure in fp32."""
    scale = np.linalg.norm(x) / np.sqrt(max(x.size, 1))
    return np.where(x >= 0, scale, -scale), np.abs(x) < UNSURE * scale


def parts_of(name, shape, tensor):
    """The flat indices of what each tensor rank holds of a parameter."""
    every = np.arange(np.prod(shape)).reshape(shape)
    if "c_attn" in name:
        axis, segments = -1, 3
    elif "c_fc" in name:
        axis, segments = -1, 1
    elif name == "wte.weight" or name.endswith("c_proj.weight"):
        axis, segments = 0, 1
    else:
        axis = None
    if tensor == 1 or axis is None:
        return [every.reshape(-1)]
    cut = [np.split(segment, tensor, axis) for segment in np.split(every, segments, axis)]
    return [np.concatenate(mine, axis).reshape(-1) for mine in zip(*cut)]


class State:
    """What a checkpoint has of each tensor, flat; errors by rank. `held` has those of
    each tensor rank, for what it holds of a tensor that `tensor` splits. Tensors of
    `least` elements and more are compressed; none: of 8 ranks^2."""

    def __init__(self, folder, step, names, ranks, tensor=1, least=None):
        folder = os.path.join(folder, f"step-{step:06d}")
        weights = h.read_safetensors(os.path.join(folder, "model.safetensors"))
        kept = h.read_safetensors(os.path.join(folder, "heddle",
                                               "optimizer.safetensors"))
        self.weights = {name: weights["transformer." + name] for name in names}

        def moments(what):
            return {name: kept[f"{what}.transformer.{name}"].astype(float).reshape(-1)
                    for name in names}
        self.m, self.v = moments("exp_avg"), moments("exp_avg_sq")
        self.parts = {name: parts_of(name, value.shape, tensor)
                      for name, value in self.weights.items()}
        self.held = [types.SimpleNamespace(worker={}, server={}) for _ in range(tensor)]
        self.worker, self.server = self.held[0].worker, self.held[0].server
        for what in ("", "tensor."):
            self.read_errors(kept, f"decay.{what}compressed",
                             [name for name, parts in self.parts.items()
                              if (len(parts) > 1) == bool(what)
                              and parts[0].size >= (least or 8 * ranks ** 2)], ranks)

    def read_errors(self, kept, bucket, names, ranks):
        if not names or "worker_error." + bucket not in kept:
            return
        count = len(self.parts[names[0]])
        worker = kept["worker_error." + bucket].astype(float).reshape(count, ranks, -1)
        server = kept["server_error." + bucket].astype(float).reshape(count, ranks, -1)
        begin = offset = 0
        for name in names:
            size = self.parts[name][0].size
            chunk = up_to(size, 64 * ranks) // ranks
            for number, held in enumerate(self.held[:count]):
                held.worker[name] = worker[number, :, begin:begin + size]
                held.server[name] = server[number, :, offset:offset + chunk].reshape(
                    -1)[:size]
            begin += up_to(size, 64)
            offset += chunk


class OneBit(h.HeddleTest):
    def train_saved(self, ranks, steps, freeze, *flags, config=None, tensor=1, **model):
        self.rows = ROWS * ranks
        self.model, self.config, self.weights = self.make_model(**{**MODEL, **model})
        self.data, self.tokens = self.make_tokens(self.rows * SEQ * steps + 1,
                                                  self.config["vocab_size"])
        self.binary = self.compile(
            self.model, "--batch", self.rows, "--seq", SEQ, "--mesh",
            f"data={ranks}" + f",tensor={tensor}" * (tensor > 1), "--threads", 1, *flags,
            config=config or config_of(freeze))
        out = self.path("-".join(map(str, ("out", ranks, tensor, *flags))))
        return out, self.train(self.binary, self.data, steps, "--save", out,
                               "--save-every", 1, ranks=ranks * tensor)

    def gradients(self, weights, step):
        """The loss, and the gradients of each rank's rows, flat. `weights` are those that
        each rank computes with."""
        import oracle

        ids, labels = h.batch(self.tokens, step - 1, self.rows, SEQ)
        losses, grads = [], []
        for rank, mine in enumerate(weights):
            model = oracle.Gpt2(self.config, {name: value.astype(float)
                                              for name, value in mine.items()})
            own = slice(rank * ROWS, (rank + 1) * ROWS)
            loss, _, named = model.gradients(ids[own], labels[own])
            losses.append(loss)
            grads.append({name: grad.reshape(-1) for name, grad in named.items()})
        return np.mean(losses), grads

    def check_dense(self, before, after, grads):
        mean = {name: np.mean([own[name] for own in grads], axis=0) for name in grads[0]}
        norm = np.sqrt(sum((grad ** 2).sum() for grad in mean.values()))
        clip = min(1.0, CLIP / (norm + 1e-6))
        for name, grad in mean.items():
            m = BETAS[0] * before.m[name] + (1 - BETAS[0]) * clip * grad
            v = BETAS[1] * before.v[name] + (1 - BETAS[1]) * (clip * grad) ** 2
            self.assert_close(after.m[name], m, 2e-5, name)
            self.assert_close(after.v[name], v, 2e-5, name)
        return norm

    def check_average(self, name, made, before, after, found, exact=2e-6):
        """The mean `found` of what the ranks have `made`, and the new errors. `before` has
        the errors that are added. Returns how many signs are not sure."""
        ranks = len(made)
        sums = [own + error for own, error in zip(made, before.worker[name])]
        sent, unsure = zip(*map(compress, sums))
        y = np.mean(sent, axis=0) + before.server[name]
        chunk = up_to(y.size, 64 * ranks) // ranks
        parts = [compress(y[first:first + chunk])
                 for first in range(0, y.size, chunk)]
        mean = np.concatenate([part for part, _ in parts])
        skip = np.any(unsure, axis=0) | np.concatenate([part for _, part in parts])
        scale = np.abs(mean).max() or 1.0
        sure = ~skip
        # What is nan in `found` is not known.
        known = ~np.isnan(found)

        def close(found, expected, what, scale=scale, sure=sure):
            error = np.abs(found - expected)[sure].max(initial=0) / scale
            self.assertLess(error, 1e-4, f"{name}: {what}")
        # Another sign of a rank changes the scale of the mean, too.
        sure &= np.mean(unsure) < 1e-3
        close(found, mean, "mean", sure=sure & known)
        close(after.server[name], y - mean, "errors of the mean")
        for rank in range(ranks):
            close(after.worker[name][rank], sums[rank] - sent[rank],
                  f"errors of rank {rank}", max(scale, np.abs(sent[rank]).max()))
        # Whatever the signs are: what was to be sent is sent, or kept as errors.
        was = np.mean(sums, axis=0) + before.server[name]
        now = found + np.mean(after.worker[name], axis=0) + after.server[name]
        most = max(np.abs(was).max(), np.abs(after.worker[name]).max(), scale)
        self.assertLess(np.abs(was - now)[known].max(initial=0) / most, exact, name)
        return skip.sum()

    def check_compressed(self, before, after, grads):
        norm = np.sqrt(np.mean([sum((grad ** 2).sum() for grad in own.values())
                                for own in grads]))
        clip = min(1.0, CLIP / (norm + 1e-6))
        skipped = 0
        for name in grads[0]:
            made = [BETAS[0] * before.m[name] + (1 - BETAS[0]) * clip * own[name]
                    for own in grads]
            np.testing.assert_array_equal(after.v[name], before.v[name], name)
            if name not in before.worker:
                self.assert_close(after.m[name], np.mean(made, axis=0), 2e-5, name)
                continue
            for part, *held in zip(before.parts[name], before.held, after.held):
                skipped += self.check_average(name, [own[part] for own in made], *held,
                                              after.m[name][part])
        # Positions after the sequence have no gradient, biases of keys none but for
        # rounding.
        self.assertLess(skipped, 0.02 * sum(grad.size for grad in grads[0].values()))
        return norm

    def weights_of_ranks(self, state, ranks):
        """What each rank computes with from the checkpoint `state` on."""
        return [state.weights] * ranks

    def check_steps(self, log, read, ranks, check):
        """Every step but the first, from the checkpoint before it. `read(step)` gives a
        checkpoint, and `check(step, before, after, grads)` the norm of the gradients."""
        before = read(1)
        for step, line in enumerate(log[1:], 2):
            after = read(step)
            loss, grads = self.gradients(self.weights_of_ranks(before, ranks), step)
            self.assertLessEqual(h.relative(line["loss"], loss), 2e-6, step)
            with self.subTest(step=step, phase=line["phase"]):
                norm = check(step, before, after, grads)
                self.assertLessEqual(h.relative(line["grad_norm"], norm), 1e-5)
            before = after

    def check(self, ranks, steps, freeze, *flags, tensor=1, least=None, **model):
        out, log = self.train_saved(ranks, steps, freeze, *flags, tensor=tensor, **model)
        self.assertEqual(len(log), steps)
        names = list(self.weights)

        def check(step, before, after, grads):
            check = self.check_dense if step <= freeze else self.check_compressed
            norm = check(before, after, grads)
            for name in names:
                p = before.weights[name].astype(float).reshape(-1)
                m = np.where((after.v[name] > 0) | (step <= freeze), after.m[name], 0)
                update = m / (np.sqrt(after.v[name]) + EPS) + DECAY * p
                self.assert_close(after.weights[name].reshape(-1), p - RATE * update,
                                  1e-6, name)
            return norm

        def read(step):
            return State(out, step, names, ranks, tensor, least)
        self.check_steps(log, read, ranks, check)
        return read(steps)

    def test_two_ranks(self):
        self.assertTrue(self.check(2, 12, 5).worker)

    def test_which_tensors_are_compressed(self):
        for least, compressed in ((1, True), (1000, False)):
            last = self.check(2, 5, 3, "--compress-at-least", least, least=least)
            self.assertEqual("ln_f.bias" in last.worker, compressed)
            self.assertIn("wte.weight", last.worker)

    def test_three_ranks(self):
        self.check(3, 8, 4, vocab=101, embed=36)

    def test_tensor_ranks(self):
        """Each sends signs and scales of what it holds."""
        self.check(2, 7, 4, tensor=2, vocab=98)
        self.check(2, 7, 4, "--zero", 2, "--sequence-parallel", tensor=2, vocab=98)
        self.check(2, 7, 4, "--sequence-parallel", tensor=2, vocab=98)

    def test_stages(self):
        """They are as one. Gradients differ in the last bit, and with them the signs of
        numbers that are next to zero."""
        flags = ["--accumulate", 2, "--zero", 1]
        _, one = self.train_saved(2, 7, 4, *flags)
        binary = self.compile(self.model, "--batch", self.rows, "--seq", SEQ, "--mesh",
                              "data=2,pipe=2", "--threads", 1, *flags,
                              config=config_of(4), output="stages")
        out = self.path("stages-out")
        stages = self.train(binary, self.data, 7, "--save", out, "--save-every", 5, ranks=4,
                            name="stages")
        for line, expected in zip(stages, one):
            self.assertLess(h.relative(line["loss"], expected["loss"]), 1e-5)
        folder = os.path.join(out, "step-000005")
        again = self.train(binary, self.data, 7, "--resume", folder, ranks=4, name="again")
        self.assertEqual([line["loss"] for line in again],
                         [line["loss"] for line in stages[5:]])
        other = h.run_ranks(2, [self.binary, "train", "--data", self.data, "--steps", 7,
                                "--resume", folder, "--progress", "none"])
        self.assertIn("warning[H0414]", other.stderr)

    def test_zero(self):
        for stage in (1, 2, 3):
            with self.subTest(stage=stage):
                self.check(2, 7, 4, "--zero", stage)

    def test_resume(self):
        """From a checkpoint of each phase, and from the last dense one, bit for bit."""
        out, log = self.train_saved(2, 8, 4)
        for step in (2, 4, 6):
            folder = os.path.join(out, f"step-{step:06d}")
            again = self.train(self.binary, self.data, 8, "--resume", folder, ranks=2,
                               name=f"again{step}")
            self.assertEqual([line["loss"] for line in again],
                             [line["loss"] for line in log[step:]], step)
        reset = self.train(self.binary, self.data, 8, "--resume", folder,
                           "--reset-error-feedback", ranks=2, name="reset")
        self.assertEqual(reset[0]["loss"], log[6]["loss"])
        said = h.run_ranks(2, [self.binary, "train", "--data", self.data, "--steps", 9,
                               "--resume", folder, "--reset-optimizer"], 3)
        self.assertIn("error[H0335]", said.stderr)
        self.assertNotEqual(reset[1]["loss"], log[7]["loss"])

    def test_other_ranks(self):
        """Another mesh begins with errors of zero and says so; AdamW's checkpoint goes on
        in the compressed phase, and OneBitAdam's in AdamW."""
        out, _ = self.train_saved(2, 6, 4)
        folder = os.path.join(out, "step-000006")
        four = self.compile(self.model, "--batch", 4, "--seq", SEQ, "--mesh", "data=4",
                            "--threads", 1, config=config_of(4), output="four")
        said = h.run_ranks(4, [four, "train", "--data", self.data, "--steps", 8,
                               "--resume", folder, "--save", self.path("four-out")])
        self.assertIn("warning[H0414]", said.stderr)
        dense = config_of(4)
        dense["optimizer"]["type"] = "AdamW"
        del dense["optimizer"]["params"]["freeze_step"]
        adamw = self.compile(self.model, "--batch", 4, "--seq", SEQ, "--mesh", "data=2",
                             "--threads", 1, config=dense, output="adamw")
        self.train(adamw, self.data, 8, "--resume", folder, "--save",
                   self.path("adamw-out"), ranks=2, name="adamw")
        self.train(self.binary, self.data, 10, "--resume", self.path("adamw-out"),
                   ranks=2, name="back")


@h.needs_torch
@h.needs_mpi
class Recorded(h.HeddleTest):
    """Beside DeepSpeed's own classes, on tensors that neither pads."""

    def check(self, name, steps=None, limit=5e-5):
        import record_one_bit as r

        with open(r.RECORD) as file:
            recorded = json.load(file)[name][:steps]
        config, weights, tokens = r.make_inputs()
        h.write_model(self.path("model"), config, weights, "transformer.")
        h.write_tokens(self.path("tokens.bin"), tokens)
        binary = self.compile(
            self.path("model"), "--batch", r.RANKS * r.ROWS, "--seq", SEQ, "--mesh",
            f"data={r.RANKS}", "--threads", 1, config={
                "gradient_clipping": 0, "optimizer": {
                    "type": name.split("-")[0], "params": {**r.SHARED, **r.RUNS[name]}}})
        log = self.train(binary, self.path("tokens.bin"), steps or r.STEPS, ranks=r.RANKS)
        self.assertEqual(len(log), len(recorded))
        for step, (line, loss) in enumerate(zip(log, recorded), 1):
            most = 5e-6 if step <= r.DENSE + 1 else limit
            self.assertLess(h.relative(line["loss"], loss), most, step)

    def test_one_bit_adam(self):
        self.check("OneBitAdam")

    def test_zero_one_adam(self):
        """18 updates before the second moment is frozen, and 4 that all synchronize."""
        self.check("ZeroOneAdam", steps=22)

    def test_zero_one_adam_local(self):
        """7 updates before the second moment is frozen, and 21 that synchronize more and
        more seldom: 13 are local. Later a sign that differs is seen in the losses."""
        self.check("ZeroOneAdam-local", steps=28)

    def test_one_bit_lamb(self):
        self.check("OneBitLamb", limit=1e-4)

    @h.long_only
    def test_record_is_of_the_classes(self):
        place = deepspeed_sources.find(self, ["0.19.6"])[0]
        h.run([sys.executable, os.path.join(ORACLES, "record_one_bit.py"), place, "--check"])


@h.needs_mpi
@unittest.skipUnless(os.path.exists(test_traffic.INTERPOSER), "the interposer is not built")
class Sent(h.HeddleTest):
    count = test_traffic.Traffic.count

    def check(self, ranks, *flags):
        model, _, weights = self.make_model(**MODEL)
        data, _ = self.make_tokens(4 * SEQ * 3 + 1, VOCAB)
        binary = self.compile(model, "--batch", 4, "--seq", SEQ, "--mesh",
                              f"data={ranks}", "--threads", 1, *flags, config=config_of(1))
        one, _, _ = self.count(ranks, binary, data, 1)
        three, _, end = self.count(ranks, binary, data, 3)
        explained = self.explain(binary)
        phases = {one["phase"]: one for one in explained["programs"] if "phase" in one}
        self.assertEqual([phases[name]["from_update"] for name in ("dense", "compressed")],
                         [1, 2])
        cluster = os.path.join(h.ROOT, "examples/clusters/1gbe.json")
        times = [sum(line["seconds"] for line in one["communication"])
                 for one in self.explain(binary, "--cluster", cluster)["programs"]
                 if "phase" in one]
        self.assertGreater(times[0], 0)
        sent = {name: {(line["axis"], line["kind"]): line["bytes_sent"]
                       for line in phase["communication"] if line["bytes_sent"]}
                for name, phase in phases.items()}
        self.assertEqual(dict(one[0]), sent["dense"])
        self.assertEqual({key: size for key, size in (three[0] - one[0]).items()},
                         {key: 2 * size for key, size in sent["compressed"].items()})
        self.assertEqual(end["peak_bytes"]["ranks"][0], explained["memory"]["peak"])
        # One bit for each element there and one back, and the scales.
        sizes = [value.size for value in weights.values()
                 if value.size >= 8 * ranks ** 2]
        chunks = sum(up_to(size, 64 * ranks) // ranks for size in sizes)
        scales = 4 * (ranks - 1) * len(sizes)
        self.assertEqual(sent["compressed"]["data", "all_to_all"],
                         (ranks - 1) * chunks // 8)
        if "--zero" not in flags:  # With it, updated parameters are gathered, too.
            self.assertEqual(sent["compressed"]["data", "all_gather"],
                             (ranks - 1) * chunks // 8 + 2 * scales)

    def test_two_ranks(self):
        self.check(2)

    def test_four_ranks(self):
        self.check(4)
        self.check(4, "--zero", 2)

    @unittest.skipUnless(h.LONG, "compiles a model of 124 million parameters")
    def test_many_elements(self):
        """Beside what the same step would send of gradients in bf16 and fp32."""
        with open(self.path("config.json"), "w") as file:
            json.dump(h.gpt2_config(vocab=50257, positions=1024, embed=768, layers=12,
                                    heads=12), file)
        binary = self.compile(self.path("config.json"), "--init", "random", "--batch", 8,
                              "--seq", 64, "--mesh", "data=8", config=config_of(1))
        phases = [one for one in self.explain(binary)["programs"] if "phase" in one]
        dense, compressed = [sum(line["bytes_sent"] for line in one["communication"])
                             for one in phases]
        self.assertGreater(dense / compressed, 31)
        self.assertGreater(dense / 2 / compressed, 15.5)


if __name__ == "__main__":
    unittest.main()
