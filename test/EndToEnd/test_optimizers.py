#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimizers and parameter groups: 50 steps against code that is written here
from the papers, with every stage of ZeRO and on meshes; checkpoints."""

import os
import re
import shutil
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ, VOCAB, STEPS, CLIP, DECAY = 8, 16, 97, 50, 0.8, 0.1
MODEL = dict(vocab=VOCAB, positions=SEQ, embed=32, layers=2, heads=4)

# Of each: what a step makes of a parameter, its gradient and its state, with the
# number of the step counted from 1; the rate, the betas, eps.
RATES = {"Lion": 3e-4, "Lamb": 1e-2, "AdamW": 3e-3}
BETAS = {"Lion": (0.9, 0.99), "Lamb": (0.9, 0.999), "AdamW": (0.9, 0.999)}
EPS = {"Lion": 1e-8, "Lamb": 1e-6, "AdamW": 1e-5}


def lion(p, g, state, step, rate, decay):
    """Chen et al., arXiv 2302.06675, algorithm 2."""
    beta1, beta2 = BETAS["Lion"]
    m = state.get("momentum", 0)
    update = np.sign(beta1 * m + (1 - beta1) * g)
    state["momentum"] = beta2 * m + (1 - beta2) * g
    return p - rate * (update + decay * p)


def lamb(p, g, state, step, rate, decay):
    """You et al., arXiv 1904.00962, with the bias correction in the step and the
    trust ratio held to limits, as DeepSpeed's FusedLamb."""
    (beta1, beta2), eps = BETAS["Lamb"], EPS["Lamb"]
    m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
    v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
    update = m / (np.sqrt(v) + eps) + decay * p
    norms = np.linalg.norm(p), np.linalg.norm(update)
    ratio = min(10.0, max(0.01, norms[0] / norms[1])) if min(norms) > 0 else 1.0
    state.setdefault("ratios", []).append(ratio)
    rate *= np.sqrt(1 - beta2 ** step) / (1 - beta1 ** step)
    return p - rate * ratio * update


def adamw(p, g, state, step, rate, decay):
    (beta1, beta2), eps = BETAS["AdamW"], EPS["AdamW"]
    m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
    v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
    direction = m / (1 - beta1 ** step) / (np.sqrt(v / (1 - beta2 ** step)) + eps)
    return p * (1 - rate * decay) - rate * direction


UPDATES = {"Lion": lion, "Lamb": lamb, "AdamW": adamw}

MESHES = [("one", 1, []),
          ("zero1", 2, ["--mesh", "data=2", "--zero", 1]),
          ("zero2", 2, ["--mesh", "data=2", "--zero", 2, "--accumulate", 2]),
          ("zero3", 2, ["--mesh", "data=2", "--zero", 3]),
          ("tensor", 2, ["--mesh", "tensor=2"]),
          ("pipe", 2, ["--mesh", "pipe=2", "--accumulate", 2])]
LONG_MESHES = [("zero0", 2, ["--mesh", "data=2", "--zero", 0]),
               ("tensor-zero1", 4, ["--mesh", "data=2,tensor=2", "--zero", 1]),
               ("pipe-zero2", 4, ["--mesh", "pipe=2,data=2", "--zero", 2,
                                  "--accumulate", 2]),
               ("seq-zero3", 2, ["--mesh", "seq=2", "--zero", 3])]


def config_of(name, **params):
    given = {"lr": RATES[name], "betas": BETAS[name], "eps": EPS[name],
             "weight_decay": DECAY, **params}
    return {"optimizer": {"type": name, "params": given}, "gradient_clipping": CLIP}


def reference(name, config, weights, tokens, group=lambda name: (1.0, DECAY)):
    """Losses, weights and states of the oracle's model in double precision. `group`
    gives what a parameter's rate is multiplied by and its decay, or None for one
    that is not trained."""
    import oracle
    import torch

    model = oracle.Gpt2(config, weights)
    trained = {key: group(key) for key in weights if group(key) is not None}
    states, losses = {key: {} for key in weights}, []
    for step in range(STEPS):
        loss, _, grads = model.gradients(*h.batch(tokens, step, ROWS, SEQ))
        losses.append(loss)
        norm = np.sqrt(sum((grads[key] ** 2).sum() for key in trained))
        clip = min(1.0, CLIP / (norm + 1e-6))
        for key, (factor, decay) in trained.items():
            value = UPDATES[name](model.weights[key].detach().numpy(),
                                  grads[key] * clip, states[key], step + 1,
                                  RATES[name] * factor, decay)
            model.weights[key] = torch.tensor(value, requires_grad=True)
    return np.array(losses), model.arrays(), states


class Base(h.HeddleTest):
    def prepare(self):
        self.model, self.config, self.weights = self.make_model(**MODEL)
        self.data, self.tokens = self.make_tokens(ROWS * SEQ * STEPS + 1, VOCAB)

    def build(self, name, *flags, output="job", **params):
        return self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--threads", 1,
                            *flags, output=output, config=config_of(name, **params))

    def losses(self, binary, *flags, steps=STEPS, ranks=1):
        return np.array([step["loss"] for step in self.train(
            binary, self.data, steps, *flags, ranks=ranks)])

    def states_of(self, folder):
        with open(os.path.join(folder, "latest")) as file:
            latest = os.path.join(folder, file.read().strip())
        return h.read_safetensors(os.path.join(latest, "heddle",
                                               "optimizer.safetensors"))


class Optimizers(Base):
    def check_meshes(self, name):
        self.prepare()
        expected, weights, states = reference(name, self.config, self.weights,
                                              self.tokens)
        self.assertLess(expected[-1], expected[0])
        for mesh, ranks, flags in MESHES + (LONG_MESHES if h.LONG else []):
            if ranks > 1 and not h.MPIRUN:
                continue
            with self.subTest(mesh):
                folder = self.path("s-" + mesh)
                binary = self.build(name, *flags, output=mesh)
                found = self.losses(binary, "--save", folder, ranks=ranks)
                np.testing.assert_allclose(found, expected, rtol=1e-5)
                saved = h.read_saved(folder)
                for key, value in weights.items():
                    found = saved["transformer." + key]
                    if key.endswith("c_attn.bias"):
                        # The keys' has no gradient: softmax takes a shift away.
                        found, value = (np.delete(x.reshape(3, -1), 1, 0)
                                        for x in (found, value))
                    self.assertLess(np.abs(found - value).mean(), 1e-5, key)
        return states

    @h.needs_torch
    def test_lion(self):
        self.check_meshes("Lion")

    @h.needs_torch
    def test_lamb(self):
        states = self.check_meshes("Lamb")
        # The trust ratio matters, and its limit does.
        ratios = np.array([state["ratios"] for state in states.values()])
        self.assertGreater(ratios.max(), 2 * ratios.min())

    @h.needs_torch
    def test_lamb_limits(self):
        self.prepare()
        found = self.losses(self.build("Lamb", max_coeff=0.5, min_coeff=0.4))
        expected, _, _ = reference("Lamb", self.config, self.weights, self.tokens)
        self.assertFalse(np.allclose(found, expected, rtol=1e-4))

    @h.needs_torch
    def test_bf16(self):
        self.prepare()
        for name in ("Lion", "Lamb"):
            expected, _, _ = reference(name, self.config, self.weights, self.tokens)
            one = self.losses(self.build(name, "--precision", "bf16"))
            np.testing.assert_allclose(one, expected, rtol=2e-2)
            if not h.MPIRUN:
                continue
            split = self.build(name, "--precision", "bf16", "--mesh", "data=2",
                               "--zero", 3, "--communication-data-type", "fp32",
                               output="split")
            np.testing.assert_allclose(self.losses(split, ranks=2), expected, rtol=2e-2)

    def test_resume_goes_on(self):
        self.prepare()
        for name in ("Lion", "Lamb", "AdamW"):
            with self.subTest(name):
                binary = self.build(name)
                whole = self.losses(binary, steps=20)
                self.losses(binary, "--save", self.path("s-" + name), steps=10)
                rest = self.losses(binary, "--resume", self.path("s-" + name), steps=20)
                np.testing.assert_array_equal(rest[-10:], whole[10:])

    def test_another_optimizer_names_what_is_missing(self):
        self.prepare()
        folder = self.path("saved")
        self.losses(self.build("AdamW"), "--save", folder, steps=3)
        self.assertEqual(float(self.states_of(folder)["beta1_power"]), 0.9 * 0.9 * 0.9)
        binary = self.build("Lion")
        with self.assertRaises(h.Failed) as failed:
            self.losses(binary, "--resume", folder, steps=5)
        text = str(failed.exception)
        self.assertIn("H0335", text)
        self.assertIn("momentum.", text)
        self.assertIn("--reset-optimizer", text)
        steps = self.losses(binary, "--resume", folder, "--reset-optimizer", steps=5)
        self.assertTrue(np.isfinite(steps).all())

    def test_another_optimizer_with_the_same_states_is_named(self):
        self.prepare()
        folder = self.path("saved")
        self.losses(self.build("AdamW"), "--save", folder, steps=3)
        said = "Lamb goes on with what AdamW kept"
        for flags, expected in (["--reset-optimizer"], False), ([], True):
            run = h.run([self.build("Lamb"), "train", "--data", self.data, "--steps", 4,
                         "--resume", folder, *flags])
            self.assertEqual(said in run.stdout + run.stderr, expected)

    def test_the_first_values_again(self):
        self.prepare()
        binary = self.build("AdamW")
        folder = self.path("saved")
        self.losses(binary, "--save", folder, steps=3)
        reset = self.losses(binary, "--resume", folder, "--reset-optimizer", steps=6)
        kept = self.losses(binary, "--resume", folder, steps=6)
        self.assertEqual(reset[-3], kept[-3])
        self.assertNotEqual(reset[-1], kept[-1])

    def test_the_flag_wins(self):
        self.prepare()
        flag = self.build("AdamW", "--optimizer", "Lion", "--betas", "0.9,0.99",
                          lr=RATES["Lion"], eps=1e-8, output="flag")
        key = self.build("Lion", output="key")
        np.testing.assert_array_equal(self.losses(flag, steps=5),
                                      self.losses(key, steps=5))


class Groups(Base):
    GROUPS = [r"ln_[12]\.:lr=0.3,weight_decay=0", "wpe:frozen", "mlp:lr=2"]

    @staticmethod
    def group(name):
        if re.search(r"ln_[12]\.", name):
            return 0.3, 0.0
        if "wpe" in name:
            return None
        return (2.0 if "mlp" in name else 1.0), DECAY

    def flags(self):
        return [word for text in self.GROUPS for word in ("--group", text)]

    def test_halves_of_norms_are_frozen(self):
        """What the other half's gradient is made with makes none of it."""
        self.prepare()
        for frozen in ("ln_f.bias", "ln_f.weight", "bias"):
            for precision in ("fp32", "bf16"):
                binary = self.build("AdamW", "--precision", precision, "--group",
                                    frozen + ":frozen", output="half")
                folder = self.path("half-" + precision + frozen)
                self.losses(binary, "--save", folder, steps=2)
                saved = h.read_saved(folder)
                for name, value in self.weights.items():
                    moves = not name.endswith(frozen)
                    same = np.array_equal(saved["transformer." + name], value)
                    self.assertNotEqual(same, moves, (frozen, precision, name))

    @h.needs_torch
    def test_groups_follow_the_reference(self):
        self.prepare()
        expected, weights, _ = reference("AdamW", self.config, self.weights, self.tokens,
                                         self.group)
        for mesh, ranks, flags in MESHES:
            if (ranks > 1 and not h.MPIRUN) or (
                    mesh not in ("one", "zero3", "pipe") and not h.LONG):
                continue
            with self.subTest(mesh):
                folder = self.path("s-" + mesh)
                binary = self.build("AdamW", *flags, *self.flags(), output=mesh)
                found = self.losses(binary, "--save", folder, ranks=ranks)
                np.testing.assert_allclose(found, expected, rtol=1e-5)
                saved = h.read_saved(folder)
                for key, value in weights.items():
                    np.testing.assert_allclose(saved["transformer." + key], value,
                                               atol=3e-5, err_msg=key)
                np.testing.assert_array_equal(saved["transformer.wpe.weight"],
                                              self.weights["wpe.weight"])
                kept = self.states_of(folder)
                self.assertFalse([key for key in kept if "wpe" in key])
                self.assertTrue([key for key in kept if "wte" in key])

    def test_what_was_frozen_begins_anew(self):
        """Its averages begin at zero, as after --reset-optimizer; the others go on."""
        self.prepare()
        saved, again, reset = (self.path(name) for name in ("saved", "again", "reset"))
        self.losses(self.build("AdamW", "--group", r"h\.0\.:frozen"), "--save", saved,
                    steps=2)
        meshes = [mesh for mesh in MESHES if mesh[0] in ("one", "zero3", "pipe")]
        for mesh, ranks, flags in meshes if h.LONG else meshes[:1]:
            with self.subTest(mesh):
                binary = self.build("AdamW", *flags, output=mesh)
                log = ["--data", self.data, "--steps", 3, "--resume", saved, "--save"]
                said = h.run_ranks(ranks, [binary, "train", *log, again]).stderr
                self.assertEqual(said.count("warning[H0415]: 12 parameters that are "
                                            "trained now were frozen"), 1, said)
                h.run_ranks(ranks, [binary, "train", *log, reset, "--reset-optimizer"])
                kept, begun = self.states_of(again), self.states_of(reset)
                for name, value in kept.items():
                    if name.startswith("exp_avg"):
                        self.assertEqual(np.array_equal(value, begun[name]),
                                         ".h.0." in name, name)
                for folder in (again, reset):
                    shutil.rmtree(folder)
        lion = self.build("Lion", output="lion")
        refused = h.run([lion, "train", *log, again], 3).stderr
        self.assertIn("error[H0335]", refused)

    def test_what_is_no_group(self):
        self.prepare()
        for group, code, words in [
                ("wte:lrr=1", "H0140", 'unknown key "lrr"'),
                ("wte:lr=x", "H0140", '"x" is no value of lr'),
                ("wte", "H0140", "no pattern before a colon"),
                ("(:frozen", "H0141", "no regular expression"),
                ("nothing:frozen", "H0142", '"nothing" matches no parameter')]:
            with self.subTest(group):
                with self.assertRaises(h.Failed) as failed:
                    self.build("AdamW", "--group", group)
                text = str(failed.exception)
                self.assertIn(f"error[{code}]", text)
                self.assertIn(words, text)
                self.assertIn("help:", text)


class HeldStates(Base):
    """An optimizer says which part of a state a replica holds. Here a dump is edited:
    every replica holds one of Adam's moments whole."""

    CASES = [(["--zero", 1], False), (["--zero", 3, "--precision", "bf16"], True),
             (["--zero", 2, "--place", "optimizer=file", "--sub-group-size", 1024], True),
             (["--zero", 0], False),
             (["--zero", 2, "--optimizer", "Lion", "--accumulate", 2], False)]

    def test_whole_states_change_no_bit(self):
        self.prepare()
        for flags, is_short in self.CASES:
            if not h.MPIRUN or not (is_short or h.LONG):
                continue
            with self.subTest(flags=flags):
                dumps, runs = self.path("dumps"), []
                self.build("AdamW", "--mesh", "data=2", *flags, "--dump-phases", dumps,
                           output="split")
                with open(os.path.join(dumps, "train.mlir")) as file:
                    text, count = re.subn(r"(exp_avg|momentum)( role optimizer .*?)\{",
                                          r"\1\2{held = #nn.held<whole>, ", file.read())
                self.assertGreater(count, 0)
                with open(self.path("whole.mlir"), "w") as file:
                    file.write(text)
                self.compile(self.path("whole.mlir"), "--start-from", "train",
                             output="whole")
                for name in ("split", "whole"):
                    saved = self.path(name + "-saved")
                    steps = self.train(self.path(name), self.data, 3, "--save", saved,
                                       ranks=2)
                    runs.append(([(step["loss"], step["grad_norm"]) for step in steps],
                                 h.bytes_saved(saved)))
                    shutil.rmtree(saved)
                self.assertEqual(runs[0], runs[1])
                owners = [self.explain(self.path(name))["memory"]["owners"]
                          for name in ("split", "whole")]
                self.assertEqual(owners[0]["optimizer"] < owners[1]["optimizer"],
                                 "--zero" in flags and 0 not in flags)
                shutil.rmtree(dumps)


if __name__ == "__main__":
    unittest.main()
