# The rule by which a dynamic loss scale changes.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DeepSpeed's rule for the loss scale (deepspeed/runtime/fp16/loss_scaler.py, class
DynamicLossScaler), and what its class gave for some patterns of steps
(test/Oracles/record_loss_scales.py)."""

import json
import os

import heddle_test as h

RECORD = os.path.join(h.ROOT, "test", "Oracles", "loss_scales.json")


def recorded():
    """The patterns: settings, `overflows` with 1 for a step that overflows, the `scales`
    before each step, and the index of the step that ends the run."""
    with open(RECORD) as file:
        return json.load(file)


def flags_of(settings):
    """The flags of `heddle compile`."""
    return ["--loss-scale", "dynamic", "--loss-scale-initial", settings["initial"],
            "--loss-scale-window", settings["window"], "--loss-scale-hysteresis",
            settings["hysteresis"], "--loss-scale-min", settings["min"]]


def scales_of(initial, window, hysteresis, least, overflows, consecutive=False):
    """The scale before each step, of the steps until the one that ends the run."""
    scale, left, last, scales = initial, hysteresis, -1, []
    for step, overflow in enumerate(overflows):
        scales.append(scale)
        if overflow:
            if left > 1:
                left -= 1
            elif scale == least:
                break
            else:
                scale = max(scale / 2, least)
            last = step
            continue
        if consecutive:
            left = hysteresis
        if step - last > 1 and (step - last - 1) % window == 0:
            scale, left = scale * 2, hysteresis
    return scales
