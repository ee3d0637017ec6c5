#!/usr/bin/env python3
"""Dense and compressed steps of 1-bit Adam over a slow link.

    one_bit_cpu.py HEDDLE [--rates 1000,100] [--dense 4] [--compressed 8]

Two ranks of GPT-2 124M in fp32, 8 x 64 tokens, one thread each, in two network
namespaces (root, `ip` and `tc` are needed) that a pair of virtual interfaces
connects; `tc tbf` limits the rate of each. The ranks talk over TCP. In one run the
first steps are dense and the others compressed. For each rate in Mb/s, and for the
unlimited link, the table has the median seconds of both and their ratio, the bytes
that a rank sends by the plan and by the interface's counter, and what `explain`
predicts of the bytes.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

import train_cpu

SPACES = ("heddle-a", "heddle-b")
ADDRESSES = ("10.231.7.1", "10.231.7.2")


def sh(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, **options)


class Link:
    """Two namespaces and the link between them."""

    def __enter__(self):
        for space in SPACES:
            sh("ip", "netns", "add", space)
        sh("ip", "link", "add", "veth0", "netns", SPACES[0], "type", "veth", "peer",
           "name", "veth0", "netns", SPACES[1])
        for space, address in zip(SPACES, ADDRESSES):
            self.inside(space, "ip", "addr", "add", address + "/24", "dev", "veth0")
            self.inside(space, "ip", "link", "set", "veth0", "up")
            self.inside(space, "ip", "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for space in SPACES:
            subprocess.run(["ip", "netns", "del", space], check=False)

    @staticmethod
    def inside(space, *words, **options):
        return sh("ip", "netns", "exec", space, *words, **options)

    def limit(self, megabits):
        for space in SPACES:
            subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", "del", "dev",
                            "veth0", "root"], stderr=subprocess.DEVNULL, check=False)
            if megabits:
                self.inside(space, "tc", "qdisc", "add", "dev", "veth0", "root", "tbf",
                            "rate", f"{megabits}mbit", "burst", "256k", "latency",
                            "50ms")

    def sent(self, space):
        """Bytes of payload and headers that left the namespace."""
        said = self.inside(space, "cat", "/sys/class/net/veth0/statistics/tx_bytes",
                           capture_output=True, text=True)
        return int(said.stdout)


def build(heddle, folder, dense):
    config = os.path.join(folder, "gpt2.json")
    with open(config, "w") as file:
        json.dump(train_cpu.GPT2, file)
    ds = os.path.join(folder, "ds.json")
    with open(ds, "w") as file:
        json.dump({"optimizer": {"type": "OneBitAdam", "params": {
            "lr": 1e-4, "freeze_step": dense}}}, file)
    binary = os.path.join(folder, "gpt2")
    sh(heddle, "compile", config, "--init", "random", "--config", ds, "--mesh", "data=2",
       "--batch", 8, "--seq", 64, "--threads", 1, "-o", binary,
       stderr=subprocess.DEVNULL)
    return binary


def train(link, binary, data, steps):
    """Seconds of each step, and the bytes that the first rank's interface sent."""
    log = binary + ".jsonl"
    before = link.sent(SPACES[0])
    ranks = []
    for rank, space in enumerate(SPACES):
        variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0,
                     "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": ADDRESSES[0],
                     "MASTER_PORT": 29511}
        ranks.append(subprocess.Popen(
            ["ip", "netns", "exec", space, "env",
             *[f"{name}={value}" for name, value in variables.items()], binary, "train",
             "--data", data, "--steps", str(steps), "--log", log, "--progress", "none"],
            stderr=subprocess.PIPE))
    for rank in ranks:
        _, said = rank.communicate()
        if rank.returncode:
            raise SystemExit(said.decode())
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    os.remove(log)
    seconds = [line["time_s"] for line in lines if line.get("event") == "step"]
    return seconds, link.sent(SPACES[0]) - before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heddle")
    parser.add_argument("--rates", default="0,1000,100")
    parser.add_argument("--dense", type=int, default=4)
    parser.add_argument("--compressed", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Link() as link:
        binary = build(options.heddle, folder, options.dense)
        data = os.path.join(folder, "data.bin")
        text = os.path.join(folder, "data.txt")
        with open(text, "w") as file:
            file.write("how a loom weaves: every thread in its place. " * 4000)
        sh(options.heddle, "data", "prepare", text, "--tokenizer", "bytes", "-o", data,
           stderr=subprocess.DEVNULL)
        print("| link | dense step | compressed step | faster | bytes sent |")
        print("|---|---|---|---|---|")
        for rate in map(int, options.rates.split(",")):
            link.limit(rate)
            seconds, sent = train(link, binary, data,
                                  options.dense + options.compressed)
            # The first step of each kind pays for memory that is touched first.
            dense = statistics.median(seconds[1:options.dense])
            compressed = statistics.median(seconds[options.dense + 1:])
            print(f"| {rate or 'no limit'} | {dense:.3f} s | {compressed:.3f} s "
                  f"| {dense / compressed:.2f} | {sent} |", flush=True)


if __name__ == "__main__":
    main()
