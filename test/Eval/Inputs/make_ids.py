#!/usr/bin/env python3
"""Writes the inputs of model.mlir to the file that is named."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../EndToEnd"))
import heddle_test  # noqa: E402

heddle_test.write_safetensors(sys.argv[1], {
    "ids": np.array([[0, 1], [2, 1]], np.int32),
    "labels": np.array([[1, 2], [1, 0]], np.int32)})
