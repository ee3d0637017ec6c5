# Plans for GPUs with one thing left out or changed.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Of a GPU's plan each wait, fill and copy is left out once, and each size of a
launch, each symbol, and each place of a buffer and of a view changed, and each
buffer put where another one like it is. The plan is refused with a code, or the binary trains to the same bits in emulation: none
is silently wrong. A part of them by default, all with HEDDLE_TEST_LONG=1.
`MutantsTest.cpp` does the same to the PTX of kernels."""

import collections
import concurrent.futures
import os
import random
import re
import subprocess
import unittest

import heddle_test as h

ROWS, SEQ, STEPS, VOCAB = 4, 8, 2, 61
DEFAULT = 4  # Of each kind, if there are so many.
# What is on its way between kinds of memory: it comes late, or leaves early, or
# another value has its bytes.
OF_COPIES = ["without wait", "without copy", "slot"]
NUMBER = re.compile(r"\d+")
LAUNCH = re.compile(r"#plan\.grid_launch<[^>]*>")
SIZES = re.compile(r"(?:grid|block|cluster|shared) = (?:\[[\d, ]*\]|\d+)")
SCRATCH = re.compile(r"scratch_bytes = \d+")
SYMBOL = re.compile(r'grid_launch<"(\w+)"')
OFFSET = re.compile(r"plan\.buffer at \d+")
VIEW = re.compile(r"plan\.view %\w+\[\d+\]")
LEFT_OUT = re.compile(r"\s*plan\.(wait|fill|copy|record)\b")
# A slice at no multiple of 16 bytes, a buffer at none of 256; one that is, but
# where something else may be.
STEPS_OF_VIEWS, STEPS_OF_BUFFERS = [1], [16, 256]
# How compiling refuses a mutant of each kind. Another error, as that of a dump that
# cannot be read, says nothing about what was changed.
SEAL = r"error\[H0397\]: @\w+ is not launched as it was compiled for @\w+: its hash"
LIVE = r"error\[H0354\]: command \d+ uses a buffer that is live in"
SHARED = (r"error\[H0354\]: bytes \[\d+, \d+\) "
          r"(are shared with another buffer|leave the frame)")
UNWRITTEN = r"error\[H0354\]: .* its bytes \[\d+, \d+\) were not written"
NAMES = {
    "launch": SEAL, "symbol": SEAL, "scratch": SEAL, "slot": SHARED,
    "buffer": SHARED + r"|error\[H0354\]: offset \d+ is not a multiple of 64",
    "view": UNWRITTEN + r"|error\[H0354\]: begins at byte \d+ of its buffer|"
            r"error\[H0396\]: 'plan.view' op gives .* from element \d+ of",
    "without copy": f"{UNWRITTEN}|{LIVE}|"
                    r"error\[H0354\]: updates (the parameters that .* these are|"
                    r"a tile of @\S+, which is) not stored",
    "without fill": LIVE,
    "without wait": LIVE + r"|error\[H0354\]: (reads bytes .* still uses|"
                    r"is on the stream \w+, which waits for nothing of this block|"
            r"is on the stream \w+, and \w+ does not wait for it before its block ends)",
    "without record": LIVE}
NO_CODE = "ended without a code"


def numbers_in(line, pattern):
    """Where numbers stand in what the pattern finds."""
    for match in pattern.finditer(line):
        for number in NUMBER.finditer(line, match.start(), match.end()):
            if line[number.start() - 1] in "[ ":
                yield number


def mutants_of(text):
    """What is done to which line, and the line that takes its place."""
    lines = text.split("\n")
    symbols = SYMBOL.findall(text)
    buffers = {}  # By their types: the place of the last one.

    def changed(kind, at, pattern, steps):
        line = lines[at]
        for number in numbers_in(line, pattern):
            for step in steps:
                new = str(int(number.group()) + step)
                yield kind, at, line[:number.start()] + new + line[number.end():]

    for at, line in enumerate(lines):
        command = LEFT_OUT.match(line)
        if command:
            yield "without " + command.group(1), at, ""
        for launch in LAUNCH.finditer(line):
            own = SYMBOL.search(launch.group()).group(1)
            other = symbols[(symbols.index(own) + 1) % len(symbols)]
            yield "symbol", at, line.replace(f'<"{own}"', f'<"{other}"')
        if LAUNCH.search(line):
            yield from changed("launch", at, SIZES, [1])
            yield from changed("scratch", at, SCRATCH, [256])
        yield from changed("buffer", at, OFFSET, STEPS_OF_BUFFERS)
        if OFFSET.search(line):
            place, like = OFFSET.search(line).group(), line.split("#loc")[0].split(":")[-1]
            if buffers.get(like, place) != place:
                yield "slot", at, line.replace(place, buffers[like], 1)
            buffers[like] = place
        yield from changed("view", at, VIEW, STEPS_OF_VIEWS)


class GpuMutants(h.HeddleTest):
    takes_long = True

    # The ranks, the flags, how many mutants there are by default, at least, and of which
    # kinds, if not of all.
    CONFIGURATIONS = {
        "one": (1, ["--accumulate", 2, "--micro-batch", 2], 20, None),
        "mesh": (2, ["--mesh", "data=2", "--zero", 3, "--accumulate", 2,
                     "--micro-batch", 1], 32, None),
        "placed": (1, ["--place", "optimizer=host,parameters=file", "--precision", "bf16",
                       "--sub-group-size", 2048], 36, OF_COPIES),
        "host": (1, ["--place", "optimizer=host", "--host-updates", 1, "--precision",
                     "bf16", "--sub-group-size", 2048], 36, OF_COPIES),
    }

    def prepare(self, name):
        ranks, flags, least, only = self.CONFIGURATIONS[name]
        model, _, _ = self.make_model(vocab=VOCAB, layers=1, dropout=0.1)
        dumps = self.path(name)
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ, "--target",
                              "sm_90", *flags, "--dump-phases", dumps,
                              config=h.ds_config(), output=name + "-job")
        with open(os.path.join(dumps, "memory.mlir")) as file:
            text = file.read()
        return ranks, text, self.trained(binary, ranks), least, only

    def trained(self, binary, ranks):
        """Losses and norms in emulation, or the error's first line."""
        log = binary + ".jsonl"
        try:
            h.run_ranks(ranks, [h.HEDDLE, "emulate", "--devices", ranks, "--", binary,
                                "train", "--data", self.data, "--steps", STEPS, "--log",
                                log, "--progress", "none"])
        except h.Failed as failed:
            return next((line for line in str(failed).split("\n")
                         if "error[" in line or "emulate:" in line), NO_CODE)
        return [(step["loss"], step["grad_norm"]) for step in h.read_log(log)]

    def judge(self, number, text, mutant, ranks, expected):
        """How the mutant was noticed; "same" where it changes nothing."""
        kind, at, line = mutant
        lines = text.split("\n")
        lines[at] = line
        file, binary = self.path(f"{number}.mlir"), self.path(f"{number}.job")
        with open(file, "w") as stream:
            stream.write("\n".join(lines))
        compiled = subprocess.run([h.HEDDLE, "compile", file, "--start-from", "memory",
                                   "-o", binary], capture_output=True, text=True,
                                  env=h.without_ptxas())
        os.remove(file)
        if compiled.returncode:
            said = re.search(r"error\[.*", compiled.stderr)
            return kind, said.group() if said else NO_CODE
        got = self.trained(binary, ranks)
        os.remove(binary)
        if got == expected:
            return kind, "same"
        if isinstance(got, str):
            return kind, got
        return kind, f"SILENTLY WRONG: line {at + 1} as {line.strip()!r}: {got}"

    def check(self, name):
        self.data, _ = self.make_tokens(ROWS * SEQ * STEPS + 1, VOCAB)
        ranks, text, expected, least, only = self.prepare(name)
        self.assertEqual(len(expected), STEPS)
        unchanged = "unchanged", 0, text.split("\n")[0]
        self.assertEqual(self.judge("first", text, unchanged, ranks, expected),
                         ("unchanged", "same"))
        mutants = [mutant for mutant in mutants_of(text)
                   if not only or mutant[0] in only]
        if not h.LONG:
            random.Random(3).shuffle(mutants)
            kinds = collections.defaultdict(list)
            for mutant in mutants:
                kinds[mutant[0]].append(mutant)
            most = 3 * DEFAULT if only else DEFAULT  # Most of these run nothing.
            mutants = [m for kind in kinds.values() for m in kind[:most]]
        self.assertGreaterEqual(len(mutants), least)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(
                lambda each: self.judge(each[0], text, each[1], ranks, expected),
                enumerate(mutants)))
        kinds = collections.Counter((kind, what.split(":")[0]) for kind, what in found)
        print(f"\n{name}: {len(found)} mutants")
        for (kind, what), count in sorted(kinds.items()):
            print(f"  {kind}: {count} {what}")
        for kind, what in found:
            if what == "same":
                self.assertNotIn(kind, ("launch", "symbol", "scratch"))
            else:
                self.assertRegex(what, NAMES[kind], kind)
        for kind in only or []:
            self.assertGreater(kinds[kind, "error[H0354]"], 0, kind)

    def test_one_rank(self):
        self.check("one")

    def test_placed(self):
        self.check("placed")

    def test_host_updates(self):
        self.check("host")

    @h.needs_mpi
    def test_ranks(self):
        self.check("mesh")


if __name__ == "__main__":
    unittest.main()
