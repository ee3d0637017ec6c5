# Checkpoints in Hugging Face transformers, and back.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Heddle saves loads in transformers as a plain GPT-2, and the other way."""

import json
import os
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ = 2, 12

FORWARD = """
import json, sys, torch
from transformers import GPT2LMHeadModel
folder, tokens, target = sys.argv[1:]
model, report = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
model.eval()
ids = torch.tensor(json.load(open(tokens)))
with torch.no_grad():
    out = model(ids[:, :-1])
    loss = torch.nn.functional.cross_entropy(
        out.logits.flatten(0, 1), ids[:, 1:].flatten())
    text = model.generate(ids[:1, :4], max_new_tokens=6, do_sample=False)
print(json.dumps({"loss": loss.item(), "missing": list(report["missing_keys"]),
                  "unexpected": list(report["unexpected_keys"]),
                  "generated": text[0].tolist()}))
if target:
    model.save_pretrained(target)
"""


@h.long_only
class Transformers(h.HeddleTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.python = h.oracle_python()

    def forward(self, folder, windows, target=""):
        tokens = self.path("tokens.json")
        with open(tokens, "w") as file:
            json.dump(windows.tolist(), file)
        result = h.run([self.python, "-c", FORWARD, folder, tokens, target],
                       env={**os.environ, "HF_HUB_OFFLINE": "1"})
        return json.loads(result.stdout.splitlines()[-1])

    def eval_loss(self, binary, data, *flags):
        output = h.run([binary, "eval", "--data", data, "--json", *flags]).stdout
        return json.loads(output.splitlines()[-1])["loss"]

    def check(self, **options):
        model, config, _ = self.make_model(**options)
        data, tokens = self.make_tokens(ROWS * SEQ * 4 + 1, config["vocab_size"])
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ,
                              config=h.ds_config(lr=1e-3))
        self.train(binary, data, 4, "--save", self.path("out"))
        saved = self.path("out", "step-000004")
        ids, labels = h.batch(tokens, 0, ROWS, SEQ)
        one_batch = self.path("one.bin")
        h.write_tokens(one_batch, tokens[:ROWS * SEQ + 1])
        windows = np.concatenate([ids, labels[:, -1:]], axis=1)

        theirs = self.forward(saved, windows, self.path("back"))
        self.assertEqual(theirs["missing"], [])
        self.assertEqual(theirs["unexpected"], [])
        ours = self.eval_loss(binary, one_batch, "--weights", saved)
        self.assertLessEqual(abs(ours / theirs["loss"] - 1), 1e-5)

        again = self.compile(self.path("back"), "--batch", ROWS, "--seq", SEQ,
                             config=h.ds_config(), output="again")
        back = self.eval_loss(again, one_batch)
        self.assertLessEqual(abs(back / theirs["loss"] - 1), 1e-5)

        prompt = ",".join(map(str, ids[0, :4]))
        text = h.run([binary, "generate", "--weights", saved, "--prompt-ids", prompt,
                      "--max-new-tokens", 6, "--temperature", 0]).stdout
        generated = [int(word) for word in text.replace(",", " ").split()]
        self.assertEqual(generated[-6:], theirs["generated"][-6:])

    def test_tied_head(self):
        self.check()

    def test_untied_head(self):
        self.check(tie_word_embeddings=False)

    def test_names_without_prefix(self):
        self.check(prefix="")


if __name__ == "__main__":
    unittest.main()
