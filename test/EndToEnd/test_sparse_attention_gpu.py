#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block-sparse attention on emulated GPUs: losses and norms as on the CPU, for blocks of
all sizes, on one rank and on meshes."""

import unittest

import numpy as np

import heddle_test as h
import test_gpu
from test_gpu import ROWS, VOCAB
from test_sparse_attention import draw_layout, write_layout

STEPS, HEADS = 3, 4
# In each case: the size of blocks, the length of sequences, the number of layouts, the
# number of ranks and what is compiled.
CASES = [(16, 80, HEADS, 1, ["--accumulate", 2]),
         (64, 130, 1, 1, ["--recompute", "full"]),
         (16, 64, HEADS, 2, ["--mesh", "tensor=2"])]
MORE_CASES = [(32, 96, HEADS, 1, []), (128, 256, HEADS, 1, []),
              (16, 96, 1, 2, ["--mesh", "seq=2", "--context", "ring"]),
              (32, 128, HEADS, 2, ["--mesh", "seq=2", "--context", "ulysses"]),
              (16, 80, 1, 2, ["--mesh", "pipe=2", "--accumulate", 2])]


class SparseAttentionGpu(test_gpu.GpuTest):
    @h.needs_mpi
    def test_as_on_the_cpu(self):
        rng = np.random.default_rng(7)
        for number, (block, seq, layouts, ranks, flags) in enumerate(
                CASES + MORE_CASES * h.LONG):
            with self.subTest(block=block, flags=flags):
                self.data, _ = self.make_tokens(2 * STEPS * ROWS * seq + 1, VOCAB)
                model, _, _ = self.make_model(f"model{number}", vocab=VOCAB, layers=2,
                                              positions=seq, heads=HEADS)
                layout = draw_layout(rng, layouts, seq, block, True)
                file = write_layout(self.path(f"{number}.safetensors"),
                                    np.repeat(layout, HEADS // layouts, 0), block)
                pair = self.pair(model, "--attention-layout", file, *flags,
                                 target=("sm_90", "sm_80")[number % 2], seq=seq)
                self.assert_alike(*pair, STEPS, 1e-5, ranks, ["generated"], **h.LIGHT)


if __name__ == "__main__":
    unittest.main()
