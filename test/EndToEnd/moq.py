# Quantization of weights while they are trained.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DeepSpeed's MoQ (deepspeed/runtime/quantize.py of 0.19.6, class Quantizer) in fp32, and
what its class gave for drawn weights and for schedules (test/Oracles/record_moq.py)."""

import json
import os

import numpy as np

import heddle_test as h

RECORD = os.path.join(h.ROOT, "test", "Oracles", "moq.json")
F32 = np.float32


def recorded():
    """`weights`: bits, type, groups, shape and the `values` that the class gave for the
    drawn weight with the index of the entry, as hexadecimal digits of fp32. `schedules`:
    settings, and the bits, the period and the ratio after each quantization."""
    with open(RECORD) as file:
        return json.load(file)


def drawn(index, count):
    """A weight: the same numbers everywhere. Some weights are far from zero."""
    state, values = np.uint64(index * 7919 + 1), np.empty(count, F32)
    for i in range(count):
        state = (state * np.uint64(1664525) + np.uint64(1013904223)) & np.uint64(0xffffffff)
        values[i] = F32(int(state >> np.uint64(8)) - (1 << 23)) / F32(1 << 23)
    return values + F32(index % 5 == 4) * F32(3)


def quantize(weight, bits, kind="symmetric", groups=1, ratio=0.0):
    """The weight [outputs, inputs], rounded to values of `bits` bits."""
    x = weight.astype(F32).reshape(groups, -1)
    if bits >= 3:
        values = F32(2 ** bits)
        least, most = x.min(1, keepdims=True), x.max(1, keepdims=True)
        if kind == "symmetric":
            scale = F32(2) * np.maximum(np.abs(least), np.abs(most)) / values
            zero, low, high = F32(0), -values / 2, values / 2 - 1
        else:
            scale = (most - least) / values
            low, high = F32(0), values - 1
        safe = np.where(scale == 0, F32(1), scale)
        if kind == "asymmetric":
            zero = np.round(least / safe) * safe
        q = np.clip(np.round((x - zero) / safe), low, high) * safe + zero
        q = np.where(scale == 0, x, q)
    else:
        mean = (np.abs(x.astype(float)).sum(1, keepdims=True) / x.shape[1]).astype(F32)
        if bits == 1:
            q = np.sign(x) * mean
        else:
            large = np.abs(x) > F32(0.7) * mean
            level = (np.abs(x.astype(float)) * large).sum(1, keepdims=True) / np.maximum(
                large.sum(1, keepdims=True), 1)
            q = np.where(large, np.sign(x) * level.astype(F32), F32(0))
    ratio = F32(ratio)
    mixed = ratio * x + (F32(1) - ratio) * q if ratio else q
    return mixed.astype(F32).reshape(weight.shape)


class Schedule:
    """The bits and periods of groups {name: (start, target, period)}, and the ratio. The
    count begins below 0 if the first quantization is after more than one update."""

    def __init__(self, groups, change=0.0, offset=0):
        self.bits = {name: start for name, (start, _, _) in groups.items()}
        self.targets = {name: target for name, (_, target, _) in groups.items()}
        self.periods = {name: period for name, (_, _, period) in groups.items()}
        self.change, self.count, self.ratio = change, -offset, 1.0
        if offset == 0:
            self.advance()

    def advance(self):
        self.count += 1
        if self.count < 1:
            return
        self.ratio = max(0.0, self.ratio - self.change) if self.change else 0.0
        for name in self.bits:
            if self.bits[name] > self.targets[name] and self.count >= self.periods[name]:
                self.bits[name] -= 1
                self.periods[name] *= 2
                self.ratio = 1.0 if self.change else 0.0
