#!/usr/bin/env python3
"""A training step of GPT-2 124M on two CPU ranks, for every ZeRO stage.

Compiles the model for `--mesh data=2`, each rank with one thread, and trains it
under mpirun: a few steps of each stage, then the next, for some rounds. Prints the
median seconds of a step, the memory that the plan gives a rank, and the bytes
that a rank sends in a step. With `--scaling` also one rank with two threads
against two ranks with one, at a longer sequence: the share of its speed that two
ranks reach.

DeepSpeed runs by turns in the same table where --python has it (DS_ACCELERATOR=cpu,
gloo, one thread a rank). The script needs no packages itself.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import train_cpu

ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "gpt2_deepspeed.py")


class Heddle:
    """A binary for one plan; every turn is a run of some steps."""

    def __init__(self, options, folder, name, *flags, ranks=2):
        self.name, self.ranks = name, ranks
        self.binary = os.path.join(folder, name.replace(" ", "-"))
        self.data = os.path.join(folder, "data.bin")
        self.log = self.binary + ".jsonl"
        config = os.path.join(folder, "gpt2.json")
        with open(config, "w") as file:
            json.dump(train_cpu.GPT2, file)
        subprocess.run([options.heddle, "compile", config, "--init", "random",
                        "--seed", "7", "--precision", "bf16", "-o", self.binary,
                        *map(str, flags)], check=True, stderr=subprocess.DEVNULL)
        explained = json.loads(subprocess.run(
            [options.heddle, "explain", self.binary, "--json"], check=True,
            capture_output=True, text=True).stdout)
        self.memory = explained["memory"]["peak"]
        self.sent = sum(c["bytes_sent"] for c in explained["communication"])

    def turn(self, steps):
        if os.path.exists(self.log):
            os.remove(self.log)
        command = [self.binary, "train", "--data", self.data, "--steps",
                   str(steps + 1), "--log", self.log, "--progress", "none"]
        if self.ranks > 1:
            command = ["mpirun", "-n", str(self.ranks), *command]
        subprocess.run(command, check=True, env=ENVIRONMENT,
                       stderr=subprocess.DEVNULL)
        with open(self.log) as file:
            lines = [json.loads(line) for line in file]
        times = [line["time_s"] for line in lines if line["event"] == "step"]
        return statistics.median(times[1:])  # The first one maps its memory.


class DeepSpeed:
    """Two processes of DeepSpeed; every turn is a run of some steps."""

    ranks = 2

    def __init__(self, options, stage):
        self.name = f"deepspeed zero {stage}"
        self.options, self.stage, self.memory, self.sent = options, stage, 0, 0

    def turn(self, steps):
        output = subprocess.run(
            [self.options.python, PEER, str(self.stage), str(self.options.seq),
             str(steps), json.dumps(train_cpu.GPT2)], check=True,
            capture_output=True, text=True).stdout
        result = json.loads(output.splitlines()[-1])
        self.memory = result["peak_rss"]
        return statistics.median(result["times"])


def has_deepspeed(python):
    return subprocess.run([python, "-c", "import deepspeed"],
                          capture_output=True).returncode == 0


def write_data(folder, options):
    text = os.path.join(folder, "data.txt")
    with open(text, "w") as file:
        file.write("how a loom weaves: every thread in its place. " * 40000)
    subprocess.run([options.heddle, "data", "prepare", text, "--tokenizer",
                    "bytes", "-o", os.path.join(folder, "data.bin")], check=True,
                   stdout=subprocess.DEVNULL)


def table(runners, options):
    times = {runner.name: [] for runner in runners}
    for _ in range(options.rounds):
        for runner in runners:
            times[runner.name].append(runner.turn(options.steps))
    print("| plan | s/step | best | memory of a rank | sent by a rank |")
    print("|---|---|---|---|---|")
    for runner in runners:
        turns = times[runner.name]
        print(f"| {runner.name} | {statistics.median(turns):.3f} | "
              f"{min(turns):.3f} | {runner.memory / 2**30:.2f} GiB | "
              f"{runner.sent / 2**20:.1f} MiB |", flush=True)
    return {name: statistics.median(turns) for name, turns in times.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heddle", help="the compiler")
    parser.add_argument("--python", default=sys.executable,
                        help="a Python that may have DeepSpeed (default: this one)")
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--steps", type=int, default=4, help="steps of a turn")
    parser.add_argument("--scaling", action="store_true",
                        help="two ranks against one with two threads, 1024 tokens")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder, options)
        if options.scaling:
            shape = ("--seq", 1024, "--batch", 2)
            medians = table([
                Heddle(options, folder, "one rank", *shape, "--threads", 2, ranks=1),
                Heddle(options, folder, "two ranks", *shape, "--threads", 1,
                       "--mesh", "data=2")], options)
            print(f"efficiency {medians['one rank'] / medians['two ranks']:.2f}")
            return
        runners = [Heddle(options, folder, f"zero {stage}", "--seq", options.seq,
                          "--batch", 4, "--threads", 1, "--mesh", "data=2",
                          "--zero", stage) for stage in range(4)]
        if has_deepspeed(options.python):
            runners += [DeepSpeed(options, stage) for stage in (0, 2, 3)]
        table(runners, options)


if __name__ == "__main__":
    main()
