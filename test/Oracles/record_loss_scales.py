#!/usr/bin/env python3
# Records how DeepSpeed's DynamicLossScaler changes the loss scale.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""record_loss_scales.py DIR_OR_TARBALL [--check]

Runs the class DynamicLossScaler of DeepSpeed's sources over the steps of DeepSpeed's own
tests (tests/unit/runtime/half_precision/test_dynamic_loss_scale.py) and over drawn ones,
and writes loss_scales.json. With --check compares the file with what the class gives.
Only the class's file is executed; the modules that it imports are empty ones."""

import importlib.util
import json
import os
import pathlib
import random
import sys
import tarfile
import tempfile
import types
from unittest import mock

FOLDER = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(FOLDER, "loss_scales.json")
FILE = "deepspeed/runtime/fp16/loss_scaler.py"
DRAWN = 100


def load(package):
    """The module of the class, in a directory or an archive of sources."""
    imported = {name: mock.MagicMock() for name in (
        "torch", "deepspeed", "deepspeed.comm", "deepspeed.utils", "deepspeed.runtime",
        "deepspeed.runtime.config_utils", "deepspeed.runtime.utils")}
    imported["deepspeed.runtime.config_utils"] = types.SimpleNamespace(
        DeepSpeedConfigObject=object)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(sys.modules, imported):
        root = pathlib.Path(package)
        if root.is_file():
            with tarfile.open(root) as archive:
                member = next(m for m in archive.getmembers() if m.name.endswith(FILE))
                archive.extract(member, folder)
                root = pathlib.Path(folder) / member.name[:-len(FILE)]
        spec = importlib.util.spec_from_file_location("loss_scaler", root / FILE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def own_patterns():
    """The settings and steps of DeepSpeed's tests; 1 is an overflow."""
    defaults = {"hysteresis": 2, "min": 1, "consecutive": False}
    yield {"initial": 2 ** 8, "window": 2, **defaults}, "0" * 10
    yield {"initial": 2 ** 4, "window": 1000, **defaults}, "1" * 8
    yield {"initial": 2 ** 8, "window": 2, **defaults}, "11" + "0" * 3 + "1"
    yield {"initial": 2 ** 8, "window": 2, **defaults, "hysteresis": 1}, "11" + "0" * 3 + "1"


def drawn_patterns():
    for seed in range(DRAWN):
        pick = random.Random(seed)
        settings = {"initial": 2 ** pick.randint(0, 16), "window": pick.choice([1, 2, 3, 5, 8]),
                    "hysteresis": pick.choice([1, 2, 2, 3, 5]),
                    "min": pick.choice([0.25, 1, 1, 2]),
                    "consecutive": pick.random() < 0.4}
        settings["initial"] = max(settings["initial"], settings["min"])
        rate = pick.choice([0.1, 0.3, 0.6])
        yield settings, "".join("01"[pick.random() < rate] for _ in range(40))


def run(module, settings, overflows):
    """The scale and the rest of the hysteresis before each step, and the index of the step
    that ends the run; None if none does."""
    scaler = module.DynamicLossScaler(
        init_scale=settings["initial"], scale_window=settings["window"],
        min_scale=settings["min"], delayed_shift=settings["hysteresis"],
        consecutive_hysteresis=settings["consecutive"])
    scales, left, ended = [], [], None
    for index, step in enumerate(overflows):
        scales.append(scaler.loss_scale)
        left.append(scaler.cur_hysteresis)
        try:
            scaler.update_scale(step == "1")
        except Exception as error:
            assert "already at minimum" in str(error), error
            ended = index
            break
    return {**settings, "overflows": overflows, "scales": scales, "left": left,
            "ended": ended}


def main():
    module = load(sys.argv[1])
    lines = [json.dumps(run(module, *pattern))
             for pattern in [*own_patterns(), *drawn_patterns()]]
    text = "[" + ",\n ".join(lines) + "]\n"
    if "--check" not in sys.argv:
        with open(RECORD, "w") as file:
            file.write(text)
        return
    with open(RECORD) as file:
        if file.read() != text:
            sys.exit(f"{RECORD} is not what {sys.argv[1]} gives")


if __name__ == "__main__":
    main()
