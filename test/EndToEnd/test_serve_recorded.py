#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every family that trains serves: its logits and texts are those that Hugging Face's
transformers gave (test/Oracles/served), also over windows of attention, token by
token, with a cache in 16 bit, quantized, on ranks, and among other requests.
HEDDLE_TEST_LONG=1 takes all of these with every family."""

import glob
import json
import os
import sys
import threading
import unittest

import numpy as np

import heddle_test as h
import serving
from test_serve_model import Served

ORACLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Oracles")
sys.path.insert(0, ORACLES)
import models  # noqa: E402

TEXT = [int(token) for token in models.text(97)]
# The beginning of it, which most tests take: of more than one chunk.
SHORT = models.PROMPTS[:-1]
LONGEST = max(SHORT) + models.CONTINUED
TOKENS = TEXT[:LONGEST + 2]
# Windows in every layer; windows in some, and soft caps.
WINDOWS = ("mistral", "gemma2")
# Types of caches and codes that an everyday run tries with them.
SHORT_CASES = {"mistral": [("--kv-type", "int8")],
               "gemma2": [("--kv-type", "bf16"), ("--precision", "fp16"),
                          ("--quantize", "int8"), ("--precision", "bf16", "--kv-type", "int8")]}


def records():
    for path in sorted(glob.glob(os.path.join(ORACLES, "served", "*.json"))):
        with open(path) as file:
            yield os.path.basename(path)[:-len(".json")], json.load(file)


def some_records():
    return ((name, record) for name, record in records() if h.LONG or name in WINDOWS)


def heads_of(config):
    return next(config[key] for key in ("num_key_value_heads", "n_head", "num_heads",
                                        "num_attention_heads") if key in config)


class ServeRecorded(serving.ServingTest):
    def make(self, name, record):
        weights = {each: models.weight(each, shape)
                   for each, shape in record["weights"].items()}
        h.write_model(self.path(name), record["config"], weights, prefix="")
        return self.path(name)

    def assert_recorded(self, logits, record, tolerance=1e-4):
        for at, wanted in zip(models.SCORED, record["logits"]):
            if at >= len(logits):
                break
            np.testing.assert_allclose(logits[at], wanted, rtol=0, atol=tolerance,
                                       err_msg=f"position {at}")

    def assert_same_by_token(self, binary, logits):
        np.testing.assert_array_equal(
            self.logits(binary, TEXT[:len(logits)], "--decode"), logits)

    def test_logits_and_texts(self):
        for name, record in records():
            with self.subTest(name):
                binary = self.serve(self.make(name, record))
                logits = self.logits(binary, TEXT)
                self.assert_recorded(logits, record)
                self.assert_same_by_token(binary, logits)
                for length, text in zip(models.PROMPTS, record["generated"]):
                    self.assertEqual(
                        self.generate(binary, TEXT[:length], len(text)), text)

    def test_files_of_fp16(self):
        """In fp16, logits are hardly further from those in double precision than
        those of transformers in fp16."""
        for path in sorted(glob.glob(os.path.join(ORACLES, "fp16", "*.json"))):
            name = os.path.basename(path)[:-len(".json")]
            with open(path) as file, \
                    open(os.path.join(ORACLES, "served", name + ".json")) as served:
                wanted, record = json.load(file), json.load(served)
            with self.subTest(name):
                weights = {each: models.weight(each, shape).astype(np.float16)
                           for each, shape in record["weights"].items()}
                h.write_model(self.path(name), record["config"], weights, prefix="")
                binary = self.serve(self.path(name), "--precision", "fp16")
                logits = self.logits(binary, TEXT)
                self.assertEqual(logits.dtype, np.float32)
                error = h.relative(logits[list(models.SCORED)], wanted["logits"])
                self.assertLess(error, 1.2 * wanted["error"])

    def test_narrow_caches_and_codes(self):
        for name, record in some_records():
            folder = self.make(name, record)
            for flags, tolerance in ((("--kv-type", "bf16"), 0.05),
                                     (("--kv-type", "int8"), 0.05),
                                     (("--precision", "bf16", "--kv-type", "int8"), 0.1),
                                     (("--precision", "bf16"), 0.1),
                                     (("--precision", "fp16"), 0.02),
                                     (("--quantize", "int8"), 0.1)):
                if not h.LONG and flags not in SHORT_CASES[name]:
                    continue
                with self.subTest(name, flags=flags):
                    binary = self.serve(folder, *flags, "--max-context", LONGEST)
                    logits = self.logits(binary, TOKENS[:LONGEST])
                    self.assert_recorded(logits, record, tolerance)
                    self.assert_same_by_token(binary, logits)

    @h.needs_mpi
    def test_tensor_ranks(self):
        for name, record in some_records():
            if heads_of(record["config"]) % 2:
                continue
            with self.subTest(name):
                binary = self.serve(self.make(name, record), "--mesh", "tensor=2")
                self.assert_recorded(
                    self.logits(binary, TOKENS[:LONGEST], ranks=2), record)

    @h.needs_mpi
    def test_four_tensor_ranks_have_the_logits_of_one(self):
        """Of models with as many heads, whose weights are drawn at the start. Eight
        heads that share four of keys are split too; where they share two, each rank
        has all of attention."""
        length = LONGEST if h.LONG else 60
        cases = [(name, record["config"], 4, 4) for name, record in records()
                 if h.LONG or name == "opt"]
        llama = dict(records())["llama"]["config"]
        for name, config, heads, shared in (*cases, ("llama", llama, 8, 4),
                                            ("llama", llama, 8, 2)):
            sizes = dict(n_head=heads, num_heads=heads, num_attention_heads=heads,
                         num_key_value_heads=shared, head_dim=8, n_embd=32,
                         hidden_size=32, intermediate_size=44, ffn_dim=44,
                         initializer_range=0.3, init_std=0.3)
            config = {key: sizes.get(key, value) if value is not None else None
                      for key, value in config.items()}
            file = self.path(f"{name}-{shared}.json")
            with open(file, "w") as stream:
                json.dump(config, stream)
            with self.subTest(name, heads=heads, shared=shared):
                one, four = (self.serve(
                    file, "--init", "random", "--seed", 3, "--max-context", length,
                    *mesh, output=f"{name}-{shared}-{len(mesh)}")
                    for mesh in ((), ("--mesh", "tensor=4")))
                wanted = self.logits(one, TOKENS[:length])
                self.assertGreater(wanted.std(), 0.1)
                found = self.logits(four, TOKENS[:length], ranks=4)
                np.testing.assert_allclose(found, wanted, rtol=0,
                                           atol=1e-4 * abs(wanted).max())
                np.testing.assert_array_equal(
                    self.logits(four, TOKENS[:20], "--decode", ranks=4), found[:20])
                caches = [self.explain(binary)["memory"]["owners"]["cache"]
                          for binary in (one, four)]
                self.assertEqual(caches[0], caches[1] * (4 if shared == 4 else 1))

    def test_requests_together(self):
        """More of them than the cache has room for, whose pages are checked."""
        os.environ["HEDDLE_CHECK_PAGES"] = "1"
        self.addCleanup(os.environ.pop, "HEDDLE_CHECK_PAGES")
        for name, record in some_records():
            config = record["config"]
            wide = 2 * 4 * config.get("num_hidden_layers", config.get(
                "num_layers", config.get("n_layer")))
            head = config.get("head_dim") or (
                config.get("hidden_size", config.get("n_embd"))
                // config.get("num_attention_heads", config.get(
                    "num_heads", config.get("n_head"))))
            page = 16 * wide * head * heads_of(config)
            with self.subTest(name):
                binary = self.serve(self.make(name, record), "--max-context", LONGEST,
                                    "--max-batch", 3, "--kv-cache", 23 * page)
                self.check_requests(binary, record)

    def check_requests(self, binary, record):
        found = {}
        with Served([binary]) as server:
            def ask(i):
                found[i] = server.complete(
                    TOKENS[:SHORT[i % 3]], max_tokens=models.CONTINUED,
                    temperature=0, return_token_ids=True, ignore_eos=True)["token_ids"]

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(7)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            server.end()
        self.assertEqual(found, {i: record["generated"][i % 3] for i in range(7)})

    def evaluate(self, binary, data, *flags, ranks=1):
        text = h.run_ranks(ranks, [binary, "eval", "--data", data, "--json",
                                   *flags]).stdout
        return json.loads(text.splitlines()[-1])

    def test_perplexity_of_binaries_that_train(self):
        data = self.path("val.bin")
        h.write_tokens(data, np.array(TOKENS * 2))
        for name, record in some_records():
            with self.subTest(name):
                folder = self.make(name, record)
                # Of more than one chunk, and not of whole ones.
                trains = self.evaluate(self.compile(
                    folder, "--batch", 1, "--seq", 101, output="trains"), data)
                binary = self.serve(folder, "--max-context", LONGEST, "--seq", 101)
                serves = self.evaluate(binary, data)
                self.assertEqual(serves["tokens"], 505)
                self.assertEqual(serves["tokens"], trains["tokens"])
                self.assertLess(
                    abs(serves["perplexity"] / trains["perplexity"] - 1), 1e-5)
                self.assertEqual(self.evaluate(binary, data, "--steps", 2)["tokens"],
                                 202)
                if not h.LONG and name != "gemma2":
                    continue
                codes = self.evaluate(self.serve(
                    folder, "--max-context", LONGEST, "--quantize", "int8"), data)
                # Rows are as long as a text may be.
                self.assertEqual(codes["tokens"], 2 * LONGEST)
                self.assertLess(abs(codes["loss"] - serves["loss"]), 0.2)
        build = [h.HEDDLE, "compile", folder, "--mode", "serve", "--max-batch", 1, "-o",
                 self.path("x")]
        refused = h.run(build + ["--max-context", 20, "--seq", 21], status=2).stderr
        self.assertIn("H0133", refused)
        self.assertIn("--seq 20", refused)
        h.run(build + ["--max-context", 20, "--seq", 20])

    @h.needs_mpi
    def test_perplexity_of_ranks(self):
        data = self.path("val.bin")
        h.write_tokens(data, np.array(TOKENS))
        folder = self.make("mistral", dict(records())["mistral"])
        seq = ("--seq", 101)
        one = self.evaluate(self.serve(folder, *seq), data)
        two = self.evaluate(self.serve(folder, *seq, "--mesh", "tensor=2"), data,
                            ranks=2)
        self.assertLess(abs(one["loss"] - two["loss"]), 1e-6)

    def test_a_window_in_every_layer_needs_few_pages(self):
        """A window of 37 positions, which chunks of 267 tokens move: as long as
        prompts are computed at once, pages for a whole text. Chunks of 512 tokens in
        a longer context use pages again."""
        record = dict(records())["mistral"]
        config = dict(record["config"], max_position_embeddings=2000)
        folder = self.make("long", dict(record, config=config))
        binary = self.serve(folder, "--max-context", 2000, "--max-batch", 1)
        plan = self.explain(binary)
        layers, heads = config["num_hidden_layers"], config["num_key_value_heads"]
        pages = 3 + 512 // 16 + 1  # Instead of 125.
        self.assertEqual(plan["memory"]["owners"]["cache"],
                         2 * layers * heads * config["head_dim"] * 16 * 4 * pages)
        # Any text that is far longer is computed alike at once and in parts, and
        # its tokens depend on what the window shows in two layers.
        tokens = (TOKENS * 5)[:1200]
        logits = self.logits(binary, tokens)
        np.testing.assert_array_equal(self.logits(binary, tokens, "--decode"), logits)
        seen = self.logits(binary, tokens[-267:])
        np.testing.assert_allclose(logits[-1], seen[-1], rtol=0, atol=1e-4)
        text = self.generate(binary, tokens, 40)
        self.assertEqual(self.generate(binary, tokens + text[:7], 33), text[7:])


if __name__ == "__main__":
    unittest.main()
