#!/usr/bin/env python3
"""Compares tokenizers that are drawn at random with the package `tokenizers`.

usage: drawn_conformance.py PROBE
       drawn_conformance.py --record | --check

Each kind is about one thing: `first`, which piece of a text Metaspace marks as its
first, behind all that changes the text's begin; `sets`, the algebra of regular
expressions' sets; `ties`, segmentations of equal scores. Checksums of what the package
makes of each tokenizer's texts are recorded in test/Oracles: --record writes them anew,
--check compares them with what the package does now.
"""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata
import zlib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                      "Oracles")
RECORD = os.path.join(FOLDER, "drawn.json")
MARK = "▁"


def known_to_all(code):
    """Whether every version of Unicode that counts has this character."""
    return unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs")


def byte_alphabet():
    """The characters that stand for bytes in byte-level tokenizers."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(byte) for byte in plain] + [chr(0x100 + i) for i in range(68)]


def pieces_model(characters):
    """A model whose tokens say where pieces begin."""
    tokens = [*characters, *("##" + c for c in characters)]
    return {"type": "BPE", "unk_token": "<unk>", "continuing_subword_prefix": "##",
            "merges": [], "vocab": {token: i for i, token in enumerate(["<unk>", *tokens])}}


def tokenizer(model, normalizer=None, pre_tokenizer=None, added=()):
    return {"version": "1.0", "added_tokens": list(added), "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None,
            "model": model}


def string(text):
    return {"String": text}


def regex(text):
    return {"Regex": text}


def charsmap():
    with open(os.path.join(FOLDER, "tokenizers", "xlmr.json")) as file:
        return json.load(file)["normalizer"]["normalizers"][0]["precompiled_charsmap"]


def draw_normalizer(rng):
    def replace(pattern, content):
        return {"type": "Replace", "pattern": pattern, "content": content}

    def strip(left, right):
        return {"type": "Strip", "strip_left": left, "strip_right": right}

    some = [strip(True, True), strip(False, True), strip(True, False),
            replace(string("a"), ""), replace(string("a"), "xy"), replace(string("ab"), "x"),
            replace(string("a"), " "), replace(string(" "), MARK), replace(string("é"), "ab"),
            replace(regex(" {2,}"), " "), replace(regex("^ +"), ""), replace(regex("[ab]+"), "b "),
            {"type": "Prepend", "prepend": MARK}, {"type": "Prepend", "prepend": "ab"},
            *({"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD")),
            {"type": "Lowercase"}, {"type": "StripAccents"},
            {"type": "BertNormalizer", "clean_text": rng.random() < 0.5,
             "handle_chinese_chars": True, "strip_accents": rng.choice([None, True, False]),
             "lowercase": rng.random() < 0.5},
            {"type": "Precompiled", "precompiled_charsmap": charsmap()}]
    return {"type": "Sequence", "normalizers": rng.choices(some, k=rng.randrange(4))}


def draw_pre_tokenizer(rng):
    def metaspace(scheme):
        return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme,
                "split": rng.random() < 0.5}

    def some(most):
        behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                     "Contiguous"]
        split = {"type": "Split", "behavior": rng.choice(behaviors),
                 "pattern": rng.choice([string("a"), string(" "), string("b"), string(MARK),
                                        regex("[ab]"), regex(" +"), regex("f|i")]),
                 "invert": rng.random() < 0.2}
        return rng.choices([split, split, {"type": "WhitespaceSplit"},
                            {"type": "Digits", "individual_digits": True},
                            {"type": "Punctuation", "behavior": "Isolated"}],
                           k=rng.randrange(most))

    return {"type": "Sequence", "pretokenizers":
            [*some(3), metaspace("first"), *some(2),
             *([metaspace(rng.choice(["first", "always"]))] if rng.random() < 0.2 else [])]}


FIRST_POOL = ["a", "b", " ", "  ", "ab", "A", "É", "é", "e\u0301", "\u0301", "\u0344", "ﬁ", "①",
              "1", ".", MARK, "\u200b", "世", "日本", "ß", "İ", "\t", "<s>", "x", "²"]


def draw_first(rng):
    characters = sorted(set("".join(FIRST_POOL)) | set("xyefiI12apnsJ"))
    model, added = pieces_model(characters), []
    # The package numbers first those that are not in the model.
    for content in sorted(rng.sample(["<s>", "ab", "b", " ", MARK, "x"], rng.randrange(4)),
                          key=lambda content: content in model["vocab"]):
        added.append({"id": len(model["vocab"]) + len(added), "content": content,
                      "single_word": rng.random() < 0.1, "lstrip": rng.random() < 0.2,
                      "rstrip": rng.random() < 0.2,
                      "normalized": content != " " and rng.random() < 0.5,
                      "special": False})
    texts = ["".join(rng.choices(FIRST_POOL, k=rng.randrange(9))) for _ in range(100)]
    return tokenizer(model, draw_normalizer(rng), draw_pre_tokenizer(rng), added), texts


def draw_set(rng, depth=0):
    members = ["a", "b-f", "0-5", "_", ".", " ", "é", "\\n", "世", "\\x{1F600}-\\x{1F64F}",
               "\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "\\h", "\\H", "\\p{L}", "\\P{L}",
               "\\p{^Lu}", "\\P{^Nd}", "\\p{M}", "\\P{Han}", "\\p{Greek}", "[:alpha:]",
               "[:^space:]", "[:^word:]", "[:upper:]", "[:^punct:]", "[:punct:]", "\\p{Punct}",
               "\\p{Word}", "\\P{Word}", "[:word:]", "\\W", "\\P{N}"]

    def some():
        parts = rng.choices(members, k=rng.randrange(1, 4))
        if depth < 2 and rng.random() < 0.3:
            parts.insert(rng.randrange(len(parts) + 1), draw_set(rng, depth + 1))
        return "".join(parts)

    text = some()
    while rng.random() < 0.2:
        text += "&&" + some()
    return "[" + ("^" if rng.random() < 0.5 else "") + text + "]"


# Of these marks it depends on the version of Unicode whether they are alphabetic.
MARKS = [*range(0x363, 0x370), 0xF82, 0xF83]
CODES = [code for code in range(0x20, 0x20000)
         if known_to_all(code) and code not in MARKS]
# In Oniguruma the complement of all characters is not empty.
ODD = ["sets 212"]


def draw_sets(rng):
    pattern = draw_set(rng) + rng.choice(["", "+", "{2}", "+|\\s+", "*" + draw_set(rng)])
    pool = ("abcf059 _.-\n\t!éÉe\u0301\u0300世界日本語²½٣αΩЖ😀👍🏽𝒜𐐀\u00a0\u2028\u200b\u200d"
            "\u0939\u093F\u0928\u094DǅⅧⓐ＿‿̈")
    texts = ["".join(rng.choices(pool, k=rng.randrange(1, 25))) for _ in range(60)]
    texts += ["".join(chr(rng.choice(CODES)) for _ in range(20)) for _ in range(40)]
    return tokenizer(pieces_model(byte_alphabet()), None, {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": regex(pattern), "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
         "use_regex": False}]}), texts


def as_float(number):
    """Of 32 bits: as SentencePiece has scores, with 17 digits in the file."""
    return struct.unpack("f", struct.pack("f", number))[0]


def draw_ties(rng):
    letters = "abcé世"[:rng.randrange(2, 6)]
    scores = rng.choice([[-1.0], [-1.0, -2.0], [-0.1, -0.2, -0.3], [-1.5, -3.0, -4.5, 0.0],
                         [-0.1 * i for i in range(1, 9)], [-0.7 * i for i in range(1, 30)],
                         [as_float(-math.pi * i / 4) for i in range(1, 9)],
                         [-1e-5 * i for i in range(1, 9)]])
    words = {"".join(rng.choices(letters, k=rng.randrange(1, 6)))
             for _ in range(rng.randrange(4, 40))}
    vocab = [["<unk>", rng.choice([0.0, -1.0])]]
    vocab += [[word, rng.choice(scores)] for word in sorted(words)]
    falls_back = rng.random() < 0.3
    if falls_back:
        vocab += [[f"<0x{byte:02X}>", -1.0] for byte in range(256)]
    texts = ["".join(rng.choices(letters + "x", [9] * len(letters) + [1],
                                 k=rng.randrange(1, 40))) for _ in range(500)]
    return tokenizer({"type": "Unigram", "unk_id": 0, "byte_fallback": falls_back,
                      "vocab": vocab}), texts


KINDS = {"first": (draw_first, 300), "sets": (draw_sets, 300), "ties": (draw_ties, 50)}


def cases():
    for kind, (draw, count) in KINDS.items():
        for number in range(count):
            name = f"{kind} {number}"
            if name not in ODD:
                yield name, *draw(random.Random(name))


def ask_package(drawn, texts):
    """The ids of each text; None where the package has a mistake of its own."""
    from tokenizers import Tokenizer
    made = Tokenizer.from_str(json.dumps(drawn))
    answers = []
    for text in texts:
        try:
            answers.append(made.encode(text, add_special_tokens=False).ids)
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            answers.append(None)
    return answers


def entry(drawn, texts, answers):
    """A checksum, and which texts have no answer."""
    return [zlib.crc32(json.dumps([drawn, texts, answers]).encode()),
            [i for i, answer in enumerate(answers) if answer is None]]


def ask_probe(probe, drawn, texts, path):
    with open(path, "w") as file:
        json.dump(drawn, file)
    run = subprocess.run([probe, "encode", path],
                         input="".join(json.dumps(text) + "\n" for text in texts),
                         capture_output=True, text=True)
    answers = [json.loads(line)[0] for line in run.stdout.split("\n") if line]
    return answers if run.returncode == 0 else run.stderr


def show(name, drawn, texts, mine):
    """What differs, where the package is there."""
    print(name, json.dumps({key: drawn[key] for key in ("normalizer", "pre_tokenizer",
                                                         "added_tokens")},
                           ensure_ascii=False)[:1500])
    try:
        theirs = ask_package(drawn, texts)
    except ImportError:
        return
    if isinstance(mine, str):
        return print(" ", mine)
    vocab = drawn["model"]["vocab"]
    tokens = [row[0] for row in vocab] if isinstance(vocab, list) else list(vocab)
    spell = lambda ids: [tokens[i] if i < len(tokens) else i for i in ids]
    wrong = [row for row in zip(texts, mine, theirs) if row[2] and row[1] != row[2]]
    for text, ours, his in wrong[:3]:
        print(f"  {text!r}\n    {spell(ours)!r:.400}\n    {spell(his)!r:.400}")


def main():
    what = sys.argv[1]
    if what in ("--record", "--check"):
        record = {name: entry(drawn, texts, ask_package(drawn, texts))
                  for name, drawn, texts in cases()}
        if what == "--check":
            with open(RECORD) as file:
                return 0 if json.load(file) == record else 1
        with open(RECORD, "w") as file:
            json.dump(record, file, indent=0)
            file.write("\n")
        return 0
    with open(RECORD) as file:
        record = json.load(file)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, drawn, texts in cases():
            if len(sys.argv) > 2 and not name.startswith(sys.argv[2]):
                continue
            mine = ask_probe(what, drawn, texts, os.path.join(folder, "tokenizer.json"))
            if isinstance(mine, list):
                for i in record[name][1]:
                    mine[i] = None
            if entry(drawn, texts, mine) != record[name]:
                wrong += 1
                if wrong <= 5:
                    show(name, drawn, texts, mine)
    print(f"{len(record)} drawn tokenizers, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
