#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What --keep asks for: on every mesh the whole values, as one rank has them.
Keeping them sends nothing: each rank writes its part."""

import os
import unittest

from heddle_test import (HEDDLE, LONG, HeddleTest, ds_config, read_safetensors,
                         relative, run, write_inputs)

# Values that ranks split by rows, tokens, heads, features, and the vocabulary;
# partial sums; and one that several stages could have.
KEPT = ["logits", "grads", "h.1", "h.0.attn", "h.0.attn.c_attn", "h.1.mlp.c_fc",
        "h.1.attn.c_proj", "wte", "wpe", "ln_f"]
ROWS, SEQ = 4, 32
MESHES = [*[["--mesh", "data=2", "--zero", 1]] * LONG,
          ["--mesh", "data=2", "--accumulate", 2, "--zero", 3],
          ["--mesh", "tensor=2"],
          ["--mesh", "seq=2"],
          ["--mesh", "pipe=2", "--accumulate", 2],
          ["--mesh", "tensor=2,data=2", "--sequence-parallel"],
          ["--mesh", "seq=2,tensor=2", "--accumulate", 2, "--context", "ring"],
          ["--mesh", "pipe=2,seq=2,tensor=2", "--accumulate", 2, "--zero", 2,
           "--sequence-parallel"]]


class Keep(HeddleTest):
    def prepare(self):
        # An odd vocabulary: that of tensor ranks is padded.
        model, config, _ = self.make_model()
        data, tokens = self.make_tokens(1000, config["vocab_size"])
        return model, data, tokens

    def build(self, model, *flags):
        return self.compile(model, "--batch", ROWS, "--seq", SEQ, "--threads", 1,
                            "--keep", ",".join(KEPT), *flags,
                            # Rounding is no gradient that Adam makes large.
                            config=ds_config(eps=1e-3))

    def dump(self, model, data, *flags):
        binary, path = self.build(model, *flags), self.path("dump.safetensors")
        run([HEDDLE, "run", binary, "--", "train", "--data", data, "--steps", 2,
             "--progress", "none", "--dump", path])
        return read_safetensors(path)

    def check(self, values, expected, names):
        for name in names:
            self.assertEqual(values[name].shape, expected[name].shape, name)
            # Gradients of key biases are zero but for what is rounded.
            self.assertLessEqual(relative(values[name], expected[name], 1e-1), 1e-5,
                                 name)

    def test_meshes_dump_what_one_rank_has(self):
        model, data, _ = self.prepare()
        expected = self.dump(model, data)
        for name in KEPT:
            key = name if name == "logits" else "value." + name
            if name != "grads":
                self.assertEqual(expected[key].shape[:2], (ROWS, SEQ), name)
        for flags in MESHES:
            with self.subTest(flags=flags):
                values = self.dump(model, data, *flags)
                self.assertEqual(values.keys(), expected.keys())
                self.check(values, expected, expected)

    def test_simulated_ranks_give_them_at_every_phase(self):
        model, _, tokens = self.prepare()
        dumps, inputs = self.path("dumps"), self.path("inputs.safetensors")
        write_inputs(inputs, tokens, 1, ROWS, SEQ)
        self.build(model, "--mesh", "pipe=2,tensor=2", "--accumulate", 2,
                   "--sequence-parallel", "--dump-phases", dumps)
        found = {}
        for phase in ("train", "shard", "pipe", "spmd", "kernels", "memory"):
            output = self.path(phase + ".safetensors")
            run([HEDDLE, "eval", os.path.join(dumps, phase + ".mlir"), "--ranks",
                 "--inputs", inputs, "--output", output])
            found[phase] = {name: value.reshape(ROWS, SEQ, -1)
                            for name, value in read_safetensors(output).items()
                            if name == "logits" or name.startswith("value.")}
        self.assertEqual(len(found["train"]), len(KEPT) - 1)
        for phase, values in found.items():
            with self.subTest(phase=phase):
                self.assertEqual(values.keys(), found["train"].keys())
                self.check(values, found["train"], found["train"])

    def test_keeping_sends_nothing(self):
        model, _, _ = self.prepare()
        sent = []
        for keep in ("grads", "grads,logits,h.0,h.0.attn.c_attn"):
            binary = self.compile(model, "--batch", ROWS, "--threads", 1, "--mesh",
                                  "data=2,tensor=2", "--keep", keep)
            explained = self.explain(binary)
            sent.append(explained["communication"])
        self.assertEqual(sent[0], sent[1])


if __name__ == "__main__":
    unittest.main()
