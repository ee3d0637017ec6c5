#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures tokens of GPT-2 124M, random weights, in bf16 and with codes of 8 and
4 bits, beside PyTorch in bf16. All run by turns; the numbers are medians of the
turns' medians.

    bench/decode_cpu.py build/release/bin/heddle --python PYTHON_WITH_TRANSFORMERS
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024,
          "n_embd": 768, "n_layer": 12, "n_head": 12,
          "activation_function": "gelu_new"}


def run(command):
    done = subprocess.run([str(word) for word in command], check=True, text=True,
                          capture_output=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heddle")
    parser.add_argument("--python", help="one with torch and transformers")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.json")
        with open(config, "w") as file:
            json.dump(CONFIG, file)
        programs = {}
        for name, quantize in (("bf16", "none"), ("int8", "int8"), ("int4", "int4")):
            binary = os.path.join(folder, name)
            subprocess.run([options.heddle, "compile", config, "--init", "random",
                            "--precision", "bf16", "--mode", "serve", "--quantize",
                            quantize, "--threads", str(options.threads), "-o", binary],
                           check=True, stderr=subprocess.DEVNULL)
            programs["Heddle " + name] = lambda batch, binary=binary: run(
                [binary, "bench", "--decode", "--json", "--batch", batch, "--context",
                 options.context, "--tokens", options.tokens])
        if options.python:
            programs["PyTorch bf16"] = lambda batch: run(
                [options.python, os.path.join(HERE, "decode_torch.py"), config, batch,
                 options.context, options.tokens, options.threads])
        print("| | texts | tokens/s | of the streams | first token, s |")
        print("|---|---|---|---|---|")
        for batch in options.batch:
            lines = {name: [] for name in programs}
            for _ in range(options.turns):
                for name, measure in programs.items():
                    lines[name].append(measure(batch))
            for name, turns in lines.items():
                middle = lambda key: statistics.median(turn[key] for turn in turns)
                part = (f"{100 * middle('fraction_of_stream'):.0f} %"
                        if "fraction_of_stream" in turns[0] else "")
                print(f"| {name} | {batch} | {batch / middle('median_s'):.1f} | {part} | "
                      f"{middle('first_token_s'):.3f} |", flush=True)


if __name__ == "__main__":
    main()
