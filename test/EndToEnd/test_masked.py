#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masked tokens of --data: the batches are those that a description in numpy of the
rule gives, token by token, on meshes, after a resume and in evaluations. They are
compared by their losses, bit for bit, with the same batches spelled out."""

import json
import os
import unittest

import numpy as np

import encoder
import heddle_test as h

ROWS, SEQ, STEPS, VOCAB, SEED = 4, 16, 6, 61, 7
TRAINING, EVALUATION = 0x6D61736B, 0x6576616C
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MASK = WORDS.index("[MASK]")
CONFIG = dict(model_type="bert", vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2,
              num_attention_heads=2, intermediate_size=40, hidden_dropout_prob=0.0,
              attention_probs_dropout_prob=0.0, max_position_embeddings=SEQ,
              initializer_range=0.3)
PLANS = [[], ["--mesh", "data=2,seq=2", "--zero", 1],
         ["--mesh", "pipe=2", "--accumulate", 2]]
if h.LONG:
    PLANS += [["--accumulate", 4], ["--mesh", "tensor=2"],
              ["--mesh", "data=2", "--zero", 3, "--accumulate", 2]]


def philox(key, index, step, site):
    """Philox4x32-10 of Salmon et al. (2011): four words for each index."""
    low = np.uint64(0xFFFFFFFF)
    index = np.asarray(index, np.uint64)
    c = [index & low, index >> np.uint64(32), np.full_like(index, step),
         np.full_like(index, site)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(keys[0]), b & low,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(keys[1]), a & low]
        keys = [(keys[0] + 0x9E3779B9) % 2 ** 32, (keys[1] + 0xBB67AE85) % 2 ** 32]
    return c


def mask(tokens, seed, step, site, first=0, share=0.15, special=range(len(WORDS))):
    """What a model is given for tokens, the first of which stands at `first`, and
    the labels."""
    index = first + np.arange(tokens.size).reshape(tokens.shape)
    words = philox(seed, index, step, site)
    below = [word.astype(np.float64) / 2 ** 32 for word in words]
    chosen = (below[0] < share) & ~np.isin(tokens, list(special))
    drawn = ((words[2] * np.uint64(VOCAB)) >> np.uint64(32)).astype(np.int64)
    ids = np.where(below[1] < 0.8, MASK, np.where(below[1] < 0.9, drawn, tokens))
    return np.where(chosen, ids, tokens), np.where(chosen, tokens, -100)


def in_training(step, seed=SEED, **more):
    return dict(seed=seed, step=step, site=TRAINING, **more)


def in_evaluation(step):
    return dict(seed=0, step=0, site=EVALUATION, first=step * ROWS * SEQ)


class Masked(h.HeddleTest):
    def setUp(self):
        self.model = self.path("model")
        os.makedirs(self.model, exist_ok=True)
        with open(os.path.join(self.model, "config.json"), "w") as file:
            json.dump(CONFIG, file)
        words = WORDS + [f"word{i}" for i in range(VOCAB - len(WORDS))]
        with open(os.path.join(self.model, "vocab.txt"), "w") as file:
            file.write("\n".join(words) + "\n")
        self.data, self.tokens = self.make_tokens(ROWS * SEQ * STEPS + 1, VOCAB)

    def build(self, *flags, model=None, output="job"):
        return self.compile(model or self.model, "--init", "random", "--seed", 3,
                            "--batch", ROWS, "--seq", SEQ, *flags, output=output,
                            config=h.ds_config(lr=1e-2))

    def spelled(self, place, name="rows"):
        """A file for --inputs with all batches; `place` says what `mask` needs to
        know of one."""
        batches = [mask(h.batch(self.tokens, step, ROWS, SEQ)[0], **place(step))
                   for step in range(STEPS)]
        ids, labels = (np.concatenate(part).astype(np.int64) for part in zip(*batches))
        path = self.path(name + ".safetensors")
        h.write_safetensors(path, {"ids": ids, "labels": labels,
                                   "segments": np.zeros_like(ids),
                                   "lengths": np.full(len(ids), SEQ)})
        return path

    def losses(self, binary, data, *flags, steps=STEPS, seed=SEED, ranks=1):
        log = self.train(binary, data, steps, "--seed", seed, *flags, ranks=ranks)
        return [step["loss"] for step in log]

    def ranks_of(self, flags):
        mesh = flags[flags.index("--mesh") + 1] if "--mesh" in flags else ""
        return int(np.prod([int(axis.split("=")[1]) for axis in mesh.split(",") if axis]))

    def test_batches_are_those_of_the_rule(self):
        rows = self.spelled(in_training)
        for flags in PLANS:
            ranks = self.ranks_of(flags)
            if ranks > 1 and not h.MPIRUN:
                continue
            with self.subTest(flags=flags):
                binary = self.build(*flags)
                expected = self.losses(binary, rows, ranks=ranks)
                self.assertTrue(all(0 < loss < 10 for loss in expected))
                self.assertEqual(self.losses(binary, self.data, ranks=ranks), expected)

    def test_a_resumed_run_has_the_same_masks(self):
        binary, saved = self.build(), self.path("saved")
        rows = self.spelled(lambda step: in_training(step, share=0.5))
        expected, half = self.losses(binary, rows), ["--mask-probability", 0.5]
        first = self.losses(binary, self.data, *half, "--save", saved, steps=3)
        log = self.train(binary, self.data, STEPS, *half, "--resume", saved)
        self.assertEqual(first + [step["loss"] for step in log], expected)
        # Another probability holds from the resumed step on.
        rows = self.spelled(lambda step: in_training(step, share=0.5 if step < 3 else 0.2))
        expected = self.losses(binary, rows)
        log = self.train(binary, self.data, STEPS, "--mask-probability", 0.2, "--resume",
                         saved)
        self.assertEqual(first + [step["loss"] for step in log], expected)

    def test_batches_of_which_no_token_is_masked(self):
        """Each rank knows them before it runs them, and the loss is 0 there. They do
        not count for the learning rate; a GPU is waited for at the end alone."""
        share, flags = 0.02, ["--seed", SEED, "--mask-probability", 0.02]
        labels = [mask(h.batch(self.tokens, step, ROWS, SEQ)[0],
                       **in_training(step, share=share))[1] for step in range(STEPS)]
        skipped = [bool((of_step < 0).all()) for of_step in labels]
        self.assertEqual(len(set(skipped[:-1])), 2, skipped)
        rates = None
        for plan in PLANS[:2] + [["--target", "sm_90"]]:
            ranks = self.ranks_of(plan)
            if ranks > 1 and not h.MPIRUN:
                continue
            with self.subTest(plan=plan):
                binary = self.compile(self.model, "--init", "random", "--batch", ROWS,
                                      "--seq", SEQ, *plan,
                                      config=h.ds_config(warmup=2 * STEPS))
                emulate = [h.HEDDLE, "emulate", "--"] if "sm_90" in plan else []
                log, counts = self.path("log.jsonl"), []
                for steps in (STEPS - 1, STEPS):
                    environment = dict(os.environ, HEDDLE_EMULATE_COUNTS=self.path("n"))
                    command = [*emulate, binary, "train", "--data", self.data, "--steps",
                               steps, *flags, "--log", log]
                    if ranks > 1:
                        h.run_ranks(ranks, command)
                    else:
                        h.run(command, env=environment)
                    if emulate:
                        with open(self.path("n")) as file:
                            counts.append(json.load(file)["last_waits"])
                found = h.read_log(log)
                self.assertEqual([step.get("skipped", False) for step in found], skipped)
                self.assertEqual([step["loss"] == 0 for step in found], skipped)
                rates = rates or [step["lr"] for step in found]
                self.assertEqual([step["lr"] for step in found], rates)
                # Of the warm-up's rates the first two are 0.
                missed = np.cumsum([0] + skipped[:-1])
                expected = [max(step - before - 1, 0) * 1e-3 / (2 * STEPS)
                            for step, before in enumerate(missed)]
                np.testing.assert_allclose(rates, expected, rtol=1e-6)
                self.assertEqual(len(set(counts)), int(bool(emulate)))

    def test_config_names_tokens_where_no_tokenizer_does(self):
        bare, seed = self.path("bare.json"), SEED + 2 ** 40
        with open(bare, "w") as file:
            json.dump(dict(CONFIG, pad_token_id=None, unk_token_id=1, cls_token_id=2,
                           sep_token_id=3), file)
        binary = self.build(model=bare)
        rows = self.spelled(lambda step: in_training(step, seed, special=range(1, 5)))
        expected = self.losses(binary, rows, seed=seed)
        self.assertEqual(self.losses(binary, self.data, "--mask-token", MASK, seed=seed),
                         expected)

    def test_an_architecture_of_the_users_own(self):
        c = encoder.model(vocab=VOCAB)
        directory, text = self.path("own"), self.path("own.mlir")
        h.write_model(directory, {}, encoder.random_weights(c), prefix="")
        os.replace(os.path.join(self.model, "vocab.txt"),
                   os.path.join(directory, "vocab.txt"))
        with open(text, "w") as file:
            file.write(encoder.text(c).replace(
                "weights = {", "weights = {objective = #nn.objective<mlm>, "))
        plain = self.path("plain.mlir")
        with open(plain, "w") as file:
            file.write(encoder.text(c))
        flags = ["--weights", directory, "--batch", ROWS, "--seq", SEQ]
        binary = self.compile(text, *flags)
        chosen = self.compile(plain, *flags, "--objective", "mlm", output="chosen")
        path = self.spelled(in_training)
        rows = h.read_safetensors(path)
        h.write_safetensors(path, {name: rows[name] for name in rows
                                   if name != "segments"})
        expected = self.losses(binary, path)
        self.assertEqual(self.losses(binary, self.data), expected)
        self.assertEqual(self.losses(chosen, self.data), expected)
        # The flag wins over the module.
        causal = self.compile(text, *flags, "--objective", "causal", output="causal")
        h.run([causal, "train", "--data", self.data, "--steps", 1])
        result = h.run([causal, "eval", "--data", self.data, "--mask-token", MASK],
                       status=2)
        self.assertIn("error[H0161]", result.stderr)

    def test_another_objective_than_the_familys(self):
        gpt2, _, _ = self.make_model("gpt2", vocab=VOCAB, positions=SEQ, embed=24,
                                     heads=2)
        os.link(os.path.join(self.model, "vocab.txt"), os.path.join(gpt2, "vocab.txt"))
        masked = self.compile(gpt2, "--batch", ROWS, "--seq", SEQ, "--objective", "mlm",
                              output="masked")
        path = self.spelled(in_training)
        rows = h.read_safetensors(path)
        for name in ("segments", "lengths"):
            del rows[name]
        h.write_safetensors(path, rows)
        self.assertEqual(self.losses(masked, self.data), self.losses(masked, path))
        text = h.run([masked, "generate", "--prompt-ids", "1,2"], status=2).stderr
        self.assertIn("error[H0191]", text)
        self.assertIn("masked tokens", text)

        model = ["--init", "random", "--batch", ROWS, "--seq", SEQ, "--objective",
                 "causal", "--cache", self.path("cache"), "-o", self.path("causal")]
        text = h.run([h.HEDDLE, "compile", self.model, *model]).stderr
        self.assertIn("warning: --objective causal: attention sees what follows", text)
        batches = [h.batch(self.tokens, step, ROWS, SEQ) for step in range(STEPS)]
        ids, labels = (np.concatenate(part).astype(np.int64) for part in zip(*batches))
        h.write_safetensors(path, {"ids": ids, "labels": labels,
                                   "segments": np.zeros_like(ids),
                                   "lengths": np.full(len(ids), SEQ)})
        causal = self.path("causal")
        self.assertEqual(self.losses(causal, self.data), self.losses(causal, path))
        text = h.run([causal, "train", "--data", self.data, "--steps", 1,
                      "--mask-token", MASK], status=2).stderr
        self.assertIn("error[H0161]", text)
        self.assertIn("--objective mlm", text)
        text = h.run([causal, "generate", "--prompt-ids", "1,2"], status=2).stderr
        self.assertIn("its attention is causal", text)

    def test_evaluations_are_equal(self):
        binary = self.build()
        rows = self.spelled(in_evaluation)

        def evaluate(*flags):
            text = h.run([binary, "eval", "--json", *flags]).stdout
            return json.loads(text)["loss"]

        expected = evaluate("--inputs", rows)
        self.assertEqual(evaluate("--data", self.data), expected)
        small = self.build("--micro-batch", 2, output="small")
        text = h.run([small, "eval", "--json", "--data", self.data]).stdout
        self.assertAlmostEqual(json.loads(text)["loss"], expected, places=5)
        self.assertNotEqual(evaluate("--data", self.data, "--mask-probability", 0.3),
                            expected)
        log = self.path("validated.jsonl")
        h.run([binary, "train", "--inputs", rows, "--steps", 1, "--val", self.data,
               "--log", log, "--mask-probability", 0.15])
        self.assertEqual(len(h.read_log(log, "eval")), 1)

    def test_shares(self):
        count = 400000
        tokens = np.full(count, VOCAB - 1)
        ids, labels = mask(tokens, **in_training(0))
        chosen = labels != -100
        shares = [chosen.mean(), (ids[chosen] == MASK).mean(),
                  (~np.isin(ids[chosen], [MASK, VOCAB - 1])).mean(),
                  (ids[chosen] == VOCAB - 1).mean()]
        # A random token is one of the two others in 2 of VOCAB cases.
        other = 0.1 / VOCAB
        np.testing.assert_allclose(shares, [0.15, 0.8 + other, 0.1 - 2 * other,
                                            0.1 + other], atol=5e-3)

    def test_what_is_refused(self):
        binary, rows = self.build(), self.spelled(in_training)
        train = ["train", "--steps", 1]

        def refuse(code, *command, status=2):
            text = h.run([*command], status=status).stderr
            self.assertIn(f"error[{code}]", text)
            return text

        gpt2, _, _ = self.make_model("gpt2", vocab=VOCAB, positions=SEQ, embed=24,
                                     heads=2)
        causal = self.compile(gpt2, "--batch", ROWS, "--seq", SEQ, output="gpt2-job")
        refuse("H0161", causal, *train, "--data", self.data, "--mask-probability", 0.1)
        refuse("H0161", causal, "eval", "--data", self.data, "--mask-token", 3)
        bare = self.path("bare.json")
        with open(bare, "w") as file:
            json.dump(CONFIG, file)
        unknown = self.build(model=bare, output="unknown")
        text = refuse("H0162", unknown, *train, "--data", self.data)
        self.assertIn("--mask-token N", text)
        h.run([unknown, *train, "--data", self.data, "--mask-token", MASK])
        h.run([unknown, *train, "--inputs", rows])
        refuse("H0163", binary, *train, "--data", self.data, "--mask-token", VOCAB)
        for verb in (train, ["eval"]):
            refuse("H0165", binary, *verb, "--data", self.data, "--mask-probability", 0)
        refuse("H0164", binary, *train, "--inputs", rows, "--mask-probability", 0.2)
        text = refuse("H0191", binary, "generate", "--prompt-ids", "1,2")
        self.assertIn("masked tokens", text)
        wrong = self.path("wrong.safetensors")
        tensors = h.read_safetensors(rows)
        tensors["segments"] = np.full_like(tensors["segments"], 2)
        h.write_safetensors(wrong, tensors)
        refuse("H0369", binary, *train, "--inputs", wrong, status=3)


if __name__ == "__main__":
    unittest.main()
