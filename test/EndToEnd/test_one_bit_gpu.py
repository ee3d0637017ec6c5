#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""1-bit and 0/1 Adam on emulated GPUs against the CPU's ranks, which test_one_bit.py and
test_zero_one.py compare with the algorithms. Each compressed step begins at a checkpoint
of the CPU: fp32 may give small numbers another sign, and a run that goes on from there
soon has other losses."""

import json
import os
import unittest

import numpy as np

import heddle_test as h
import test_gpu
import test_one_bit
import test_one_bit_lamb
import test_zero_one

DEFAULT = [(2, "sm_90")]
MORE = [(2, "sm_80"), (3, "sm_90"), *((2, "sm_90", "--zero", stage) for stage in (1, 2, 3))]
TOLERANCE = 1e-5


class OneBitGpu(test_gpu.GpuTest):
    state_of = test_one_bit.State
    tolerance = TOLERANCE  # Of states.

    def train_pair(self, ranks, target, config, steps, *flags):
        """The binaries for x86-64 and for a GPU, and what the first one trains."""
        rows = test_one_bit.ROWS * ranks
        model, shape, weights = self.make_model(vocab=97, positions=16, embed=40, heads=4,
                                                layers=2 if h.LONG else 1)
        self.names = list(weights)
        self.data, _ = self.make_tokens(rows * test_one_bit.SEQ * steps + 1,
                                        shape["vocab_size"])
        cpu, gpu = (self.compile(model, "--batch", rows, "--seq", test_one_bit.SEQ, "--mesh",
                                 f"data={ranks}", "--target", name, *flags, output=name,
                                 config=config)
                    for name in ("x86-64", target))
        self.saved = self.path("-".join(map(str, ("cpu", ranks, target, *flags))))
        return gpu, self.train_on([cpu], steps, "--save", self.saved, "--save-every", 1,
                                  name="cpu", ranks=ranks)

    def assert_steps(self, found, expected):
        self.assertEqual([step["step"] for step in found],
                         [step["step"] for step in expected])
        for own, other in zip(found, expected):
            self.assertEqual(own["phase"], other["phase"])
            for key in ("loss", "grad_norm"):
                self.assert_close(own[key], other[key], TOLERANCE, (key, own["step"]))

    def assert_states(self, found, expected, ranks):
        """Where all signs are alike, the states are. In tensors with other signs, which
        are few, the scale of the mean is another one."""
        different = total = 0
        for name in self.names:
            kept = [(getattr(found, what)[name], getattr(expected, what)[name])
                    for what in ("m", "v")]
            kept.append((found.weights[name], expected.weights[name]))
            if name in expected.worker:
                scale = np.abs(expected.worker[name]).max() or 1.0
                errors = [(found.worker[name], expected.worker[name]),
                          (found.server[name], expected.server[name])]
                signs = sum(np.sum(np.abs(own - other) > 0.1 * scale)
                            for own, other in errors)
                total += (ranks + 1) * expected.m[name].size
                different += signs
                if signs:
                    continue
                for own, other in errors:
                    self.assertLessEqual(np.abs(own - other).max() / scale,
                                         10 * self.tolerance, name)
            for own, other in kept:
                self.assert_close(own, other, self.tolerance, name)
        self.assertLess(different, 0.01 * total)

    def assert_sent(self, path, gpu, freeze):
        """After `freeze` dense steps and a compressed one, through NCCL: what the plan
        says."""
        sent = {program["phase"]: sum(each["bytes_sent"] for each in program["communication"])
                for program in self.explain(gpu)["programs"] if program["kind"] == "train"}
        self.assertLess(sent["compressed"], sent["dense"])
        with open(path) as file:
            counts = json.load(file)
        self.assertEqual(counts["sent_bytes"] - counts["calls"].get("connect", 0),
                         freeze * sent["dense"] + sent["compressed"])
        for call in ("ncclSend", "ncclRecv", "ncclAllGather"):
            self.assertGreater(counts["calls"].get(call, 0), 0, call)

    def check(self, ranks, target, *flags, freeze=2, steps=4):
        gpu, expected = self.train_pair(ranks, target, test_one_bit.config_of(freeze), steps,
                                        *flags)
        counts = self.path("counts")
        dense = self.train_on(test_gpu.emulated(gpu), freeze + 1, name="dense", ranks=ranks,
                              HEDDLE_EMULATE_COUNTS=counts)
        self.assert_steps(dense, expected[:freeze + 1])
        self.assert_sent(counts, gpu, freeze)
        self.assertIn("kernels agree", h.run([*test_gpu.emulated(gpu), "check"]).stdout)
        self.check_steps(gpu, expected, range(freeze, steps), ranks, target, *flags)

    def check_steps(self, gpu, expected, steps, ranks, target, *flags):
        """Each step after one of `steps`, from the CPU's checkpoint."""
        for step in steps:
            out = self.path(f"gpu-{step}-" + "-".join(map(str, (ranks, target, *flags))))
            found = self.train_on(test_gpu.emulated(gpu), step + 1, "--resume",
                                  os.path.join(self.saved, f"step-{step:06d}"), "--save",
                                  out, name=f"from{step}", ranks=ranks, **h.LIGHT)
            self.assert_steps(found, expected[step:step + 1])
            self.assert_states(*(self.state_of(folder, step + 1, self.names, ranks)
                                 for folder in (out, self.saved)), ranks)

    @h.needs_mpi
    def test_steps(self):
        for case in DEFAULT + MORE * h.LONG:
            with self.subTest(case=case):
                self.check(*case)

    @h.needs_mpi
    @unittest.skipUnless(h.LONG, "test_steps has the kernels")
    def test_zero_one(self):
        """A step of each phase of 0/1 Adam: 4 is dense, 3 and 5 are compressed."""
        for case in [(2, "sm_90"), (3, "sm_80"), (2, "sm_90", "--zero", 2)]:
            with self.subTest(case=case):
                gpu, expected = self.train_pair(
                    case[0], case[1], test_zero_one.config_of(4, 1), 7, *case[2:])
                self.check_steps(gpu, expected, range(2, len(expected)), *case)

    @h.needs_mpi
    @unittest.skipUnless(h.LONG, "test_one_bit_lamb.py has the rule, unit tests the kernels")
    def test_lamb(self):
        """Dense and compressed steps of 1-bit LAMB. All tensors have one scale, so a sign
        that differs changes all of them a little."""
        def state_of(folder, step, names, ranks):
            state = test_one_bit_lamb.State(folder, step, {"decay.compressed": names}, ranks)
            for name in names:
                state.m[name] = np.append(state.m[name], [
                    numbers[name] for numbers in (state.coefficient, state.scale, state.last)])
            return state
        self.state_of, self.tolerance = state_of, 3 * TOLERANCE
        for case in [(2, "sm_90"), (3, "sm_80"), (2, "sm_90", "--zero", 2)]:
            with self.subTest(case=case):
                gpu, expected = self.train_pair(case[0], case[1],
                                                test_one_bit_lamb.config_of(2), 4, *case[2:])
                self.assertIn("kernels agree",
                              h.run([*test_gpu.emulated(gpu), "check"]).stdout)
                self.check_steps(gpu, expected, range(1, 4), *case)


if __name__ == "__main__":
    unittest.main()
