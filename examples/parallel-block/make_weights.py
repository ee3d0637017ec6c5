#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make_weights.py DIRECTORY: random weights for arch.mlir, and a config.json."""

import json
import os
import random
import struct
import sys

WIDTH, VOCAB, INNER, KEYS, LAYERS = 32, 256, 64, 16, 2


def shapes():
    yield "embed.weight", (VOCAB, WIDTH)
    for layer in range(LAYERS):
        path = f"blocks.{layer}."
        yield path + "q.weight", (WIDTH, WIDTH)
        yield path + "k.weight", (KEYS, WIDTH)
        yield path + "v.weight", (KEYS, WIDTH)
        yield path + "norms", (2, WIDTH)
        yield path + "out.weight", (WIDTH, WIDTH)
        yield path + "up.weight", (INNER, WIDTH)
        yield path + "down.weight", (WIDTH, INNER)
    yield "last.weight", (WIDTH,)


def main(directory):
    generator = random.Random(1)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump({"model_type": "parallel", "vocab_size": VOCAB}, file)
    header, data = {}, b""
    for name, shape in shapes():
        count = 1
        for size in shape:
            count *= size
        is_norm = "norm" in name or "last" in name
        values = [generator.gauss(float(is_norm), 0.1) for _ in range(count)]
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack(f"<{count}f", *values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(directory, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main(sys.argv[1])
