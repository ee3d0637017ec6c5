#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""BERT gives the same numbers on meshes as on one rank, with dropout, segments,
lengths, and labels of which most do not count. It reads old names of weights and
leaves out what it does not train. HEDDLE_TEST_LONG=1 takes all meshes, and exchanges
checkpoints with transformers; test_recorded.py compares the numbers."""

import json
import os
import shutil
import unittest

import numpy as np

import heddle_test as h
from test_parallel import BATCH, SEQ, flags_of, ranks_of

STEPS, VOCAB = 10, 97
CONFIG = dict(model_type="bert", architectures=["BertForMaskedLM"], vocab_size=VOCAB,
              hidden_size=32, num_hidden_layers=4, num_attention_heads=4,
              intermediate_size=44, hidden_act="gelu_new", hidden_dropout_prob=0.1,
              attention_probs_dropout_prob=0.1, max_position_embeddings=SEQ + 3,
              type_vocab_size=3, layer_norm_eps=1e-12, pad_token_id=0)
MESHES = [dict(mesh={"data": 2, "tensor": 2}, zero=2),
          dict(mesh={"seq": 2, "pipe": 2}, zero=1, accumulate=2)]
if h.LONG:
    MESHES += [dict(mesh={"data": 2}, zero=zero) for zero in range(4)]
    MESHES += [dict(mesh={"tensor": 2}, sequence_parallel=shares, accumulate=2)
               for shares in (False, True)]
    MESHES += [dict(mesh={"seq": 2}, context=context) for context in ("ulysses", "ring")]
    # More ranks than segments: each has all of them.
    MESHES += [dict(mesh={"tensor": 4}, sequence_parallel=shares)
               for shares in (False, True)]
    MESHES += [dict(mesh={"pipe": 2}, accumulate=4),
               dict(mesh={"data": 2, "pipe": 2}, accumulate=2, schedule="zb-h1", zero=2),
               dict(mesh={"seq": 2, "tensor": 2}, context="ring"),
               dict(mesh={"data": 2}, zero=3, accumulate=2, recompute="full"),
               dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, accumulate=2, zero=1)]

# Loads a checkpoint, says what is wrong with it and what the loss is, saves it.
TRANSFORMERS = """
import json, sys, torch
from safetensors.torch import load_file
from transformers import BertForMaskedLM
folder, rows, count, target = sys.argv[1:]
model, report = BertForMaskedLM.from_pretrained(folder, output_loading_info=True)
rows = {name: value[:int(count)] for name, value in load_file(rows).items()}
seen = torch.arange(rows["ids"].shape[1]) < rows["lengths"][:, None]
with torch.no_grad():
    loss = model.eval()(rows["ids"], attention_mask=seen.long(),
                        token_type_ids=rows["segments"], labels=rows["labels"]).loss
print(json.dumps([loss.item(), list(report["missing_keys"]),
                  list(report["unexpected_keys"])]))
model.save_pretrained(target)
"""


def shapes(c):
    width, inner = c["hidden_size"], c["intermediate_size"]
    found = {}

    def add(path, *shape, bias=True):
        found[path + ".weight"] = shape
        if bias:
            found[path + ".bias"] = shape[:1]

    for name, rows in (("word", c["vocab_size"]), ("token_type", c["type_vocab_size"]),
                       ("position", c["max_position_embeddings"])):
        add(f"bert.embeddings.{name}_embeddings", rows, width, bias=False)
    add("bert.embeddings.LayerNorm", width)
    for layer in range(c["num_hidden_layers"]):
        path = f"bert.encoder.layer.{layer}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            add(f"{path}attention.{part}", width, width)
        add(path + "attention.output.LayerNorm", width)
        add(path + "intermediate.dense", inner, width)
        add(path + "output.dense", width, inner)
        add(path + "output.LayerNorm", width)
    add("cls.predictions.transform.dense", width, width)
    add("cls.predictions.transform.LayerNorm", width)
    found["cls.predictions.bias"] = (c["vocab_size"],)
    if not c.get("tie_word_embeddings", True):
        found["cls.predictions.decoder.weight"] = (c["vocab_size"], width)
    return found


def random_weights(config):
    generator = np.random.default_rng(1)
    weights = {}
    for name, shape in shapes(config).items():
        value = generator.standard_normal(shape) * 0.15
        if name.endswith("LayerNorm.weight"):
            value = 1 + value
        weights[name] = value.astype(np.float32)
    return weights


def make_inputs(batch=BATCH, steps=STEPS, seq=SEQ):
    """Rows of unequal lengths with a fifth of the labels; the second step's first
    rows, which one of two ranks has, have none."""
    generator = np.random.default_rng(3)
    text = h.random_tokens(batch * steps * seq, VOCAB).reshape(-1, seq)
    labels = np.where(generator.random(text.shape) < 0.2, text, -100)
    labels[batch:batch + batch // 2] = -100
    lengths = generator.integers(1, seq + 1, len(text))
    labels[np.arange(seq) >= lengths[:, None]] = -100
    segments = np.sort(generator.integers(0, 3, text.shape), axis=1)
    return {"ids": np.where(labels < 0, text, VOCAB - 1), "labels": labels,
            "segments": segments, "lengths": lengths}


class Bert(h.HeddleTest):
    def setUp(self):
        self.rows = self.path("rows.safetensors")
        h.write_safetensors(self.rows, make_inputs())
        self.settings = h.ds_config(lr=3e-3, clip=0.5, eps=1e-5)

    def make(self, name, weights, config=CONFIG):
        directory = self.path(name)
        h.write_model(directory, config, weights, prefix="")
        return directory

    def train_plan(self, directory, **plan):
        saved = self.path("saved")
        shutil.rmtree(saved, ignore_errors=True)
        binary = self.compile(directory, *flags_of(**plan), config=self.settings)
        steps = self.train(binary, self.rows, STEPS, "--save", saved, "--seed", 11,
                           ranks=ranks_of(plan["mesh"]))
        return steps, h.read_saved(saved)

    @h.needs_mpi
    def test_meshes_have_the_numbers_of_one_rank(self):
        for tied in (True, False):
            config = dict(CONFIG, tie_word_embeddings=tied)
            directory = self.make("meshes", random_weights(config), config)
            expected, weights = self.train_plan(directory, mesh={})
            self.assertLess(expected[-1]["loss"], expected[0]["loss"])
            self.assertEqual({name: value.shape for name, value in weights.items()},
                             shapes(config))
            for plan in MESHES if h.LONG or tied else MESHES[:1]:
                with self.subTest(tied=tied, **plan):
                    steps, saved = self.train_plan(directory, **plan)
                    for key in ("loss", "grad_norm"):
                        np.testing.assert_allclose([step[key] for step in steps],
                                                   [step[key] for step in expected],
                                                   rtol=1e-5, err_msg=key)
                    for tensor, value in weights.items():
                        self.assertLessEqual(
                            h.relative(saved[tensor], value, 1e-2), 1e-5, tensor)

    def test_names_of_old_files(self):
        """Norms with gamma and beta, and tensors that are not trained; a checkpoint
        keeps the names of its model."""
        weights = random_weights(CONFIG)
        expected, saved = self.train_plan(self.make("new", weights), mesh={})
        old = {name.replace("LayerNorm.weight", "LayerNorm.gamma")
               .replace("LayerNorm.bias", "LayerNorm.beta"): value
               for name, value in weights.items()}
        self.assertEqual(sum(name.endswith("gamma") for name in old), 10)
        width = CONFIG["hidden_size"]
        more = {"bert.pooler.dense.weight": np.zeros((width, width), np.float32),
                "bert.pooler.dense.bias": np.zeros(width, np.float32),
                "cls.seq_relationship.weight": np.zeros((2, width), np.float32),
                "cls.seq_relationship.bias": np.zeros(2, np.float32),
                "bert.embeddings.position_ids": np.arange(SEQ + 3)[None],
                "cls.predictions.decoder.weight":
                    weights["bert.embeddings.word_embeddings.weight"],
                "cls.predictions.decoder.bias": weights["cls.predictions.bias"]}
        directory = self.make("old", {**old, **more})
        steps, kept = self.train_plan(directory, mesh={})
        self.assertEqual([step["loss"] for step in steps],
                         [step["loss"] for step in expected])
        self.assertEqual(set(kept), set(old))
        report = h.run([h.HEDDLE, "compile", directory, "--stop-after", "import",
                        "--verbose"]).stderr
        for name in more:
            self.assertIn(f"ignored {name}: ", report)
        again = self.path("again")
        shutil.copytree(os.path.join(self.path("saved"), f"step-{STEPS:06}"), again)
        steps, _ = self.train_plan(again, mesh={})
        self.assertLess(steps[0]["loss"], expected[0]["loss"])

    def test_values_that_can_be_kept(self):
        directory = self.make("kept", random_weights(CONFIG))
        paths = ["embeddings", "encoder.layer.1.attention.self",
                 "encoder.layer.1.attention.output", "encoder.layer.1.attention",
                 "encoder.layer.1.intermediate", "encoder.layer.3.output",
                 "encoder.layer.2", "cls.predictions.transform.dense"]
        binary = self.compile(directory, *flags_of(mesh={}), "--keep", ",".join(paths),
                              config=self.settings)
        dump = self.path("dump.safetensors")
        self.train(binary, self.rows, 1, "--dump", dump)
        values = h.read_safetensors(dump)
        for path in paths:
            width = 44 if path.endswith("intermediate") else 32
            self.assertEqual(values["value." + path].shape, (BATCH, SEQ, width), path)
        np.testing.assert_array_equal(values["value.encoder.layer.1.attention"],
                                      values["value.encoder.layer.1.attention.output"])

    def test_names_of_hugging_face(self):
        """Left out, segments are 0, and lengths whole rows."""
        rows, binary = make_inputs(), self.compile(self.make("names", random_weights(
            CONFIG)), *flags_of(mesh={}))
        mask = (np.arange(SEQ) < rows["lengths"][:, None]).astype(np.int64)
        batch = {"input_ids": rows["ids"], "labels": rows["labels"]}
        whole = np.full(len(rows["ids"]), SEQ)

        def evaluate(**tensors):
            h.write_safetensors(self.rows, tensors)
            return h.run([binary, "eval", "--inputs", self.rows, "--json"]).stdout

        expected = evaluate(**rows)
        self.assertEqual(expected, evaluate(
            **batch, attention_mask=mask, token_type_ids=rows["segments"]))
        plain = evaluate(**{**rows, "segments": 0 * rows["ids"], "lengths": whole})
        self.assertNotEqual(plain, expected)
        self.assertEqual(plain, evaluate(**batch))

    def test_the_row_of_padding_begins_as_zeros(self):
        model, pad = self.path("bare.json"), 71
        with open(model, "w") as file:
            json.dump(dict(CONFIG, pad_token_id=pad, hidden_dropout_prob=0.0,
                           attention_probs_dropout_prob=0.0), file)
        rows = make_inputs()
        rows["ids"][:, ::3] = pad
        h.write_safetensors(self.rows, rows)
        first, saved = {}, self.path("saved")
        for mesh in [{}] + [{"tensor": 2}] * bool(h.MPIRUN):
            shutil.rmtree(saved, ignore_errors=True)
            binary = self.compile(model, *flags_of(mesh=mesh), "--init", "random",
                                  "--seed", 5, "--precision", "bf16", "--lr", 0,
                                  "--weight-decay", 0)
            self.train(binary, self.rows, 1, "--save", saved, ranks=ranks_of(mesh))
            first[tuple(mesh)] = h.read_saved(saved)
            table = first[tuple(mesh)]["bert.embeddings.word_embeddings.weight"]
            self.assertEqual(np.flatnonzero(~table.any(axis=1)).tolist(), [pad])
            if mesh:
                continue

            # The copy in bf16 has the same numbers as one that is loaded.
            def evaluate(*weights):
                return json.loads(h.run([binary, "eval", "--inputs", self.rows,
                                         "--json", *weights]).stdout)["loss"]

            self.assertEqual(evaluate(), evaluate(
                "--weights", os.path.join(saved, "step-000001")))
        for weights in first.values():
            for name, value in first[()].items():
                np.testing.assert_array_equal(weights[name], value, name)

    @h.long_only
    def test_checkpoints_in_transformers_and_back(self):
        for tied in (True, False):
            config = dict(CONFIG, tie_word_embeddings=tied)
            self.train_plan(self.make("there", random_weights(config), config), mesh={})
            saved, back = self.path("saved", f"step-{STEPS:06}"), self.path("back")
            text = h.run([h.oracle_python(), "-c", TRANSFORMERS, saved, self.rows, BATCH,
                          back], env={**os.environ, "HF_HUB_OFFLINE": "1"}).stdout
            loss, *wrong = json.loads(text.splitlines()[-1])
            self.assertEqual(wrong, [[], []])
            for model in (saved, back):
                binary = self.compile(model, *flags_of(mesh={}), config=self.settings)
                text = h.run([binary, "eval", "--inputs", self.rows, "--steps", 1,
                              "--json"]).stdout
                self.assertLess(abs(json.loads(text)["loss"] / loss - 1), 1e-5)


if __name__ == "__main__":
    unittest.main()
