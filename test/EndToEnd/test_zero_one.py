#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""0/1 Adam against its algorithm in double precision, step by step as in test_one_bit.py,
with the phases that DeepSpeed's counters give."""

import copy
import os
import unittest

import numpy as np

import heddle_test as h
import test_one_bit
import test_traffic
from test_one_bit import BETAS, CLIP, DECAY, EPS, MODEL, RATE, SEQ, VOCAB, State

FROZEN, SCALER = 9, 2


def config_of(freeze=FROZEN, scaler=SCALER, **params):
    return {"optimizer": {"type": "ZeroOneAdam", "params": {
        "lr": RATE, "betas": BETAS, "eps": EPS, "weight_decay": DECAY,
        "var_freeze_step": freeze, "var_update_scaler": scaler, **params}},
        "gradient_clipping": CLIP}


def phases_of(steps, freeze=FROZEN, scaler=SCALER):
    """The phases of steps 1, 2, ...: DeepSpeed's counters, without its dry first step."""
    interval, counter, frozen, phases = 1, 0, False, []
    for step in range(1, steps + 1):
        if frozen:
            phases.append("synchronizing")
            continue
        phases.append("dense" if step % interval == 0 else "compressed")
        if step % interval == 0:
            counter += 1
            if counter == scaler:
                interval, counter = 2 * interval, 0
        frozen = step > freeze
    return phases


class ZeroOne(h.HeddleTest):
    train_saved = test_one_bit.OneBit.train_saved
    gradients = test_one_bit.OneBit.gradients
    check_steps = test_one_bit.OneBit.check_steps
    check_dense = test_one_bit.OneBit.check_dense
    check_average = test_one_bit.OneBit.check_average

    def check_compressed(self, phase, before, after, grads):
        """A step in which ranks send signs of their gradients, or of their steps."""
        norm = np.sqrt(np.mean([sum((grad ** 2).sum() for grad in own.values())
                                for own in grads]))
        clip = min(1.0, CLIP / (norm + 1e-6))
        skipped = 0
        for name in grads[0]:
            m, v = before.m[name], before.v[name]
            p = before.weights[name].astype(float).reshape(-1)
            made = [clip * own[name] for own in grads]
            found = (after.m[name] - BETAS[0] * m) / (1 - BETAS[0])
            if phase == "synchronizing":
                root = np.sqrt(v) + EPS
                moments = [BETAS[0] * m + (1 - BETAS[0]) * own for own in made]
                made = [-RATE * (own / root + DECAY * p) * root for own in moments]
                found = -RATE * after.m[name]
            np.testing.assert_array_equal(after.v[name], v, name)
            np.testing.assert_array_equal(found[v == 0], 0, name)
            found[v == 0] = np.nan
            if name in before.worker:
                skipped += self.check_average(name, made, before, after, found, 2e-5)
            else:
                self.assert_close(found[v > 0], np.mean(made, axis=0)[v > 0], 2e-5, name)
        self.assertLess(skipped, 0.02 * sum(grad.size for grad in grads[0].values()))
        return norm

    def check_parameters(self, phase, before, after):
        for name, weights in before.weights.items():
            p, root = weights.astype(float).reshape(-1), np.sqrt(after.v[name]) + EPS
            update = after.m[name] / root
            if phase != "synchronizing":  # There decay is a part of what is sent.
                update = update + DECAY * p
            self.assert_close(after.weights[name].reshape(-1), p - RATE * update, 1e-6,
                              name)

    def check(self, ranks, steps, *flags, frozen=FROZEN, **model):
        out, log = self.train_saved(ranks, steps, None, *flags, config=config_of(frozen),
                                    **model)
        names = list(self.weights)
        phases = phases_of(steps, frozen)
        self.assertEqual([line["phase"] for line in log], phases)

        def check(step, before, after, grads):
            phase = phases[step - 1]
            if step == frozen + 2:  # Errors were of gradients, and are of steps now.
                before = copy.copy(before)
                before.worker = {name: 0 * value for name, value in before.worker.items()}
                before.server = {name: 0 * value for name, value in before.server.items()}
            norm = (self.check_dense(before, after, grads) if phase == "dense" else
                    self.check_compressed(phase, before, after, grads))
            self.check_parameters(phase, before, after)
            return norm
        self.check_steps(log, lambda step: State(out, step, names, ranks), ranks, check)

    def test_two_ranks(self):
        self.check(2, 14)

    @unittest.skipUnless(h.LONG, "two ranks are enough")
    def test_more_ranks(self):
        self.check(3, 12, frozen=7, vocab=101, embed=36)
        self.check(4, 8, frozen=5)

    @unittest.skipUnless(h.LONG, "test_two_ranks has the arithmetic")
    def test_zero(self):
        for stage in (1, 2, 3):
            with self.subTest(stage=stage):
                self.check(2, 8, "--zero", stage, frozen=4)

    def test_one_rank(self):
        """Nothing is sent: the gradient is its own mean."""
        self.check(1, 8, frozen=4)

    def test_resume(self):
        """From a checkpoint of each phase, and over each border, bit for bit."""
        out, log = self.train_saved(2, 13, None, config=config_of())
        for step in (2, 3, 5, 10, 12):
            folder = os.path.join(out, f"step-{step:06d}")
            again = self.train(self.binary, self.data, 13, "--resume", folder, ranks=2,
                               name=f"again{step}")
            self.assertEqual([(line["loss"], line["phase"]) for line in again],
                             [(line["loss"], line["phase"]) for line in log[step:]], step)
        said = h.run_ranks(2, [self.binary, "train", "--data", self.data, "--steps", 13,
                               "--resume", folder, "--reset-optimizer"], 3)
        self.assertIn("second moment does not change", said.stderr)
        said = h.run_ranks(2, [self.binary, "train", "--data", self.data, "--steps", 13,
                               "--resume", os.path.join(out, "step-000004"),
                               "--reset-optimizer"], 3)
        self.assertIn("leaves the second moment as it is", said.stderr)

    @unittest.skipUnless(h.LONG, "all optimizers read checkpoints alike")
    def test_other_optimizers(self):
        """AdamW's and OneBitAdam's checkpoints go on, without their errors, and the other
        way round."""
        out, _ = self.train_saved(2, 6, None, config=config_of(4))
        zero_one, binaries = self.binary, {}
        for name, params in (("AdamW", {}), ("OneBitAdam", {"freeze_step": 4})):
            config = config_of(4)
            config["optimizer"]["type"] = name
            for key in ("var_freeze_step", "var_update_scaler"):
                del config["optimizer"]["params"][key]
            config["optimizer"]["params"].update(params)
            binaries[name] = self.compile(self.model, "--batch", self.rows, "--seq", SEQ,
                                          "--mesh", "data=2", "--threads", 1, config=config,
                                          output=name)
        for other in ("AdamW", "OneBitAdam"):
            path = self.path("of" + other)
            ahead = [self.train(binaries[other], self.data, 8, "--resume",
                                os.path.join(out, "step-000006"), *flags, ranks=2,
                                name=other + str(len(flags)))
                     for flags in (("--save", path), ("--reset-error-feedback",))]
            self.assertEqual(*[[line["loss"] for line in log] for log in ahead])
            back = [self.train(zero_one, self.data, 10, "--resume", path, *flags, ranks=2,
                               name=other + "-back" + str(len(flags)))
                    for flags in ((), ("--reset-error-feedback",))]
            self.assertEqual(*[[line["loss"] for line in log] for log in back])

    def test_end(self):
        """Steps of the ranks' own are not supported: a run that would get there is refused
        before it begins."""
        model, _, _ = self.make_model(**MODEL)
        data, _ = self.make_tokens(2 * SEQ * 12 + 1, VOCAB)

        def train(steps, status=0, **params):
            binary = self.compile(model, "--batch", 2, "--seq", SEQ, "--mesh", "data=2",
                                  "--threads", 1, config=config_of(4, **params))
            return h.run_ranks(2, [binary, "train", "--data", data, "--steps", steps],
                               status).stderr
        self.assertIn("may reach update 9", train(9, status=2, local_step_scaler=3))
        train(8, local_step_scaler=3)
        train(9, local_step_scaler=3, local_step_clipper=1)


@h.needs_mpi
@unittest.skipUnless(os.path.exists(test_traffic.INTERPOSER), "the interposer is not built")
class Sent(h.HeddleTest):
    count = test_traffic.Traffic.count

    def test_two_ranks(self):
        model, _, _ = self.make_model(**MODEL)
        data, _ = self.make_tokens(4 * SEQ * 6 + 1, VOCAB)
        binary = self.compile(model, "--batch", 4, "--seq", SEQ, "--mesh", "data=2",
                              "--threads", 1, config=config_of(4, 1))
        explained = self.explain(binary)
        programs = {one["phase"]: one for one in explained["programs"] if "phase" in one}
        self.assertEqual(programs["dense"]["interval"], {"doubled_after_runs": 1})
        self.assertEqual([programs[name]["from_update"] for name in
                          ("dense", "compressed", "synchronizing")], [1, 1, 6])
        sent = {name: {(line["axis"], line["kind"]): line["bytes_sent"]
                       for line in program["communication"] if line["bytes_sent"]}
                for name, program in programs.items()}
        # Signs are alike, whatever they are of.
        self.assertEqual(sent["compressed"], sent["synchronizing"])
        before, phases = {}, phases_of(6, 4, 1)
        self.assertEqual(set(phases), set(programs))
        for steps, phase in enumerate(phases, 1):
            (counted, _), _, end = self.count(2, binary, data, steps)
            self.assertEqual({key: size - before.get(key, 0)
                              for key, size in counted.items()
                              if size != before.get(key, 0)}, sent[phase], steps)
            before = dict(counted)
        self.assertEqual(end["peak_bytes"]["ranks"][0], explained["memory"]["peak"])


if __name__ == "__main__":
    unittest.main()
