# Edited dumps: right or refused.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dumps of every phase, edited at random as a user would (`mutants.py`). What
`heddle compile --start-from` makes of one is either refused, with an error's
code and the place in the file, or a binary whose numbers the interpreter
confirms. Nothing ends by a signal, hangs, takes all memory, or exits with 1.

HEDDLE_TEST_LONG=1 takes 10,000 mutants, HEDDLE_TEST_COUNT=N so many,
HEDDLE_TEST_PHASES=import,spmd those of some phases; HEDDLE_TEST_SEED=N, or
N-M, takes these alone: a seed is the same mutant in every run. The text of a mutant that fails is kept in
HEDDLE_TEST_KEEP (a folder below the one for temporary files)."""

import collections
import concurrent.futures
import itertools
import os
import random
import re
import subprocess
import tempfile
import unittest

import numpy as np

import heddle_test as h
import mutants

PHASES = ["import", "model", "train", "shard", "pipe", "spmd", "fuse", "kernels",
          "memory", "prove"]
ROWS, SEQ, STEPS, VOCAB = 4, 5, 2, 11
MEMORY = 12 << 20  # KiB of addresses that a process may have.
# Seconds of a core, of what takes less than one unedited; and seconds in all, on
# a machine that does something else too.
CORE_SECONDS, SECONDS = 20, 100
NOT_FINITE = "H0410"
KEEP = os.environ.get("HEDDLE_TEST_KEEP",
                      os.path.join(tempfile.gettempdir(), "heddle-mutants"))
CONFIGURATIONS = {
    "one": (["--accumulate", 2], {}),
    "mesh": (["--accumulate", 2, "--micro-batch", 1, "--mesh", "data=2,pipe=2",
              "--zero", 2], {}),
}


# That once failed, while the dumps were as they were then.
ONCE = [239, 356, 809]


def count_of_mutants():
    if "HEDDLE_TEST_COUNT" in os.environ:
        return int(os.environ["HEDDLE_TEST_COUNT"])
    return 10000 if h.LONG else 300


def phase_of(seed):
    return PHASES[seed % len(PHASES)]


def seeds():
    first, _, last = os.environ.get("HEDDLE_TEST_SEED", "").partition("-")
    if first:
        return range(int(first), int(last or first) + 1)
    phases = os.environ.get("HEDDLE_TEST_PHASES", ",".join(PHASES)).split(",")
    wanted = (seed for seed in itertools.count() if phase_of(seed) in phases)
    drawn = list(itertools.islice(wanted, count_of_mutants()))
    return drawn + [seed for seed in ONCE if seed > drawn[-1]]


class Bad(Exception):
    """A mutant that shows a fault of the compiler: what it is, and more of it."""

    def __str__(self):
        return self.args[0]


class Ended:
    """A command that ran under limits."""

    def __init__(self, command):
        limits = f'ulimit -v {MEMORY}; ulimit -t {CORE_SECONDS}; exec "$@"'
        try:
            result = subprocess.run(
                ["sh", "-c", limits, "sh", *map(str, command)], capture_output=True,
                text=True, errors="replace", timeout=SECONDS,
                stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise Bad("hang: " + os.path.basename(str(command[0]))) from None
        self.status, self.errors, self.output = (result.returncode, result.stderr,
                                                 result.stdout)
        code = re.search(r"error\[(H\d+)\]", self.errors)
        self.code = code.group(1) if code else ""

    def check(self, what):
        """No signal, no internal error, and a code where there is an error."""
        if self.status in (-24, 152):
            raise Bad(f"hang: {what}")
        if self.status < 0 or self.status > 128:
            raise Bad(f"signal {abs(self.status) % 128}: {what}")
        if self.status == 1:
            raise Bad(f"exit 1: {what} {self.code}")
        if self.status and not self.code:
            raise Bad(f"no code: {what}")
        return self


class Mutants(h.HeddleTest):
    def prepare(self, name, flags, options):
        """The dumps of a configuration: their texts by phase."""
        model, _, _ = self.make_model(vocab=VOCAB, positions=6, embed=8, heads=2,
                                      dropout=0.1, name=name, **options)
        dumps = self.path(name + "-dumps")
        # With Adam's usual eps a gradient that is zero but for rounding would be
        # made as long as the others.
        self.compile(model, "--batch", ROWS, "--seq", SEQ, "--threads", 1, *flags,
                     "--dump-phases", dumps, config=h.ds_config(lr=2e-3, eps=1e-3),
                     output=name + "-job")
        texts = {}
        for phase in PHASES:
            with open(os.path.join(dumps, phase + ".mlir")) as file:
                texts[phase] = file.read()
        return texts

    # --- one mutant ---------------------------------------------------------

    def mutant(self, seed):
        """What the seed stands for: phase, name, what was done, text."""
        pick = random.Random(seed)
        phase = phase_of(seed)
        name = pick.choice(sorted(self.texts))
        done, text = mutants.mutate(self.texts[name][phase], pick)
        return phase, name, done, text

    def evaluate(self, file, steps, *flags):
        output = file + ".safetensors"
        ended = Ended([h.HEDDLE, "eval", file, "--ranks", "--inputs", self.inputs,
                       "--steps", steps, "--output", output, *flags])
        if ended.check("eval").status and ended.code != NOT_FINITE:
            return None, ended.code
        return h.read_safetensors(output), ended.code

    def train(self, binary, ranks):
        log = binary + ".jsonl"
        launch = [h.HEDDLE, "run"] if ranks > 1 else []
        dashes = ["--"] if ranks > 1 else []
        ended = Ended([*launch, binary, *dashes, "train", "--data", self.data,
                       "--steps", STEPS, "--seed", 0, "--log", log, "--progress",
                       "none"]).check("train")
        if ended.status in (3, 5) and ended.code == "H0385":
            raise Bad("train: H0385")
        steps = h.read_log(log) if os.path.exists(log) else []
        return ended.code, steps

    def compare(self, file, phase, steps):
        """Whether the interpreter gives the numbers of the steps."""
        # There is no step in them yet: the second one would be the first again.
        count = 1 if phase in ("import", "model") else len(steps)
        values = [("loss", 1)] if count == 1 else [
            (value, step) for step in range(1, count + 1)
            for value in ("loss", "grad_norm")]
        runs = {}
        for precision in ("f32", "f64"):
            found, code = self.evaluate(file, count, "--precision", precision)
            if found is None:
                raise Bad(f"not executed: eval {code}")
            runs[precision] = found
            wrong = None
            for value, step in values:
                got = [runs[p].get(f"{value}@{step}") for p in runs]
                if value == "grad_norm" and steps[step - 1]["loss"] is None:
                    continue
                if (value in steps[step - 1]) != (got[0] is not None):
                    wrong = f"{value} of one alone", f"step {step}"
                if value not in steps[step - 1] or got[0] is None:
                    continue
                expected = steps[step - 1][value]
                # As JSON has it.
                expected = np.nan if expected is None else expected
                with np.errstate(all="ignore"):
                    # What rounding alone changes by so much is known no better.
                    slack = 10 * abs(float(got[-1]) - float(got[0]))
                    same = np.isclose(float(got[0]), float(expected), rtol=1e-4,
                                      atol=slack if np.isfinite(slack) else 0)
                    same |= not (np.isfinite(got[0]) or np.isfinite(expected))
                if not same and np.isfinite(slack):
                    wrong = (f"{value} of step {step}", f"binary {expected}, "
                             "interpreter " + " ".join(str(float(g)) for g in got))
            if not wrong:
                return
        raise Bad("other numbers: " + wrong[0], wrong[1])

    def judge(self, seed):
        """The verdict on a mutant: a line of the statistics."""
        phase, name, done, text = self.mutant(seed)
        file = self.path(f"{seed}.mlir")
        job = self.path(f"{seed}.job")
        with open(file, "w") as stream:
            stream.write(text)
        try:
            ended = Ended([h.HEDDLE, "compile", file, "--start-from", phase, "-o", job,
                           "--cache", self.cache]).check("compile")
            if ended.status:
                if not re.search(re.escape(file) + r":\d+:\d+", ended.errors):
                    raise Bad(f"no place: {ended.code}")
                return phase, "refused " + ended.code, ""
            code, steps = self.train(job, 4 if name == "mesh" else 1)
            if code == NOT_FINITE:
                # A step without a loss is not in the log.
                steps.append({"loss": None})
            if not steps:
                return phase, "accepted, ends with " + code, ""
            self.compare(file, phase, steps)
            if code:
                return phase, "accepted, both end with " + code, ""
            # Bits, as the same kernels give the same.
            alike = [(s["loss"], s["grad_norm"]) for s in steps] == self.unedited[name]
            return phase, "accepted, " + ("as before" if alike else "equal"), ""
        except Bad as bad:
            os.makedirs(KEEP, exist_ok=True)
            kept = os.path.join(KEEP, f"{seed}-{name}-{phase}.mlir")
            with open(kept, "w") as stream:
                stream.write(f"{text}\n// --start-from {phase}: {done}\n")
            return phase, f"FAILED {bad}", (f"seed {seed}: {done}: " +
                                                 ", ".join((*bad.args, kept)))
        finally:
            for suffix in ("", ".safetensors"):
                if os.path.exists(file + suffix):
                    os.remove(file + suffix)
            for suffix in ("", ".jsonl"):
                if os.path.exists(job + suffix):
                    os.remove(job + suffix)

    # --- all ----------------------------------------------------------------

    def test_accepted_and_right_or_refused(self):
        self.cache = os.environ.get("HEDDLE_TEST_CACHE") or self.path("cache")
        self.data, tokens = self.make_tokens(ROWS * SEQ * STEPS + 1, VOCAB)
        self.inputs = self.path("inputs.safetensors")
        h.write_inputs(self.inputs, tokens, STEPS, ROWS, SEQ)
        self.texts, self.unedited = {}, {}
        for name, (flags, options) in CONFIGURATIONS.items():
            self.texts[name] = self.prepare(name, flags, options)
            _, steps = self.train(self.path(name + "-job"), 4 if name == "mesh" else 1)
            self.unedited[name] = [(s["loss"], s["grad_norm"]) for s in steps]
        verdicts, failed = collections.Counter(), []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for phase, verdict, text in pool.map(self.judge, seeds()):
                verdicts[verdict] += 1
                verdicts[f"{verdict} ({phase})"] += 1
                if text:
                    failed.append(text)
                    print(text, flush=True)
        print("  mutants  verdict")
        for verdict, count in sorted(verdicts.items()):
            print(f"{count:9}  {verdict}")
        self.assertEqual(failed, [])


if __name__ == "__main__":
    unittest.main()
