# Checkpoints in Hugging Face transformers, and back.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Heddle saves of each family's models loads in transformers, computes the same
logits and writes the same text there; and what transformers saves of it loads here.
test_bert.py does so with encoders."""

import json
import os
import unittest

import numpy as np

import heddle_test as h
from test_recorded import TOLERANCE, models, records

ROWS, SEQ, STEPS = 2, 11, 4

FORWARD = """
import json, sys, torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
folder, tokens, logits, back, prompt, count = sys.argv[1:]
model, report = AutoModelForCausalLM.from_pretrained(
    folder, output_loading_info=True, attn_implementation="eager")
model.eval()
ids = torch.tensor(json.load(open(tokens)))
with torch.no_grad():
    save_file({"logits": model(ids).logits.contiguous()}, logits)
    prompt = ids[:1, :int(prompt)]
    # All tokens count, also that of pad_token_id.
    text = model.generate(prompt, attention_mask=torch.ones_like(prompt),
                          max_new_tokens=int(count), do_sample=False,
                          eos_token_id=None, use_cache=False)
print(json.dumps({"wrong": [name for keys in report.values() for name in keys],
                  "generated": text[0].tolist()}))
model.save_pretrained(back)
"""


@h.long_only
class Transformers(h.HeddleTest):
    def forward(self, folder, ids):
        """What transformers makes of a checkpoint, and its logits."""
        tokens, logits = self.path("tokens.json"), self.path("theirs.safetensors")
        with open(tokens, "w") as file:
            json.dump(ids.tolist(), file)
        text = h.run([h.oracle_python(), "-c", FORWARD, folder, tokens, logits,
                      self.path("back"), models.PROMPT, models.GENERATED],
                     env={**os.environ, "HF_HUB_OFFLINE": "1"}).stdout
        return json.loads(text.splitlines()[-1]), h.read_safetensors(logits)["logits"]

    def logits(self, model, data):
        """Of the first batch, before the weights change."""
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ, "--keep", "logits",
                              config=h.ds_config(), output="keeps")
        dump = self.path("ours.safetensors")
        self.train(binary, data, 1, "--dump", dump)
        return h.read_safetensors(dump)["logits"]

    def check(self, model, vocab):
        data, tokens = self.make_tokens(ROWS * SEQ * STEPS + 1, vocab)
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ,
                              config=h.ds_config(lr=1e-3))
        before = self.logits(model, data)
        self.train(binary, data, STEPS, "--save", self.path("out"))
        saved = self.path("out", f"step-{STEPS:06}")
        ids, _ = h.batch(tokens, 0, ROWS, SEQ)

        theirs, logits = self.forward(saved, ids)
        self.assertEqual(theirs["wrong"], [])
        self.assertGreater(h.relative(before, logits), 100 * TOLERANCE)
        for folder in (saved, self.path("back")):
            self.assert_close(self.logits(folder, data), logits, TOLERANCE, folder)
        prompt = ",".join(map(str, ids[0, :models.PROMPT]))
        text = h.run([binary, "generate", "--weights", saved, "--prompt-ids", prompt,
                      "--max-new-tokens", models.GENERATED, "--temperature", 0]).stdout
        generated = [int(word) for word in text.replace(",", " ").split()]
        self.assertEqual(generated[-models.GENERATED:],
                         theirs["generated"][models.PROMPT:])

    def test_every_family(self):
        for name, record in records().items():
            config = record["config"]
            if config["model_type"] == "bert":
                continue
            with self.subTest(name):
                weights = {each: models.weight(each, shape)
                           for each, shape in record["weights"].items()}
                h.write_model(self.path(name), config, weights, prefix="")
                self.check(self.path(name), config["vocab_size"])

    def test_names_without_prefix(self):
        model, config, _ = self.make_model(prefix="")
        self.check(model, config["vocab_size"])


if __name__ == "__main__":
    unittest.main()
