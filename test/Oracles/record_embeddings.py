#!/usr/bin/env python3
# Records the embeddings of transformers.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""record_embeddings.py [--check]

Has transformers encode texts in double precision, and writes embeddings.json: the
tokens of each text, the hidden state of its first token (cls), the mean over its
tokens (mean), and what summarizes its logits. With --check compares with the file.
Needs the packages of requirements.txt."""

import json
import os
import sys

import models
import numpy as np
import torch
import transformers
from record import build, differences, rounded

FOLDER = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(FOLDER, "embeddings.json")
# The tokenizer of tokenizers/bert.json.
CONFIG = dict(models.BERT, vocab_size=400, max_position_embeddings=150)
TEXTS = ["A cat sat.", "The weather is fine today, isn't it?", "Straße 猫 e\u0301"]
LENGTHS = [1, 2, 15, 16, 17, 63, 64, 65, 128, 129, 150]


def record():
    model, shapes = build(CONFIG)
    model.eval()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=os.path.join(FOLDER, "tokenizers", "bert.json"))
    drawn = (models.uniform("texts", sum(LENGTHS)) + 0.5) * CONFIG["vocab_size"]
    parts = np.split(drawn.astype(np.int64), np.cumsum(LENGTHS)[:-1])
    made = {"config": CONFIG, "weights": shapes, "texts": TEXTS, "encoded": []}
    for ids in [tokenizer.encode(text) for text in TEXTS] + parts:
        ids = [int(token) for token in ids]
        with torch.no_grad():
            result = model(torch.tensor([ids]), output_hidden_states=True)
        hidden = result.hidden_states[-1][0].numpy()
        made["encoded"].append({
            "ids": ids, "cls": hidden[0].tolist(), "mean": hidden.mean(0).tolist(),
            "logits": models.summary("logits", result.logits[0])})
    return rounded(made)


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
