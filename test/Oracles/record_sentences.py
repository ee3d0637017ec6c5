#!/usr/bin/env python3
# Records the vectors of sentence-transformers.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""record_sentences.py [--check]

Has sentence-transformers save small models and encode texts with what it saved, in
double precision, and writes sentences.json: of each case the JSON files of the
directory, the shapes of the weights of modules after pooling, and the vectors. Cases
with files of its own are as older versions saved them. With --check compares with the
file. Needs the packages of sentences-requirements.txt."""

import glob
import json
import os
import sys
import tempfile

import models
import numpy as np
import torch
import transformers
from record import build, differences, rounded
from record_embeddings import CONFIG
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

FOLDER = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(FOLDER, "sentences.json")
WIDTH = CONFIG["hidden_size"]
TEXTS = ["A cat sat.", "The Weather is FINE today, isn't it?",
         "Whoever distributes the work must give all other recipients a copy of this "
         "license along with the work, and cause modified files to carry notices."]
PROMPTS = {"query": "represent this query: ", "document": ""}
OLD = "sentence_transformers.models."


def dense(inputs, outputs, **options):
    return modules.Dense(inputs, outputs, **options)


def saved(name, *after, modes="mean", length=150, include_prompt=True, ask=None, **options):
    """A case that is saved by this version; `ask`: the name of a prompt."""
    return dict(name=name, after=after, modes=modes, length=length, ask=ask,
                include_prompt=include_prompt, options=options)


def old(name, length, lower, pooling, after=(), cased=False, side="right", **options):
    listed = ["Transformer", "Pooling", *after]
    paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(listed[1:], 1))]
    files = {
        "modules.json": [{"idx": i, "name": str(i), "path": path, "type": OLD + kind}
                         for i, (kind, path) in enumerate(zip(listed, paths))],
        "1_Pooling/config.json": dict({"word_embedding_dimension": WIDTH}, **pooling),
        "config_sentence_transformers.json": {"__version__": {}, **options},
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": lower},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 50,
            "truncation_side": side, "pad_token": "[UNK]", "sep_token": "[SEP]",
            "cls_token": "[CLS]"}}
    return dict(name=name, files=files, cased=cased, ask=None)


def cases():
    for mode in modules.Pooling.POOLING_MODES:
        yield saved(mode, modes=mode)
    yield saved("short", modules.Normalize(), length=16)
    yield saved("dense", dense(WIDTH, 20), modules.Normalize())
    yield saved("several", dense(3 * WIDTH, 24, activation_function=torch.nn.GELU()),
                modules.LayerNorm(24), modules.Dropout(0.5), modules.Normalize(),
                modes=("max", "cls", "mean"))
    yield saved("residual", dense(WIDTH, 20, bias=False, use_residual=True,
                                  activation_function=torch.nn.Identity()),
                dense(20, 20, use_residual=True, activation_function=torch.nn.SiLU()))
    prompted = dict(prompts=PROMPTS, default_prompt_name="query")
    yield saved("prompt", **prompted)
    yield saved("prompt-named", ask="document", **prompted)
    yield saved("prompt-asked", prompts=PROMPTS, ask="query", length=24)
    for modes in ("mean", "cls", "max", "weightedmean", "lasttoken"):
        yield saved("prompt-not-pooled-" + modes, modes=modes, include_prompt=False,
                    **prompted)
    flags = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    yield old("old", 12, False, flags, after=["Normalize"])
    yield old("old-several", None, False, dict(flags, pooling_mode_cls_token=True,
                                               pooling_mode_lasttoken=True))
    yield old("old-cased", 20, False, flags, cased=True)
    yield old("old-lower", 20, True, flags, cased=True)
    yield old("old-left", 9, False, flags, side="left")


def write_base(folder, cased):
    """The model with its tokenizer."""
    model, _ = build(CONFIG)
    model.bert.save_pretrained(folder)
    with open(os.path.join(FOLDER, "tokenizers", "bert.json")) as file:
        tokenizer = json.load(file)
    if cased:
        tokenizer["normalizer"].update(lowercase=False, strip_accents=False)
    path = os.path.join(folder, "tokenizer.json")
    with open(path, "w") as file:
        json.dump(tokenizer, file)
    transformers.PreTrainedTokenizerFast(
        tokenizer_file=path, pad_token="[UNK]", sep_token="[SEP]", cls_token="[CLS]",
    ).save_pretrained(folder)


def save_case(case, base, folder):
    transformer = modules.Transformer(
        base, model_kwargs={"dtype": torch.float64},
        processor_kwargs={"model_max_length": case["length"]})
    pooling = modules.Pooling(WIDTH, case["modes"], include_prompt=case["include_prompt"])
    model = SentenceTransformer(modules=[transformer, pooling, *case["after"]],
                                device="cpu", **case["options"])
    model.save_pretrained(folder, create_model_card=False)


def write_files(case, folder):
    write_base(folder, case["cased"])
    for name, content in case["files"].items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file)


def draw_weights(folder):
    """Writes the weights of the modules after pooling; their shapes."""
    shapes = {}
    for path in sorted(glob.glob(os.path.join(folder, "*_*", "model.safetensors"))):
        name = os.path.relpath(path, folder)
        shapes[name] = {key: list(value.shape) for key, value in load_file(path).items()}
        save_file({key: torch.tensor(models.weight(name + key, shape))
                   for key, shape in shapes[name].items()}, path)
    return shapes


def run_case(case, base):
    with tempfile.TemporaryDirectory() as folder:
        if "files" in case:
            write_files(case, folder)
        else:
            save_case(case, base, folder)
        shapes = draw_weights(folder)
        model = SentenceTransformer(folder, device="cpu",
                                    model_kwargs={"dtype": torch.float64}).double()
        vectors = model.encode(TEXTS, prompt_name=case["ask"], batch_size=1)
        files = {}
        for path in sorted(glob.glob(os.path.join(folder, "**", "*.json"), recursive=True)):
            name = os.path.relpath(path, folder)
            if name not in ("config.json", "tokenizer.json", "special_tokens_map.json"):
                with open(path) as file:
                    files[name] = json.load(file)
        files["config_sentence_transformers.json"].pop("__version__")
        return {"name": case["name"], "files": files, "weights": shapes,
                "cased": case.get("cased", False), "prompt_name": case["ask"],
                "vectors": np.asarray(vectors, np.float64).tolist()}


def record():
    with tempfile.TemporaryDirectory() as base:
        write_base(base, cased=False)
        made = [run_case(case, base) for case in cases()]
    return rounded({"texts": TEXTS, "cases": made})


def main():
    made = record()
    if "--check" in sys.argv[1:]:
        with open(FILE) as file:
            wrong = differences(json.load(file), json.loads(json.dumps(made)))
        for path in wrong:
            print("differs: " + path)
        return 1 if wrong else 0
    with open(FILE, "w") as file:
        json.dump(made, file)
        file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
