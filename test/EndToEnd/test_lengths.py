#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of unequal lengths: attention that is told which keys exist has PyTorch's
numbers on one rank and on meshes, whatever the padding holds. HEDDLE_TEST_LONG=1 takes
all meshes and shapes."""

import os
import unittest

import numpy as np

import encoder
import heddle_test as h

ROWS, SEQ, STEPS, RATE, CLIP = 8, 20, 4, 3e-3, 0.8
LENGTHS = [0, 1, SEQ, 7, 19, 10, 11, 3]

MESHES = [("one", 1, []),
          ("accumulate", 1, ["--accumulate", 4, "--recompute", "full"]),
          ("data", 2, ["--mesh", "data=2", "--zero", 3]),
          ("ring", 2, ["--mesh", "seq=2", "--context", "ring", "--zero", 1]),
          ("ulysses", 2, ["--mesh", "seq=2", "--context", "ulysses"]),
          ("tensor", 2, ["--mesh", "tensor=2"]),
          ("pipe", 2, ["--mesh", "pipe=2", "--accumulate", 2]),
          ("mixed", 4, ["--mesh", "pipe=2,data=2", "--zero", 1, "--accumulate", 2,
                       "--schedule", "zb-h1"]),
          ("both", 4, ["--mesh", "seq=2,tensor=2", "--context", "ring"])]


def make_inputs(vocab, rows=ROWS * STEPS):
    """Lengths go around, so that each micro-batch and rank has others. Half of
    the labels count, some of them on padding: the queries there see keys."""
    generator = np.random.default_rng(3)
    lengths = np.array([LENGTHS[(3 * row + row // ROWS) % len(LENGTHS)]
                        for row in range(rows)])
    labels = generator.integers(0, vocab, (rows, SEQ))
    counts = generator.random((rows, SEQ)) < 0.5
    return {"ids": generator.integers(0, vocab, (rows, SEQ)).astype(np.int32),
            "labels": np.where(counts, labels, -100).astype(np.int32),
            "lengths": lengths.astype(np.int32)}


class Lengths(h.HeddleTest):
    def prepare(self, **options):
        self.c = encoder.model(**options)
        self.weights = encoder.random_weights(self.c)
        h.write_model(self.path("weights"), {"vocab_size": self.c["vocab"]}, self.weights,
                      prefix="")
        with open(self.path("arch.mlir"), "w") as file:
            file.write(encoder.text(self.c))
        self.inputs = make_inputs(self.c["vocab"])

    def build(self, *flags, output="job"):
        return self.compile(self.path("arch.mlir"), "--weights", self.path("weights"),
                            "--batch", ROWS, "--seq", SEQ, "--threads", 1, *flags,
                            output=output, config=h.ds_config(lr=RATE, clip=CLIP, eps=1e-5))

    def train_inputs(self, binary, *flags, ranks=1, inputs=None, steps=STEPS):
        log, file = self.path("log.jsonl"), self.path("inputs.safetensors")
        h.write_safetensors(file, inputs or self.inputs)
        if os.path.exists(log):
            os.remove(log)
        h.run_ranks(ranks, [binary, "train", "--inputs", file, "--steps", steps, "--log",
                            log, "--progress", "none", *flags])
        return h.read_log(log)

    def reference(self):
        import torch

        model = encoder.Encoder(self.c, self.weights)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, eps=1e-5,
                                      weight_decay=0.01)
        losses, norms = [], []
        for step in range(STEPS):
            rows = slice(step * ROWS, (step + 1) * ROWS)
            optimizer.zero_grad()
            loss, _ = model.loss(*(self.inputs[name][rows].astype(np.int64)
                                   for name in ("ids", "labels", "lengths")))
            loss.backward()
            norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
            optimizer.step()
            losses.append(loss.item())
        return losses, norms, model.arrays()

    def check_meshes(self, names):
        losses, norms, final = self.reference()
        for name, ranks, flags in MESHES:
            if name not in names or (ranks > 1 and not h.MPIRUN):
                continue
            with self.subTest(name):
                saved = self.path("s-" + name)
                steps = self.train_inputs(self.build(*flags, output=name), "--save", saved,
                                          "--overwrite", ranks=ranks)
                np.testing.assert_allclose([s["loss"] for s in steps], losses, rtol=1e-5)
                np.testing.assert_allclose([s["grad_norm"] for s in steps], norms,
                                           rtol=1e-4)
                for key, value in h.read_saved(saved).items():
                    self.assert_close(value, final[key], 1e-5, key)

    @h.needs_torch
    def test_an_encoder_on_every_mesh(self):
        self.prepare()
        self.check_meshes([name for name, _, _ in MESHES
                           if h.LONG or name not in ("ulysses", "pipe", "both")])

    @h.needs_torch
    def test_other_shapes_of_attention(self):
        for options in (dict(heads=4, kv=2, size=5),
                        dict(heads=2, kv=2, size=48, packed=False, causal=True),
                        *[dict(heads=1, kv=1, size=20)] * h.LONG):
            with self.subTest(**options):
                self.prepare(**options)
                split = ["one", "ring"] + (["tensor"] if options["heads"] > 1 else [])
                self.check_meshes(split)

    def test_dropout_is_that_of_one_rank(self):
        self.prepare(dropout=0.25)
        found = {}
        for name, ranks, flags in MESHES:
            if name in ("one", "data", "ring", "ulysses", "tensor"):
                if ranks > 1 and not h.MPIRUN:
                    continue
                steps = self.train_inputs(self.build(*flags, output=name), ranks=ranks)
                found[name] = [step["loss"] for step in steps]
        for name, losses in found.items():
            np.testing.assert_allclose(losses, found["one"], rtol=1e-5, err_msg=name)

    @h.needs_torch
    def test_bf16(self):
        self.prepare(size=16)
        losses, _, _ = self.reference()
        steps = self.train_inputs(self.build("--precision", "bf16"))
        np.testing.assert_allclose([s["loss"] for s in steps], losses, rtol=2e-2)

    def test_every_phase(self):
        """The reference interpreter, on dumps of the phases."""
        self.prepare(heads=2, kv=1, size=5, dropout=0.25)
        file, result = self.path("eval-inputs.safetensors"), self.path("eval.safetensors")
        h.write_safetensors(file, {f"{name}@1": value[:ROWS]
                                   for name, value in self.inputs.items()})
        for mesh in ("pipe=1", "pipe=2", "seq=2"):
            dumps = self.path("dumps-" + mesh)
            binary = self.build("--mesh", mesh, "--context", "ring", "--dump-phases", dumps)
            if mesh == "pipe=1":
                expected = self.train_inputs(binary, "--seed", 0, steps=1)[0]
            for phase in ("model", "train", "spmd", "fuse", "prove"):
                split = mesh != "pipe=1" and phase not in ("model", "train")
                ranks = ["--ranks"] if split else []
                with self.subTest(mesh=mesh, phase=phase):
                    h.run([h.HEDDLE, "eval", os.path.join(dumps, phase + ".mlir"),
                           "--inputs", file, "--steps", 1, "--output", result, *ranks])
                    found = h.read_safetensors(result)
                    for key in ("loss", "grad_norm"):
                        if key == "loss" or phase != "model":
                            self.assert_close(found[key + "@1"], expected[key], 1e-5, key)

    def test_the_padding_changes_nothing(self):
        """What no key is made of may be anything: here, other ids, whose labels do
        not count."""
        self.prepare()
        padding = np.arange(SEQ) >= self.inputs["lengths"][:, None]
        self.inputs["labels"][padding] = -100
        other = dict(self.inputs, ids=np.where(padding, 5, self.inputs["ids"]))
        binary, found = self.build(), []
        for name, inputs in (("first", self.inputs), ("second", other)):
            self.train_inputs(binary, "--save", self.path(name), inputs=inputs)
            found.append(h.read_saved(self.path(name)))
        for name, value in found[0].items():
            np.testing.assert_array_equal(found[1][name], value, err_msg=name)

    def test_rows_of_a_file_of_tokens_are_whole(self):
        self.prepare()
        data, tokens = self.make_tokens(STEPS * ROWS * SEQ + 1, self.c["vocab"])
        batches = [h.batch(tokens, step, ROWS, SEQ) for step in range(STEPS)]
        inputs = {name: np.concatenate([batch[i] for batch in batches]).astype(np.int32)
                  for i, name in enumerate(("ids", "labels"))}
        inputs["lengths"] = np.full(ROWS * STEPS, SEQ, np.int32)
        binary = self.build()
        given = self.train_inputs(binary, inputs=inputs)
        read = self.train(binary, data, STEPS)
        self.assertEqual([step["loss"] for step in given], [step["loss"] for step in read])

    def test_lengths_that_no_row_has(self):
        self.prepare()
        binary, file = self.build(), self.path("inputs.safetensors")
        for wrong in (-1, SEQ + 1):
            lengths = self.inputs["lengths"].copy()
            lengths[5] = wrong
            h.write_safetensors(file, dict(self.inputs, lengths=lengths))
            for program in (["train", "--steps", 1], ["eval"]):
                text = h.run([binary, *program, "--inputs", file], status=3).stderr
                self.assertIn(f"error[H0369]: {file}: lengths[5] is {wrong}, not one "
                              f"from 0 to {SEQ}", text)
                self.assertIn("help: ", text)


if __name__ == "__main__":
    unittest.main()
