#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches that a file spells out, with labels that do not count: losses, norms
and weights against PyTorch, on one rank and on meshes."""

import json
import os
import re
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ, VOCAB, RATE, CLIP, DECAY = 8, 16, 97, 3e-3, 0.8, 0.1
# Three batches of rows, taken twice: the rows of the file count modulo.
BATCHES, STEPS, NONE = 3, 6, 2
MODEL = dict(vocab=VOCAB, positions=SEQ, embed=32, layers=2, heads=4)

MESHES = [("one", 1, []),
          ("accumulate", 1, ["--accumulate", 4]),
          ("data-zero2", 2, ["--mesh", "data=2", "--zero", 2, "--accumulate", 2]),
          ("data-zero3", 2, ["--mesh", "data=2", "--zero", 3]),
          ("seq", 2, ["--mesh", "seq=2", "--zero", 1]),
          ("tensor", 2, ["--mesh", "tensor=2"]),
          ("pipe", 2, ["--mesh", "pipe=2", "--accumulate", 2]),
          ("both", 4, ["--mesh", "data=2,pipe=2", "--zero", 1, "--accumulate", 2])]


def make_inputs(wide=False):
    """Rows whose labels count with a probability of a half. None of the first
    half of the second batch does, which is all that a rank of two has; and none
    of the third batch."""
    generator = np.random.default_rng(3)
    tokens = generator.integers(0, VOCAB, (BATCHES * ROWS, SEQ + 1))
    labels = np.where(generator.random((BATCHES * ROWS, SEQ)) < 0.5, -100,
                      tokens[:, 1:])
    labels[ROWS:ROWS + ROWS // 2] = -100
    labels[NONE * ROWS:] = -100
    kind = np.int64 if wide else np.int32
    return {"ids": tokens[:, :-1].astype(kind), "labels": labels.astype(kind)}


def reference(config, weights, inputs):
    """Losses, norms and weights of PyTorch; a batch without labels is left out."""
    import oracle
    import torch

    model = oracle.Gpt2(config, weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, eps=1e-5,
                                  weight_decay=DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        rows = slice(step % BATCHES * ROWS, (step % BATCHES + 1) * ROWS)
        ids, labels = (inputs[name][rows].astype(np.int64) for name in ("ids", "labels"))
        if (labels < 0).all():
            losses.append(0.0)
            norms.append(0.0)
            continue
        optimizer.zero_grad()
        loss, _ = model.loss(ids, labels)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses), np.array(norms), model


class Labels(h.HeddleTest):
    def prepare(self):
        self.model, self.config, self.weights = self.make_model(**MODEL)
        self.file = self.path("inputs.safetensors")
        self.inputs = make_inputs()
        h.write_safetensors(self.file, self.inputs)

    def build(self, *flags, output="job", model=None):
        return self.compile(model or self.model, "--batch", ROWS, "--seq", SEQ,
                            "--threads", 1, *flags, output=output,
                            config=h.ds_config(lr=RATE, clip=CLIP, decay=DECAY, eps=1e-5))

    def train_inputs(self, binary, *flags, ranks=1, steps=STEPS, file=None):
        log = self.path("log.jsonl")
        if os.path.exists(log) and "--resume" not in flags:
            os.remove(log)
        h.run_ranks(ranks, [binary, "train", "--inputs", file or self.file, "--steps",
                            steps, "--log", log, "--progress", "none", *flags])
        return h.read_log(log)

    @h.needs_torch
    def test_follows_pytorch_on_every_mesh(self):
        self.prepare()
        losses, norms, model = reference(self.config, self.weights, self.inputs)
        final = model.arrays()
        for name, ranks, flags in MESHES:
            if ranks > 1 and not h.MPIRUN:
                continue
            with self.subTest(name):
                binary = self.build(*flags, output=name)
                steps = self.train_inputs(binary, "--save", self.path("s-" + name),
                                          ranks=ranks)
                np.testing.assert_allclose([s["loss"] for s in steps], losses, rtol=1e-5)
                np.testing.assert_allclose([s["grad_norm"] for s in steps], norms,
                                           rtol=1e-4)
                self.assertEqual([s.get("skipped", False) for s in steps],
                                 [step % BATCHES == NONE for step in range(STEPS)])
                saved = h.read_saved(self.path("s-" + name))
                for key, value in final.items():
                    np.testing.assert_allclose(saved["transformer." + key], value,
                                               atol=2e-5, err_msg=key)

    def test_a_step_without_labels_changes_nothing(self):
        self.prepare()
        binary = self.build("--precision", "bf16")
        found = {}
        for steps in (NONE, NONE + 1):
            folder = self.path(f"s{steps}")
            self.train_inputs(binary, "--save", folder, steps=steps)
            latest = os.path.join(folder, f"step-{steps:06}")
            found[steps] = {**h.read_saved(folder), **h.read_safetensors(
                os.path.join(latest, "heddle", "optimizer.safetensors"))}
        for name, value in found[NONE].items():
            np.testing.assert_array_equal(found[NONE + 1][name], value, err_msg=name)

    def test_resumes_with_the_same_counters(self):
        self.prepare()
        binary = self.build("--accumulate", 2)
        whole = self.train_inputs(binary)
        self.train_inputs(binary, "--save", self.path("out"), steps=NONE + 1)
        resumed = self.train_inputs(binary, "--resume", self.path("out"))
        for one, other in zip(whole, resumed, strict=True):
            self.assertEqual([one[key] for key in ("loss", "grad_norm", "lr")],
                             [other[key] for key in ("loss", "grad_norm", "lr")])

    @h.needs_torch
    def test_eval_weighs_batches_by_their_labels(self):
        import oracle

        self.prepare()
        ids, labels = (self.inputs[name].astype(np.int64) for name in ("ids", "labels"))
        expected = oracle.Gpt2(self.config, self.weights).loss(ids, labels)[0].item()
        binary = self.build()
        result = h.run([binary, "eval", "--inputs", self.file, "--json"])
        found = json.loads(result.stdout)
        self.assertLessEqual(abs(found["loss"] / expected - 1), 1e-5)
        self.assertEqual(found["tokens"], (labels >= 0).sum())

    @h.needs_torch
    def test_eval_of_a_short_batch(self):
        """All rows count, also where a rank has none of the last ones."""
        import oracle

        self.prepare()
        rows = 2 * ROWS - 5
        ids, labels = (self.inputs[name][:rows].astype(np.int64)
                       for name in ("ids", "labels"))
        labels[ROWS:] = self.inputs["ids"][ROWS:rows]
        h.write_safetensors(self.file, {"ids": ids, "labels": labels})
        expected = oracle.Gpt2(self.config, self.weights).loss(ids, labels)[0].item()
        for name, ranks, flags in (MESHES[0], MESHES[2], MESHES[6]):
            if ranks > 1 and not h.MPIRUN:
                continue
            with self.subTest(name):
                result = h.run_ranks(ranks, [self.build(*flags, output=name), "eval",
                                             "--inputs", self.file, "--json"])
                found = json.loads(result.stdout)
                self.assertLessEqual(abs(found["loss"] / expected - 1), 1e-5)
                self.assertEqual(found["tokens"], (labels >= 0).sum())

    def test_no_label_at_all(self):
        self.prepare()
        binary = self.build()
        none = np.full_like(self.inputs["labels"], -100)
        self.refuse(binary, "H0309", 3, labels=none)
        error = h.run([binary, "eval", "--inputs", self.file], status=3).stderr
        self.assertIn("error[H0309]: " + self.file, error)

    def test_types_and_tokens_give_the_same(self):
        """I64 is as I32, and a file of tokens as the batches that it stands for."""
        self.prepare()
        data, tokens = self.make_tokens(STEPS * ROWS * SEQ + 1, VOCAB)
        binary = self.build()
        losses = [s["loss"] for s in self.train(binary, data, STEPS)]
        batches = [h.batch(tokens, step, ROWS, SEQ) for step in range(STEPS)]
        for kind in (np.int32, np.int64):
            h.write_safetensors(self.file, {
                "ids": np.concatenate([ids for ids, _ in batches]).astype(kind),
                "labels": np.concatenate([labels for _, labels in batches]).astype(kind)})
            self.assertEqual([s["loss"] for s in self.train_inputs(binary)], losses)

    def test_names_of_hugging_face(self):
        self.prepare()
        binary = self.build()
        losses = [s["loss"] for s in self.train_inputs(binary)]
        ids = self.inputs["ids"]
        mask = np.ones_like(ids)
        mask[1, 5:] = mask[3] = 0
        named = dict(input_ids=ids, ids=None, attention_mask=mask)
        h.write_safetensors(self.file, {
            "input_ids": ids, "attention_mask": mask, "labels": self.inputs["labels"]})
        found = self.train_inputs(binary, file=self.file)
        self.assertEqual([s["loss"] for s in found], losses)
        mask[1, 7] = 1
        self.assertIn("attention_mask[1, 7] is 1 after a 0",
                      self.refuse(binary, "H0369", 3, **named))
        mask[1, 7] = 2
        self.assertIn("attention_mask[1, 7] is 2",
                      self.refuse(binary, "H0369", 3, **named))
        self.refuse(binary, "H0366", 3, input_ids=ids)
        # Labels that a model of Hugging Face would shift.
        error = self.refuse(binary, "H0369", 3, labels=np.where(ids % 3, ids, -100))
        self.assertIn("every label is the token at its own place", error)

    @h.needs_torch
    def test_label_weights_that_a_program_declares(self):
        """In an edited dump, over ranks; halves of one loss are a loss of halves."""
        import oracle
        import torch

        self.prepare()
        generator = np.random.default_rng(4)
        weights = generator.random(self.inputs["labels"].shape).astype(np.float32)
        inputs = dict(self.inputs, label_weights=weights)
        h.write_safetensors(self.file, inputs)
        model = oracle.Gpt2(self.config, self.weights)
        logits = model.logits(inputs["ids"][:ROWS].astype(np.int64))
        labels = torch.as_tensor(inputs["labels"][:ROWS].astype(np.int64))
        each = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), reduction="none")
        counts = torch.as_tensor(weights[:ROWS]).flatten() * (labels.flatten() >= 0)
        loss = (each * counts).sum() / counts.sum()
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
        for name, ranks, flags in (MESHES[1], MESHES[2], MESHES[6]):
            if ranks > 1 and not h.MPIRUN:
                continue
            with self.subTest(name):
                dumps = self.path("dumps")
                self.build(*flags, "--dump-phases", dumps, "--stop-after", "import")
                with open(os.path.join(dumps, "import.mlir")) as file:
                    text = file.read()
                made = re.sub(
                    r"(nn\.func @(?:forward|evaluate)\(.*?%\w+: (tensor<\d+x\d+x)i32> "
                    r"(?:loc\([^)]*\))?, %\w+: tensor<\d+x\d+xi32>(?: loc\([^)]*\))?)"
                    r"(\).*?#nn\.port<labels>)",
                    r"\1, %weights: \2f32>\3, #nn.port<label_weights>", text)
                if made == text:
                    made = re.sub(
                        r"(nn\.func @(?:forward|evaluate)\([^)]*?, %\w+: (tensor<\d+x\d+x)"
                        r"i32>)(\).*?#nn\.port<labels>)",
                        r"\1, %weights: \2f32>\3, #nn.port<label_weights>", text)
                self.assertNotEqual(made, text)
                edited = self.path("edited.mlir")
                with open(edited, "w") as file:
                    file.write(made)
                binary = self.path("weighted")
                h.run([h.HEDDLE, "compile", edited, "--start-from", "import",
                       "--cache", self.path("cache"), "-o", binary])
                step, = self.train_inputs(binary, ranks=ranks, steps=1)
                self.assertLessEqual(abs(step["loss"] / loss.item() - 1), 1e-5)
                self.assertLessEqual(abs(step["grad_norm"] / norm - 1), 1e-4)

    def refuse(self, binary, code, status, *flags, **tensors):
        inputs = {k: v for k, v in {**self.inputs, **tensors}.items() if v is not None}
        h.write_safetensors(self.file, inputs)
        result = h.run([binary, "train", "--steps", 1, "--inputs", self.file, *flags],
                       status=status)
        self.assertIn(f"error[{code}]", result.stderr)
        return result.stderr

    def test_refuses_bad_inputs(self):
        self.prepare()
        binary = self.build()
        ids, labels = self.inputs["ids"], self.inputs["labels"]
        error = self.refuse(binary, "H0366", 3, labels=None)
        self.assertIn("'labels'", error)
        self.assertIn("ids, labels", error)
        self.assertIn("'idz'", self.refuse(binary, "H0366", 3, idz=ids))
        self.assertIn("[N, 16]", self.refuse(binary, "H0367", 3, ids=ids[:, 1:]))
        self.assertIn("[24, 16]", self.refuse(binary, "H0367", 3, labels=labels[1:]))
        self.assertIn("F32", self.refuse(binary, "H0367", 3, ids=ids.astype(np.float32)))
        far = ids.copy()
        far[5, 3] = VOCAB
        self.assertIn("ids[5, 3] is 97", self.refuse(binary, "H0369", 3, ids=far))
        low = labels.copy()
        low[0, 0] = -1
        self.assertIn("labels[0, 0] is -1", self.refuse(binary, "H0369", 3, labels=low))
        self.refuse(binary, "H0125", 2, "--shuffle")
        self.refuse(binary, "H0124", 2, "--data", self.file)
        h.run([binary, "eval"], status=2)


if __name__ == "__main__":
    unittest.main()
