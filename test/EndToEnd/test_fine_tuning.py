#!/usr/bin/env python3
# The page on fine-tuning, command by command.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/fine-tuning.md: its commands print what it says, from a directory as
save_pretrained makes it to one that from_pretrained reads. HEDDLE_TEST_LONG=1 runs its
Python too, with the packages of test/Oracles/requirements.txt, and compares losses."""

import json
import os
import re
import subprocess
import sys
import unittest

import numpy as np

import families
import heddle_test as h

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "test", "Docs"))
import check_commands  # noqa: E402

BLOCK = re.compile(r"^```(?:python|console)\n.*?^```$", re.MULTILINE | re.DOTALL)
VOCAB = 257
END = "<|end|>"


def byte_symbols():
    """The character by which byte-level tokenizers write each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte if byte in shown else 256 + hidden.index(byte)): byte
            for byte in range(256)}


def write_downloaded(folder):
    """A small model with its tokenizer, in which each byte is a token."""
    config = families.config(vocab_size=VOCAB, hidden_size=64, intermediate_size=96,
                             max_position_embeddings=256, architectures=["LlamaForCausalLM"],
                             bos_token_id=None, eos_token_id=256)
    h.write_model(folder, config, families.random_weights(config), prefix="")
    tokenizer = {"version": "1.0", "truncation": None, "padding": None,
                 "normalizer": None, "post_processor": None,
                 "model": {"type": "BPE", "merges": [], "vocab": byte_symbols()},
                 "added_tokens": [{"id": 256, "content": END, "special": True,
                                   "single_word": False, "lstrip": False,
                                   "rstrip": False, "normalized": False}],
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                                   "trim_offsets": True, "use_regex": False},
                 "decoder": {"type": "ByteLevel", "add_prefix_space": False,
                             "trim_offsets": True, "use_regex": False}}
    for name, content in (("tokenizer.json", tokenizer),
                          ("tokenizer_config.json",
                           {"tokenizer_class": "PreTrainedTokenizerFast",
                            "eos_token": END})):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file)


class Page(h.HeddleTest):
    def run_page(self, python):
        """Runs the page's blocks in turn; those of Python by `python`."""
        with open(os.path.join(ROOT, "docs", "fine-tuning.md")) as file:
            blocks = BLOCK.findall(file.read())
        self.assertGreater(len(blocks), 3)
        for shown in ("docs", "examples"):
            os.symlink(os.path.join(ROOT, shown), self.path(shown))
        for block in blocks:
            if block.startswith("```python"):
                python("\n".join(block.splitlines()[1:-1]))
            for command, expected in check_commands.commands(block):
                self.run_command(command, expected)

    def run_command(self, command, expected):
        path = os.path.dirname(os.path.abspath(h.HEDDLE)) + os.pathsep + os.environ["PATH"]
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, text=True,
                              env=dict(os.environ, PATH=path), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              errors="replace", timeout=300)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}")
        line = check_commands.missing(expected, done.stdout.splitlines())
        self.assertIsNone(line, f"{command} does not print\n{line}\nbut\n{done.stdout}")


class FineTuning(Page):
    def test_commands(self):
        write_downloaded(self.path("base"))
        self.run_page(lambda text: None)
        names = h.read_safetensors(self.path("tuned", "model.safetensors"))
        self.assertEqual(set(names), set(families.shapes(families.config(vocab_size=VOCAB))))
        self.assertIn("tokenizer_config.json", os.listdir(self.path("tuned")))

    @h.long_only
    def test_page_with_transformers(self):
        h.run_with_packages(__file__, "WithTransformers.test_page")


def has_transformers():
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        return False
    return True


@unittest.skipUnless(has_transformers(), "needs transformers")
class WithTransformers(Page):
    def test_page(self):
        write_downloaded(self.path("downloaded"))

        def python(text):
            text = re.sub(r'^name = ".*"$', 'name = "downloaded"', text, flags=re.MULTILINE)
            h.run([sys.executable, "-c", text], cwd=self.folder)

        self.run_page(python)
        for model, flags in (("base", []), ("tuned", ["--weights", "tuned"])):
            said = h.run([self.path("tune"), "eval", "--data", self.path("corpus.val.bin"),
                          "--steps", 4, *flags], cwd=self.folder).stdout
            loss = float(re.search(r"loss (\S+)", said).group(1))
            self.assertLess(abs(self.loss_of(model) - loss), 2e-3, model)

    def loss_of(self, model):
        """The mean loss of the first 4 batches of 8 rows of 128 tokens."""
        import torch
        import transformers
        tokens = np.fromfile(self.path("corpus.val.bin"), np.uint16)[512:].astype(np.int64)
        rows = np.stack([tokens[row * 128:row * 128 + 129] for row in range(32)])
        network = transformers.AutoModelForCausalLM.from_pretrained(self.path(model))
        with torch.no_grad():
            logits = network(torch.tensor(rows[:, :-1])).logits.float()
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.tensor(rows[:, 1:]).flatten()).item()


if __name__ == "__main__":
    unittest.main()
