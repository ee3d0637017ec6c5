#!/usr/bin/env python3
# Records attention layouts of DeepSpeed's classes.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""record_layouts.py DIR_OR_TARBALL > test/Inputs/attention-layouts.jsonl

Draws settings of block-sparse attention, has the classes of DeepSpeed 0.19.6 make
their layouts, and prints a line of JSON for each: the settings, and the number of
blocks and a hash of the layout. Settings that the classes refuse have the name of
the exception instead. Where blocks are random, the first blocks of the range are
taken in place of drawn ones, so that the layout is the same every time.

Of DeepSpeed, sparsity_config.py alone is imported, which needs PyTorch.
"""

import collections
import importlib.util
import json
import pathlib
import random
import sys
import tarfile
import tempfile

CLASSES = {"dense": "Dense", "fixed": "Fixed", "variable": "Variable", "bigbird": "BigBird",
           "bslongformer": "BSLongformer", "local": "LocalSlidingWindow"}
# How many settings of each mode are recorded: 300 in all.
COUNTS = {"dense": 5, "fixed": 130, "variable": 70, "bigbird": 30, "bslongformer": 50, "local": 15}
REFUSED = 120
SEED = 20201


def load(path):
    """The module deepspeed/ops/sparse_attention/sparsity_config.py of a tree or tarball."""
    inner = "deepspeed/ops/sparse_attention/sparsity_config.py"
    path = pathlib.Path(path)
    if path.is_file():
        with tarfile.open(path) as archive:
            member = next(m for m in archive.getmembers() if m.name.endswith(inner))
            text = archive.extractfile(member).read()
    else:
        text = (path / inner).read_bytes()
    with tempfile.NamedTemporaryFile(suffix=".py") as file:
        file.write(text)
        file.flush()
        spec = importlib.util.spec_from_file_location("sparsity_config", file.name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


class Draw:
    """Draws settings; `self.wild` allows those that the classes may refuse."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.wild = False

    def chance(self, probability):
        return self.random.random() < probability

    def number(self, least, most):
        return self.random.randint(least, most)

    def flag(self, options, key, probability):
        if self.chance(probability):
            options[key] = True

    def direction(self, options, mode):
        if self.chance(0.6):
            options["attention"] = self.random.choice(["unidirectional", "bidirectional"])
        if self.wild and mode in ("fixed", "variable", "bigbird") and self.chance(0.1):
            options["attention"] = "causal"

    def count(self, options, key, least, most, probability=0.7):
        if self.chance(probability):
            options[key] = self.number(least, most)

    def fixed(self, options, blocks):
        window = self.number(2, 12)
        size = self.random.choice([n for n in range(1, window + 1)
                                   if window % n == 0 or self.wild])
        # Mostly few global blocks, so that there are several patterns.
        if self.chance(0.7):
            size = 1
        options.update(num_local_blocks=window, num_global_blocks=size)
        most = window // size
        if most > 1 and self.chance(0.97) or self.wild and self.chance(0.3):
            options["num_different_global_patterns"] = self.number(2, most + 2 * self.wild)
            if not self.wild or self.chance(0.7):
                options["different_layout_per_head"] = True
        self.direction(options, "fixed")
        if options.get("attention") != "unidirectional" or self.wild:
            self.flag(options, "horizontal_global_attention", 0.4)

    def ranges(self, options, blocks):
        first = sorted(self.random.sample(range(blocks + 4), self.number(1, min(4, blocks))))
        if self.chance(0.1):
            first[0] = -self.number(1, blocks + 2 * self.wild)
        options["global_block_indices"] = first
        if self.chance(0.9):
            options["global_block_end_indices"] = [
                start + self.number(1 - self.wild, 5) for start in first]
            if self.wild and self.chance(0.3):
                options["global_block_end_indices"].append(9)

    def variable(self, options, blocks):
        options["local_window_blocks"] = [self.number(1, 7) for _ in range(self.number(1, 4))]
        if self.wild and self.chance(0.1):
            options["local_window_blocks"] = []
        self.ranges(options, blocks)
        self.direction(options, "variable")
        if options.get("attention") != "unidirectional" or self.wild:
            self.flag(options, "horizontal_global_attention", 0.4)
        self.count(options, "num_random_blocks", 0, min(3, blocks) + blocks * self.wild, 0.3)

    def bigbird(self, options, blocks):
        self.direction(options, "bigbird")
        few = 1 if options.get("attention") == "unidirectional" and not self.wild else 3
        self.count(options, "num_random_blocks", 0, min(few, blocks) + blocks * self.wild)
        self.count(options, "num_sliding_window_blocks", 0, blocks + 3 * self.wild)
        self.count(options, "num_global_blocks", 0, min(4, blocks) + blocks * self.wild)

    def bslongformer(self, options, blocks):
        self.count(options, "num_sliding_window_blocks", 0, blocks + 3 * self.wild)
        self.ranges(options, blocks)
        self.direction(options, "bslongformer")

    def local(self, options, blocks):
        self.count(options, "num_sliding_window_blocks", 0, blocks + 3 * self.wild)
        self.direction(options, "local")

    def dense(self, options, blocks):
        pass

    def setting(self, mode):
        """Heads, tokens and options of the class for a mode."""
        options = {"block": self.random.choice([16, 32, 64, 128])}
        blocks = self.number(1, 40) if self.chance(0.9) else self.number(60, 70)
        getattr(self, mode)(options, blocks)
        if mode != "local":
            self.flag(options, "different_layout_per_head", 0.3)
        seq = blocks * options["block"]
        if self.wild and self.chance(0.1):
            seq += 8
        return {"mode": mode, "heads": self.number(1, 6), "seq": seq, "options": options}


def make(module, setting, sample):
    """The layout of the class as a list of rows of 0 and 1 for each head. `sample`
    takes the place of random.sample."""
    module.random = type("Random", (), {"sample": staticmethod(sample)})
    kind = getattr(module, CLASSES[setting["mode"]] + "SparsityConfig")
    config = kind(num_heads=setting["heads"], **setting["options"])
    return config.make_layout(setting["seq"])


def take_first(population, count):
    """In place of random.sample: the first of the population."""
    if count > len(population):
        raise ValueError("Sample larger than population")
    return list(population)[:count]


def hash_of(layout):
    """FNV-1a, 64 bits, of the bytes 0 and 1 of the layout."""
    value = 0xCBF29CE484222325
    for byte in layout.flatten().tolist():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{value:016x}"


def draw_settings(seed):
    """As many settings of each mode as are recorded, in turn those that the classes take
    and a few that they may refuse: (setting, may be refused)."""
    draw = Draw(seed)
    for mode, count in COUNTS.items():
        for _ in range(4 * count):
            draw.wild = False
            yield draw.setting(mode), False
    for number in range(4000):
        draw.wild = True
        yield draw.setting(list(COUNTS)[number % len(COUNTS)]), True


def record(module, seed):
    """Lines as the file has them."""
    made, refused, reasons = collections.Counter(), 0, collections.Counter()
    for setting, is_wild in draw_settings(seed):
        try:
            layout = make(module, setting, take_first)
        except Exception as error:  # pylint: disable=broad-except
            # Of each way to refuse a few.
            reason = (setting["mode"], type(error).__name__, str(error).split(",")[0][:30])
            if reasons[reason] < 4 and refused < REFUSED:
                reasons[reason] += 1
                refused += 1
                yield {**setting, "refused": type(error).__name__}
            continue
        if not is_wild and made[setting["mode"]] < COUNTS[setting["mode"]]:
            made[setting["mode"]] += 1
            yield {**setting, "ones": int(layout.sum()), "hash": hash_of(layout)}
    assert made == collections.Counter(COUNTS), made


def is_short(setting):
    """Whether the last local window has fewer blocks than the others."""
    blocks, options = setting["seq"] // setting["options"]["block"], setting["options"]
    if setting["mode"] == "fixed":
        return blocks % options["num_local_blocks"] != 0
    if setting["mode"] == "variable":
        sizes = options["local_window_blocks"]
        rest = blocks - sum(sizes)
        return rest % sizes[-1] != 0 if rest > 0 else blocks not in (
            sum(sizes[:i + 1]) for i in range(len(sizes)))
    return False


FEATURES = {
    "short last window": is_short,
    "different layouts per head":
        lambda setting: setting["options"].get("different_layout_per_head", False),
    "several global patterns":
        lambda setting: setting["options"].get("num_different_global_patterns", 1) > 1,
    "end indices": lambda setting: "global_block_end_indices" in setting["options"],
}


def main():
    module = load(sys.argv[1])
    lines = list(record(module, SEED))
    made = [line for line in lines if "hash" in line]
    for name, has in FEATURES.items():
        count = sum(map(has, made))
        print(f"{count} of {len(made)}: {name}", file=sys.stderr)
        assert 3 * count >= len(made), name
    print(f"{len(lines) - len(made)} refused:",
          sorted({line["refused"] for line in lines if "refused" in line}), file=sys.stderr)
    for line in lines:
        print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    main()
