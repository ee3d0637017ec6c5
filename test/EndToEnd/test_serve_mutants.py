# Edited dumps of plans that serve: right or refused.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dumps of serving plans, as `judging_mutants.py` edits them: the logits of a text, at
once and token by token over the cache, are the interpreter's. HEDDLE_TEST_LONG=1 takes
10,000 mutants."""

import unittest

import numpy as np

import families
import heddle_test as h
from judging_mutants import PHASES, Ended, MutantsTest, are_near, seeds

CONTEXT, PAGE, VOCAB = 20, 16, 97
# More than a page.
PROMPT = [5, 1, 96, 0, 7, 7, 30, 2, 11, 64, 8, 50, 3, 20, 33, 90, 41, 6]
CONFIGURATIONS = {"codes": ["--quantize", "int8", "--group", 8], "gpt2": [], "llama": []}
# How logits are computed: the command's flags, and the programs that the interpreter
# runs for them.
WAYS = {"at once": ([], [f"score/{CONTEXT}"]),
        "token by token": (["--decode"], ["decode/1"] * len(PROMPT))}

# That once failed, while the dumps were as they were then.
ONCE = [182]


def ports(programs):
    """What the programs read of the prompt, each its part."""
    inputs = {}
    size = int(programs[0].split("/")[1]) if len(programs) == 1 else 1
    for step in range(len(programs)):
        part = PROMPT[step * size:(step + 1) * size]
        for name, value in (("ids", part + [0] * (size - len(part))),
                            ("positions", range(step * size, (step + 1) * size)),
                            ("pages", range(-(-CONTEXT // PAGE)))):
            inputs[f"{name}@{step + 1}"] = np.array([list(value)], np.int32)
        inputs[f"lengths@{step + 1}"] = np.array([len(part)], np.int32)
    return inputs


class ServingMutants(MutantsTest):
    configurations = CONFIGURATIONS
    few, once = 90, ONCE

    def command(self, binary):
        return [binary]

    def prepare(self, name, flags):
        if name == "gpt2":
            model, _, _ = self.make_model(vocab=VOCAB, positions=CONTEXT, embed=8,
                                          heads=2, layers=2, name=name)
        else:
            config = families.config(num_hidden_layers=1, vocab_size=VOCAB,
                                     intermediate_size=40)
            model = self.path(name)
            h.write_model(model, config, families.random_weights(config), "")
        texts = self.dumps(model, "--mode", "serve", "--max-context", CONTEXT,
                           "--max-batch", 2, *flags, name=name)
        if "--quantize" in flags:  # Weights are packed in the phase fuse.
            texts = {phase: texts[phase] for phase in PHASES[PHASES.index("fuse"):]}
        return texts

    def logits(self, binary, *flags):
        """The code that the command ends with, and those after each token."""
        out = binary + ".logits"
        ended = Ended([*self.command(binary), "logits", "--prompt-ids",
                       ",".join(map(str, PROMPT)), "-o", out, *flags]).check("logits")
        return ended.code, None if ended.status else h.read_safetensors(out)["logits"]

    def compare(self, file, job, name, phase):
        said = set()
        for way, (flags, programs) in WAYS.items():
            code, found = self.logits(job, *flags)
            if found is None:
                said.add("ends with " + code)
                continue

            def find_wrong(single, double, way=way, programs=programs, found=found):
                row = len(PROMPT) - len(programs)
                got = [each["logits"] for each in (single, double)]
                if found.shape != (len(PROMPT), got[0].shape[-1]):
                    return way, f"{got[0].shape} beside {found.shape}"
                got = [each[0, row] for each in got]
                if are_near(*got, found[-1]):
                    return None
                return way, f"{np.max(np.abs(got[0] - found[-1]))} apart"

            self.confirm(file, find_wrong, "--inputs", self.inputs[way], "--program",
                         ",".join(programs), "--steps", len(programs))
            is_alike = np.array_equal(found, self.unedited[name, way], equal_nan=True)
            said.add("as before" if is_alike else "equal")
        return ", ".join(sorted(said))

    def test_accepted_and_right_or_refused(self):
        self.texts = {name: self.prepare(name, flags)
                      for name, flags in self.configurations.items()}
        self.inputs, self.unedited = {}, {}
        for way, (flags, programs) in WAYS.items():
            self.inputs[way] = self.path(f"inputs-{len(programs)}.safetensors")
            h.write_safetensors(self.inputs[way], ports(programs))
            for name in self.configurations:
                _, found = self.logits(self.path(name + "-job"), *flags)
                self.unedited[name, way] = found
        self.assert_right_or_refused(seeds(self.few, self.once))


if __name__ == "__main__":
    unittest.main()
