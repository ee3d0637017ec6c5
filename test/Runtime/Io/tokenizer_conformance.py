#!/usr/bin/env python3
"""Compares our byte-level BPE with the package `tokenizers`.

usage: tokenizer_conformance.py PROBE TEXT...

Trains a tokenizer on the texts, then encodes pieces of them and random strings
with both. Exits with 77, which counts as skipped, where the package is missing.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
except ImportError:
    sys.exit(77)

POOL = ("aZ'sltrvemd 019 \t\n\r  .,!?-é世界ñ½²٣😀👍🏽\u00a0\u2003\u3000\u0301"
        "\u200bßAǅ\x85_<|endoftext|>")


def train(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=3000, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def make_cases(texts):
    rng = random.Random(1)
    cases = ["<|endoftext|>", "a<|endoftext|> b", "", "I'll we've don't 'S '",
             "a" * 5000, " " * 3000 + "x"]
    whole = "".join(texts)
    for _ in range(300):
        at = rng.randrange(len(whole))
        cases.append(whole[at:at + rng.randrange(1, 300)])
    for _ in range(1500):
        cases.append("".join(rng.choices(POOL, k=rng.randrange(1, 25))))
    ranges = [(0x20, 0x3000), (0x20, 0xD800), (0xE000, 0x110000)]
    for _ in range(300):
        cases.append("".join(
            chr(rng.randrange(*rng.choice(ranges))) for _ in range(30)))
    return cases


def main():
    probe, files = sys.argv[1], sys.argv[2:]
    texts = [open(name, errors="replace").read() for name in files]
    tokenizer = train(texts)
    cases = make_cases(texts)
    with tempfile.TemporaryDirectory() as directory:
        tokenizer.save(os.path.join(directory, "tokenizer.json"))
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        run = subprocess.run([probe, "encode", directory], input=lines,
                             stdout=subprocess.PIPE, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    bad = [case for case, answer in zip(cases, answers)
           if answer["ids"] != tokenizer.encode(case).ids
           or not answer["round_trip"]]
    print(f"{len(cases)} texts, {len(bad)} differences", bad[:5])
    return 0 if not bad and len(answers) == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
