#!/usr/bin/env python3
"""A training step of GPT-2 124M with its optimizer on file, beside the same step
with all in memory, and beside a plain loop that moves as many bytes.

usage: offload.py HEDDLE [--swap-dir DIR] [--precision bf16] [--batch 4] [--seq 64]

With clipping, without, and with updates a step later. All run by turns. Prints the
bytes that a step moves, whether as many were counted at the system calls, the median
seconds of each, how many times the larger of computation and disk the step takes, and
how many times both together.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from train_cpu import GPT2

TURNS, STEPS = 3, 4


def output_of(command):
    return subprocess.run([str(word) for word in command], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def compile_model(options, folder, name, *flags):
    config = os.path.join(folder, "gpt2.json")
    with open(config, "w") as file:
        json.dump(GPT2, file)
    binary = os.path.join(folder, name)
    subprocess.run(
        [options.heddle, "compile", config, "--init", "random", "--seed", "7",
         "--batch", str(options.batch), "--seq", str(options.seq), "--precision",
         options.precision, "--threads", str(options.threads), "-o", binary, *flags],
        check=True, stderr=subprocess.DEVNULL)
    return binary


def bench(binary, *flags):
    return json.loads(output_of([binary, "bench", "--json", "--warmup", 1, "--steps",
                                 STEPS, *flags]))


# Keys of ds_config.json, and flags.
WAYS = {"clipping": ({},), "no clipping": ({"gradient_clipping": 0},),
        "delayed update": ({}, "--delayed-update")}


class Way:
    """A way to update: the step in memory, on file, and a loop over the same bytes."""

    def __init__(self, name, options, folder):
        self.name, self.options = name, options
        keys, *flags = WAYS[name]
        config = os.path.join(folder, name + ".json")
        with open(config, "w") as file:
            json.dump(keys, file)
        flags += ["--config", config]
        self.memory = compile_model(options, folder, name, *flags)
        self.file = compile_model(options, folder, name + " on file", "--place",
                                  "optimizer=file", *flags)
        self.info = json.loads(output_of([options.heddle, "explain", self.file, "--json"]))
        self.planned = {
            "file_bytes_read": self.moved("from"), "file_bytes_written": self.moved("to")}
        self.seconds = {"memory": [], "file": [], "loop": []}

    def moved(self, end):
        return sum(move["bytes"] for move in self.info["moves"] if move[end] == "file")

    def turn(self):
        folder = self.options.swap_dir
        self.seconds["memory"].append(bench(self.memory)["median_s"])
        found = bench(self.file, "--swap-dir", folder)
        self.counted = {key: found[key] for key in self.planned}
        self.seconds["file"].append(found["median_s"])
        loop = os.path.join(os.path.dirname(self.options.heddle), "heddle-bench-swap")
        rounds = output_of([loop, folder, "--plain", self.planned["file_bytes_read"]])
        self.seconds["loop"].append(statistics.median(map(float, rounds.split())))

    def report(self):
        memory, file, loop = (statistics.median(self.seconds[key])
                              for key in ("memory", "file", "loop"))
        read, written = self.planned.values()
        each = read / self.info["parameters"], written / self.info["parameters"]
        print(f"| {self.name} | {each[0]:.2f} + {each[1]:.2f} | "
              f"{'yes' if self.counted == self.planned else self.counted} | "
              f"{memory:.2f} | {loop:.2f} | {file:.2f} | "
              f"{file / max(memory, loop):.2f} | {file / (memory + loop):.2f} |")
        return self.counted == self.planned


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heddle")
    parser.add_argument("--swap-dir", default=tempfile.gettempdir())
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways = [Way(name, options, folder) for name in options.ways]
        for _ in range(TURNS):
            for way in ways:
                way.turn()
    print("| | bytes a parameter, read + written | counted as planned | "
          "step in memory, s | plain loop, s | step on file, s | "
          "of the larger | of both |")
    print("|---|---|---|---|---|---|---|---|")
    return not all([way.report() for way in ways])


if __name__ == "__main__":
    sys.exit(main())
