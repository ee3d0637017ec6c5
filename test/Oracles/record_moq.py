#!/usr/bin/env python3
# Records what DeepSpeed's quantizer of weights gives.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""record_moq.py DIR [--check]

Quantizes drawn weights with the class Quantizer of DeepSpeed's sources (0.19.6, the last
version that has it), follows its bits, periods and ratio over 300 quantizations, and
writes both to moq.json. With --check compares the file with what the class gives."""

import importlib.util
import json
import os
import sys
from unittest import mock

import numpy as np
import torch

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "EndToEnd"))
import moq  # noqa: E402

SHAPES = [(4, 6), (6, 4), (2, 12), (8, 3)]
COUNT, STEPS = 500, 300
SCHEDULES = [{"start": 16, "target": 8, "period": 5, "change": 0.0},
             {"start": 12, "target": 6, "period": 3, "change": 0.02},
             {"start": 5, "target": 1, "period": 1, "change": 0.3},
             {"start": 8, "target": 8, "period": 1, "change": 0.001}]


def load(package):
    sys.modules.update({name: mock.MagicMock() for name in (
        "deepspeed", "deepspeed.utils", "deepspeed.ops", "deepspeed.ops.quantizer")})
    spec = importlib.util.spec_from_file_location(
        "quantize", os.path.join(package, "deepspeed", "runtime", "quantize.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Quantizer


def parameter(values, start, target, period):
    weight = torch.nn.Parameter(torch.from_numpy(values.copy()))
    weight.start_bits, weight.target_bits, weight.q_period = start, target, period
    return weight


def record_weights(kind):
    for index in range(COUNT):
        bits = 1 + index % 8
        shape = SHAPES[index // 8 % len(SHAPES)]
        groups = (1, 2, 4)[index // 32 % 3]
        scheme = "symmetric" if bits < 3 or index % 3 else "asymmetric"
        quantizer = kind(q_groups=groups, q_type=scheme, q_rounding="nearest")
        weight = parameter(moq.drawn(index, shape[0] * shape[1]).reshape(shape), bits, bits, 1)
        found = quantizer.compute_quantization(weight).detach().numpy()
        yield {"bits": bits, "type": scheme, "groups": groups, "shape": shape,
               "values": found.astype("<f4").tobytes().hex()}


def record_schedule(kind, settings):
    quantizer = kind(q_mixed_fp16=settings["change"] > 0, q_change_ratio=settings["change"],
                     q_type="symmetric", q_rounding="nearest")
    weight = parameter(moq.drawn(1, 12).reshape(3, 4), settings["start"],
                       settings["target"], settings["period"])
    numbers = []
    for _ in range(STEPS):
        quantizer.quantize([[weight]], overflow=False, eigenvalue_enabled=False)
        numbers.append([weight.start_bits, weight.q_period, quantizer.quantize_real_ratio])
    return {**settings, "numbers": numbers}


def main():
    kind = load(sys.argv[1])
    found = {"weights": list(record_weights(kind)),
             "schedules": [record_schedule(kind, settings) for settings in SCHEDULES]}
    found = json.loads(json.dumps(found))
    if "--check" in sys.argv:
        if found != moq.recorded():
            sys.exit("moq.json is not what the class gives")
        return
    with open(moq.RECORD, "w") as file:
        file.write('{"weights": [\n')
        file.write(",\n".join(json.dumps(one) for one in found["weights"]))
        file.write('\n], "schedules": [\n')
        file.write(",\n".join(json.dumps(one) for one in found["schedules"]))
        file.write("\n]}\n")


if __name__ == "__main__":
    main()
