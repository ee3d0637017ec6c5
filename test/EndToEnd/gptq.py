# GPTQ in numpy, and what a model's products read.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Written from the paper (Frantar et al. 2023), algorithm 1: with the Cholesky
factor of the inverse, and the errors that were made to the values as they had
become. The model is PyTorch's in fp64."""

import numpy as np

import families


def grid(values, bits, even):
    """Scales and zeros of columns: the code of a value v is round(v / scale) +
    zero."""
    lowest, highest = -2 ** (bits - 1), 2 ** (bits - 1) - 1
    least, most = np.minimum(values.min(0), 0), np.maximum(values.max(0), 0)
    if even and bits == 4:
        scale = np.where(-least > most, least, most) / lowest
    elif even:
        scale = np.maximum(-least, most) / highest
    else:
        scale = (most - least) / (highest - lowest)
    scale = scale.astype(np.float32).astype(np.float16).astype(np.float64)
    if even:
        return scale, np.zeros_like(scale)
    return scale, np.clip(lowest - np.rint(least / scale), lowest, highest)


def rounded(values, scale, zero, bits):
    codes = np.clip(np.rint(values / scale) + zero, -2 ** (bits - 1), 2 ** (bits - 1) - 1)
    return codes, scale * (codes - zero)


def gptq(weight, moments, bits, group, even=True, largest_first=False):
    """Codes and values of a weight [in, out]."""
    inputs = len(weight)
    group = group or inputs
    order = np.argsort(-np.diag(moments), kind="stable") if largest_first else \
        np.arange(inputs)
    dampened = moments + 0.01 * np.diag(moments).mean() * np.eye(inputs)
    factor = np.linalg.cholesky(np.linalg.inv(dampened[np.ix_(order, order)])).T
    values = weight.astype(np.float64)[order]
    grids = [grid(weight[first:first + group], bits, even)
             for first in range(0, inputs, group)]
    codes, made = np.empty_like(values), np.empty_like(values)
    for turn in range(inputs):
        if not largest_first and turn % group == 0:
            grids[turn // group] = grid(values[turn:turn + group], bits, even)
        codes[turn], made[turn] = rounded(values[turn], *grids[order[turn] // group], bits)
        error = (values[turn] - made[turn]) / factor[turn, turn]
        values[turn:] -= np.outer(factor[turn, turn:], error)
    back = np.argsort(order)
    return codes[back], made[back]


def output_error(weight, made, moments):
    off = made - weight
    return np.sqrt(np.trace(off.T @ moments @ off) /
                   np.trace(weight.T @ moments @ weight))


class Recorder(families.Decoder):
    """Keeps the moments of what each product reads."""

    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.moments = {}

    def linear(self, x, name):
        rows = x.detach().flatten(0, 1).numpy()
        self.moments[name] = rows.T @ rows
        return super().linear(x, name)


def moments(config, weights, ids):
    recorder = Recorder(config, weights)
    recorder.logits(ids)
    return recorder.moments
