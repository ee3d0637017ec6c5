#!/usr/bin/env python3
# Against records of Hugging Face's transformers.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every record of test/Oracles: the logits and gradients of the first step, losses
and norms of 20 steps, and what is saved at the end, on one rank, and each family on a mesh.
HEDDLE_TEST_LONG=1 takes more meshes, all records on them, and has the records made again with the
packages of test/Oracles/requirements.txt."""

import glob
import json
import os
import subprocess
import sys
import unittest

import numpy as np

import heddle_test as h

ORACLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Oracles")
sys.path.insert(0, ORACLES)
import models  # noqa: E402

SERVED = os.listdir(os.path.join(ORACLES, "served"))
TOLERANCE = 1e-5
# Gradients that are zero in theory, as those of keys' biases.
FLOOR = 1e-3

def meshes(config):
    """Those that the model can be split over."""
    found = [dict(data=2, zero=3)]
    heads = next(config[key] for key in ("num_key_value_heads", "n_head", "num_heads",
                                         "num_attention_heads") if key in config)
    layers = next(config[key] for key in ("num_hidden_layers", "n_layer", "num_layers")
                  if key in config)
    if h.LONG:
        found += [dict(tensor=ranks) for ranks in (2, 3) if heads % ranks == 0]
        found += [dict(pipe=2, zero=1, data=2)] * (layers >= 2)
    elif config["model_type"] == "gemma2":
        # Layers of one kind, with others between them.
        found += [dict(tensor=2)]
    return found


def records():
    found = {}
    for path in sorted(glob.glob(os.path.join(ORACLES, "models", "*.json"))):
        with open(path) as file:
            found[os.path.basename(path)[:-len(".json")]] = json.load(file)
    return found


class RecordedTest(h.HeddleTest):
    def assert_like(self, tensors, expected, prefix, floor):
        for name, (norm, product) in expected.items():
            value = tensors[prefix + name]
            actual = models.summary(name, value)
            scale = max(norm, floor)
            for got, wanted in zip(actual, (norm, product)):
                self.assertLessEqual(abs(got - wanted), TOLERANCE * scale, name)

    def assert_steps(self, steps, record):
        for key in ("loss", "grad_norm"):
            np.testing.assert_allclose([step[key] for step in steps], record[key],
                                       rtol=TOLERANCE, err_msg=key)

    def make(self, name, record):
        folder, data = self.path(name), self.path(name + ".bin")
        config = record["config"]
        weights = {each: models.weight(each, shape)
                   for each, shape in record["weights"].items()}
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        h.write_safetensors(os.path.join(folder, "model.safetensors"), weights)
        if config["model_type"] == "bert":
            data = self.path(name + "-rows.safetensors")
            h.write_safetensors(data, models.masked_rows(config))
        else:
            h.write_tokens(data, models.tokens(config["vocab_size"]))
        return folder, data

    def flags(self, **mesh):
        zero, ranks = mesh.pop("zero", 0), int(np.prod(list(mesh.values()) or [1]))
        names = ",".join(f"{axis}={size}" for axis, size in mesh.items())
        accumulate = 2 if "pipe" in mesh else 1
        flags = ["--batch", models.ROWS, "--seq", models.SEQ, "--zero", zero,
                 "--accumulate", accumulate]
        return ranks, flags + (["--mesh", names] if names else [])

    def settings(self):
        adamw = models.ADAMW
        return h.ds_config(lr=adamw["lr"], eps=adamw["eps"], clip=models.CLIP,
                           decay=adamw["weight_decay"])


class Recorded(RecordedTest):
    takes_long = True

    def check(self, name, record):
        folder, data = self.make(name, record)
        _, flags = self.flags()
        binary = self.compile(folder, *flags, "--keep", "logits,grads",
                              config=self.settings(), output=name + "-job")
        dump, saved = self.path(name + ".safetensors"), self.path(name + "-saved")
        self.train(binary, data, 1, "--dump", dump)
        first = h.read_safetensors(dump)
        self.assert_like(first, {"logits": record["logits"]}, "", 0)
        self.assert_like(first, record["gradients"], "grad.",
                         FLOOR * record["grad_norm"][0])
        steps = self.train(binary, data, models.STEPS, "--save", saved)
        self.assert_steps(steps, record)
        tensors = h.read_saved(saved)
        self.assertEqual({each: list(value.shape) for each, value in tensors.items()},
                         record["weights"])
        self.assert_like(tensors, record["final"], "", 0)
        if "generated" in record:
            self.check_generated(binary, saved, record)
            # test_serve_recorded.py has the others serve.
            if h.LONG or name + ".json" not in SERVED:
                serving = self.compile(
                    folder, "--mode", "serve", "--max-batch", 1, "--max-context",
                    models.PROMPT + models.GENERATED, output=name + "-serve")
                self.check_generated(serving, saved, record)
        for mesh in meshes(record["config"]) if h.LONG or "-" not in name else []:
            ranks, flags = self.flags(**mesh)
            binary = self.compile(folder, *flags, config=self.settings(),
                                  output=name + "-mesh")
            self.assert_steps(self.train(binary, data, models.STEPS, ranks=ranks),
                              record)

    def check_generated(self, binary, saved, record):
        prompt = ",".join(map(str, record["generated"][:models.PROMPT]))
        text = h.run([binary, "generate", "--weights", saved, "--prompt-ids", prompt,
                      "--max-new-tokens", models.GENERATED, "--temperature",
                      0]).stdout
        tokens = [int(word) for word in text.replace(",", " ").split()]
        self.assertEqual(tokens[-models.GENERATED:],
                         record["generated"][models.PROMPT:])

    def test_every_record(self):
        for name, record in records().items():
            with self.subTest(name):
                self.check(name, record)

    @h.long_only
    def test_records_are_what_the_packages_compute(self):
        python = h.oracle_python()
        io = os.path.join(ORACLES, "..", "Runtime", "Io")
        text = os.path.join(ORACLES, "..", "..", "LICENSE")
        for command in ([os.path.join(ORACLES, "record.py"), "--check"],
                        [os.path.join(io, "safetensors_conformance.py"), "--check"],
                        [os.path.join(io, "chat_conformance.py"), "--check"],
                        [os.path.join(io, "drawn_conformance.py"), "--check"],
                        [os.path.join(io, "tokenizer_conformance.py"), "--check",
                         text]):
            result = subprocess.run([python, *command], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
