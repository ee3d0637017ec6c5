#!/usr/bin/env python3
"""Compares our tokenizers with the package `tokenizers`.

usage: tokenizer_conformance.py PROBE TEXT
       tokenizer_conformance.py --record | --check TEXT

Pieces of the text and random strings have to be encoded and decoded alike by a small
tokenizer of each kind that families of models have, which the package trained; and so
have bytes that are no UTF-8, which the package is given as Python decodes them. They
and checksums of what the package makes of the strings are recorded in test/Oracles:
--record writes the records anew, --check compares them with what the package does
now.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
import zlib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                      "Oracles")
TOKENIZERS = os.path.join(FOLDER, "tokenizers")
RECORD = os.path.join(FOLDER, "encodings.json")
BLOCK = 100  # Strings that have one checksum.

POOL = ("aZ'sltrvemd 019 \t\n\r  .,!?-_é世界ñ½²٣😀👍🏽\u00a0\u2003\u3000\u0301"
        "\u200bßAǅ\x85_<|endoftext|></s>[SEP]ﬁ①İΣ日本語한국어▁Ġ\ufffd")

# As the files of Llama 3, Qwen 2 and Mistral Nemo spell them.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def replacements():
    """A table of replacements as SentencePiece compiles them."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    rules = {"ﬁ": "fi", "①": "1", "e\u0301": "é", "İ": "I", "\u200b": " ",
             "²": "2", "日本": "Japan", "A": "a", "\u3000": " ", "ß": "ss"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        with open(path + ".tsv", "w") as file:
            for old, new in rules.items():
                file.write(" ".join(f"{ord(c):X}" for c in old) + "\t" +
                           " ".join(f"{ord(c):X}" for c in new) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["some text of words", "more words of text"]),
            model_prefix=path, vocab_size=25, hard_vocab_limit=False,
            normalization_rule_tsv=path + ".tsv")
        model = sentencepiece_model_pb2.ModelProto()
        with open(path + ".model", "rb") as file:
            model.ParseFromString(file.read())
    return model.normalizer_spec.precompiled_charsmap


def pipelines():
    """A tokenizer that is not trained yet and its trainer, by name."""
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                            pre_tokenizers, processors, trainers)
    pre, norm, dec = pre_tokenizers, normalizers, decoders
    alphabet = pre.ByteLevel.alphabet()
    letters = sorted(set("abcdefghijklmnopqrstuvwxyz0123456789.,'▁"))

    def make(model, trainer, special=(), added=(), **stages):
        tokenizer = Tokenizer(model)
        for stage, value in stages.items():
            setattr(tokenizer, stage, value)
        return tokenizer, trainer(special_tokens=list(special), show_progress=False), added

    def bpe(**options):
        return lambda **more: trainers.BpeTrainer(vocab_size=500, **options, **more)

    byte_bpe = bpe(initial_alphabet=alphabet)
    split = lambda pattern: pre.Sequence([
        pre.Split(Regex(pattern), "isolated"),
        pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = dec.Sequence([dec.Replace("▁", " "), dec.ByteFallback(), dec.Fuse()])
    return {
        "gpt2": make(models.BPE(), byte_bpe, ["<|endoftext|>"],
                     pre_tokenizer=pre.ByteLevel(add_prefix_space=False),
                     decoder=dec.ByteLevel()),
        "opt": make(models.BPE(), byte_bpe, ["<s>", "</s>"],
                    [AddedToken("  ", normalized=True), AddedToken("ve", single_word=True),
                     AddedToken("<mask>", lstrip=True, special=True)],
                    pre_tokenizer=pre.ByteLevel(add_prefix_space=True),
                    post_processor=processors.RobertaProcessing(("</s>", 1), ("<s>", 0)),
                    decoder=dec.ByteLevel()),
        "llama3": make(models.BPE(ignore_merges=True), byte_bpe, ["<|begin|>"],
                       pre_tokenizer=split(LLAMA3),
                       post_processor=processors.Sequence(
                           [processors.ByteLevel(), processors.TemplateProcessing(
                               "<|begin|> $A", special_tokens=[("<|begin|>", 0)])]),
                       decoder=dec.ByteLevel()),
        "qwen2": make(models.BPE(), byte_bpe, ["<|endoftext|>"],
                      normalizer=norm.NFC(), pre_tokenizer=split(QWEN2),
                      decoder=dec.ByteLevel()),
        "tekken": make(models.BPE(), byte_bpe, ["<s>"], pre_tokenizer=split(TEKKEN),
                       decoder=dec.ByteLevel()),
        "llama2": make(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True),
                       bpe(initial_alphabet=letters), ["<unk>", "<s>", "</s>", *bytes_of],
                       normalizer=norm.Sequence([norm.Prepend("▁"), norm.Replace(" ", "▁")]),
                       post_processor=processors.TemplateProcessing(
                           "<s> $A", special_tokens=[("<s>", 1)]),
                       decoder=dec.Sequence([dec.Replace("▁", " "), dec.ByteFallback(),
                                             dec.Fuse(), dec.Strip(" ", 1, 0)])),
        "mistral": make(models.BPE(unk_token="<unk>", fuse_unk=True),
                        bpe(limit_alphabet=60), ["<unk>", "<s>", "</s>"],
                        pre_tokenizer=pre.Metaspace(prepend_scheme="first", split=False),
                        decoder=dec.Metaspace(prepend_scheme="first")),
        "gemma2": make(models.BPE(unk_token="<unk>", byte_fallback=True),
                       bpe(initial_alphabet=letters), ["<unk>", "<bos>", *bytes_of],
                       normalizer=norm.Replace(" ", "▁"),
                       pre_tokenizer=pre.Split(" ", "merged_with_previous"),
                       decoder=pieces),
        "bert": make(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20),
                     lambda **more: trainers.WordPieceTrainer(vocab_size=400, **more),
                     ["[UNK]", "[CLS]", "[SEP]"],
                     normalizer=norm.BertNormalizer(), pre_tokenizer=pre.BertPreTokenizer(),
                     post_processor=processors.TemplateProcessing(
                         "[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]),
                     decoder=dec.WordPiece()),
        "t5": make(models.Unigram(),
                   lambda **more: trainers.UnigramTrainer(
                       vocab_size=300, unk_token="<unk>", **more), ["<unk>", "</s>"],
                   normalizer=norm.Sequence([
                       norm.NFKC(), norm.Lowercase(), norm.Replace(Regex(" {2,}"), " "),
                       norm.Strip()]),
                   pre_tokenizer=pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()]),
                   decoder=dec.Metaspace()),
        "xlmr": make(models.Unigram(),
                     lambda **more: trainers.UnigramTrainer(
                         vocab_size=300, unk_token="<unk>", **more), ["<unk>", "</s>"],
                     normalizer=norm.Sequence([norm.Precompiled(replacements()),
                                               norm.Replace(Regex(" {2,}"), " ")]),
                     pre_tokenizer=pre.Metaspace(), decoder=dec.Metaspace()),
        "words": make(models.WordLevel(unk_token="?"),
                      lambda **more: trainers.WordLevelTrainer(vocab_size=300, **more), ["?"],
                      normalizer=norm.Sequence([norm.NFKD(), norm.StripAccents()]),
                      pre_tokenizer=pre.Sequence([
                          pre.Whitespace(), pre.Digits(individual_digits=True),
                          pre.Punctuation("contiguous"),
                          pre.Split("e", "merged_with_next", invert=False)])),
        "clip": make(models.BPE(unk_token="?", end_of_word_suffix="</w>"),
                     bpe(end_of_word_suffix="</w>", limit_alphabet=70), ["?"],
                     normalizer=norm.Sequence([norm.NFC(), norm.Lowercase()]),
                     pre_tokenizer=pre.Split(Regex(r"'s|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"),
                                             "removed", invert=True),
                     decoder=dec.BPEDecoder("</w>")),
    }


def train(text):
    """Writes the tokenizers as the package does."""
    os.makedirs(TOKENIZERS, exist_ok=True)
    for name, (tokenizer, trainer, added) in pipelines().items():
        tokenizer.train_from_iterator(text.split("\n"), trainer)
        for token in added:
            (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
        tokenizer.save(os.path.join(TOKENIZERS, name + ".json"), pretty=False)


def known_to_all(code):
    """Whether every version of Unicode that counts has this character."""
    return unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs")


def make_cases(text):
    rng = random.Random(1)
    cases = ["<|endoftext|>", "a<|endoftext|> b", "", " ", "I'll we've don't 'S '",
             "a" * 5000, " " * 3000 + "x", "<s></s><mask>", "a <mask> b", "five ve, ve"]
    for _ in range(2990):
        at = rng.randrange(len(text))
        cases.append(text[at:at + rng.randrange(1, 200)])
    for _ in range(6000):
        cases.append("".join(rng.choices(POOL, k=rng.randrange(1, 25))))
    codes = [code for code in range(0x20, 0x20000) if known_to_all(code)]
    for _ in range(1000):
        cases.append("".join(chr(rng.choice(codes)) for _ in range(20)))
    return cases + make_invalid_cases(random.Random(2))


# Both ends of each range of bytes that may follow in UTF-8, and what is none.
BYTES = bytes([0x41, 0x20, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
               0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF])


def make_invalid_cases(rng):
    cases = [b"\xff", b"a\xc3", b"\xed\xa0\xbd\xed\xb8\x80", b"\xc0\xaf", b"\xe0\x80\xaf",
             b"\xf0\x9f\x98", b"\xf0\x9f\x98 \x80", b"\xf4\x90\x80\x80", b"<|endoftext|>\xf0",
             b"\xe4<|endoftext|>\xb8\x96", b"caf\xe9 au lait\r\n", b"\xef\xbf\xbe\xef\xbb\xbf\xbf"]
    while len(cases) < 400:
        cases.append(bytes(rng.choices(BYTES, k=rng.randrange(1, 20))))
    while len(cases) < 1000:  # Bytes of texts go, are others, or come.
        case = bytearray("".join(rng.choices(POOL, k=rng.randrange(1, 25))).encode())
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(case) + 1)
            case[at:at + rng.randrange(3)] = rng.choices(BYTES, k=rng.randrange(2))
        cases.append(bytes(case))
    return cases


def digest(value):
    return zlib.crc32(json.dumps(value, default=list).encode())


def digests(answers):
    return [digest(answers[i:i + BLOCK]) for i in range(0, len(answers), BLOCK)]


def ask_package(name, cases):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(TOKENIZERS, name + ".json"))
    answers = []
    for case in cases:
        if isinstance(case, bytes):
            case = case.decode("utf-8", "replace")
        ids = tokenizer.encode(case, add_special_tokens=False).ids
        answers.append([ids, tokenizer.encode(case).ids,
                        tokenizer.decode(ids, skip_special_tokens=True)])
    return answers


def ask_probe(probe, name, cases):
    lines = "".join(json.dumps(case, default=list) + "\n" for case in cases)
    run = subprocess.run([probe, "encode", os.path.join(TOKENIZERS, name + ".json")],
                         input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in run.stdout.split("\n") if line]


def compare(probe, name, cases, record):
    """Whether the probe's answers are the recorded ones; shows what differs."""
    answers = ask_probe(probe, name, cases)
    wrong = [block for block, (mine, theirs) in enumerate(zip(digests(answers), record))
             if mine != theirs]
    print(f"{name}: {len(answers)} texts, {len(wrong)} of {len(record)} blocks differ")
    if wrong:
        try:
            theirs = ask_package(name, cases)
        except ImportError:
            return False
        for case, mine, his in list(filter(lambda row: row[1] != row[2],
                                           zip(cases, answers, theirs)))[:5]:
            print(f"  {case!r:.200}\n    {mine!r:.300}\n    {his!r:.300}")
    return not wrong and len(answers) == len(cases)


def main():
    what, source = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    cases = make_cases(text)
    if what in ("--record", "--check"):
        if what == "--record":
            train(text)
        names = sorted(name[:-5] for name in os.listdir(TOKENIZERS))
        record = {"cases": digest(cases),
                  "answers": {name: digests(ask_package(name, cases)) for name in names}}
        if what == "--check":
            with open(RECORD) as file:
                return 0 if json.load(file) == record else 1
        with open(RECORD, "w") as file:
            json.dump(record, file)
            file.write("\n")
        return 0
    with open(RECORD) as file:
        record = json.load(file)
    if digest(cases) != record["cases"]:
        print("the text, or this Python's random numbers, are not those that were "
              "recorded: use --record")
        return 1
    same = [compare(what, name, cases, blocks)
            for name, blocks in record["answers"].items()]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
