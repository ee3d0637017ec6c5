#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures tokens of a model with random weights, in bf16 and with codes of 8 and
4 bits, which rows in bf16 or in codes of 8 bits are multiplied by, beside PyTorch and
torch.compile in bf16, and beside llama.cpp in F16, Q8_0 and Q4_0. All run by turns; the
numbers are medians of the turns. Several `--fusion` are beside each other, with what a
token launches.

    bench/decode_cpu.py build/release/bin/heddle --shape gpt2 \\
        --python PYTHON_WITH_TRANSFORMERS_AND_GGUF --llama-cpp DIRECTORY_OF_LLAMA_BENCH
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def gpt2(embed, layers, heads):
    return {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024,
            "n_embd": embed, "n_layer": layers, "n_head": heads,
            "activation_function": "gelu_new"}


SHAPES = {
    "gpt2": gpt2(768, 12, 12), "gpt2-xl": gpt2(1600, 48, 25),
    "llama-1b": {"model_type": "llama", "vocab_size": 32000, "hidden_size": 2048,
                 "intermediate_size": 5632, "num_hidden_layers": 22,
                 "num_attention_heads": 32, "num_key_value_heads": 4,
                 "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                 "rope_theta": 10000.0, "hidden_act": "silu",
                 "tie_word_embeddings": False}}


def run(command, tries=1):
    """The JSON that a command writes last: a line, or an object over several. A command
    that writes nothing is run again."""
    done = subprocess.run([str(word) for word in command], check=True, text=True,
                          capture_output=True)
    text = done.stdout.strip()
    if not text and tries > 1:
        return run(command, tries - 1)
    if not text:
        raise RuntimeError(f"{command} wrote nothing: {done.stderr}")
    return json.loads(text if text.startswith("{\n") else text.splitlines()[-1])


def make(command):
    subprocess.run([str(word) for word in command], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Programs:
    """What is measured: functions of the number of texts."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.config = os.path.join(folder, "config.json")
        with open(self.config, "w") as file:
            json.dump(SHAPES[options.shape], file)
        self.measures = {}
        self.binaries = {}
        rows = "--quantize-activations", "int8"
        for name, quantize, *flags in (
                ("bf16", "none"), ("int8", "int8"), ("int8, rows int8", "int8", *rows),
                ("int4", "int4"), ("int4, rows int8", "int4", *rows)):
            for fusion in options.fusion:
                end = f", {fusion}" if len(options.fusion) > 1 else ""
                self.add_heddle(name + end, quantize, "--fusion", fusion, *flags)
        if options.python:
            self.add_torch("PyTorch bf16")
            self.add_torch("torch.compile bf16", "compile")
        if options.llama_cpp:
            self.add_llama_cpp()

    def is_wanted(self, name):
        return name.startswith(tuple(self.options.only))

    def add_heddle(self, name, quantize, *flags):
        options, binary = self.options, os.path.join(self.folder, name)
        if not self.is_wanted("Heddle " + name):
            return
        make([options.heddle, "compile", self.config, "--init", "random", "--precision",
              "bf16", "--mode", "serve", "--quantize", quantize, *flags,
              "--max-batch", max(options.batch), "--max-context",
              options.context + options.tokens + 32, "--threads", options.threads, "-o",
              binary])
        self.binaries["Heddle " + name] = binary
        self.measures["Heddle " + name] = lambda batch: run(
            [binary, "bench", "--decode", "--json", "--batch", batch, "--context",
             options.context, "--tokens", options.tokens])

    def launches(self, name, batch):
        """Those of a token of each text, and the MiB that they read and write."""
        if name not in self.binaries:
            return "", ""
        found = run([self.options.heddle, "explain", self.binaries[name], "--json",
                     "--program", f"decode/{1 << (batch - 1).bit_length()}"])
        return found["launches"], f"{found['launch_bytes'] / 2 ** 20:.1f}"

    def add_torch(self, name, *how):
        options = self.options
        if not self.is_wanted(name):
            return
        self.measures[name] = lambda batch: run(
            [options.python, os.path.join(HERE, "decode_torch.py"), self.config, batch,
             options.context, options.tokens, options.threads, *how])

    def add_llama_cpp(self):
        options = self.options
        files = {kind: os.path.join(self.folder, kind + ".gguf")
                 for kind in ("F16", "Q8_0", "Q4_0")
                 if self.is_wanted("llama.cpp " + kind)}
        wide = os.path.join(self.folder, "F16.gguf")
        if files:
            make([options.python, os.path.join(HERE, "decode_gguf.py"), self.config,
                  wide])
        for kind, file in files.items():
            if file != wide:
                make([os.path.join(options.llama_cpp, "llama-quantize"), wide, file,
                      kind, options.threads])

        def measure(file, batch):
            # Its log, which has the figures, is lost now and then when it ends.
            found = run([os.path.join(options.llama_cpp, "llama-batched-bench"), "-m", file,
                         "-t", options.threads, "-c",
                         batch * (options.context + options.tokens), "-b", 2048, "-ub",
                         512, "-npp", options.context, "-ntg", options.tokens, "-npl",
                         batch, "--output-format", "jsonl"], tries=5)
            return {"median_s": found["t_tg"] / options.tokens,
                    "first_token_s": found["t_pp"] / batch}

        for kind, file in files.items():
            self.measures["llama.cpp " + kind] = (
                lambda batch, file=file: measure(file, batch))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heddle")
    parser.add_argument("--shape", choices=SHAPES, default="gpt2")
    parser.add_argument("--python", help="one with torch, transformers and gguf")
    parser.add_argument("--llama-cpp", help="the directory of llama.cpp's programs")
    parser.add_argument("--fusion", choices=("none", "generic", "deep"), nargs="+",
                        default=["deep"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[""],
                        help="what to measure: the lines that begin with these names")
    options = parser.parse_args()
    if options.llama_cpp and not options.python:
        parser.error("--llama-cpp needs --python, which writes its file of weights")
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(options, folder)
        measures = programs.measures
        print("| | texts | tokens/s | of the streams | first token, s | launches | MiB |")
        print("|---|---|---|---|---|---|---|")
        for batch in options.batch:
            lines = {name: [] for name in measures}
            for _ in range(options.turns):
                for name, measure in measures.items():
                    lines[name].append(measure(batch))
            for name, turns in lines.items():
                middle = lambda key: statistics.median(turn[key] for turn in turns)
                part = (f"{100 * middle('fraction_of_stream'):.0f} %"
                        if "fraction_of_stream" in turns[0] else "")
                launches, moved = programs.launches(name, batch)
                print(f"| {name} | {batch} | {batch / middle('median_s'):.1f} | {part} | "
                      f"{middle('first_token_s'):.3f} | {launches} | {moved} |",
                      flush=True)


if __name__ == "__main__":
    main()
