#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are quantized while they are trained, on emulated GPUs against the CPU's
ranks, which test_moq.py compares with DeepSpeed's quantizer."""

import unittest

import heddle_test as h
import test_gpu
from test_moq import group

CASES = [(1, "sm_90")]
MORE = [(2, "sm_80", "--mesh", "data=2", "--zero", 3), (2, "sm_90", "--mesh", "tensor=2")]


class MoqGpu(test_gpu.GpuTest):
    def test_training(self):
        """Groups of several sizes, bits that fall to 2, and a ratio."""
        for ranks, target, *flags in CASES + MORE * h.LONG:
            if ranks > 1 and not h.MPIRUN:
                continue
            with self.subTest(target=target, ranks=ranks):
                model, _, _ = self.make_model(vocab=test_gpu.VOCAB, positions=32, embed=32,
                                              layers=1, heads=4)
                self.data_of(3)
                cpu, gpu = self.pair(
                    model, *group("few", 3, 2, 2, ["mlp"]), *group("many", 8, 4, 1, ["wte"]),
                    "--moq-groups", 8, "--moq-change-ratio", 0.25, *flags, target=target)
                self.assert_alike(cpu, gpu, 3, 1e-5, ranks=ranks, products=("generated",))
                self.assertIn("kernels agree",
                              h.run([*test_gpu.emulated(gpu), "check"]).stdout)


if __name__ == "__main__":
    unittest.main()
