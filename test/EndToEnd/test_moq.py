#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are quantized while they are trained (MoQ): what a run saves against
DeepSpeed's quantizer, training against PyTorch, and every mesh against one rank."""

import json
import os
import re
import unittest

import numpy as np

import heddle_test as h
import moq

ROWS, SEQ, VOCAB, RATE, CLIP = 8, 16, 97, 3e-3, 1.0
MODEL = dict(vocab=VOCAB, positions=SEQ, embed=32, layers=2, heads=4)
CONV = ("c_attn", "c_proj", "c_fc")  # [inputs, outputs] in the files.
MESHES = [("zero2", 2, ["--mesh", "data=2", "--zero", 2, "--accumulate", 2]),
          ("tensor", 2, ["--mesh", "tensor=2"]),
          ("pipe-zero1", 4, ["--mesh", "pipe=2,data=2", "--zero", 1, "--accumulate", 2])]
LONG_MESHES = [("zero0", 2, ["--mesh", "data=2", "--zero", 0]),
               ("zero1", 2, ["--mesh", "data=2", "--zero", 1]),
               ("zero3", 2, ["--mesh", "data=2", "--zero", 3]),
               ("seq", 2, ["--mesh", "seq=2", "--zero", 3]),
               ("tensor-zero3", 4, ["--mesh", "data=2,tensor=2", "--zero", 3])]


def group(name, start, target, period=1, modules=("*",)):
    return ["--moq", " ".join([name, f"start_bits={start}", f"target_bits={target}",
                               f"period={period}", *(f"modules={m}" for m in modules)])]


def quantized(name, value, **how):
    """A weight as the files have it, quantized as [outputs, inputs]."""
    if name.split(".")[-2] in CONV:
        return moq.quantize(value.T.copy(), **how).T
    return moq.quantize(value, **how)


def matrices(weights):
    return [name for name, value in weights.items() if value.ndim == 2]


class Recorded(unittest.TestCase):
    """The code of moq.py, with which the other tests compare."""

    def test_weights(self):
        entries = moq.recorded()["weights"]
        self.assertEqual(len(entries), 500)
        for index, one in enumerate(entries):
            expected = np.frombuffer(bytes.fromhex(one["values"]), "<f4").reshape(one["shape"])
            found = moq.quantize(moq.drawn(index, expected.size).reshape(one["shape"]),
                                 one["bits"], one["type"], one["groups"])
            # DeepSpeed adds up means in fp32.
            np.testing.assert_allclose(found, expected, rtol=0,
                                       atol=3e-7 if one["bits"] < 3 else 0, err_msg=str(index))

    def test_schedules(self):
        for one in moq.recorded()["schedules"]:
            schedule = moq.Schedule({"a": (one["start"], one["target"], one["period"])},
                                    one["change"])
            for bits, period, ratio in one["numbers"]:
                self.assertEqual((schedule.bits["a"], schedule.periods["a"]), (bits, period))
                if one["change"]:
                    # DeepSpeed's falls below 0 in one step.
                    self.assertAlmostEqual(schedule.ratio, max(0, ratio), 6)
                schedule.advance()


class Moq(h.HeddleTest):
    def setUp(self):
        self.model, self.config, self.weights = self.make_model(**MODEL)
        self.data, self.tokens = self.make_tokens(ROWS * SEQ * 40 + 1, VOCAB)

    def build(self, *flags, rate=RATE, output="job", config=None):
        extra = config if config is not None else {}
        return self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--threads", 1, *flags,
                            output=output, config={**h.ds_config(lr=rate, clip=CLIP), **extra})

    def steps(self, binary, count, *flags, ranks=1, name="run"):
        return self.train(binary, self.data, count, *flags, ranks=ranks, name=name)

    def saved(self, folder):
        """The model's weights, the masters and the numbers of the schedule."""
        latest = h.latest_of(folder)
        model = {name.removeprefix("transformer."): value
                 for name, value in h.read_saved(folder).items()}
        masters = {name.removeprefix("transformer."): value for name, value in
                   h.read_safetensors(os.path.join(latest, "heddle", "masters.safetensors")).items()}
        numbers = h.read_safetensors(os.path.join(latest, "heddle", "optimizer.safetensors"))
        return model, masters, {name: float(value) for name, value in numbers.items()
                                if name.startswith("quantization")}

    def check_saved(self, bits, kind, groups, *flags, ranks=1):
        folder = self.path(f"s-{bits}-{kind}-{groups}-{ranks}")
        binary = self.build(*group("all", bits, bits), "--moq-type", kind, "--moq-groups", groups,
                            *flags, rate=0.0, output=f"b-{bits}-{kind}-{groups}-{ranks}")
        steps = self.steps(binary, 1, "--save", folder, ranks=ranks)
        self.assertEqual(steps[0]["bits"], {"all": bits})
        model, masters, _ = self.saved(folder)
        self.assertEqual(sorted(masters), sorted(matrices(self.weights)))
        for name, value in self.weights.items():
            if value.ndim != 2:
                np.testing.assert_array_equal(model[name], value, name)
                continue
            np.testing.assert_array_equal(masters[name], value, name)
            expected = quantized(name, value, bits=bits, kind=kind, groups=groups)
            if bits >= 3:
                np.testing.assert_array_equal(model[name], expected, name)
            else:
                np.testing.assert_allclose(model[name], expected, rtol=3e-7, atol=0)
            self.assertLessEqual(len(np.unique(expected)), groups * 2 ** bits + 1, name)

    def test_saved(self):
        """A step at rate 0 saves what DeepSpeed's quantizer gives."""
        for bits, kind, groups in [(8, "symmetric", 1), (4, "asymmetric", 8), (2, "symmetric", 4),
                                   (1, "symmetric", 1), (16, "symmetric", 32)]:
            with self.subTest(bits=bits, kind=kind, groups=groups):
                self.check_saved(bits, kind, groups)

    @unittest.skipUnless(h.MPIRUN, "needs mpirun")
    def test_saved_on_ranks(self):
        for bits, kind, groups, zero in [(4, "asymmetric", 8, 1), (2, "symmetric", 4, 3)]:
            with self.subTest(zero=zero):
                self.check_saved(bits, kind, groups, "--mesh", "data=2", "--zero", zero, ranks=2)

    def reference(self, groups, count, change=0.0, offset=0, kind="symmetric", parts=1):
        """Losses and bits of AdamW in fp64, of which the masters are kept and the model has
        their quantized values; `groups` are (start, target, period) and a pattern."""
        import oracle
        import torch

        model = oracle.Gpt2(self.config, self.weights)
        masters = {name: value.astype(float) for name, value in self.weights.items()}
        schedule = moq.Schedule({name: how for name, (how, _) in groups.items()}, change, offset)
        moments = {name: (0.0, 0.0) for name in masters}
        losses, bits = [], []

        def load():
            for name, value in masters.items():
                for key, (_, pattern) in groups.items():
                    if value.ndim == 2 and re.search(pattern, name) and schedule.count > 0:
                        value = quantized(name, value, bits=schedule.bits[key], kind=kind,
                                          groups=parts, ratio=schedule.ratio)
                model.weights[name] = torch.tensor(value.astype(float), requires_grad=True)

        for step in range(count):
            load()
            loss, _, grads = model.gradients(*h.batch(self.tokens, step, ROWS, SEQ))
            losses.append(loss)
            norm = np.sqrt(sum((grad ** 2).sum() for grad in grads.values()))
            clip = min(1.0, CLIP / (norm + 1e-6))
            for name, grad in grads.items():
                m, v = moments[name]
                g = grad * clip
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                moments[name] = m, v
                direction = (m / (1 - 0.9 ** (step + 1))
                             / (np.sqrt(v / (1 - 0.999 ** (step + 1))) + 1e-8))
                p = masters[name] * (1 - RATE * 0.01)
                masters[name] = p - RATE * direction
            schedule.advance()
            bits.append(dict(schedule.bits))
        return np.array(losses), bits

    def test_training(self):
        """Bits that fall, two groups of modules, an offset and a ratio."""
        groups = {"attention": ((9, 6, 3), "attn"), "rest": ((8, 4, 2), "mlp|wte|wpe")}
        flags = (*group("attention", 9, 6, 3, ["attn"]), *group("rest", 8, 4, 2, ["mlp", "wte|wpe"]),
                 "--moq-change-ratio", 0.2, "--moq-offset", 2)
        expected, bits = self.reference(groups, 20, change=0.2, offset=2)
        found = self.steps(self.build(*flags), 20)
        self.assertEqual([step["bits"] for step in found], bits)
        np.testing.assert_allclose([step["loss"] for step in found], expected, rtol=2e-5)

    def meshes(self):
        return MESHES + (LONG_MESHES if h.LONG else [])

    @unittest.skipUnless(h.MPIRUN, "needs mpirun")
    def test_meshes(self):
        # Tensor ranks split the three parts of c_attn, and an odd number of words.
        flags = (*group("a", 6, 2, 2, ["attn.c_proj"]), *group("b", 8, 4, 3, ["mlp", "wte"]),
                 "--moq-groups", 4)
        one = self.steps(self.build(*flags, output="one"), 12, name="one")
        self.assertEqual(one[-1]["bits"], {"a": 3, "b": 5})
        for mesh, ranks, more in self.meshes():
            with self.subTest(mesh):
                found = self.steps(self.build(*flags, *more, output=mesh), 12, ranks=ranks,
                                   name=mesh)
                np.testing.assert_allclose([step["loss"] for step in found],
                                           [step["loss"] for step in one], rtol=1e-5)
                self.assertEqual([step["bits"] for step in found], [step["bits"] for step in one])

    def check_resume(self, *flags):
        """A run that is interrupted where bits change gives the bits of one that is not."""
        binary = self.build(*group("all", 8, 4, 3), "--moq-change-ratio", 0.3, *flags)
        whole = self.steps(binary, 10, "--save", self.path("whole"), name="whole")
        self.assertEqual([step["bits"]["all"] for step in whole[:3]], [8, 7, 7])
        self.steps(binary, 2, "--save", self.path("half"), name="first")
        rest = self.steps(binary, 10, "--resume", self.path("half"), "--save", self.path("rest"),
                          name="rest")
        self.assertEqual([(step["loss"], step["bits"]) for step in rest],
                         [(step["loss"], step["bits"]) for step in whole[2:]])
        for mine, other in zip(self.saved(self.path("whole")), self.saved(self.path("rest"))):
            self.assertEqual(sorted(mine), sorted(other))
            for name, value in mine.items():
                np.testing.assert_array_equal(value, other[name], name)
        # The model that is saved computes what training did after its last update.
        model, masters, numbers = self.saved(self.path("rest"))
        self.assertEqual(numbers["quantizations"], 11)
        for name in masters:
            expected = quantized(name, masters[name], bits=int(numbers["quantization_bits.all"]),
                                 ratio=numbers["quantization_ratio"])
            np.testing.assert_allclose(model[name], expected, rtol=2 ** -8 if flags else 1e-6,
                                       atol=1e-8)

    def test_words_in_forward(self):
        """Target bits at once, and a scale for each word."""
        folder = self.path("forward")
        config = {"compression_training": {"weight_quantization": {
            "shared_parameters": {"enabled": True, "quantize_weight_in_forward": True,
                                  "quantize_groups": 2},
            "different_groups": {"all": {"params": {"start_bits": 8, "target_bits": 4},
                                         "modules": ["wte", "c_fc"]}}}}}
        steps = self.steps(self.build(rate=0.0, config=config), 1, "--save", folder)
        self.assertEqual(steps[0]["bits"], {"all": 4})
        model, _, _ = self.saved(folder)
        for name, groups in [("wte.weight", VOCAB), ("h.0.mlp.c_fc.weight", 2)]:
            np.testing.assert_array_equal(
                model[name], quantized(name, self.weights[name], bits=4, groups=groups), name)

    def test_fp16(self):
        """Steps that overflow do not count."""
        config = {"fp16": {"enabled": True, "initial_scale_power": 26, "hysteresis": 1}}
        binary = self.build(*group("all", 8, 4, 2), "--moq-change-ratio", 0.25, config=config)
        schedule = moq.Schedule({"all": (8, 4, 2)}, 0.25)
        steps = self.steps(binary, 16, "--save", self.path("fp16"))
        for step in steps:
            if not step["skipped"]:
                schedule.advance()
            self.assertEqual(step["bits"], schedule.bits, step["step"])
        self.assertIn(True, [step["skipped"] for step in steps])
        model, masters, numbers = self.saved(self.path("fp16"))
        self.assertEqual(numbers["quantizations"], schedule.count)
        self.assertAlmostEqual(numbers["quantization_ratio"], schedule.ratio, 5)
        for name in masters:
            expected = quantized(name, masters[name], bits=schedule.bits["all"],
                                 ratio=numbers["quantization_ratio"]).astype(np.float16)
            np.testing.assert_allclose(model[name], expected.astype(np.float32), rtol=2 ** -10,
                                       atol=1e-7)

    def test_resume(self):
        self.check_resume()

    def test_resume_bf16(self):
        self.check_resume("--precision", "bf16")

    def test_config(self):
        """The sections of ds_config.json give what flags give."""
        newer = {"compression_training": {"weight_quantization": {
            "shared_parameters": {"enabled": True, "quantize_groups": 4, "schedule_offset": 1,
                                  "quantization_type": "asymmetric", "rounding": "nearest",
                                  "quantizer_kernel": False, "quantize_verbose": True,
                                  "quantize_weight_in_forward": False,
                                  "fp16_mixed_quantize": {"enabled": True,
                                                          "quantize_change_ratio": 0.25}},
            "different_groups": {
                "g1": {"params": {"start_bits": 8, "target_bits": 5, "quantization_period": 2},
                       "modules": ["attn"]},
                "g2": {"params": {"start_bits": 6, "target_bits": 6}, "modules": ["mlp"]}}}}}
        flags = (*group("g1", 8, 5, 2, ["attn"]), *group("g2", 6, 6, 1, ["mlp"]), "--moq-groups", 4,
                 "--moq-offset", 1, "--moq-type", "asymmetric", "--moq-change-ratio", 0.25)
        older = {"quantize_training": {"enabled": True,
                                       "quantize_bits": {"start_bits": 8, "target_bits": 5},
                                       "quantize_schedule": {"quantize_period": 3,
                                                             "schedule_offset": 0},
                                       "quantize_groups": 2,
                                       "quantize_algo": {"q_type": "symmetric",
                                                         "rounding": "nearest"}}}
        for name, config, same in [("newer", newer, flags),
                                   ("older", older, (*group("all", 8, 5, 3), "--moq-groups", 2))]:
            with self.subTest(name):
                expected = self.steps(self.build(*same, output="f-" + name), 6, name="f")
                found = self.steps(self.build(config=config, output="c-" + name), 6, name="c")
                self.assertEqual([(step["loss"], step["bits"]) for step in found],
                                 [(step["loss"], step["bits"]) for step in expected])

    def test_described(self):
        binary = self.build(*group("attention", 8, 4, 3, [r"attn\.c_attn$"]))
        described = json.loads(h.run([binary, "info", "--json"]).stdout)
        self.assertEqual(described["moq"]["attention"]["weights"],
                         [f"h.{layer}.attn.c_attn.weight" for layer in range(2)])
        self.assertIn("start_bits=8 target_bits=4", h.run([binary, "info"]).stdout)


if __name__ == "__main__":
    unittest.main()
