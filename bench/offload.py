#!/usr/bin/env python3
"""A training step of GPT-2 124M with its optimizer on file, beside the same step
with all in memory, and beside a plain loop that moves as many bytes.

usage: offload.py HEDDLE [--swap-dir DIR] [--precision bf16] [--batch 4] [--seq 64]

Runs the three by turns. Prints the bytes that a step moves, as the plan says and
as they were counted at the system calls, the median seconds of each, and how many
times the larger of computation and disk the step takes.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heddle")
    parser.add_argument("--swap-dir", default=tempfile.gettempdir())
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    loop = os.path.join(os.path.dirname(options.heddle), "heddle-bench-swap")
    with tempfile.TemporaryDirectory() as folder:
        memory = compile_model(options, folder, "memory")
        file = compile_model(options, folder, "file", "--place", "optimizer=file")
        info = json.loads(output_of([options.heddle, "explain", file, "--json"]))
        planned = {
            "read": sum(move["bytes"] for move in info["moves"]
                        if move["from"] == "file"),
            "written": sum(move["bytes"] for move in info["moves"]
                           if move["to"] == "file")}
        computing, moving, steps = [], [], []
        for _ in range(TURNS):
            computing.append(bench(memory)["median_s"])
            found = bench(file, "--swap-dir", options.swap_dir)
            steps.append(found["median_s"])
            rounds = output_of([loop, options.swap_dir, "--plain", planned["read"]])
            moving.append(statistics.median(map(float, rounds.split())))
    counted = {"read": found["file_bytes_read"],
               "written": found["file_bytes_written"]}
    for direction in planned:
        each = planned[direction] / info["parameters"]
        print(f"{direction}: planned {planned[direction]}, counted "
              f"{counted[direction]} bytes a step, {each:.2f} a parameter")
    compute, disk, step = map(statistics.median, (computing, moving, steps))
    print(f"step in memory {compute:.3f} s, plain loop of the bytes {disk:.3f} s, "
          f"step with its optimizer on file {step:.3f} s")
    print(f"{step / max(compute, disk):.2f} times the larger, "
          f"{step / (compute + disk):.2f} times both together")
    return counted != planned


if __name__ == "__main__":
    sys.exit(main())
