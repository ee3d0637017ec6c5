#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed weights: a program that only evaluates reads them in place of its
parameters, and gives the losses that it gave; the interpreter agrees with the
binary in every phase."""

import json
import os
import re
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ = 2, 16


def without_training(text):
    """A dump of the spmd phase without the program that trains, and without the
    states that it alone uses."""
    lines, skipping = [], False
    for line in text.splitlines():
        if re.match(r" +nn\.(step @train|func @block\.(fwd|bwd))\(", line):
            skipping, end = True, line[:len(line) - len(line.lstrip())] + "}"
        if not skipping and "nn.bucket" not in line:
            lines.append(line)
        if skipping and line.startswith(end):
            skipping = False
    text = "\n".join(lines)
    states = re.findall(r"\n *nn\.state @(\S+) role (\w+)", text)
    for name, role in states:
        if role != "parameter" and not re.search(
                rf"nn\.(get|set) @{re.escape(name)}\b(?!\.)", text):
            text = re.sub(rf"\n *nn\.state @{re.escape(name)} .*", "", text)
    return text


class Packed(h.HeddleTest):
    def setUp(self):
        self.model, config, _ = self.make_model(embed=48, heads=4, vocab=97)
        self.data, tokens = self.make_tokens(ROWS * SEQ * 2 + 1, 97)
        h.write_inputs(self.path("inputs.safetensors"), tokens, 1, ROWS, SEQ)

    def dump(self, *flags):
        """Of a model that only evaluates, after the spmd phase."""
        folder = self.path("dump" + "".join(flags))
        h.run([h.HEDDLE, "compile", self.model, "--batch", ROWS, "--seq", SEQ,
               "--stop-after", "spmd", "--dump-phases", folder + ".phases", *flags])
        with open(os.path.join(folder + ".phases", "spmd.mlir")) as file:
            text = without_training(file.read())
        path = folder + ".mlir"
        with open(path, "w") as file:
            file.write(text)
        return path

    def pack(self, dump, options):
        packed = dump.replace(".mlir", "-" + re.sub(r"\W", "_", options) + ".mlir")
        h.run([os.path.join(h.BUILD, "bin", "heddle-opt"), dump,
               f"-fuse-pack-weights={options}", "-o", packed])
        return packed

    def build(self, dump, *flags):
        binary = dump.replace(".mlir", "")
        h.run([h.HEDDLE, "compile", dump, "--start-from", "spmd", "-o", binary,
               "--cache", self.path("cache"), *flags])
        return binary

    def loss(self, binary, ranks=1):
        text = h.run_ranks(ranks, [binary, "eval", "--data", self.data, "--json"])
        return json.loads(text.stdout.splitlines()[-1])["loss"]

    def test_losses_of_packed_weights(self):
        dump = self.dump()
        expected = self.loss(self.build(dump))
        for options, bound in {"bits=0": 1e-6, "bits=8": 5e-3,
                               "bits=8 group=8 even=false": 5e-3,
                               "bits=4 group=8 keep=wte*": 3e-2}.items():
            packed = self.pack(dump, options)
            with open(packed) as file:
                self.assertIn("nn.packed_linear", file.read())
            self.assertLess(abs(self.loss(self.build(packed)) / expected - 1), bound,
                            options)

    def test_interpreter_derives_the_same(self):
        """On one rank and on two, which share the inputs of a scale of 8 bits."""
        for options in ("bits=4 group=8", "bits=8"):
            losses = []
            for mesh in ([], ["--mesh", "tensor=2"]):
                packed = self.pack(self.dump("--precision", "fp32", *mesh), options)
                self.build(packed, "--dump-phases", self.path("phases"))
                for dump in (packed, self.path("phases", "memory.mlir")):
                    output = self.path("loss.safetensors")
                    h.run([h.HEDDLE, "eval", dump, "--program", "eval", "--inputs",
                           self.path("inputs.safetensors"), "--steps", 1, "--output",
                           output, *(["--ranks"] if mesh else [])])
                    losses.append(next(value for key, value in
                                       h.read_safetensors(output).items()
                                       if "loss" in key))
            np.testing.assert_allclose(losses, losses[:1] * 4, rtol=1e-5)

    def test_random_weights(self):
        self.model = os.path.join(self.model, "config.json")
        dump = self.dump("--init", "random", "--seed", "3")
        expected = self.loss(self.build(dump))
        packed = self.loss(self.build(self.pack(dump, "bits=0")))
        self.assertLess(abs(packed / expected - 1), 1e-6)


if __name__ == "__main__":
    unittest.main()
