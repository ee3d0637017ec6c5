#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary with a draft writes the texts that it writes without one, for every
draft and every way of sampling; and how many guesses were right is as good as
the draft is."""

import json
import os
import re
import signal
import threading
import unittest

import numpy as np

import families
import heddle_test as h
import serving
from test_serve_model import Served, mpirun

VOCAB, CONTEXT = 103, 90
PROMPTS = [[5], [5, 17, 2], list(range(33)), [int(t) for t in h.random_tokens(47, VOCAB, 3)]]
WAYS = [[], ["--temperature", 0.9, "--seed", 1],
        ["--temperature", 1.5, "--top-k", 20, "--seed", 2],
        ["--temperature", 0.7, "--top-p", 0.8, "--min-p", 0.02, "--seed", 3],
        ["--temperature", 1, "--repetition-penalty", 1.3, "--seed", 2 ** 63]]


class DraftTest(serving.ServingTest):
    def model(self, name, noise=0.0, seed=1, **options):
        """GPT-2 of a width that no vector divides; `noise` makes a near one of it."""
        options = {"vocab": VOCAB, "positions": CONTEXT, "embed": 36, "heads": 4, **options}
        config = h.gpt2_config(**options)
        weights = h.random_weights(config, seed)
        random = np.random.default_rng(9)
        for key, value in weights.items():
            value += noise * 0.08 * random.standard_normal(value.shape).astype(np.float32)
        h.write_model(self.path(name), config, weights)
        return self.path(name)

    def drafted(self, model, draft, *flags, output="drafted"):
        return self.serve(model, "--draft", draft, *flags, output=output)

    def text(self, binary, prompt, *flags, count=40):
        """The tokens, and what is said of the guesses."""
        said = h.run([binary, "generate", "--prompt-ids", ",".join(map(str, prompt)),
                      "--json", "--max-new-tokens", count, *flags]).stdout
        answer = json.loads(said.splitlines()[-1])
        return answer["ids"], answer.get("draft")


class Texts(DraftTest):
    def test_good_near_and_foreign_drafts(self):
        model = self.model("model")
        plain = self.serve(model, output="plain")
        drafted = self.drafted(model, model)
        prompts = PROMPTS[1:3]
        expected = [self.text(plain, prompt, *way)[0] for prompt in prompts for way in WAYS]
        rates = []
        for weights in (model, self.model("near", noise=0.15), self.model("foreign", seed=2)):
            guesses = right = 0
            texts = []
            for prompt in prompts:
                for way in WAYS:
                    ids, draft = self.text(drafted, prompt, *way, "--draft-weights", weights)
                    texts.append(ids)
                    guesses += draft["guesses"]
                    right += draft["right"]
            self.assertEqual(texts, expected)
            rates.append(right / guesses)
        print("right guesses:", ["%.2f" % rate for rate in rates])
        self.assertEqual(rates[0], 1)
        self.assertLess(rates[2], 0.5)
        self.assertLess(rates[2] + 0.1, rates[1])
        self.assertLess(rates[1], 0.95)

    def test_smaller_drafts_of_other_families_up_to_the_end_of_the_context(self):
        model = self.model("model")
        plain = self.serve(model, output="plain")
        config = families.config(
            vocab_size=VOCAB, max_position_embeddings=CONTEXT, hidden_size=15,
            num_attention_heads=1, num_key_value_heads=1, head_dim=14,
            intermediate_size=37, num_hidden_layers=1)
        h.write_model(self.path("llama"), config, families.random_weights(config), prefix="")
        for draft, guesses in ((self.path("llama"), 1), (self.model("small", embed=12, heads=3,
                                                                    layers=1), 8)):
            drafted = self.drafted(model, draft, "--draft-tokens", guesses)
            for way in WAYS[:2]:
                ids, _ = self.text(drafted, PROMPTS[2], *way, count=1000)
                self.assertEqual(len(ids), CONTEXT - 33)
                self.assertEqual(ids, self.text(plain, PROMPTS[2], *way, count=1000)[0])

    def test_precisions_and_codes(self):
        model = self.model("model")
        for flags in (["--precision", "bf16", "--kv-type", "int8"],
                      ["--quantize", "int8", "--max-batch", 1],
                      ["--kv-cache", 36 * 2 * 2 * 4 * 16 * 7]):
            with self.subTest(flags):
                plain = self.serve(model, *flags, output="plain")
                drafted = self.drafted(model, self.model("near", noise=0.15), *flags)
                for way in WAYS[:2]:
                    self.assertEqual(self.text(drafted, PROMPTS[3], *way)[0],
                                     self.text(plain, PROMPTS[3], *way)[0])

    def test_windows(self):
        """Pages behind windows are used again; those of the draft are the larger."""
        for own, other in ((20, 9), (20, None)):
            models = []
            for name, window in (("target", own), ("draft", other)):
                config = families.config("mistral", vocab_size=VOCAB, sliding_window=window,
                                         max_position_embeddings=600)
                h.write_model(self.path(name), config, families.random_weights(config),
                              prefix="")
                models.append(self.path(name))
            flags = ["--max-context", 600, "--max-batch", 1]
            if other is None:
                said = h.run([h.HEDDLE, "compile", models[0], "--mode", "serve", "--draft",
                              models[1], *flags, "-o", self.path("no")], status=4).stderr
                self.assertIn("error[H0205]", said)
                continue
            plain = self.serve(models[0], *flags, output="plain")
            drafted = self.drafted(*models, *flags)
            self.assertEqual(self.text(drafted, PROMPTS[2], count=1000)[0],
                             self.text(plain, PROMPTS[2], count=1000)[0])


class Ranks(DraftTest):
    """Both models are split; one scheduler decides for all ranks."""

    def setUp(self):
        heads = dict(embed=36, heads=2)
        self.target = self.model("model", **heads)
        self.near = self.model("near", noise=0.15, **heads)
        flags = ["--mesh", "tensor=2"]
        self.plain = self.serve(self.target, *flags, output="plain")
        self.split = self.drafted(self.target, self.near, *flags)

    def text_of_ranks(self, binary, prompt, *flags):
        said = h.run_ranks(2, [binary, "generate", "--prompt-ids",
                               ",".join(map(str, prompt)), "--max-new-tokens", 40,
                               "--json", *flags]).stdout
        return json.loads(said.splitlines()[-1])

    @h.needs_mpi
    def test_texts(self):
        for prompt in PROMPTS[:3]:
            for way in WAYS[:2]:
                with self.subTest(prompt=len(prompt), way=way):
                    found = self.text_of_ranks(self.split, prompt, *way)
                    self.assertEqual(
                        found["ids"], self.text_of_ranks(self.plain, prompt, *way)["ids"])
                    self.assertGreater(found["draft"]["right"], 0)

    @h.needs_mpi
    def test_requests(self):
        found = []
        for binary in (self.plain, self.split):
            with Served(mpirun(binary), "--threads", 1) as server:
                found.append([server.complete(
                    PROMPTS[i], max_tokens=30, return_token_ids=True, temperature=i % 2,
                    seed=i)["token_ids"] for i in range(4)])
                server.end()
        self.assertEqual(*found)


class Service(DraftTest):
    def test_eight_requests_together(self):
        model = self.model("model")
        plain = self.serve(model, "--max-batch", 8, output="plain")
        drafted = self.drafted(model, self.model("near", noise=0.15), "--max-batch", 8,
                               "--kv-cache", 36 * 2 * 2 * 4 * 16 * 24)
        os.environ["HEDDLE_CHECK_PAGES"] = "1"
        self.addCleanup(os.environ.pop, "HEDDLE_CHECK_PAGES")
        requests = [dict(prompt=PROMPTS[i % 4], max_tokens=7 + 5 * i, return_token_ids=True,
                         logprobs=2 if i % 3 == 0 else None, seed=i, n=1 + i % 2,
                         temperature=0 if i % 4 == 0 else 0.8) for i in range(8)]

        def ask_all(binary):
            found = [None] * 8
            with Served([binary]) as server:
                def ask(i):
                    found[i] = json.loads(server.ask("/v1/completions", requests[i])[1])
                threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                metrics = server.ask("/metrics")[1]
                self.assertEqual(server.end(), 128 + signal.SIGTERM)
            return [answer["choices"] for answer in found], metrics

        expected, without = ask_all(plain)
        found, metrics = ask_all(drafted)
        self.assertEqual(found, expected)

        def count(text, name):
            return int(re.search(rf"^heddle_{name}_total (\d+)$", text, re.M).group(1))

        self.assertEqual(count(without, "draft_tokens"), 0)
        self.assertGreater(count(metrics, "draft_tokens"), 50)
        self.assertGreater(count(metrics, "draft_right_tokens"), 10)
        self.assertLess(count(metrics, "draft_right_tokens"), count(metrics, "draft_tokens"))
        self.assertLess(count(metrics, "runs"), count(without, "runs"))

    def test_both_are_shown_and_mapped(self):
        model, small = self.model("model"), self.model("small", embed=20, heads=2, layers=1)
        binary = self.drafted(model, small, "--draft-tokens", 3, "--max-batch", 2)
        info = json.loads(h.run([binary, "info", "--json"]).stdout)
        self.assertEqual(info["draft_tokens"], 3)
        self.assertEqual(info["draft"]["pages"], info["pages"])
        self.assertLess(info["draft"]["parameters"], info["parameters"])
        said = h.run([binary, "generate", "--prompt-ids", "1", "--max-new-tokens", 2]).stderr
        for line, mapped in (("memory", info["mapped"]),
                             ("draft memory", info["draft"]["mapped"])):
            (found,) = re.findall(rf"^{line}: .*$", said, re.M)
            self.assertEqual({name: int(count) for name, count in
                              re.findall(r"(\w+) (\d+) bytes", found)}, mapped)
        self.assertIn("guesses at most 3 tokens", h.run([binary, "info"]).stdout)
        own = h.run([h.HEDDLE, "explain", binary, "--program", "decode/4"]).stdout
        other = h.run([h.HEDDLE, "explain", binary, "--draft", "--program", "decode/4"]).stdout
        self.assertNotEqual(own, other)
        self.assertIn("decode/8", h.run([binary, "info"]).stdout)


class Bench(DraftTest):
    def test_what_guesses_are_worth(self):
        """All guesses of a draft that is the model are right, few of a foreign one."""
        model, foreign = self.model("model"), self.model("foreign", seed=2)
        binary = self.drafted(model, model, "--draft-tokens", 3, "--max-batch", 3)
        bench = [binary, "bench", "--decode", "--batch", 3, "--context", 20, "--threads", 1]
        found = {}
        for weights in (model, foreign):
            found[weights] = json.loads(h.run([
                *bench, "--tokens", 40, "--json", "--draft-weights", weights]).stdout)["draft"]
            self.assertGreater(found[weights]["tokens_per_s"], 0)
            self.assertGreater(found[weights]["tokens_per_s_without"], 0)
        self.assertEqual(found[model]["right"], found[model]["guesses"])
        # Of 40 tokens the last step may guess fewer than three.
        self.assertGreater(found[model]["right_per_step"], 2.4)
        self.assertLessEqual(found[model]["right_per_step"], 3)
        self.assertLess(found[foreign]["right"], found[foreign]["guesses"] / 2)
        self.assertLess(found[foreign]["right_per_step"], 1)
        self.assertIn(" right guesses a step of a text (", h.run([*bench, "--tokens", 5]).stdout)
        one = json.loads(h.run([*bench, "--tokens", 1, "--json"]).stdout)["draft"]
        self.assertEqual((one["right"], one["right_per_step"]), (0, 0))


class Refused(DraftTest):
    def refuse(self, code, *flags, help):
        said = h.run([h.HEDDLE, "compile", self.path("model"), *flags, "-o", self.path("no")],
                     status=2).stderr
        self.assertIn(f"error[{code}]", said)
        self.assertIn(help, said)

    def test_what_does_not_go_together(self):
        model, serve = self.model("model"), ["--mode", "serve"]
        self.refuse("H0136", "--draft", model, help="--mode serve")
        self.refuse("H0136", *serve, "--draft-tokens", 2, help="--draft DIR")
        self.refuse("H0135", *serve, "--draft", self.model("other", vocab=107),
                    help="the same tokenizer")
        self.refuse("H0128", *serve, "--draft", self.model("short", positions=31),
                    help="--max-context 31")

    def test_tokenizers_that_disagree(self):
        for name, last in (("model", "c"), ("draft", "d")):
            self.model(name, vocab=3)
            with open(os.path.join(self.path(name), "tokenizer.json"), "w") as file:
                json.dump({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, last: 2},
                                     "merges": []},
                           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                           "decoder": {"type": "ByteLevel"}}, file)
        self.refuse("H0135", "--mode", "serve", "--draft", self.path("draft"),
                    help='token 2 is "c"')

    def test_a_binary_without_a_draft(self):
        binary = self.serve(self.model("model"), "--max-batch", 1)
        said = h.run([h.HEDDLE, "explain", binary, "--draft"], status=2).stderr
        self.assertIn("error[H0189]", said)


if __name__ == "__main__":
    unittest.main()
