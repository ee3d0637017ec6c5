# Odd values of every flag of the driver and of a compiled binary.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every flag that takes a value, as `--help` lists them, is in a table with what
it takes. What is out of that, or nothing at all, is refused with status 2 and
the range; the ends of the range are taken."""

import re
import subprocess
import unittest

import heddle_test as h

MOST_COUNT = 10 ** 12
MOST_SEED = 2 ** 64 - 1


class Integer:
    def __init__(self, least, most):
        self.good = [least, most]
        self.words = f"a whole number from {least} to {most}"
        candidates = [least - 1, most + 1, 0, -1, 2 ** 31, 2 ** 63, 2 ** 64]
        self.odd = [str(value) for value in candidates if not least <= value <= most]
        self.odd += ["", "nan", "inf", "text", f"{least}x", f"{least}.5", "1e1"]


class Number:
    def __init__(self, least, most=None, open_end=False):
        self.good = [least, "1e-3" if least <= 1e-3 else "5e-1",
                     most if most and not open_end else 0.5]
        end = "" if most is None else f" to {'below ' * open_end}{most}"
        self.words = f"a number from {least}{end}"
        self.odd = ["", "nan", "inf", "text", "0.1x", least - 1]
        self.odd += [] if most is None else [most + 1] + [most] * open_end


class Choice:
    def __init__(self, *choices):
        self.good = choices
        self.words = "one of " + ", ".join(choices)
        self.odd = ["", "neither", "0", choices[0] + "x"]


class Text:
    """Not empty; what else it must be is checked where it is used."""
    good, odd, words = ["x"], [""], ""


class Size:
    good, words = ["1", "16GiB"], "a size"
    odd = ["", "0", "-1", "nan", "inf", "text", "1x", "1e30"]


class BlockSize:
    good, words = ["4096", "1GiB"], "a size from 4KiB to 1GiB"
    odd = [*Size.odd, "4095", "1073741825"]


class Directories:
    good, words = ["x", "x,parameters=y", "gradients=x"], "a directory"
    odd = ["", ",", "x,", "x,y", "parameters=", "weights=x", "gradients=x,gradients=y"]


class Betas:
    good, words = ["0,0.5", "0.9,0.999"], "two numbers from 0 to below 1"
    odd = ["", "0.9", "0.9,1", "-1,0.9", "nan,0.9", "0.9,0.9x", "0.9,0.9,0.9", "0.9,"]


class LayerDrop:
    good = ["theta=0.5", "gamma=0", "theta=1,gamma=2.5"]
    words = "theta=X above 0 and at most 1"
    odd = ["", "0.5", "theta=0", "theta=1.5", "theta=nan", "gamma=-1", "gamma=inf", "rate=1",
           "theta=0.5,", "theta=0.5,theta=0.6"]


class DropRates:
    good, words = ["0", "0.5", "0.0,0.25,0.999"], "numbers from 0 to below 1"
    odd = ["", "1", "-0.1", "nan", "0.5,", "0.5x", "0.5 0.6"]


class Counts:
    good, words = ["1", "1,8,32", MOST_COUNT], "whole numbers above 0, such as 1,8,32"
    odd = ["", "0", "-1", "text", "1,", ",1", "1,,2", "1,0", "1 2", "1.5", str(MOST_COUNT + 1)]


class Positions:
    good = ["1", "8192", "8192:repeat", "268435456:interpolate"]
    words = "a number of positions from 1 to 268435456"
    odd = ["", "0", "-1", "text", "8192:", "8192:mirror", "repeat", "8192:repeat:repeat", "1.5",
           "268435457"]


class LossScale:
    good = ["none", "dynamic", "1024", "1e-30", "1e38"]
    words = "dynamic, none, or a number from 1e-30 to 1e38"
    odd = ["", "static", "0", "-1", "nan", "inf", "1e39", "8x"]


class LeastLossScale:
    good, words = ["1e-30", "1024", "1e38"], "a number from 1e-30 to 1e+38"
    odd = ["", "text", "0", "-1", "nan", "inf", "1e39", "8x"]


class Sizes:
    good, words = ["4", "0,4", "2,4,1048576"], "whole numbers with commas, such as 4 or 2,4,8"
    odd = ["", ",", "4,", "-1", "text", "4x", "4.5", "1048577", "none"]


class Indices:
    good, words = ["0", "0,5", "-1,1048576", "none"], "whole numbers with commas, such as 0 or"
    odd = ["", ",", "0,", "text", "-", "1.5", "1048577"]


COUNT, SOME, SEED = Integer(0, MOST_COUNT), Integer(1, MOST_COUNT), Integer(0, MOST_SEED)
JOIN = Integer(1, 86400)
THREADS = Integer(1, 1024)

DRIVER = {
    "compile": {
        "--output": Text, "--config": Text, "--strategy": Text, "--cluster": Text,
        "--weights": Text, "--draft": Text, "--draft-tokens": Integer(1, 16),
        "--optimize": Choice("latency", "throughput"),
        "--init": Text, "--seed": SEED, "--mesh": Text, "--betas": Betas,
        "--layer-drop": LayerDrop,
        "--warmup-steps": COUNT, "--train-steps": SOME,
        "--precision": Choice("fp32", "bf16", "fp16"),
        "--kv-type": Choice("fp32", "bf16", "fp16", "int8"), "--kv-cache": Size,
        # A size is a text.
        "--memory-budget": Size, "--place": Text,
        "--swap-block-size": BlockSize,
        "--dump-phases": Text, "--stop-after": Text,
        "--start-from": Text, "--cache": Text, "--report": Text},
    "fit": {},
    "explain": {"--rank": Integer(0, 2 ** 20 - 1), "--cluster": Text, "--trace": Text,
                "--program": Text, "--target": Text, "--depth": Integer(0, 64),
                "--context": SOME, "--output": Text,
                "--svg": Choice("memory", "schedule", "transfers", "mesh", "layout")},
    "report": {"--output": Text, "--cluster": Text, "--trace": Text, "--log": Text},
    "eval": {"--inputs": Text, "--program": Text,
             "--steps": SOME, "--weights": Text, "--seed": SEED, "--precision": Text,
             "--threads": THREADS, "--output": Text},
    "data prepare": {"--tokenizer": Text, "--output": Text,
                     "--val-fraction": Number(0, 1, open_end=True),
                     "--field": Text, "--format": Choice("auto", "text", "jsonl")},
    "data check": {"--vocab": Integer(0, 2 ** 30)},
    "checkpoint inspect": {}, "checkpoint verify": {},
    "checkpoint export": {"--output": Text},
    "checkpoint convert": {"--output": Text, "--dtype": Text, "--shard-size": Size},
    "quantize": {"--output": Text, "--bits": Choice("8", "4"),
                 "--quantize-group": Integer(0, 2 ** 20), "--keep-16bit": Text, "--report": Text,
                 "--method": Choice("rtn", "gptq"), "--calibration": Text,
                 "--calibration-rows": Integer(1, 2 ** 20),
                 "--seq": Integer(0, 2 ** 20), "--eval-data": Text},
    "layout": {"--heads": Integer(1, 2 ** 16), "--seq": Integer(1, 2 ** 24 - 1),
               "--seed": SEED, "--output": Text, "--picture": Text,
               "--block": Choice("16", "32", "64", "128"),
               "--num-local-blocks": Integer(1, 2 ** 20),
               "--num-global-blocks": Integer(0, 2 ** 20),
               "--num-random-blocks": Integer(0, 2 ** 20),
               "--num-sliding-window-blocks": Integer(0, 2 ** 20),
               "--local-window-blocks": Sizes, "--global-block-indices": Indices,
               "--global-block-end-indices": Indices,
               "--attention": Choice("bidirectional", "unidirectional"),
               "--num-different-global-patterns": Integer(1, 2 ** 20)},
    "run": {"--hostfile": Text, "--include": Text, "--exclude": Text, "--ssh": Text,
            "--master-addr": Text, "--master-port": Integer(1, 65535),
            "--join-timeout": JOIN},
    "emulate": {"--chip": Choice("sm_80", "sm_90"), "--devices": Integer(1, 1024)},
}
GEMM = {"--gemm": Choice("auto", "library", "generated")}
JOB = {**GEMM, "--weights": Text, "--threads": THREADS, "--device": Choice("cpu", "cuda"),
       "--join-timeout": JOIN, "--swap-dir": Directories}
TRAINING_JOB = JOB
JOB = {**JOB, "--weight-cache": Choice("auto", "map", "read", "none"),
       "--weights-cache": Text,
       "--weight-cache-dir": Text}
ENCODE_JOB = JOB
JOB = {**JOB, "--device-memory": Number(0.01, 1)}
SAMPLING = {"--max-new-tokens": COUNT, "--temperature": Number(0), "--top-k": SOME,
            "--top-p": Number(0, 1), "--min-p": Number(0, 1),
            "--repetition-penalty": Number(0.001, 100), "--stop": Text, "--seed": SEED}
DRAFT = {"--draft-weights": Text}
POOLING = Choice("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
BINARY = {
    "": {"--local_rank": Integer(-1, 2 ** 20 - 1)},
    "train": {"--data": Text, "--inputs": Text, "--steps": COUNT, "--val": Text,
              "--val-every": COUNT,
              "--val-steps": COUNT, "--save": Text, "--save-every": COUNT,
              "--keep-last": COUNT, "--resume": Text, "--seed": SEED, "--log": Text,
              "--trace": Text, "--dump": Text, "--print-kept-layers": COUNT,
              "--profile-file": Text, "--profile-flame": Text,
              "--profile-depth": Integer(0, 64), "--profile-top": SOME,
              "--progress": Choice("auto", "plain", "none"), "--log-csv": Text,
              "--log-tensorboard": Text, "--stop-when-no-better": COUNT,
              "--data-check": Choice("all", "batch"),
              "--data-position": Choice("check", "keep", "start"),
              "--mask-probability": Number(0, 1), "--mask-token": COUNT,
              "--lr": Number(0), "--min-lr": Number(0), "--warmup-steps": COUNT,
              "--train-steps": SOME, "--weight-decay": Number(0), "--clip": Number(0),
              "--save-dtype": Choice("F32", "BF16", "F16"),
              "--on-nonfinite": Choice("stop", "skip"), **TRAINING_JOB},
    "eval": {"--data": Text, "--inputs": Text, "--steps": COUNT, "--log": Text,
             "--mask-probability": Number(0, 1), "--mask-token": COUNT, **JOB},
    "generate": {"--prompt": Text, "--prompt-ids": Text, **SAMPLING, **DRAFT, **JOB},
    "chat": {"--system": Text, **SAMPLING, **DRAFT, **JOB},
    "serve": {"--host": Text, "--port": Integer(0, 65535), "--api-key": Text,
              "--request-timeout": Integer(1, 86400), "--max-texts": SOME,
              "--pooling": POOLING, "--prompt-name": Text,
              "--served-model-name": Text, "--allow-origin": Text, **DRAFT, **JOB},
    "logits": {"--prompt": Text, "--prompt-ids": Text, "--output": Text, **JOB},
    "encode": {"--text": Text, "--ids": Text, "--prompt-name": Text,
               "--pooling": POOLING,
               "--output": Text, **ENCODE_JOB},
    "bench": {"--steps": SOME, "--warmup": COUNT, "--batch": Counts, "--context": Counts,
              "--tokens": SOME, "--trace": Text, **DRAFT, **JOB},
    "check": {"--join-timeout": JOIN, "--sample": COUNT, **GEMM},
    "info": {"--join-timeout": JOIN},
}


def kind_of(values):
    """What the reference says that a setting takes."""
    if found := re.fullmatch(r"a whole number from (\d+) to (\d+)", values):
        return Integer(*map(int, found.groups()))
    if found := re.fullmatch(r"a number from (\d+)(?: to (below )?(\d+))?", values):
        least, below, most = found.groups()
        return Number(int(least), most and int(most), bool(below))
    if values.startswith("one of "):
        return Choice(*values.removeprefix("one of ").split(", "))
    for kind in Directories, DropRates, Positions, LossScale, LeastLossScale:
        if values.startswith(kind.words):
            return kind
    assert values == "text", values
    return Text


# The flags of settings; those above are of another kind than their settings.
for row in h.setting_rows():
    for flag in re.findall(r"`(--[\w-]+)`", row["flags"])[:1]:
        if row["values"] != "true or false":
            DRIVER["compile"].setdefault(flag, kind_of(row["values"]))
# What fits is asked of plans that train, and of no weights.
DRIVER["fit"] = {flag: kind for flag, kind in DRIVER["compile"].items() if flag not in (
    "--weights", "--init", "--seed", "--dump-phases", "--stop-after", "--start-from",
    "--mode", "--max-batch", "--max-context", "--kv-cache", "--kv-type", "--optimize",
    "--draft", "--draft-tokens", "--report")}


def flags_of(program, verb):
    """The flags of a verb that take a value, each by its first long name."""
    text = h.run([program, *verb.split(), "--help"]).stdout
    found = re.findall(r"^  (-[\w,-]+) (?:INT|UINT|FLOAT|TEXT|FILE|DIR)\b", text,
                       re.MULTILINE)
    return {re.search(r"--[\w-]+", names).group() for names in found}


def verbs_of(program, *verb):
    text = h.run([program, *verb, "--help"]).stdout
    _, _, listed = text.partition("Subcommands:\n")
    return re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)


class Flags(h.HeddleTest):
    def check(self, program, table, code):
        seen = set()
        for verb, flags in table.items():
            self.assertEqual(flags_of(program, verb), set(flags), verb)
            rounds = []  # Values that one command takes together, by their flags.
            for flag, kind in flags.items():
                # Verbs that have a flag in common share its checks, and so do all flags
                # that take the same, unless HEDDLE_TEST_LONG=1: of the others one value
                # each shows that they ask for the checks.
                key = (flag, kind) if h.LONG else kind.words
                values = slice(0, 1 if key in seen else None)
                seen.add(key)
                for value in kind.odd[values]:
                    with self.subTest(verb=verb, flag=flag, value=value):
                        self.refuse([program, *verb.split(), f"{flag}={value}"],
                                    code, flag, kind.words)
                for number, value in enumerate(kind.good[values]):
                    rounds += [{}] * (number == len(rounds))
                    rounds[number] = {**rounds[number], flag: str(value)}
            for taken in rounds:
                with self.subTest(verb=verb, taken=taken):
                    self.take([program, *verb.split()], taken)

    def refuse(self, command, code, flag, words):
        result = self.start(command)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(f"error[{code}]: {flag}: ", result.stderr)
        self.assertIn(words, result.stderr)

    def take(self, command, taken):
        """The flag after them is the one that is refused."""
        words = [word for flag in taken.items() for word in flag]
        result = self.start([*command, *words, "--no-such-flag"])
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--no-such-flag", result.stderr)
        for flag in taken:
            self.assertNotIn(f" {flag}: ", result.stderr)

    def start(self, command):
        return subprocess.run(command, text=True, capture_output=True, timeout=20)

    def test_driver(self):
        verbs = verbs_of(h.HEDDLE)
        nested = [f"{verb} {inner}" for verb in verbs for inner in verbs_of(h.HEDDLE, verb)]
        outer = {verb.split()[0] for verb in nested}
        self.assertEqual(set(DRIVER), {*nested, *verbs} - outer)
        self.check(h.HEDDLE, DRIVER, "H0114")

    def test_binary(self):
        model, _, _ = self.make_model()
        binary = self.compile(model, "--threads", 1, "--batch", 1)
        self.assertEqual(set(BINARY), {"", *verbs_of(binary)})
        self.check(binary, BINARY, "H0190")


if __name__ == "__main__":
    unittest.main()
