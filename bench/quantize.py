#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Perplexities of a model whose layers' matrices are codes: those of `heddle quantize`,
and llama.cpp's Q4_0 and Q8_0 as numpy makes them of the same weights.

    bench/quantize.py build/release/bin/heddle MODEL --calibration TRAIN.bin --data VAL.bin
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test",
                                "EndToEnd"))
import heddle_test  # noqa: E402  Reads and writes safetensors.

BLOCK = 32  # Of llama.cpp's formats: values along the inputs that share a scale.


def q4_0(values):
    """The largest magnitude, with its sign, becomes code 0 of 16."""
    extreme = numpy.take_along_axis(
        values, numpy.abs(values).argmax(-1)[..., None], -1)
    scale = (extreme / -8).astype(numpy.float16).astype(numpy.float32)
    inverse = numpy.divide(1, extreme / -8, where=extreme != 0,
                           out=numpy.zeros_like(extreme))
    codes = numpy.minimum(15, numpy.floor(values * inverse + numpy.float32(8.5)))
    return (codes - 8) * scale


def q8_0(values):
    largest = numpy.abs(values).max(-1, keepdims=True)
    inverse = numpy.divide(127, largest, where=largest != 0,
                           out=numpy.zeros_like(largest))
    scale = (largest / 127).astype(numpy.float16).astype(numpy.float32)
    return numpy.rint(values * inverse) * scale


def write_blocks(model, made, coded, rounding):
    """A copy of the model with such values in the weights named `coded`."""
    shutil.copytree(model, made)
    file = os.path.join(made, "model.safetensors")
    tensors = heddle_test.read_safetensors(file)
    errors = squares = 0
    for name in coded:
        weight = tensors[name].astype(numpy.float32)
        # Along the inputs: GPT-2 stores [inputs, outputs].
        rows = weight.T if ".c_" in name else weight
        values = rounding(rows.reshape(-1, BLOCK)).reshape(rows.shape)
        errors += ((values - rows) ** 2).sum(dtype=numpy.float64)
        squares += (rows ** 2).sum(dtype=numpy.float64)
        tensors[name] = numpy.ascontiguousarray(values.T if ".c_" in name else values)
    heddle_test.write_safetensors(file, tensors)
    return (errors / squares) ** 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heddle")
    parser.add_argument("model")
    parser.add_argument("--calibration", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seq", type=int, default=128)
    options = parser.parse_args()
    folder = tempfile.mkdtemp()

    def perplexity(model):
        binary = os.path.join(folder, "binary")
        subprocess.run([options.heddle, "compile", model, "--mode", "serve", "--precision",
                        "fp32", "--max-context", str(options.seq), "-o", binary],
                       check=True, stderr=subprocess.DEVNULL)
        done = subprocess.run([binary, "eval", "--data", options.data, "--json"],
                              check=True, text=True, capture_output=True)
        return json.loads(done.stdout)["perplexity"]

    def quantized(number, bits, group, *flags):
        made, report = (os.path.join(folder, kind + str(number))
                        for kind in ("made", "report"))
        subprocess.run([options.heddle, "quantize", options.model, "--bits", str(bits),
                        "--group", str(group), "--calibration", options.calibration,
                        "--eval-data", options.data, "--seq", str(options.seq),
                        "--report", report, "-o", made, *flags],
                       check=True, stdout=subprocess.DEVNULL)
        with open(report) as file:
            return made, json.load(file)

    plain = perplexity(options.model)
    print(f"| weights of layers | bits | error | perplexity | |\n|---|---|---|---|---|\n"
          f"| fp32 | 32 | | {plain:.4f} | |", flush=True)

    def show(name, bits, error, model):
        found = perplexity(model)
        print(f"| {name} | {bits} | {100 * error:.2f} % | {found:.4f} | "
              f"{100 * (found / plain - 1):+.2f} % |", flush=True)

    gptq, order = ("--method", "gptq"), ("--act-order",)
    rows = [("int8, a scale for each output", 8, 0, ()),
            ("int8, groups of 64", 8, 64, ()),
            ("int4, groups of 64", 4, 64, ()),
            ("int4, groups of 64, GPTQ", 4, 64, gptq),
            ("int4, groups of 64, GPTQ, `--act-order`", 4, 64, gptq + order),
            ("int4, groups of 32", 4, 32, ()),
            ("int4, groups of 32, GPTQ", 4, 32, gptq)]
    for number, (name, bits, group, flags) in enumerate(rows):
        made, report = quantized(number, bits, group, *flags)
        show(name, f"{bits + (16 / group if group else 0):g}", report["error"], made)
        coded = [row["name"] for row in report["weights"]]
    for name, bits, rounding in (("Q8_0", 8.5, q8_0), ("Q4_0", 4.5, q4_0)):
        made = os.path.join(folder, name)
        show(name, bits, write_blocks(options.model, made, coded, rounding), made)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
