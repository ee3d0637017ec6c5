#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""0/1 Adam against its algorithm in double precision, step by step as in test_one_bit.py,
with the phases that DeepSpeed's counters give."""

import copy
import os
import types
import unittest

import numpy as np

import heddle_test as h
import test_nonfinite
import test_one_bit
import test_traffic
from test_one_bit import BETAS, CLIP, DECAY, EPS, MODEL, RATE, SEQ, VOCAB, State, up_to

FROZEN, SCALER = 5, 2
# After 2 updates with a frozen second moment each second one synchronizes, after 2 more
# each fourth.
LOCAL_SCALER, CLIPPER = 2, 4


def config_of(freeze=FROZEN, scaler=SCALER, local_step_scaler=LOCAL_SCALER,
              local_step_clipper=CLIPPER, **params):
    return {"optimizer": {"type": "ZeroOneAdam", "params": {
        "lr": RATE, "betas": BETAS, "eps": EPS, "weight_decay": DECAY,
        "var_freeze_step": freeze, "var_update_scaler": scaler,
        "local_step_scaler": local_step_scaler, "local_step_clipper": local_step_clipper,
        **params}},
        "gradient_clipping": CLIP}


def phases_of(steps, freeze=FROZEN, scaler=SCALER, clipper=CLIPPER):
    """The phases of steps 1, 2, ...: DeepSpeed's counters, without its dry first step."""
    interval, counter, frozen, phases = 1, 0, False, []
    local, local_counter = 1, 0
    for step in range(1, steps + 1):
        if frozen:
            phases.append("synchronizing" if step % local == 0 else "local")
            local_counter += 1
            if local_counter == LOCAL_SCALER:
                local, local_counter = min(clipper, 2 * local), 0
            continue
        phases.append("dense" if step % interval == 0 else "compressed")
        if step % interval == 0:
            counter += 1
            if counter == scaler:
                interval, counter = 2 * interval, 0
        frozen = step > freeze
    return phases


class LocalState(State):
    """With the steps that each rank has made since the ranks last synchronized, what its
    momentum differs by, and the sum of the learning rates."""

    def __init__(self, folder, step, names, ranks, **kwargs):
        super().__init__(folder, step, names, ranks, **kwargs)
        kept = h.read_safetensors(os.path.join(folder, f"step-{step:06d}", "heddle",
                                               "optimizer.safetensors"))
        self.rates = float(kept.get("local_rates", 0))
        self.steps, self.momenta = [{name: np.zeros((ranks, m.size))
                                     for name, m in self.m.items()} for _ in range(2)]
        begins = {}
        for name, parts in self.parts.items():
            size = parts[0].size
            bucket = ("decay" + ".tensor" * (len(parts) > 1)
                      + ".compressed" * (ranks > 1 and size >= 8 * ranks ** 2))
            begin = begins.get(bucket, 0)
            begins[bucket] = begin + up_to(size, 64)
            for what, into in (("step", self.steps), ("momentum", self.momenta)):
                if f"local_{what}.{bucket}" in kept:
                    own = kept[f"local_{what}.{bucket}"].astype(float)
                    for part, held in zip(parts, own.reshape(len(parts), ranks, -1)):
                        into[name][:, part] = held[:, begin:begin + size]


class ZeroOne(h.HeddleTest):
    train_saved = test_one_bit.OneBit.train_saved
    gradients = test_one_bit.OneBit.gradients
    check_steps = test_one_bit.OneBit.check_steps
    check_dense = test_one_bit.OneBit.check_dense
    check_average = test_one_bit.OneBit.check_average

    def weights_of_ranks(self, state, ranks):
        """With a rank's own steps, but for elements that have had no gradient."""
        return [{name: p + np.where(state.v[name] > 0, state.steps[name][rank], 0).reshape(
            p.shape) for name, p in state.weights.items()} for rank in range(ranks)]

    def own_steps(self, name, before, grads):
        """The steps and momenta of each rank after this update."""
        m, root = before.m[name], np.sqrt(before.v[name]) + EPS
        p = [own[name].reshape(-1) for own in self.weights_of_ranks(before, len(grads))]
        momenta = [BETAS[0] * (m + d) + (1 - BETAS[0]) * grad
                   for d, grad in zip(before.momenta[name], grads)]
        return [b - RATE * (own / root + DECAY * p)
                for b, own, p in zip(before.steps[name], momenta, p)], momenta

    def check_local(self, before, after, grads):
        """A step that sends nothing: what ranks share stays."""
        norm = self.norm_of_ranks(grads)
        clip = min(1.0, CLIP / (norm + 1e-6))
        self.assertLess(abs(after.rates - before.rates - RATE), 1e-8)
        for name in grads[0]:
            for what in ("weights", "m", "v"):
                np.testing.assert_array_equal(getattr(after, what)[name],
                                              getattr(before, what)[name], name)
            for one, other in zip(before.held, after.held):
                for what in ("worker", "server"):
                    if name in getattr(one, what):
                        np.testing.assert_array_equal(getattr(other, what)[name],
                                                      getattr(one, what)[name])
            steps, momenta = self.own_steps(name, before, [clip * own[name]
                                                           for own in grads])
            trained = before.v[name] > 0
            for rank, (b, own) in enumerate(zip(steps, momenta)):
                self.assert_close(after.steps[name][rank][trained], b[trained], 2e-5, name)
                self.assert_close(after.momenta[name][rank], own - before.m[name], 2e-5,
                                  name)
        return norm

    def norm_of_ranks(self, grads):
        return np.sqrt(np.mean([sum((grad ** 2).sum() for grad in own.values())
                                for own in grads]))

    def check_compressed(self, phase, before, after, grads):
        """A step in which ranks send signs of their gradients, or of their steps."""
        norm = self.norm_of_ranks(grads)
        rates = before.rates + RATE
        clip = min(1.0, CLIP / (norm + 1e-6))
        skipped = 0
        for name in grads[0]:
            m, v = before.m[name], before.v[name]
            made = [clip * own[name] for own in grads]
            found = (after.m[name] - BETAS[0] * m) / (1 - BETAS[0])
            if phase == "synchronizing":
                root = np.sqrt(v) + EPS
                made = [b * root for b in self.own_steps(name, before, made)[0]]
                found = -rates * after.m[name]
            for own in (after.steps[name], after.momenta[name], [after.rates]):
                np.testing.assert_array_equal(own, 0 * np.array(own), name)
            np.testing.assert_array_equal(after.v[name], v, name)
            np.testing.assert_array_equal(found[v == 0], 0, name)
            found[v == 0] = np.nan
            if name in before.worker:
                for part, *held in zip(before.parts[name], before.held, after.held):
                    skipped += self.check_average(name, [own[part] for own in made], *held,
                                                  found[part], 2e-5)
            else:
                self.assert_close(found[v > 0], np.mean(made, axis=0)[v > 0], 2e-5, name)
        self.assertLess(skipped, 0.02 * sum(grad.size for grad in grads[0].values()))
        return norm

    def check_parameters(self, phase, before, after):
        for name, weights in before.weights.items():
            p, root = weights.astype(float).reshape(-1), np.sqrt(after.v[name]) + EPS
            update = after.m[name] / root
            rate = RATE
            if phase == "synchronizing":  # Decay is a part of what is sent.
                rate += before.rates
            else:
                update = update + DECAY * p
            self.assert_close(after.weights[name].reshape(-1), p - rate * update, 1e-6,
                              name)

    def check(self, ranks, steps, *flags, frozen=FROZEN, clipper=CLIPPER, tensor=1, **model):
        out, log = self.train_saved(
            ranks, steps, None, *flags, tensor=tensor, **model,
            config=config_of(frozen, local_step_clipper=clipper))
        names = list(self.weights)
        phases = phases_of(steps, frozen, clipper=clipper)
        self.assertEqual([line["phase"] for line in log], phases)

        def check(step, before, after, grads):
            phase = phases[step - 1]
            if step == frozen + 2:  # Errors were of gradients, and are of steps now.
                before = copy.copy(before)
                before.held = [types.SimpleNamespace(**{
                    what: {name: 0 * value for name, value in getattr(held, what).items()}
                    for what in ("worker", "server")}) for held in before.held]
            if phase == "local":
                return self.check_local(before, after, grads)
            norm = (self.check_dense(before, after, grads) if phase == "dense" else
                    self.check_compressed(phase, before, after, grads))
            self.check_parameters(phase, before, after)
            return norm
        self.check_steps(log, lambda step: LocalState(out, step, names, ranks, tensor=tensor),
                         ranks, check)

    def test_two_ranks(self):
        self.check(2, 16)

    @unittest.skipUnless(h.LONG, "two ranks are enough")
    def test_more_ranks(self):
        self.check(3, 14, vocab=101, embed=36)
        self.check(4, 8, frozen=3)

    @unittest.skipUnless(h.LONG, "test_two_ranks has the arithmetic")
    def test_zero(self):
        for stage in (1, 2, 3):
            with self.subTest(stage=stage):
                self.check(2, 8, "--zero", stage, frozen=4, clipper=1)

    def test_one_rank(self):
        """Nothing is sent: the gradient is its own mean."""
        self.check(1, 9, frozen=2)

    def test_resume(self):
        """From a checkpoint of each phase, and over each border, bit for bit."""
        out, log = self.train_saved(2, 13, None, config=config_of())
        for step in (2, 3, 6, 8, 9, 10, 11) if h.LONG else (3, 6, 9, 11):
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
            for key in ("var_freeze_step", "var_update_scaler", "local_step_scaler",
                        "local_step_clipper"):
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

    def test_other_ranks(self):
        """Another mesh goes on from the last synchronization, and says so."""
        out, _ = self.train_saved(2, 13, None, config=config_of())
        four = self.compile(self.model, "--batch", 4, "--seq", SEQ, "--mesh", "data=4",
                            "--threads", 1, config=config_of(), output="four")
        folder = os.path.join(out, "step-000011")
        said = h.run_ranks(4, [four, "train", "--data", self.data, "--steps", 13, "--resume",
                               folder, "--progress", "none", "--log",
                               self.path("four.jsonl")]).stderr
        self.assertIn("steps that other ranks", said)
        reset = self.train(self.binary, self.data, 13, "--resume", folder,
                           "--reset-error-feedback", ranks=2, name="reset")
        synchronized = LocalState(out, 10, list(self.weights), 2)
        loss, _ = self.gradients([synchronized.weights] * 2, 12)
        for log in (h.read_log(self.path("four.jsonl")), reset):
            self.assertEqual([line["phase"] for line in log], ["synchronizing", "local"])
            self.assertLessEqual(h.relative(log[0]["loss"], loss), 2e-6)

    def test_end(self):
        """With ZeRO no replica has what it needs for steps of its own: a run that would get
        there is refused before it begins."""
        model, _, _ = self.make_model(**MODEL)
        data, _ = self.make_tokens(2 * SEQ * 12 + 1, VOCAB)

        def train(steps, *flags, status=0, **params):
            binary = self.compile(model, "--batch", 2, "--seq", SEQ, "--mesh", "data=2",
                                  "--threads", 1, *flags, config=config_of(4, **params))
            return h.run_ranks(2, [binary, "train", "--data", data, "--steps", steps],
                               status).stderr
        self.assertIn("may reach update 9",
                      train(9, "--zero", 1, status=2, local_step_scaler=3))
        train(8, "--zero", 1, local_step_scaler=3)
        train(9, "--zero", 1, local_step_scaler=3, local_step_clipper=1)

    def test_tensor_ranks(self):
        self.check(2, 9, tensor=2, vocab=98, frozen=2)

    @unittest.skipUnless(h.LONG, "OneBitAdam's sums are split alike")
    def test_sequence_parallel(self):
        self.check(2, 9, "--sequence-parallel", tensor=2, vocab=98, frozen=2)

    @unittest.skipUnless(h.LONG, "test_one_bit has stages, too")
    def test_stages(self):
        """They are as one. Gradients differ in the last bit, and with them the signs of
        numbers that are next to zero."""
        flags, config = ["--accumulate", 2], config_of(2, eps=1e-2)
        _, one = self.train_saved(2, 9, None, *flags, config=config)
        binary = self.compile(self.model, "--batch", self.rows, "--seq", SEQ, "--mesh",
                              "data=2,pipe=2", "--threads", 1, *flags, config=config,
                              output="stages")
        out = self.path("stages-out")
        log = self.train(binary, self.data, 9, "--save", out, "--save-every", 7, ranks=4,
                         name="stages")
        self.assertEqual([line["phase"] for line in log], phases_of(9, 2))
        for line, expected in zip(log, one):
            self.assertLess(h.relative(line["loss"], expected["loss"]), 1e-5, line["step"])
        again = self.train(binary, self.data, 9, "--resume",
                           os.path.join(out, "step-000007"), ranks=4, name="again")
        self.assertEqual([line["loss"] for line in again],
                         [line["loss"] for line in log[7:]])


@h.needs_mpi
class Skipped(test_nonfinite.NonFiniteTest):
    """Updates 1 and 2 are dense, 3 and 4 synchronize, as 6, 8 and 12 do."""

    def test_one_rank_overflows(self):
        """In a step that synchronizes, and in local ones, which another one of the same
        phase follows: a step after a skipped one may run the program of the next."""
        config = config_of(1)
        config["optimizer"]["params"]["eps"] = 1e-3
        binary = self.compile(self.model, "--seq", test_nonfinite.SEQ, "--batch",
                              test_nonfinite.ROWS, "--mesh", "data=2", config=config)
        self.batches("bad", [0, 1, 100, *range(2, 8), 101, 102, *range(8, 12)])
        self.batches("good", range(12))
        saved = [self.path("bad-saved"), self.path("good-saved")]
        self.run_train(binary, "bad", 15, "--save", saved[0], "--on-nonfinite", "skip",
                       ranks=2)
        bad = self.steps()
        self.run_train(binary, "good", 12, "--save", saved[1], ranks=2)
        keys = ("loss", "grad_norm", "lr", "phase")
        self.assertEqual([[step[key] for key in keys] for step in bad
                          if "skipped" not in step],
                         [[step[key] for key in keys] for step in self.steps()])
        self.assertEqual([step["phase"] for step in bad if "skipped" in step],
                         ["synchronizing", "local", "local"])
        self.assertEqual(h.bytes_saved(saved[0]), h.bytes_saved(saved[1]))


@h.needs_mpi
@unittest.skipUnless(os.path.exists(test_traffic.INTERPOSER), "the interposer is not built")
class Sent(h.HeddleTest):
    count = test_traffic.Traffic.count

    def test_two_ranks(self):
        model, _, _ = self.make_model(**MODEL)
        data, _ = self.make_tokens(4 * SEQ * 9 + 1, VOCAB)
        binary = self.compile(model, "--batch", 4, "--seq", SEQ, "--mesh", "data=2",
                              "--threads", 1, config=config_of(4, 1))
        explained = self.explain(binary)
        programs = {one["phase"]: one for one in explained["programs"] if "phase" in one}
        self.assertEqual(programs["dense"]["interval"], {"doubled_after_runs": 1})
        self.assertEqual([programs[name]["from_update"] for name in
                          ("dense", "compressed", "synchronizing", "local")],
                         [1, 1, 6, 6])
        self.assertEqual(programs["synchronizing"]["interval"],
                         {"doubled_after": LOCAL_SCALER, "at_most": CLIPPER})
        sent = {name: {(line["axis"], line["kind"]): line["bytes_sent"]
                       for line in program["communication"] if line["bytes_sent"]}
                for name, program in programs.items()}
        # Signs are alike, whatever they are of. So are the bytes of small tensors.
        self.assertEqual(sent["compressed"], sent["synchronizing"])
        # The loss, sums of squares and how many labels there are.
        self.assertEqual(set(sent["local"]), {("data", "all_reduce")})
        self.assertLess(sum(sent["local"].values()), 300)
        before, phases = {}, phases_of(9, 4, 1)
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
