#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The files beside the weights that say how tokens are texts: a tokenizer or a
generation_config.json with tokens that the model does not know, and a chat template
that cannot be read, end a binary when it starts; what generation_config.json says of
drawing tokens holds for `serve` and `chat`; and weights that give numbers that are not
finite are told of."""

import json
import os
import unittest

import families
import heddle_test as h
import serving
from test_serve_model import Served

VOCAB = 97
LETTERS = [chr(33 + i) for i in range(94)]


def tokenizer(vocab, added=()):
    return {"model": {"type": "BPE", "merges": [], "vocab": vocab},
            "added_tokens": [{"id": id, "content": text, "special": True}
                             for text, id in added],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"}}


class TextFiles(serving.ServingTest):
    def setUp(self):
        self.config = families.config(vocab_size=VOCAB)
        self.weights = families.random_weights(self.config)
        h.write_model(self.path("model"), self.config, self.weights, prefix="")
        self.binary = self.serve(self.path("model"))
        self.vocab = {letter: i for i, letter in enumerate(LETTERS + ["\u0120"])}

    def put(self, name, content):
        """Writes a file beside the weights."""
        with open(self.path("model", name), "w") as file:
            if isinstance(content, str):
                file.write(content)
            else:
                json.dump(content, file, indent=1)

    def refused(self, verb, code, *words, status=3, input=None, binary=None):
        said = h.run([binary or self.binary, *verb], status=status,
                     input=input).stderr
        for word in (f"error[{code}]", *words):
            self.assertIn(word, said)

    def test_random_weights_have_the_model_s_tokenizer(self):
        """In the binary, and beside the checkpoints that it saves."""
        self.put("tokenizer.json", tokenizer(self.vocab))
        h.write_tokens(self.path("data.bin"), h.random_tokens(200, VOCAB))
        binary = self.compile(self.path("model"), "--init", "random", "--batch", 2,
                              "--seq", 16)
        text = ["generate", "--prompt", "ab", "--max-new-tokens", 3]
        shown = h.run([binary, *text]).stdout
        self.assertTrue(shown.startswith("ab"), shown)
        h.run([binary, "train", "--data", self.path("data.bin"), "--steps", 1, "--save",
               self.path("saved")])
        with open(self.path("model", "tokenizer.json")) as given, \
                open(self.path("saved", "step-000001", "tokenizer.json")) as saved:
            self.assertEqual(saved.read(), given.read())
        # The model's directory may go: there is only no text then.
        os.rename(self.path("model"), self.path("gone"))
        self.refused(text, "H0195", status=2, binary=binary)

    def test_tokenizers_that_are_larger_than_the_model(self):
        serve, generate = ["serve", "--port", 0], ["generate", "--prompt", "ab"]
        for vocab, added, name, id in (
                (dict(self.vocab, zz=VOCAB), (), "zz", VOCAB),
                (self.vocab, [("<fits>", VOCAB - 1), ("<pad>", VOCAB + 3)], "<pad>",
                 VOCAB + 3)):
            self.put("tokenizer.json", tokenizer(vocab, added))
            with open(self.path("model", "tokenizer.json")) as file:
                line = next(number for number, text in enumerate(file, 1)
                            if f": {id}" in text)
            for verb in (serve, generate):
                self.refused(verb, "H0370", f'token {id}, "{name}"',
                             f"vocabulary of {VOCAB}", f"tokenizer.json:{line}:",
                             f"at least {id + 1}")
        # Tokens alone need none.
        h.run([self.binary, "generate", "--prompt-ids", "1,2", "--max-new-tokens", 2])
        self.put("tokenizer.json", {
            "model": {"type": "Unigram", "unk_id": 0, "vocab":
                      [["<unk>", 0.0]] + [[chr(200 + i), -2.0] for i in range(VOCAB)]},
            "decoder": {"type": "Fuse"}})
        self.refused(generate, "H0370", f'token {VOCAB}, "{chr(199 + VOCAB)}"')
        # A vocabulary that is padded is larger than its tokenizer's.
        self.put("tokenizer.json", tokenizer(self.vocab))
        self.assertTrue(h.run([self.binary, *generate]).stdout.startswith("ab"))

    def test_tokens_where_there_is_no_tokenizer(self):
        """The help names what this verb takes in place of a text."""
        for verb, word in ((["generate", "--prompt", "ab"], "as tokens: --prompt-ids 1,2,3\n"),
                           (["generate", "--prompt-ids", "1", "--stop", "a"], "without --stop"),
                           (["chat"], "the verb generate")):
            self.refused(verb, "H0195", word, status=2)

    def test_a_conversation_outgrows_its_context(self):
        """It goes on without its begin."""
        self.put("tokenizer.json", tokenizer(self.vocab))
        self.put("chat_template.jinja",
                 "{% for m in messages %}{{ m.content }}{% endfor %}")
        binary = self.serve(self.path("model"), "--max-context", 32)
        # The third line leaves room for three of the four tokens of an answer.
        lines = ["abcdefg", "bcdefgh", "cdefghi", "defghijk" * 4]
        done = h.run([binary, "chat", "--max-new-tokens", 4], 2,
                     input="\n".join(lines) + "\n")
        answers = done.stdout.splitlines()
        self.assertEqual(len(answers), 3)
        self.assertIn("first question and answer are left out\n", done.stderr)
        self.assertEqual(answers[2], json.loads(h.run(
            [binary, "generate", "--max-new-tokens", 4, "--json", "--prompt",
             lines[1] + answers[1] + lines[2]]).stdout)["text"])
        # No conversation is as short as the last line.
        self.assertIn("error[H0132]", done.stderr)

    def test_generation_config_of_another_model(self):
        for content, code, *words in (
                ({"eos_token_id": VOCAB}, "H0370", f"eos_token_id: token {VOCAB}"),
                ({"eos_token_id": [1, VOCAB + 5]}, "H0370", f"token {VOCAB + 5}"),
                ({"pad_token_id": VOCAB}, "H0370", "leave pad_token_id out"),
                ({"do_sample": True, "top_p": 1.5}, "H0373", "top_p must be from 0.0"),
                ({"repetition_penalty": -1}, "H0373", "not the number -1"),
                ({"do_sample": True, "temperature": "hot"}, "H0305", "temperature")):
            with self.subTest(content):
                self.put("generation_config.json", content)
                for verb in (["generate", "--prompt-ids", "1"], ["serve", "--port", 0]):
                    self.refused(verb, code, *words, "generation_config.json:")
        # What is not read is not looked at.
        self.put("generation_config.json", {"top_p": 1.5, "eos_token_id": None})
        h.run([self.binary, "generate", "--prompt-ids", "1", "--max-new-tokens", 1])

    def test_serves_as_the_makers_draw(self):
        def texts(server, **fields):
            return [server.complete([5, 17, 2], max_tokens=20, seed=seed, ignore_eos=True,
                                    return_token_ids=True, **fields)["token_ids"]
                    for seed in range(3)]

        said = dict(temperature=0.7, top_k=9, top_p=0.9, min_p=0.01,
                    repetition_penalty=1.3)
        with Served([self.binary]) as server:
            plain, wanted = texts(server), texts(server, **said)
            greedy = texts(server, temperature=0, repetition_penalty=1.3)
            penalized = texts(server, repetition_penalty=1.3)
        self.assertNotEqual(plain, wanted)
        self.put("generation_config.json", dict(said, do_sample=True))
        with Served([self.binary]) as server:
            self.assertEqual(texts(server), wanted)
            self.assertEqual(texts(server, temperature=1, top_k=-1, top_p=1, min_p=0,
                                   repetition_penalty=1), plain)
            self.assertEqual(texts(server, temperature=0), greedy)
        # Without do_sample the penalty alone.
        self.put("generation_config.json", said)
        with Served([self.binary]) as server:
            self.assertEqual(texts(server), penalized)

    def test_chats_as_the_makers_draw(self):
        self.put("tokenizer.json", tokenizer(self.vocab))
        self.put("chat_template.jinja", "{{ messages[-1].content }}")

        def answer(verb, *flags):
            words = (["generate", "--prompt", "ab", "--json"] if verb == "generate"
                     else ["chat"])
            said = h.run([self.binary, *words, "--max-new-tokens", 12, *flags],
                         input="ab\n").stdout
            return json.loads(said)["text"] if verb == "generate" else said[:-1]

        greedy = answer("generate")
        drawn = answer("generate", "--temperature", 0.7, "--top-k", 9, "--seed", 4)
        other = answer("generate", "--temperature", 0.7, "--top-k", 20, "--seed", 4)
        self.assertEqual(len({greedy, drawn, other}), 3)
        self.assertEqual(answer("chat"), greedy)
        self.put("generation_config.json",
                 {"do_sample": True, "temperature": 0.7, "top_k": 9})
        self.assertEqual(answer("chat", "--seed", 4), drawn)
        self.assertEqual(answer("chat", "--seed", 4, "--top-k", 20), other)
        self.assertEqual(answer("chat", "--temperature", 0), greedy)
        # `generate` is greedy where nothing is asked for.
        self.assertEqual(answer("generate"), greedy)

    def test_chat_templates_that_cannot_be_read(self):
        self.put("tokenizer.json", tokenizer(self.vocab))
        for source, place, *words in (
                ("{% for m in messages %}\n  {{ m.content | trimm }}\n{% endfor %}",
                 "2:18", "there is no filter 'trimm'", "did you mean 'trim'?", "tojson"),
                ("{{ 1 if messages is definde }}", "1:21", "there is no test 'definde'",
                 "did you mean 'defined'?"),
                ("a\nb {% frobnicate %}", "2:17", "'frobnicate' is not known")):
            self.put("chat_template.jinja", source)
            for verb in (["serve", "--port", 0], ["chat"]):
                self.refused(verb, "H0359", f"chat_template.jinja:{place}\n", *words,
                             input="ab\n")
        os.remove(self.path("model", "chat_template.jinja"))
        self.put("tokenizer_config.json", {"chat_template": "\n{{ messages | mop }}"})
        self.refused(["serve", "--port", 0], "H0359", "tokenizer_config.json:2:",
                     "the chat template, line 2, column 15: there is no filter 'mop'")

    def test_prompts_as_long_as_a_text(self):
        """No token can follow: `generate` refuses it as the server does."""
        binary = self.serve(self.path("model"), "--max-context", 20)
        ids = list(range(20))
        self.binary = binary
        prompt = ["generate", "--max-new-tokens", 5, "--prompt-ids"]
        self.refused([*prompt, ",".join(map(str, ids))], "H0132", "20 tokens",
                     "can have 20 together", "--max-context 21", status=2)
        self.assertEqual(len(self.generate(binary, ids[1:], 5)), 1)
        with Served([binary]) as server:
            status, text = server.ask("/v1/completions", {"prompt": ids})
            self.assertEqual(status, 400)
            self.assertIn("can have 20 together", text)
            server.complete(ids[1:])
        said = h.run([binary, "generate", "--prompt-ids", "1", "--max-new-tokens", 0,
                      "--json"])
        self.assertEqual(json.loads(said.stdout)["tokens_per_s"], 0)
        self.assertIn(" 0.0 tokens/s", said.stderr)

    @h.needs_mpi
    def test_weights_that_are_not_finite(self):
        """An error for the texts that they are for; others go on, through the same
        pages of the cache."""
        config = dict(h.gpt2_config(), tie_word_embeddings=False)
        weights = h.random_weights(config, 1)
        h.write_model(self.path("finite"), config, weights, "transformer.")
        # The mean of this row is infinite.
        weights["wte.weight"][7] = 3e38
        h.write_model(self.path("nan"), config, weights, "transformer.")
        self.binary = binary = self.serve(self.path("nan"), "--max-batch", 1)
        good = self.generate(binary, [5, 17, 2], 9)
        self.assertEqual(good, self.generate(
            self.serve(self.path("finite"), output="other"), [5, 17, 2], 9))
        bad = ["generate", "--prompt-ids", "5,7", "--max-new-tokens", 3]
        for flags in ([], ["--temperature", 1, "--top-k", 5, "--top-p", 0.5]):
            self.refused([*bad, *flags], "H0481", "not finite", status=5)
        with Served([binary]) as server:
            for prompt in ([5, 7], [7] * 20):
                status, text = server.ask("/v1/completions", {"prompt": prompt})
                self.assertEqual((status, json.loads(text)["error"]["code"]),
                                 (500, "H0481"))
                self.assertEqual(server.complete([5, 17, 2], max_tokens=9, temperature=0,
                                                 return_token_ids=True)["token_ids"], good)
        # Of a binary that trains, with a cache and without, and on ranks.
        for ranks, *flags in ((1,), (1, "--max-context", 1), (2, "--mesh", "data=2")):
            trains = self.compile(self.path("nan"), "--batch", 2, "--seq", 12, *flags)
            said = h.run_ranks(ranks, [trains, *bad], status=5).stderr
            self.assertIn("error[H0481]", said)


if __name__ == "__main__":
    unittest.main()
