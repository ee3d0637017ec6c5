# Edited dumps: what the compiler makes of each.
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
N-M, takes these alone: a seed is the same mutant in every run. The text of a
mutant that fails is kept in HEDDLE_TEST_KEEP (a folder below the one for
temporary files)."""

import collections
import concurrent.futures
import glob
import itertools
import os
import random
import re
import subprocess
import tempfile

import numpy as np

import heddle_test as h
import mutants

PHASES = ["import", "model", "train", "shard", "pipe", "spmd", "fuse", "kernels",
          "memory", "prove"]
MEMORY = 12 << 20  # KiB of addresses that a process may have.
# Seconds of a core, of what takes less than one unedited; and seconds in all, on
# a machine that does something else too.
CORE_SECONDS, SECONDS = 20, 100
NOT_FINITE = "H0410"
KEEP = os.environ.get("HEDDLE_TEST_KEEP",
                      os.path.join(tempfile.gettempdir(), "heddle-mutants"))


def count_of_mutants(few):
    if "HEDDLE_TEST_COUNT" in os.environ:
        return int(os.environ["HEDDLE_TEST_COUNT"])
    return 10000 if h.LONG else few


def phase_of(seed):
    return PHASES[seed % len(PHASES)]


def seeds(few, once=(), known=PHASES):
    first, _, last = os.environ.get("HEDDLE_TEST_SEED", "").partition("-")
    if first:
        return [seed for seed in range(int(first), int(last or first) + 1)
                if phase_of(seed) in known]
    phases = os.environ.get("HEDDLE_TEST_PHASES", ",".join(known)).split(",")
    wanted = (seed for seed in itertools.count() if phase_of(seed) in phases)
    drawn = list(itertools.islice(wanted, count_of_mutants(few)))
    return drawn + [seed for seed in once if seed > drawn[-1]]


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


def are_near(single, double, found):
    """Whether numbers are those of the interpreter, as far as they are known: what
    rounding alone changes by so much is known no better."""
    single, double, found = (np.asarray(x, np.float64) for x in (single, double, found))
    with np.errstate(all="ignore"):
        slack = 10 * np.abs(double - single)
        is_near = np.abs(found - single) <= slack + 1e-4 * np.abs(found)
    return np.all(is_near | ~np.isfinite(slack))


class MutantsTest(h.HeddleTest):
    """Subclasses give `texts`, the dumps of each configuration by phase, and `compare`:
    what to say of a binary whose numbers are right."""

    def dumps(self, model, *flags, name, config=None):
        """The texts of a configuration, whose binary is `name`-job."""
        folder = self.path(name + "-dumps")
        self.compile(model, "--threads", 1, *flags, "--dump-phases", folder,
                     config=config, output=name + "-job")
        texts = {}
        for phase in PHASES:
            with open(os.path.join(folder, phase + ".mlir")) as file:
                texts[phase] = file.read()
        return texts

    def mutant(self, seed):
        """What the seed stands for: phase, name, what was done, text."""
        pick = random.Random(seed)
        phase = phase_of(seed)
        name = pick.choice(sorted(each for each in self.texts
                                  if phase in self.texts[each]))
        done, text = mutants.mutate(self.texts[name][phase], pick)
        return phase, name, done, text

    def interpret(self, file, precision, *flags):
        """What the interpreter gives for the dump."""
        output = file + ".safetensors"
        ended = Ended([h.HEDDLE, "eval", file, "--ranks", "--output", output,
                       "--precision", precision, *flags])
        if ended.check("eval").status and ended.code != NOT_FINITE:
            raise Bad(f"not executed: eval {ended.code}", ended.errors)
        return h.read_safetensors(output)

    def confirm(self, file, find_wrong, *flags):
        """`find_wrong` says, as two texts, which numbers are not those that the
        interpreter gives in single and in double precision."""
        single = double = self.interpret(file, "f32", *flags)
        wrong = find_wrong(single, double)
        if wrong:
            double = self.interpret(file, "f64", *flags)
            wrong = find_wrong(single, double)
        if wrong:
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
            return phase, "accepted, " + self.compare(file, job, name, phase), ""
        except Bad as bad:
            os.makedirs(KEEP, exist_ok=True)
            kept = os.path.join(KEEP, f"{seed}-{name}-{phase}.mlir")
            with open(kept, "w") as stream:
                stream.write(f"{text}\n// --start-from {phase}: {done}\n")
            return phase, f"FAILED {bad}", (f"seed {seed}: {done}: "
                                            + ", ".join((*bad.args, kept)))
        finally:
            for left in glob.glob(glob.escape(self.path(f"{seed}.")) + "*"):
                os.remove(left)

    def assert_right_or_refused(self, seeds):
        self.cache = os.environ.get("HEDDLE_TEST_CACHE") or self.path("cache")
        verdicts, failed = collections.Counter(), []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for phase, verdict, text in pool.map(self.judge, seeds):
                verdicts[verdict] += 1
                verdicts[f"{verdict} ({phase})"] += 1
                if text:
                    failed.append(text)
                    print(text, flush=True)
        print("  mutants  verdict")
        for verdict, count in sorted(verdicts.items()):
            print(f"{count:9}  {verdict}")
        self.assertEqual(failed, [])
