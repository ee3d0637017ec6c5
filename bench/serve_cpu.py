#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures servers of texts: `serve` of a model with random weights, beside llama.cpp's
server with the same shape. One client keeps a number of requests under way, of mixed
lengths that are drawn once for all servers: tokens per second, the time to a request's
first token, and the time between tokens. Servers run by turns, each alone; the numbers
are medians of the turns.

    bench/serve_cpu.py build/release/bin/heddle --shape gpt2 \\
        --python PYTHON_WITH_GGUF --llama-cpp DIRECTORY_OF_LLAMA_SERVER
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import tempfile
import time

from decode_cpu import HERE, SHAPES, make


def token_texts(count):
    """Texts of a byte-level vocabulary: the bytes, then a word for each token."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in seen]
    bytes_ = [chr(byte) for byte in seen] + [chr(256 + i) for i in range(len(rest))]
    return bytes_ + [f"\u0120t{number}" for number in range(count - len(bytes_))]


def write_tokenizer(path, count):
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    vocabulary = {text: number for number, text in enumerate(token_texts(count))}
    with open(path, "w") as file:
        json.dump({"version": "1.0", "added_tokens": [], "normalizer": None,
                   "pre_tokenizer": level, "post_processor": None, "decoder": level,
                   "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}, file)


def draw_requests(count, options):
    """(tokens of the prompt, number of tokens that follow) of each request."""
    draw = random.Random(count)
    vocabulary = SHAPES[options.shape]["vocab_size"]
    return [([draw.randrange(256, vocabulary)
              for _ in range(draw.randint(16, options.prompt))],
             draw.randint(16, options.tokens)) for _ in range(count)]


def ask(port, prompt, tokens):
    """The times of a request's start and of each piece of its text."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True,
            "ignore_eos": True}
    times = [time.monotonic()]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(answer.read().decode())
    for line in answer:
        if line.startswith(b"data: {"):
            choices = json.loads(line[6:])["choices"]
            if choices and choices[0]["text"]:
                times.append(time.monotonic())
    connection.close()
    return times


def measure(port, requests, at_once):
    """Tokens per second, seconds to first tokens and between tokens."""
    warm, *requests = requests
    ask(port, *warm)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        times = list(pool.map(lambda request: ask(port, *request), requests))
    seconds = time.monotonic() - start
    gaps = [b - a for one in times for a, b in zip(one[1:], one[2:])]
    percentile = lambda values, part: sorted(values)[int(part * (len(values) - 1))]
    return {"tokens/s": sum(tokens for _, tokens in requests) / seconds,
            "first": statistics.median(one[1] - one[0] for one in times),
            "p50": percentile(gaps, 0.5), "p99": percentile(gaps, 0.99)}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def running(command, port):
    """A server that is ready."""
    process = subprocess.Popen([str(word) for word in command],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    break
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with {process.returncode}")
            time.sleep(0.1)
        else:
            raise RuntimeError(f"{command[0]} is not ready")
        yield
    finally:
        process.terminate()
        process.wait()


class Servers:
    """Names of servers, and the commands that start them on a port."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        config = os.path.join(folder, "config.json")
        with open(config, "w") as file:
            json.dump(SHAPES[options.shape], file)
        write_tokenizer(os.path.join(folder, "tokenizer.json"),
                        SHAPES[options.shape]["vocab_size"])
        self.context = options.prompt + options.tokens
        self.commands = {}
        for name, quantize in (("bf16", "none"), ("int8", "int8"), ("int4", "int4")):
            binary = os.path.join(folder, name)
            make([options.heddle, "compile", folder, "--init", "random", "--precision",
                  "bf16", "--mode", "serve", "--quantize", quantize, "--max-batch",
                  options.batch, "--max-context", self.context, "--threads",
                  options.threads, "-o", binary])
            self.commands["Heddle " + name] = [binary, "serve", "--port"]
        if options.llama_cpp:
            self.add_llama_cpp(config)

    def add_llama_cpp(self, config):
        options = self.options
        files = {kind: os.path.join(self.folder, kind + ".gguf")
                 for kind in ("F16", "Q8_0", "Q4_0")}
        make([options.python, os.path.join(HERE, "decode_gguf.py"), config, files["F16"],
              os.path.join(self.folder, "tokenizer.json")])
        for kind in ("Q8_0", "Q4_0"):
            make([os.path.join(options.llama_cpp, "llama-quantize"), files["F16"],
                  files[kind], kind, options.threads])
        for kind, file in files.items():
            self.commands["llama.cpp " + kind] = [
                os.path.join(options.llama_cpp, "llama-server"), "-m", file, "-t",
                options.threads, "-np", options.batch, "-c",
                options.batch * self.context, "--no-webui", "--port"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heddle")
    parser.add_argument("--shape", choices=SHAPES, default="gpt2")
    parser.add_argument("--python", help="one with gguf")
    parser.add_argument("--llama-cpp", help="the directory of llama.cpp's programs")
    parser.add_argument("--requests", type=int, nargs="+", default=[1, 8, 32],
                        help="that are under way at a time")
    parser.add_argument("--batch", type=int, default=8,
                        help="texts that a server computes together")
    parser.add_argument("--prompt", type=int, default=512, help="most tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=128, help="most that follow")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    if options.llama_cpp and not options.python:
        parser.error("--llama-cpp needs --python, which writes its file of weights")
    with tempfile.TemporaryDirectory() as folder:
        commands = Servers(options, folder).commands
        found = {(at_once, name): [] for at_once in options.requests for name in commands}
        for _ in range(options.turns):
            for name, command in commands.items():
                port = free_port()
                with running([*command, port], port):
                    for at_once in options.requests:
                        requests = draw_requests(1 + max(8, 2 * at_once), options)
                        found[at_once, name].append(measure(port, requests, at_once))
    print("| | requests | tokens/s | first token, s | between tokens, ms | 99th of 100 |")
    print("|---|---|---|---|---|---|")
    for (at_once, name), turns in found.items():
        middle = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
        print(f"| {name} | {at_once} | {middle['tokens/s']:.1f} | {middle['first']:.3f} | "
              f"{1e3 * middle['p50']:.1f} | {1e3 * middle['p99']:.1f} |")


if __name__ == "__main__":
    main()
