#!/usr/bin/env python3
"""A training step of GPT-2 124M with its optimizer on file, beside the same step
with all in memory, and beside a plain loop that moves as many bytes.

usage: offload.py HEDDLE [--swap-dir DIR] [--precision bf16] [--batch 4] [--seq 64]
                  [--memory-budget 1.5GiB] [--python PYTHON_WITH_DEEPSPEED]

With clipping, without, and with updates a step later; the step on file within the
budget, which decides how far ahead it reads. All run by turns. Prints the bytes that a
step moves, whether as many were counted at the system calls, the memory that both
plans take, the median seconds of each, and of the step in memory while the loop runs
beside it, which tells what transfers take of the machine; how many times the larger of
computation and disk the step takes, how many times that with such a computation, and
how many times both together.

Then the kernel that updates the parameters, by itself: beside loops that only move
memory (heddle-bench-stream), and beside DeepSpeed's CPUAdam over as many parameters,
where --python names a Python that has it. In bf16 also steps of DeepSpeed with clipping
run by turns with the others then: ZeRO 3, the optimizer in the host's memory and on file.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

from train_cpu import GPT2

TURNS, STEPS = 3, 4
HERE = os.path.dirname(os.path.abspath(__file__))


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


def program(options, name):
    """Another program of the compiler's build."""
    return os.path.join(os.path.dirname(options.heddle), name)


def bench(binary, *flags):
    return json.loads(output_of([binary, "bench", "--json", "--warmup", 1, "--steps",
                                 STEPS, *flags]))


@contextlib.contextmanager
def repeated(command):
    """Runs a program again and again meanwhile."""
    shell = ["sh", "-c", 'while "$@"; do :; done', "sh", *map(str, command)]
    process = subprocess.Popen(shell, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


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
        budget = options.memory_budget
        budget = ["--memory-budget", f"device={budget}"] if budget else []
        self.file = compile_model(options, folder, name + " on file", "--place",
                                  "optimizer=file", *flags, *budget)
        self.info, inside = (
            json.loads(output_of([options.heddle, "explain", binary, "--json"]))
            for binary in (self.file, self.memory))
        self.gib = [sum(info["memory"]["kinds"]["device"].values()) / (1 << 30)
                    for info in (inside, self.info)]
        self.planned = {
            "file_bytes_read": self.moved("from"), "file_bytes_written": self.moved("to")}
        self.seconds = {"memory": [], "beside": [], "file": [], "loop": []}

    def moved(self, end):
        return sum(move["bytes"] for move in self.info["moves"] if move[end] == "file")

    def turn(self):
        folder = self.options.swap_dir
        self.seconds["memory"].append(bench(self.memory)["median_s"])
        found = bench(self.file, "--swap-dir", folder)
        self.counted = {key: found[key] for key in self.planned}
        self.seconds["file"].append(found["median_s"])
        loop = [program(self.options, "heddle-bench-swap"), folder, "--plain",
                self.planned["file_bytes_read"]]
        rounds = output_of(loop)
        self.seconds["loop"].append(statistics.median(map(float, rounds.split())))
        with repeated(loop):
            self.seconds["beside"].append(bench(self.memory)["median_s"])

    def report(self):
        memory, beside, file, loop = (
            statistics.median(self.seconds[key])
            for key in ("memory", "beside", "file", "loop"))
        read, written = self.planned.values()
        each = read / self.info["parameters"], written / self.info["parameters"]
        print(f"| {self.name} | {each[0]:.2f} + {each[1]:.2f} | "
              f"{'yes' if self.counted == self.planned else self.counted} | "
              f"{self.gib[0]:.2f} | {self.gib[1]:.2f} | "
              f"{memory:.2f} | {beside:.2f} | {loop:.2f} | {file:.2f} | "
              f"{file / max(memory, loop):.2f} | {file / max(beside, loop):.2f} | "
              f"{file / (memory + loop):.2f} |")
        return self.counted == self.planned


class DeepSpeed:
    """Steps of one rank whose optimizer is in the host's memory, or on file."""

    def __init__(self, options, place):
        self.place, self.seconds = place, []
        self.words = [options.python, os.path.join(HERE, "gpt2_deepspeed.py"), 3,
                      options.seq, STEPS, json.dumps(GPT2), "--ranks", 1, "--threads",
                      options.threads, "--micro-batch", options.batch, "--offload",
                      place, "--swap-dir", options.swap_dir]

    def turn(self):
        said = json.loads(output_of(self.words).splitlines()[-1])
        self.seconds.append(statistics.median(said["times"]))

    def report(self, way):
        ours, theirs = (statistics.median(seconds)
                        for seconds in (way.seconds["file"], self.seconds))
        print(f"| DeepSpeed, {self.place} | {theirs:.2f} | {theirs / ours:.2f} |")


class CpuAdam:
    """A process in which DeepSpeed updates as many parameters, by turns."""

    def __init__(self, options, parameters):
        self.process = subprocess.Popen(
            [options.python, os.path.join(HERE, "adam_deepspeed.py"),
             options.precision, str(parameters), str(options.threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, DS_ACCELERATOR="cpu",
                     OMP_NUM_THREADS=str(options.threads)))
        self.turn()  # Builds the extension, and maps the moments.

    def turn(self):
        print(STEPS, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit("DeepSpeed's CPUAdam ended")
        return statistics.median(json.loads(line))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Update:
    """The kernel that updates the parameters of a way's binaries."""

    def __init__(self, way):
        self.way, self.parameters = way, way.info["parameters"]
        # A gradient is read; a parameter and two moments are read and written. In
        # bf16 what is computed with is written too.
        self.bytes = self.parameters * (28 + 2 * (way.options.precision == "bf16"))
        self.rates = {}

    def seconds(self, binary, *flags):
        explained = json.loads(output_of([self.way.options.heddle, "explain", binary,
                                          "--json"]))
        updates = {kernel["name"] for kernel in explained["kernels"]
                   if "adamw" in kernel["ops"]}
        return sum(kernel["seconds"]
                   for kernel in bench(binary, "--kernels", *flags)["kernels"]
                   if kernel["name"] in updates)

    def add(self, name, rate):
        self.rates.setdefault(name, []).append(rate)

    def turn(self, peer):
        way, options = self.way, self.way.options
        self.add("Heddle", self.bytes / self.seconds(way.memory))
        self.add("Heddle, by windows on file", self.bytes / self.seconds(
            way.file, "--swap-dir", options.swap_dir))
        if peer:
            self.add("DeepSpeed's CPUAdam", self.bytes / peer.turn())
        rounds = output_of([program(options, "heddle-bench-stream"), self.parameters,
                            options.threads]).splitlines()
        for name, column in (("loop over the same arrays", 0), ("STREAM's triad", 1)):
            self.add(name, 1e9 * statistics.median(
                float(line.split()[column]) for line in rounds))

    def report(self):
        medians = {name: statistics.median(rates) for name, rates in self.rates.items()}
        print("\n| update | ms | GB/s | of the loop | of Heddle |\n|---|---|---|---|---|")
        for name, rate in medians.items():
            print(f"| {name} | {1e3 * self.bytes / rate:.1f} | {rate / 1e9:.1f} | "
                  f"{rate / medians['loop over the same arrays']:.2f} | "
                  f"{rate / medians['Heddle']:.2f} |")


def measure_update(way):
    """By turns too, when the ways are done, so that no memory is missing."""
    update, python = Update(way), way.options.python
    peer = CpuAdam(way.options, update.parameters) if python else None
    for _ in range(TURNS):
        update.turn(peer)
    if peer:
        peer.close()
    update.report()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heddle")
    parser.add_argument("--swap-dir", default=tempfile.gettempdir())
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--memory-budget", help="of the step on file")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--python", help="a Python that has DeepSpeed")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways = [Way(name, options, folder) for name in options.ways]
        peers = [DeepSpeed(options, place)
                 for place in ("cpu", "nvme")
                 if options.python and options.precision == "bf16"]
        for _ in range(TURNS):
            for runner in ways + peers:
                runner.turn()
        print("| | bytes a parameter, read + written | counted as planned | "
              "memory of the plan in memory, GiB | on file, GiB | "
              "step in memory, s | beside the loop, s | plain loop, s | step on file, s | "
              "of the larger | of the larger, beside | of both |")
        print("|---" * 12 + "|")
        are_counted = all([way.report() for way in ways])
        if peers:
            print("\n| step | s | of Heddle's on file |\n|---|---|---|")
        for peer in peers:
            peer.report(ways[0])
        measure_update(ways[0])
    return not are_counted


if __name__ == "__main__":
    sys.exit(main())
