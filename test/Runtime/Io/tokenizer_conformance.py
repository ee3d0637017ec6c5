#!/usr/bin/env python3
"""Compares our byte-level BPE with the package `tokenizers`.

usage: tokenizer_conformance.py PROBE TEXT
       tokenizer_conformance.py --record | --check TEXT

Pieces of the text and random strings have to be encoded alike, by a tokenizer that
the package trained. It and checksums of what the package makes of each string are
recorded in test/Oracles: --record writes the records anew, --check compares them
with what the package does now.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import zlib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                      "Oracles")
TOKENIZER = os.path.join(FOLDER, "tokenizer.json")
RECORD = os.path.join(FOLDER, "encodings.json")

POOL = ("aZ'sltrvemd 019 \t\n\r  .,!?-é世界ñ½²٣😀👍🏽\u00a0\u2003\u3000\u0301"
        "\u200bßAǅ\x85_<|endoftext|>")


def train(text):
    """The tokenizer as the package writes it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def make_cases(text):
    rng = random.Random(1)
    cases = ["<|endoftext|>", "a<|endoftext|> b", "", "I'll we've don't 'S '",
             "a" * 5000, " " * 3000 + "x"]
    for _ in range(300):
        at = rng.randrange(len(text))
        cases.append(text[at:at + rng.randrange(1, 300)])
    for _ in range(1500):
        cases.append("".join(rng.choices(POOL, k=rng.randrange(1, 25))))
    ranges = [(0x20, 0x3000), (0x20, 0xD800), (0xE000, 0x110000)]
    for _ in range(300):
        cases.append("".join(
            chr(rng.randrange(*rng.choice(ranges))) for _ in range(30)))
    return cases


def digest(value):
    return zlib.crc32(json.dumps(value).encode())


def ask_package(tokenizer, cases):
    return {"cases": digest(cases),
            "ids": [digest(tokenizer.encode(case).ids) for case in cases]}


def compare(probe, cases, record):
    if digest(cases) != record["cases"]:
        print("the text, or this Python's random numbers, are not those that were "
              "recorded: use --record")
        return False
    with tempfile.TemporaryDirectory() as directory:
        os.symlink(os.path.abspath(TOKENIZER),
                   os.path.join(directory, "tokenizer.json"))
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        run = subprocess.run([probe, "encode", directory], input=lines,
                             stdout=subprocess.PIPE, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    bad = [(case, answer["ids"])
           for case, answer, ids in zip(cases, answers, record["ids"])
           if digest(answer["ids"]) != ids or not answer["round_trip"]]
    print(f"{len(cases)} texts, {len(bad)} differences", bad[:5])
    return not bad and len(answers) == len(cases)


def main():
    what, source = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    cases = make_cases(text)
    if what == "--record":
        tokenizer = train(text)
        tokenizer.save(TOKENIZER, pretty=False)
        with open(RECORD, "w") as file:
            json.dump(ask_package(tokenizer, cases), file)
            file.write("\n")
        return 0
    with open(RECORD) as file:
        record = json.load(file)
    if what == "--check":
        from tokenizers import Tokenizer
        return 0 if ask_package(Tokenizer.from_file(TOKENIZER), cases) == record else 1
    return 0 if compare(what, cases, record) else 1


if __name__ == "__main__":
    sys.exit(main())
