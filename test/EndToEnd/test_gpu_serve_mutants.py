# Edited dumps of plans that serve on GPUs: right or refused.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""As test_serve_mutants.py, for emulated GPUs: layouts and codes of packed weights,
pages, parts of attention, waits and sizes of launches. HEDDLE_TEST_LONG=1 takes 600
mutants."""

import os
import unittest
from unittest import mock

import heddle_test as h
import test_serve_mutants
from test_gpu import emulated


class GpuServingMutants(test_serve_mutants.ServingMutants):
    configurations = {
        "codes": ["--quantize", "int8", "--group", 8, "--target", "sm_90"],
        "zeros": ["--quantize", "int4", "--group", 8, "--quantize-zeros", "--target", "sm_80"],
        "cache": ["--kv-type", "int8", "--target", "sm_90"],
        "gpt2": ["--target", "sm_80"], "llama": ["--target", "sm_90"]}
    few, once = 6, []

    def setUp(self):
        super().setUp()
        defaults = {**h.LIGHT, **({"HEDDLE_TEST_COUNT": "600"} if h.LONG else {})}
        self.enterContext(mock.patch.dict(os.environ, {**defaults, **h.without_ptxas()}))

    def command(self, binary):
        return emulated(binary)


if __name__ == "__main__":
    unittest.main()
