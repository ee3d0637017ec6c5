#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--extend-positions: a model with a longer table of positions trains as one whose table
numpy has made longer, and as the same model in PyTorch. HEDDLE_TEST_LONG=1 takes all
families, and transformers."""

import json
import os
import shutil
import sys
import unittest

import numpy as np

import heddle_test as h
import test_bert

ORACLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Oracles")
sys.path.insert(0, ORACLES)
import models  # noqa: E402

ROWS, STEPS, SHORT, LONG, VOCAB = 2, 3, 12, 31, 97

# Loads a checkpoint, and says what is wrong with it and what the loss is.
TRANSFORMERS = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
folder, ids = sys.argv[1], torch.tensor(json.loads(sys.argv[2]))
config = json.load(open(folder + "/config.json"))
kind = AutoModelForMaskedLM if config["model_type"] == "bert" else AutoModelForCausalLM
model, report = kind.from_pretrained(folder, output_loading_info=True)
with torch.no_grad():
    logits = model.eval()(ids).logits
print(json.dumps([logits.tolist(), [name for keys in report.values() for name in keys]]))
"""


def extended(table, positions, first, word):
    """A table whose rows from `first` on are of positions, with more positions."""
    rows = table[first:].astype(np.float64)
    if word == "interpolate":
        places = np.linspace(0, len(rows) - 1, positions)
        rows = np.stack([np.interp(places, np.arange(len(rows)), column)
                         for column in rows.T], axis=1)
    else:
        rows = rows[np.arange(positions) % len(rows)]
    return np.concatenate([table[:first], rows]).astype(np.float32)


class Model:
    """A family's model with a short table of positions."""

    def __init__(self, config, weights, table, first=0, key="max_position_embeddings"):
        self.config, self.weights, self.table = config, weights, table
        self.first, self.key = first, key

    def long(self, word):
        table = extended(self.weights[self.table], LONG, self.first, word)
        return (dict(self.config, **{self.key: LONG}),
                dict(self.weights, **{self.table: table}))


def gpt2():
    config = h.gpt2_config(vocab=VOCAB, positions=SHORT)
    weights = {"transformer." + name: value
               for name, value in h.random_weights(config).items()}
    return Model(config, weights, "transformer.wpe.weight", key="n_positions")


def bert():
    config = dict(test_bert.CONFIG, num_hidden_layers=2, pad_token_id=None,
                  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                  max_position_embeddings=SHORT)
    return Model(config, test_bert.random_weights(config),
                 "bert.embeddings.position_embeddings.weight")


def recorded(name, table, first=0):
    with open(os.path.join(ORACLES, "models", name + ".json")) as file:
        shapes = json.load(file)["weights"]
    config = dict(models.CONFIGS[name], max_position_embeddings=SHORT)
    shapes[table] = [SHORT + first, shapes[table][1]]
    return Model(config, {each: models.weight(each, shape)
                          for each, shape in shapes.items()}, table, first)


FAMILIES = {"gpt2": gpt2, "bert": bert,
            "opt": lambda: recorded("opt", "model.decoder.embed_positions.weight", 2),
            "gpt_neo": lambda: recorded("gpt_neo", "transformer.wpe.weight")}


SHORT_CASES = [("opt", "repeat"), ("bert", "interpolate")]


class ExtendPositions(h.HeddleTest):
    def write(self, name, config, weights):
        h.write_model(self.path(name), config, weights, prefix="")
        return self.path(name)

    def data_of(self, name):
        if name != "bert":
            return self.make_tokens(STEPS * ROWS * LONG + 1, VOCAB)[0]
        rows = test_bert.make_inputs(ROWS, STEPS, LONG)
        h.write_safetensors(self.path("rows.safetensors"), rows)
        return self.path("rows.safetensors")

    def build(self, model, *flags, output="job"):
        return self.compile(model, "--batch", ROWS, "--seq", LONG, "--threads", 2, *flags,
                            output=output, config=h.ds_config())

    def trained(self, binary, data, *flags, steps=STEPS, name="out", ranks=1):
        log = self.train(binary, data, steps, "--save", self.path(name), *flags,
                         ranks=ranks)
        return [[step[key] for step in log] for key in ("loss", "grad_norm")]

    def test_families(self):
        """Each trains as a model that has the longer table in its files. What it saves
        has the table and says so in config.json, and needs no flag."""
        for name, make in FAMILIES.items():
            data = self.data_of(name)
            for word in ("repeat", "interpolate"):
                if not (h.LONG or (name, word) in SHORT_CASES):
                    continue
                with self.subTest(name, word=word):
                    model, folder = make(), self.path(name + word)
                    short = self.write(name + word + "-short", model.config, model.weights)
                    long = self.write(name + word + "-long", *model.long(word))
                    binary = self.build(short, "--extend-positions",
                                        LONG if word == "repeat" else f"{LONG}:{word}")
                    ours = self.trained(binary, data, name=folder)
                    theirs = self.trained(self.build(long, output="long"), data,
                                          name=folder + "-long")
                    if word == "repeat":
                        self.assertEqual(ours, theirs)
                        self.assertEqual(h.bytes_saved(folder),
                                         h.bytes_saved(folder + "-long"))
                    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
                    saved = os.path.join(folder, f"step-{STEPS:06}")
                    with open(os.path.join(saved, "config.json")) as file:
                        self.assertEqual(json.load(file)[model.key], LONG)
                    again = self.build(saved, output="again")
                    self.assertEqual(self.evaluate(again, data),
                                     self.evaluate(binary, data, "--weights", saved))

    def evaluate(self, binary, data, *flags):
        return json.loads(h.run([binary, "eval", *h.batches_of(data), "--json",
                                 *flags]).stdout)["loss"]

    def table_of(self, model, flag, *flags):
        """The table that a run begins with."""
        short = self.write("table", model.config, model.weights)
        binary = self.build(short, "--extend-positions", flag, "--lr", 0,
                            "--weight-decay", 0, *flags)
        self.trained(binary, self.data_of("gpt2"), "--overwrite", steps=1)
        return h.read_saved(self.path("out"))[model.table]

    def test_tables(self):
        """Repeated rows are equal to the last bit; OPT's first two rows are no positions.
        A table made twice as long by interpolation keeps both ends."""
        for make in (gpt2, FAMILIES["opt"]):
            model = make()
            old = model.weights[model.table]
            np.testing.assert_array_equal(
                self.table_of(model, f"{LONG}:repeat"),
                extended(old, LONG, model.first, "repeat"))
            table = self.table_of(model, f"{LONG}:interpolate")
            np.testing.assert_allclose(
                table, extended(old, LONG, model.first, "interpolate"), atol=1e-7)
            np.testing.assert_array_equal(table[:model.first + 1], old[:model.first + 1])
            np.testing.assert_array_equal(table[-1], old[-1])

    def test_random_weights(self):
        """--init random draws the whole table; a directory with the short one, given to
        the binary, is extended all the same."""
        model = gpt2()
        table = self.table_of(model, LONG, "--init", "random", "--seed", 3)
        self.assertEqual(table.shape, (LONG, model.config["n_embd"]))
        self.assertEqual(len(np.unique(table[:, 0])), LONG)
        data = self.data_of("gpt2")
        self.trained(self.path("job"), data, "--overwrite", "--weights",
                     self.path("table"), steps=1)
        np.testing.assert_array_equal(
            h.read_saved(self.path("out"))[model.table],
            extended(model.weights[model.table], LONG, 0, "repeat"))

        # Weights with other numbers of rows are of another model.
        for rows in (SHORT + 3, LONG - 1):
            other = dict(model.weights, **{model.table: np.zeros(
                (rows, model.config["n_embd"]), np.float32)})
            error = h.run([self.path("job"), "train", "--data", data, "--steps", 1,
                           "--weights", self.write("other", model.config, other)],
                          status=2).stderr
            self.assertIn("error[H0131]: --extend-positions: the table of positions "
                          f"{model.table} of these weights has {rows} rows; this binary "
                          f"makes {LONG} of {SHORT}", error)
            self.assertIn(f"help: give weights with {SHORT} or {LONG} rows", error)

    @h.needs_torch
    def test_pytorch(self):
        import dropping
        import test_optimizers
        for name, base in (("gpt2", dropping.Gpt2), ("bert", dropping.Bert)):
            with self.subTest(name):
                model, data = FAMILIES[name](), self.data_of(name)
                config, weights = model.long("interpolate")
                prefix = "transformer." if name == "gpt2" else ""
                oracle = base(config, {each.removeprefix(prefix): value
                                       for each, value in weights.items()})
                binary = self.compile(
                    self.write(name, model.config, model.weights), "--batch", ROWS,
                    "--seq", LONG, "--extend-positions", f"{LONG}:interpolate",
                    config=dict(test_optimizers.config_of("AdamW"),
                                gradient_clipping=0.8))
                ours = self.trained(binary, data, name=name + "-out")
                everything = {step + 1: [0, 1] for step in range(STEPS)}
                theirs = dropping.train(
                    oracle, self.batches(name), everything, lambda step, layer: 1, 0.8,
                    dropping.adamw(oracle.parameters(),
                                   test_optimizers.RATES["AdamW"], 0.1))
                np.testing.assert_allclose(ours, theirs, rtol=1e-5)
                saved = h.read_saved(self.path(name + "-out"))
                for each, value in oracle.arrays().items():
                    self.assertLess(h.relative(saved[prefix + each], value), 2e-5, each)

    def batches(self, name):
        if name == "gpt2":
            tokens = h.random_tokens(STEPS * ROWS * LONG + 1, VOCAB)
            return [h.batch(tokens, step, ROWS, LONG) for step in range(STEPS)]
        rows = h.read_safetensors(self.path("rows.safetensors"))
        return [[rows[key][step * ROWS:][:ROWS]
                 for key in ("ids", "labels", "segments", "lengths")]
                for step in range(STEPS)]

    @h.needs_mpi
    def test_meshes_and_resuming(self):
        model, data = gpt2(), self.data_of("gpt2")
        short = self.write("short", model.config, model.weights)
        flag = ["--extend-positions", LONG]
        one = self.trained(self.build(short, *flag), data, name="one")
        for mesh in ["--mesh data=2 --zero 3", "--mesh tensor=2", "--mesh pipe=2"][
                :3 if h.LONG else 2]:
            with self.subTest(mesh):
                binary = self.build(short, *flag, *mesh.split(), output="mesh")
                self.trained(binary, data, steps=1, name="first", ranks=2)
                rest = self.train(binary, data, STEPS, "--resume", self.path("first"),
                                  ranks=2)
                np.testing.assert_allclose([step["loss"] for step in rest], one[0][1:],
                                           rtol=1e-5)
                shutil.rmtree(self.path("first"))

    def refused(self, model, flag, *flags):
        return h.run([h.HEDDLE, "compile", model, "-o", self.path("none"), "--batch", ROWS,
                      "--extend-positions", flag, *flags], status=2).stderr

    def test_refuses(self):
        model = gpt2()
        short = self.write("short", model.config, model.weights)
        for length in (SHORT, SHORT - 1):
            self.assertIn(f"error[H0131]: --extend-positions {length}: the model has "
                          f"{SHORT} positions already", self.refused(short, length))
        self.assertIn("error[H0114]: --extend-positions: ",
                      self.refused(short, f"{LONG}:mirror"))
        self.assertIn(f"or --extend-positions {LONG}", h.run(
            [h.HEDDLE, "compile", short, "-o", self.path("none"), "--seq", LONG],
            status=2).stderr)
        serve = ["--mode", "serve", "--max-context", LONG]
        self.assertIn(f"or less, or --extend-positions {LONG}", h.run(
            [h.HEDDLE, "compile", short, "-o", self.path("none"), *serve],
            status=2).stderr)
        long = self.write("long", *model.long("repeat"))
        error = h.run([h.HEDDLE, "compile", long, "-o", self.path("none"), *serve,
                       "--draft", short], status=2).stderr
        self.assertIn(f"help: use --max-context {SHORT} or less\n", error)
        for name in ("llama", "gpt_neox"):
            with open(self.path(name + ".json"), "w") as file:
                json.dump(models.CONFIGS[name], file)
            error = self.refused(self.path(name + ".json"), LONG, "--init", "random")
            self.assertIn("error[H0131]", error)
            self.assertIn("rope_scaling", error)

    @h.long_only
    def test_transformers(self):
        """Checkpoints load in transformers, which computes the same logits."""
        for name, make in FAMILIES.items():
            with self.subTest(name):
                model, data = make(), self.data_of(name)
                short = self.write(name, model.config, model.weights)
                binary = self.build(short, "--extend-positions", f"{LONG}:interpolate")
                self.trained(binary, data, name=name + "-out")
                saved = os.path.join(self.path(name + "-out"), f"step-{STEPS:06}")
                dump = self.path("dump.safetensors")
                keeps = self.build(saved, "--keep", "logits", output="keeps")
                if name == "bert":  # All tokens of a row, and one segment.
                    data = self.path("plain.safetensors")
                    ids = h.random_tokens(ROWS * LONG, VOCAB).reshape(ROWS, LONG)
                    h.write_safetensors(data, {
                        "ids": ids, "labels": ids, "segments": 0 * ids,
                        "lengths": np.full(ROWS, LONG)})
                else:
                    ids = self.batches("gpt2")[0][0]
                self.train(keeps, data, 1, "--dump", dump)
                text = h.run([h.oracle_python(), "-c", TRANSFORMERS, saved,
                              json.dumps(ids.tolist())],
                             env={**os.environ, "HF_HUB_OFFLINE": "1"}).stdout
                logits, wrong = json.loads(text.splitlines()[-1])
                self.assertEqual(wrong, [])
                self.assert_close(h.read_safetensors(dump)["logits"], logits, 1e-5, name)


if __name__ == "__main__":
    unittest.main()
