#!/usr/bin/env python3
"""Layer dropping on the CPU: the time of a step, and the loss that it costs.

`layer_drop_cpu.py HEDDLE time` trains GPT-2 124M in turns: without dropping, with a
constant rate of 0.5, and with so high a rate that no layer is kept. The last one's step
is the rest of a step: embedding, head, norm of the gradients and update. The table has
the median seconds of a step, and how many times the sum of the rest and of the kept
layers' share the step with rate 0.5 takes: one for each round, whose median is to be
between 0.95 and 1.05.

`layer_drop_cpu.py HEDDLE loss TEXT` trains the quickstart's GPT over bytes with theta
0.5 and without, as scripts/quickstart.sh does, in turns of some steps that continue each
other. The first table has the validation losses after equal numbers of steps, the second
those after equal numbers of seconds. The quickstart's text is made by
    bible -f 'gen1:1-rev22:21' </dev/null | cut -d ' ' -f 2- > TEXT
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import train_cpu

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTHING_KEPT = 1 - 1e-9


def run(*command):
    subprocess.run([str(word) for word in command], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Training:
    """A binary, and the steps and evaluations that it has logged."""

    def __init__(self, options, folder, name, model, *flags):
        self.name, self.folder = name, folder
        self.binary = os.path.join(folder, name.replace(" ", "-"))
        self.log = self.binary + ".jsonl"
        run(options.heddle, "compile", model, "--init", "random", "--seed", 7, "--threads",
            options.threads, "-o", self.binary, *flags)

    def train(self, *flags):
        """The steps and the evaluations of one run."""
        if os.path.exists(self.log):
            os.remove(self.log)
        run(self.binary, "train", "--log", self.log, "--progress", "none", *flags)
        with open(self.log) as file:
            lines = [json.loads(line) for line in file]
        return [[line for line in lines if line["event"] == event]
                for event in ("step", "eval")]


# --- the time of a step -----------------------------------------------------

def measure_time(options, folder):
    model, data = os.path.join(folder, "gpt2.json"), os.path.join(folder, "data.bin")
    with open(model, "w") as file:
        json.dump(dict(train_cpu.GPT2, n_layer=options.layers), file)
    text = os.path.join(folder, "data.txt")
    with open(text, "w") as file:
        file.write("how a loom weaves: every thread in its place. " * 40000)
    run(options.heddle, "data", "prepare", text, "--tokenizer", "bytes", "-o", data)
    flags = ["--batch", options.batch, "--seq", options.seq, "--precision",
             options.precision]
    runners = [Training(options, folder, name, model, *flags, *more) for name, more in (
        ("all layers", []), ("rate 0.5", ["--layer-drop-schedule", 0.5]),
        ("no layer", ["--layer-drop-schedule", NOTHING_KEPT]))]
    times, ratios = {runner.name: [] for runner in runners}, []
    for turn in range(options.rounds):
        means, shares = [], []
        for runner in runners:
            # The first step maps its memory.
            steps = runner.train("--data", data, "--steps", options.steps + 1, "--seed",
                                 turn)[0][1:]
            means.append(statistics.mean(step["time_s"] for step in steps))
            shares.append(statistics.mean(
                len(step.get("kept_layers", range(options.layers))) / options.layers
                for step in steps))
            times[runner.name].append(means[-1])
        whole, dropped, rest = means
        ratios.append(dropped / (rest + shares[1] * (whole - rest)))
        print(f"round {turn + 1}: {100 * shares[1]:.0f} % of the layers kept, "
              f"ratio {ratios[-1]:.3f}", file=sys.stderr, flush=True)
    print("| steps | s/step | best |\n|---|---|---|")
    for name, turns in times.items():
        print(f"| {name} | {statistics.median(turns):.4f} | {min(turns):.4f} |")
    print(f"rate 0.5 takes {statistics.median(ratios):.3f} times the rest and the kept "
          f"layers' share (median of {len(ratios)} rounds, {min(ratios):.3f} to "
          f"{max(ratios):.3f})")


# --- the loss ---------------------------------------------------------------

def measure_loss(options, folder):
    data, val = (os.path.join(folder, name) for name in ("text.bin", "text.val.bin"))
    run(options.heddle, "data", "prepare", options.text, "--tokenizer", "bytes",
        "--val-fraction", 0.05, "-o", data)
    with open(os.path.join(ROOT, "examples/ds_configs/quickstart.json")) as file:
        config = json.load(file)
    config["scheduler"]["params"]["total_num_steps"] = options.steps
    settings = os.path.join(folder, "ds_config.json")
    with open(settings, "w") as file:
        json.dump(config, file)
    model = os.path.join(ROOT, "examples/gpt2-bytes/config.json")
    flags = ["--config", settings, "--seq", 128, "--precision", options.precision]
    drop = ["--layer-drop", f"theta={options.theta},gamma={options.gamma}"]
    runners = [Training(options, folder, name, model, *flags, *more)
               for name, more in (("all layers", []), ("dropping", drop))]
    # For each: seconds and validation loss after each turn.
    found = {runner.name: [] for runner in runners}
    for last in range(options.turn, options.steps + 1, options.turn):
        for runner in runners:
            saved = runner.binary + "-saved"
            resume = ["--resume", saved] if found[runner.name] else []
            steps, evaluations = runner.train(
                "--data", data, "--val", val, "--shuffle", "--steps", last, "--save",
                saved, "--keep-last", 1, *resume)
            before = found[runner.name][-1][0] if found[runner.name] else 0
            found[runner.name].append((before + sum(step["time_s"] for step in steps),
                                       evaluations[-1]["loss"]))
            print(f"{runner.name}: step {last}, {found[runner.name][-1][0]:.1f} s, loss "
                  f"{found[runner.name][-1][1]:.4f}", file=sys.stderr, flush=True)
    whole, dropped = found.values()
    print("| steps | all layers | seconds | dropping | seconds |\n|---|---|---|---|---|")
    for turn, (a, b) in enumerate(zip(whole, dropped)):
        print(f"| {(turn + 1) * options.turn} | {a[1]:.4f} | {a[0]:.1f} | {b[1]:.4f} | "
              f"{b[0]:.1f} |")
    print("\n| seconds | all layers | dropping |\n|---|---|---|")
    for seconds, loss in dropped:
        between = loss_at(whole, seconds)
        if between:
            print(f"| {seconds:.1f} | {between:.4f} | {loss:.4f} |")


def loss_at(points, seconds):
    """The loss at this time, on the straight line between the turns around it; None
    before the first."""
    for (begin, first), (end, last) in zip(points, points[1:]):
        if begin <= seconds <= end:
            return first + (last - first) * (seconds - begin) / (end - begin)
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heddle", help="the compiler")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("time", help="the time of a step")
    verb.add_argument("--layers", type=int, default=12)
    verb.add_argument("--batch", type=int, default=4)
    verb.add_argument("--seq", type=int, default=64)
    verb.add_argument("--rounds", type=int, default=15, help="turns of each")
    verb.add_argument("--steps", type=int, default=4, help="steps of a turn")
    verb.set_defaults(measure=measure_time)
    verb = verbs.add_parser("loss", help="losses at equal steps and at equal seconds")
    verb.add_argument("text", help="a text file")
    verb.add_argument("--theta", type=float, default=0.5)
    verb.add_argument("--gamma", type=float, default=0.001)
    verb.add_argument("--steps", type=int, default=1500)
    verb.add_argument("--turn", type=int, default=100, help="steps of a turn")
    verb.set_defaults(measure=measure_loss)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        options.measure(options, folder)


if __name__ == "__main__":
    main()
