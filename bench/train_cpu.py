#!/usr/bin/env python3
"""A training step of GPT-2 124M on the CPU: Heddle beside PyTorch.

Compiles the model with Heddle and runs it by turns with PyTorch eager and
torch.compile: a few steps each, then the next, so that what else the machine
does falls on all alike. Prints the median seconds of a step, the processor
seconds of all threads together, how many times Heddle's each of these is, and
the share of the arithmetic peak that Heddle's binary measures beside its steps.
On a machine that others use too, processor seconds tell more, and PyTorch needs
OMP_WAIT_POLICY=passive in the environment: else its threads wait by spinning.

All train with AdamW (PyTorch: fused) and clip the gradient to norm 1; bf16 is
autocast in PyTorch. The script needs no packages; PyTorch runs in --python.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12, "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
    "attn_pdrop": 0.0, "initializer_range": 0.02,
}
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpt2_torch.py")


class Heddle:
    """The binary of one precision: every turn is a run of its verb bench."""

    name = "heddle"

    def __init__(self, options, precision, folder):
        config = os.path.join(folder, "gpt2.json")
        with open(config, "w") as file:
            json.dump(GPT2, file)
        self.binary = os.path.join(folder, "gpt2-" + precision)
        self.threads = options.threads
        self.peaks = []
        self.flops = 0
        subprocess.run(
            [options.heddle, "compile", config, "--init", "random", "--seed",
             "7", "--batch", str(options.batch), "--seq", str(options.seq),
             "--precision", precision, "--threads", str(options.threads),
             "-o", self.binary],
            check=True, stderr=subprocess.DEVNULL)

    def turn(self, steps):
        output = subprocess.run(
            [self.binary, "bench", "--json", "--warmup", "1", "--steps",
             str(steps), "--threads", str(self.threads)],
            check=True, capture_output=True, text=True).stdout
        result = json.loads(output)
        self.peaks.append(result["peak_flops_per_s"])
        self.flops = result["flops_per_s"] * result["median_s"]
        return result["median_s"], result["processor_s"]

    def close(self):
        os.remove(self.binary)


class Torch:
    """A process that trains in PyTorch and waits between its turns."""

    def __init__(self, options, precision, mode):
        self.name = "torch " + mode
        self.process = subprocess.Popen(
            [options.python, PEER, mode, precision, str(options.batch),
             str(options.seq), str(options.threads), json.dumps(GPT2)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.turn(2)  # Compiles.

    def turn(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended")
        return tuple(map(statistics.median, json.loads(line)))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(options, precision, folder):
    heddle = Heddle(options, precision, folder)
    runners = [heddle] + [Torch(options, precision, mode)
                          for mode in ("eager", "compile")]
    times = {runner.name: [] for runner in runners}
    for _ in range(options.rounds):
        for runner in runners:
            times[runner.name].append(runner.turn(options.steps))
    for runner in runners:
        runner.close()

    ours = [statistics.median(column) for column in zip(*times["heddle"])]
    # The peak of the least disturbed run.
    peak = max(heddle.peaks)
    for name, turns in times.items():
        wall, processor = zip(*turns)
        middle, busy = statistics.median(wall), statistics.median(processor)
        print(f"| {precision} | {name} | {middle:.3f} | {min(wall):.3f} | "
              f"{busy:.3f} | {middle / ours[0]:.2f} | {busy / ours[1]:.2f} | "
              f"{100 * heddle.flops / min(wall) / peak:.0f} % |", flush=True)
    print(f"{precision}: {heddle.flops / 1e9:.1f} GFLOP a step, peak "
          f"{peak / 1e9:.0f} GFLOP/s", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heddle", help="the compiler")
    parser.add_argument("--python", default=sys.executable,
                        help="a Python that has PyTorch (default: this one)")
    parser.add_argument("--precision", choices=["fp32", "bf16"],
                        help="only this one (default: both)")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn")
    options = parser.parse_args()
    precisions = [options.precision] if options.precision else ["fp32", "bf16"]
    print("| precision | runs | s/step | best | processor s | times Heddle | "
          "processor times Heddle | best, of peak |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for precision in precisions:
            measure(options, precision, folder)


if __name__ == "__main__":
    main()
