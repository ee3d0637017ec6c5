#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""1-bit LAMB against its algorithm in double precision, a step at a time from the
checkpoint before it, as test_one_bit.py does for 1-bit Adam. A sign that is not sure in
fp32 is taken from what was kept of it, so that the scales that all tensors share are
known."""

import os
import unittest

import numpy as np

import heddle_test as h
import test_one_bit as adam
import test_traffic
from test_one_bit import CLIP, DECAY, EPS, RATE, SEQ, UNSURE, up_to

# With these the factors of some steps reach the limits, and those of others do not.
BETAS = (0.9, 0.9)
LEAST, MOST = 0.03, 8.0
COEFF_BETA, FACTOR_MIN, FACTOR_MAX, THRESHOLD = 0.7, 0.93, 1.1, 0.03


def config_of(freeze, **params):
    return {"optimizer": {"type": "OneBitLamb", "params": {
        "lr": RATE, "betas": BETAS, "eps": EPS, "weight_decay": DECAY, "freeze_step": freeze,
        "min_coeff": LEAST, "max_coeff": MOST, "coeff_beta": COEFF_BETA,
        "factor_min": FACTOR_MIN, "factor_max": FACTOR_MAX, "factor_threshold": THRESHOLD,
        "bias_correction": True, "max_grad_norm": 0.0, **params}},
        "gradient_clipping": CLIP}


class State:
    """What a checkpoint has of each tensor, flat; errors by rank. `groups` are the names
    of the tensors of each bucket."""

    def __init__(self, folder, step, groups, ranks):
        folder = os.path.join(folder, f"step-{step:06d}")
        weights = h.read_safetensors(os.path.join(folder, "model.safetensors"))
        kept = h.read_safetensors(os.path.join(folder, "heddle",
                                               "optimizer.safetensors"))
        names = [name for group in groups.values() for name in group]
        self.weights = {name: weights["transformer." + name] for name in names}

        def moments(what):
            return {name: kept[f"{what}.transformer.{name}"].astype(float).reshape(-1)
                    for name in names}

        def numbers(what):
            return {name: float(kept[f"{what}.{name}"]) for name in names}
        self.m, self.v = moments("exp_avg"), moments("exp_avg_sq")
        self.fresh = moments("exp_avg_sq_fresh")
        self.coefficient, self.last = numbers("lamb_coeff_freeze"), numbers("last_factor")
        self.scale = numbers("momentum_scale")
        self.worker, self.server = {}, {}
        for bucket, members in groups.items():
            if f"worker_error.{bucket}" not in kept:  # Before the compressed phase.
                continue
            worker, server = [kept[f"{what}_error.{bucket}"].astype(float).reshape(ranks, -1)
                              for what in ("worker", "server")]
            begin = offset = 0
            for name in members:
                count = self.m[name].size
                chunk = up_to(count, 64 * ranks) // ranks
                self.worker[name] = worker[:, begin:begin + count]
                self.server[name] = server[:, offset:offset + chunk].reshape(-1)[:count]
                begin += up_to(count, 64)
                offset += chunk


def rms(parts):
    """The root of the mean square of all elements of `parts`."""
    count = sum(part.size for part in parts)
    return np.sqrt(sum((part ** 2).sum() for part in parts) / max(count, 1))


class OneBitLamb(h.HeddleTest):
    train_saved = adam.OneBit.train_saved
    gradients = adam.OneBit.gradients
    weights_of_ranks = adam.OneBit.weights_of_ranks
    check_steps = adam.OneBit.check_steps

    def signs(self, x, kept, scale, name):
        """Of which sign each element was sent: what x was, less what was kept. Where the
        sign is sure, it is that of x."""
        sent = np.where(x - kept >= 0, 1.0, -1.0)
        sure = np.abs(x) > UNSURE * scale
        self.total += x.size
        self.unsure += x.size - sure.sum()
        np.testing.assert_array_equal(sent[sure], np.where(x >= 0, 1.0, -1.0)[sure], name)
        return sent

    def close(self, actual, expected, tolerance, what):
        """Close beside the largest of them."""
        most = max(np.abs(expected).max(initial=0), 1e-30)
        self.assertLessEqual(np.abs(actual - expected).max(initial=0) / most, tolerance, what)

    def check_dense(self, before, after, grads):
        mean = {name: np.mean([own[name] for own in grads], axis=0) for name in grads[0]}
        norm = rms(list(mean.values())) * np.sqrt(sum(g.size for g in mean.values()))
        clip = min(1.0, CLIP / (norm + 1e-6))
        for name, grad in mean.items():
            m = BETAS[0] * before.m[name] + (1 - BETAS[0]) * clip * grad
            v = BETAS[1] * before.v[name] + (1 - BETAS[1]) * (clip * grad) ** 2
            self.assert_close(after.m[name], m, 2e-5, name)
            self.assert_close(after.v[name], v, 2e-5, name)
            np.testing.assert_array_equal(after.fresh[name], after.v[name], name)
            p = before.weights[name].astype(float).reshape(-1)
            u = m / (np.sqrt(v) + EPS) + self.decay[name] * p
            coefficient = 1.0
            if np.linalg.norm(p) > 0 and np.linalg.norm(u) > 0:
                coefficient = np.clip(np.linalg.norm(p) / np.linalg.norm(u), LEAST, MOST)
            frozen = before.coefficient[name]
            if coefficient != 1.0:
                frozen = COEFF_BETA * frozen + (1 - COEFF_BETA) * coefficient
            self.assertLessEqual(h.relative(after.coefficient[name], frozen), 2e-5, name)
            self.assertEqual((after.scale[name], after.last[name]), (0, 1), name)
            self.assert_close(after.weights[name].reshape(-1), p - RATE * coefficient * u,
                              2e-6, name)
        return norm

    def averaged(self, before, after, made, names):
        """The mean of what the ranks have made, as signs with one scale of each rank, and
        one of each chunk of all tensors."""
        ranks = len(made)
        if ranks == 1:  # Nothing is sent.
            return made[0]
        y = {name: before.server[name] for name in names}
        for rank, own in enumerate(made):
            x = {name: own[name] + before.worker[name][rank] for name in names}
            scale = rms(list(x.values()))
            for name in names:
                kept = after.worker[name][rank]
                sent = scale * self.signs(x[name], kept, scale, name)
                y[name] = y[name] + sent / ranks
                self.close(kept, x[name] - sent, 2e-5, f"{name}: errors of rank {rank}")

        def chunks(values):
            size = {name: up_to(values[name].size, 64 * ranks) // ranks for name in names}
            return [{name: values[name][rank * size[name]:(rank + 1) * size[name]]
                     for name in names} for rank in range(ranks)]
        mean = {name: [] for name in names}
        for own, kept in zip(chunks(y), chunks(after.server)):
            scale = rms(list(own.values()))
            for name in names:
                sent = scale * self.signs(own[name], kept[name], scale, name)
                mean[name].append(sent)
                self.close(kept[name], own[name] - sent, 2e-5, f"{name}: errors of the mean")
        return {name: np.concatenate(parts) for name, parts in mean.items()}

    def factor_of(self, before, name, ratio, step, update):
        factor = ratio.max()
        if self.decay[name] > 0:
            share = min(1.0, np.linalg.norm(step) / np.linalg.norm(update))
            factor = factor * share + 1 - share
        factor = min(max(factor, FACTOR_MIN), FACTOR_MAX)
        last = before.last[name]
        return min(max(factor, last * (1 - THRESHOLD)), last * (1 + THRESHOLD))

    def check_compressed(self, before, after, grads):
        names = list(grads[0])
        norm = np.sqrt(np.mean([sum((grad ** 2).sum() for grad in own.values())
                                for own in grads]))
        clip = min(1.0, CLIP / (norm + 1e-6))
        scale = {name: before.scale[name] or rms([before.m[name]]) for name in names}
        for name in names:
            self.assertLessEqual(h.relative(after.scale[name], scale[name]), 1e-6, name)
        made = [{name: (BETAS[0] * before.m[name] + (1 - BETAS[0]) * clip * own[name]) /
                 scale[name] for name in names} for own in grads]
        if not before.worker:  # The first compressed step.
            before.worker = {name: np.zeros((len(grads), made[0][name].size))
                             for name in names}
            before.server = {name: np.zeros(made[0][name].size) for name in names}
        mean = self.averaged(before, after, made, names)
        for name in names:
            self.close(after.m[name], mean[name] * scale[name], 2e-5, name)
            np.testing.assert_array_equal(after.v[name], before.v[name], name)
            self.assertEqual(after.coefficient[name], before.coefficient[name], name)
            trained = before.v[name] > 0
            m = np.where(trained, mean[name] * scale[name], 0)
            g = np.where(trained, (m - BETAS[0] * before.m[name]) / (1 - BETAS[0]), 0)
            fresh = BETAS[1] * before.fresh[name] + (1 - BETAS[1]) * g ** 2
            self.close(after.fresh[name], fresh, 2e-4, name)
            root = np.sqrt(before.v[name]) + EPS
            p = before.weights[name].astype(float).reshape(-1)
            step = m / root
            update = step + self.decay[name] * p
            factor = self.factor_of(before, name, root / (np.sqrt(fresh) + EPS), step, update)
            self.limits.add(round(factor, 6))
            self.assertLessEqual(h.relative(after.last[name], factor), 5e-5, name)
            change = RATE * before.coefficient[name] * factor * update
            self.assert_close(after.weights[name].reshape(-1), p - change, 2e-6, name)
        return norm

    def check(self, ranks, steps, freeze, *flags, groups=None, zero=None, **model):
        config = config_of(freeze)
        if zero is not None:
            config["zero_optimization"] = {"stage": zero,
                                           "stage3_param_persistence_threshold": 0}
        out, log = self.train_saved(ranks, steps, freeze, *flags, config=config, **model)
        names = list(self.weights)
        groups = groups(names) if groups else {"decay.compressed": names}
        self.decay = {name: 0.0 if bucket.startswith("no_decay") else DECAY
                      for bucket, members in groups.items() for name in members}
        self.total = self.unsure = 0
        self.limits = set()
        self.assertEqual(len(log), steps)

        def check(step, *states_and_grads):
            check = self.check_dense if step <= freeze else self.check_compressed
            return check(*states_and_grads)
        self.check_steps(log, lambda step: State(out, step, groups, ranks), ranks, check)
        self.assertLessEqual(self.unsure, 0.02 * self.total)
        return out

    def test_two_ranks(self):
        self.check(2, 12, 5)
        # Steps where a limit or the threshold decides, and others.
        self.assertIn(FACTOR_MAX, self.limits)
        self.assertIn(round(1 + THRESHOLD, 6), self.limits)
        self.assertGreater(len(self.limits), 4)

    @h.long_only
    def test_other_ranks(self):
        self.check(1, 7, 4)
        self.check(3, 8, 4, vocab=101, embed=36)

    def test_zero(self):
        """As without ZeRO, with parameters that do not decay in a bucket of their own."""
        def groups(names):
            return {"decay.compressed": [n for n in names if not n.endswith("bias")],
                    "no_decay.compressed": [n for n in names if n.endswith("bias")]}
        for stage in (0, 1, 2, 3) if h.LONG else (3,):
            with self.subTest(stage=stage):
                self.check(2, 7, 4, "--no-decay", ".*bias", "--zero", stage, zero=stage,
                           groups=groups)

    def test_resume(self):
        """From a checkpoint of each phase, and from the last dense one, bit for bit."""
        out, log = self.train_saved(2, 8, 4, config=config_of(4))
        for step in (2, 4, 6):
            folder = os.path.join(out, f"step-{step:06d}")
            again = self.train(self.binary, self.data, 8, "--resume", folder, ranks=2,
                               name=f"again{step}")
            self.assertEqual([line["loss"] for line in again],
                             [line["loss"] for line in log[step:]], step)
        # Other buckets have the same numbers, but other errors.
        other = self.compile(self.model, "--batch", 4, "--seq", SEQ, "--mesh", "data=2",
                             "--threads", 1, "--zero", 3, "--no-decay", ".*bias",
                             config=config_of(4), output="other")
        said = h.run_ranks(2, [other, "train", "--data", self.data, "--steps", 7, "--resume",
                               folder, "--save", self.path("other-out")])
        self.assertIn("warning[H0414]", said.stderr)
        names = list(self.weights)
        before, after = State(out, 6, {"none": names}, 2), State(
            self.path("other-out"), 7, {"none": names}, 2)
        self.assertEqual(after.scale, before.scale)
        self.assertEqual(after.coefficient, before.coefficient)
        dense = config_of(4)
        dense["optimizer"] = {"type": "Lamb", "params": {"lr": RATE}}
        lamb = self.compile(self.model, "--batch", 4, "--seq", SEQ, "--mesh", "data=2",
                            "--threads", 1, config=dense, output="lamb")
        self.train(lamb, self.data, 5, "--save", self.path("lamb-out"), ranks=2, name="lamb")
        for flags, text in ((["--resume", self.path("lamb-out")],
                             "has no state 'exp_avg_sq_fresh."),
                            (["--resume", folder, "--reset-optimizer"], "second moment")):
            said = h.run_ranks(2, [self.binary, "train", "--data", self.data, "--steps", 9,
                                   *flags], 3)
            self.assertIn("error[H0335]", said.stderr)
            self.assertIn(text, said.stderr)


@h.needs_mpi
@unittest.skipUnless(os.path.exists(test_traffic.INTERPOSER), "the interposer is not built")
class Sent(h.HeddleTest):
    count = test_traffic.Traffic.count

    def check(self, ranks, *flags):
        model, _, weights = self.make_model(**adam.MODEL)
        data, _ = self.make_tokens(4 * SEQ * 3 + 1, adam.VOCAB)
        binary = self.compile(model, "--batch", 4, "--seq", SEQ, "--mesh",
                              f"data={ranks}", "--threads", 1, *flags, config=config_of(1))
        one, _, _ = self.count(ranks, binary, data, 1)
        three, _, end = self.count(ranks, binary, data, 3)
        explained = self.explain(binary)
        sent = {one["phase"]: {(line["axis"], line["kind"]): line["bytes_sent"]
                               for line in one["communication"] if line["bytes_sent"]}
                for one in explained["programs"] if "phase" in one}
        self.assertEqual(dict(one[0]), sent["dense"])
        self.assertEqual({key: size for key, size in (three[0] - one[0]).items()},
                         {key: 2 * size for key, size in sent["compressed"].items()})
        self.assertEqual(end["peak_bytes"]["ranks"][0], explained["memory"]["peak"])
        # One bit for each element there and one back, and two scales of all tensors.
        chunks = sum(up_to(value.size, 64 * ranks) // ranks for value in weights.values())
        self.assertEqual(sent["compressed"]["data", "all_to_all"],
                         (ranks - 1) * chunks // 8)
        if "--zero" not in flags:  # With it, updated parameters are gathered, too.
            self.assertEqual(sent["compressed"]["data", "all_gather"],
                             (ranks - 1) * (chunks // 8 + 2 * 4))

    def test_ranks(self):
        self.check(4)
        if h.LONG:
            self.check(2)
            self.check(4, "--zero", 2)


if __name__ == "__main__":
    unittest.main()
