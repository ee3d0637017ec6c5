#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Binaries of `--mode encode` give transformers' embeddings, which are recorded; a
text has the same bits alone and among others; and what cannot be encoded is
refused. HEDDLE_TEST_LONG=1 has the record made again with the packages of
test/Oracles/requirements.txt."""

import base64
import json
import os
import shutil
import sys
import threading
import unittest

import numpy as np

import heddle_test as h
import openai_client
from test_serve_model import Served, mpirun

ORACLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Oracles")
sys.path.insert(0, ORACLES)
import models  # noqa: E402

with open(os.path.join(ORACLES, "embeddings.json")) as file:
    RECORD = json.load(file)
CONFIG, ENCODED = RECORD["config"], RECORD["encoded"]
IDS = [each["ids"] for each in ENCODED]
with open(os.path.join(ORACLES, "sentences.json")) as file:
    SENTENCES = json.load(file)


def make_model(folder, head=True):
    weights = {name: models.weight(name, shape)
               for name, shape in RECORD["weights"].items()
               if head or not name.startswith("cls.")}
    h.write_model(folder, CONFIG, weights, prefix="")
    shutil.copy(os.path.join(ORACLES, "tokenizers", "bert.json"),
                os.path.join(folder, "tokenizer.json"))
    return folder


class Encode(h.HeddleTest):
    def setUp(self):
        self.model = make_model(self.path("bert"))

    def build(self, *flags, output="bert-job"):
        # Each size of a batch has kernels of its own.
        is_sized = any(flag in flags for flag in ("--max-batch", "--mesh"))
        return self.compile(self.model, "--mode", "encode", "--threads", 2, *flags,
                            *([] if is_sized else ["--max-batch", 3]), output=output)

    def encode(self, binary, texts, *flags, ranks=1):
        """Of texts, or of lists of tokens."""
        out = self.path("embeddings.safetensors")
        words = []
        for text in texts:
            words += (["--text", text] if isinstance(text, str)
                      else ["--ids", ",".join(map(str, text))])
        h.run_ranks(ranks, [binary, "encode", *words, "-o", out, *flags])
        return h.read_safetensors(out)

    def embeddings(self, *arguments, **options):
        return self.encode(*arguments, **options)["embeddings"]

    def test_recorded(self):
        binary = self.build("--max-batch", 3)
        for pooling in ("cls", "mean"):
            wanted = [each[pooling] for each in ENCODED]
            found = self.embeddings(binary, IDS, "--pooling", pooling)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
            unit = self.embeddings(binary, IDS, "--pooling", pooling, "--normalize")
            np.testing.assert_allclose(
                unit, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), rtol=0,
                atol=1e-5)
        texts = self.embeddings(binary, RECORD["texts"])
        np.testing.assert_array_equal(texts, found[:len(texts)])
        # Several behind one flag.
        out = self.path("together.safetensors")
        for flag, words in (("--text", RECORD["texts"][:3]),
                            ("--ids", [",".join(map(str, ids)) for ids in IDS[:3]])):
            h.run([binary, "encode", flag, *words, "-o", out])
            np.testing.assert_array_equal(h.read_safetensors(out)["embeddings"],
                                          found[:3])
        made = self.encode(binary, IDS, "--logits")
        np.testing.assert_array_equal(made["lengths"], [len(ids) for ids in IDS])
        for each, logits, length in zip(ENCODED, made["logits"], made["lengths"]):
            norm, product = each["logits"]
            actual = models.summary("logits", logits[:length])
            np.testing.assert_allclose(actual, [norm, product], rtol=0,
                                       atol=1e-5 * norm)
            self.assertFalse(logits[length:].any())
        np.testing.assert_allclose(made["embeddings"], found, rtol=0, atol=1e-6)

    def test_what_sentence_transformers_saved(self):
        def save(modules, **modes):
            os.makedirs(os.path.join(self.model, "1_Pooling"), exist_ok=True)
            paths = {"Transformer": "", "Pooling": "1_Pooling"}
            with open(os.path.join(self.model, "modules.json"), "w") as file:
                json.dump([{"idx": i, "name": str(i), "path": paths.get(name, f"{i}_{name}"),
                            "type": "sentence_transformers.models." + name}
                           for i, name in enumerate(modules)], file)
            with open(os.path.join(self.model, "1_Pooling", "config.json"), "w") as file:
                json.dump({"word_embedding_dimension": 32,
                           **{f"pooling_mode_{mode}": value
                              for mode, value in modes.items()}}, file)

        binary = self.build("--max-batch", 3)
        self.addCleanup(os.remove, os.path.join(self.model, "modules.json"))
        means, firsts = ([each[kind] for each in ENCODED] for kind in ("mean", "cls"))
        unit = firsts / np.linalg.norm(firsts, axis=1, keepdims=True)
        close = dict(rtol=0, atol=1e-4)
        save(["Transformer", "Pooling", "Normalize"], cls_token=True, mean_tokens=False)
        np.testing.assert_allclose(self.embeddings(binary, IDS), unit, **close)
        np.testing.assert_allclose(
            self.embeddings(binary, IDS, "--no-normalize"), firsts, **close)
        np.testing.assert_allclose(
            self.embeddings(binary, IDS, "--pooling", "mean", "--no-normalize"), means,
            **close)
        with Served([binary]) as server:
            _, answer = server.ask("/v1/embeddings", {"input": IDS[0]})
            np.testing.assert_allclose(json.loads(answer)["data"][0]["embedding"],
                                       unit[0], **close)
        save(["Transformer", "Pooling"], cls_token=False, mean_tokens=True)
        np.testing.assert_allclose(self.embeddings(binary, IDS), means, **close)
        # The first features of the last vector, as of models whose vectors may be cut.
        config = os.path.join(self.model, "config_sentence_transformers.json")
        self.addCleanup(os.remove, config)
        for count in (5, 100, None):
            with open(config, "w") as file:
                json.dump({"truncate_dim": count}, file)
            np.testing.assert_allclose(self.embeddings(binary, IDS),
                                       np.array(means)[:, :count], **close)
        refused = [
            (["Transformer", "Pooling"], {"odd_tokens": True}, "pooling by odd_tokens"),
            (["Transformer", "Pooling"], {"mean_tokens": False}, "no pooling_mode"),
            (["Transformer", "Pooling", "CNN"], {"mean_tokens": True}, "CNN"),
            (["Transformer", "Normalize", "Pooling"], {"mean_tokens": True}, "Normalize"),
            (["Transformer"], {}, "no module makes one vector")]
        for modules, modes, words in refused:
            with self.subTest(words):
                save(modules, **modes)
                failed = h.run([binary, "encode", "--ids", "1,2"], status=3)
                self.assertIn("H0398", failed.stderr)
                self.assertIn(words, failed.stderr)
                np.testing.assert_allclose(
                    self.embeddings(binary, IDS, "--pooling", "mean", "--no-normalize"),
                    means, **close)

    def write_sentences(self, case):
        """The directory that sentence-transformers saved."""
        folder = make_model(self.path(case["name"]), head=False)
        for name, content in case["files"].items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                json.dump(content, file)
        for name, shapes in case["weights"].items():
            h.write_safetensors(os.path.join(folder, name), {
                key: models.weight(name + key, shape).astype(np.float32)
                for key, shape in shapes.items()})
        if case["cased"]:
            path = os.path.join(folder, "tokenizer.json")
            with open(path) as file:
                tokenizer = json.load(file)
            tokenizer["normalizer"].update(lowercase=False, strip_accents=False)
            with open(path, "w") as file:
                json.dump(tokenizer, file)
        return folder

    def test_vectors_of_sentence_transformers(self):
        """Poolings, modules after them, prompts and texts that are cut."""
        cases = SENTENCES["cases"]
        binary = self.compile(self.write_sentences(cases[0]), "--mode", "encode",
                              "--threads", 1, output="sentences")
        for case in cases:
            with self.subTest(case["name"]):
                folder = self.write_sentences(case) if case is not cases[0] else (
                    self.path(case["name"]))
                name = case["prompt_name"]
                found = self.embeddings(binary, SENTENCES["texts"], "--weights", folder,
                                        *(["--prompt-name", name] if name else []))
                wanted = np.array(case["vectors"])
                np.testing.assert_allclose(found, wanted, rtol=0,
                                           atol=1e-5 * abs(wanted).max())

    def test_sentences_say_what_was_cut_and_what_is_wrong(self):
        cases = {case["name"]: case for case in SENTENCES["cases"]}
        folder = self.write_sentences(cases["short"])
        binary = self.compile(folder, "--mode", "encode", "--threads", 1, output="short-job")
        said = h.run([binary, "encode", "--text", *SENTENCES["texts"]]).stderr
        self.assertEqual(said.count("2 of 3 texts cut at 16 tokens: model_max_length in"),
                         1, said)
        wanted = np.array(cases["short"]["vectors"])
        with Served([binary]) as server:
            for body in ({}, {"truncate_prompt_tokens": -1}):
                rows, usage = self.vectors(server, input=SENTENCES["texts"], **body)
                np.testing.assert_allclose(rows, wanted, rtol=0, atol=1e-5)
            rows, usage = self.vectors(server, input=SENTENCES["texts"][2],
                                       truncate_prompt_tokens=7)
            self.assertEqual(usage["prompt_tokens"], 7)
            for body, field in (({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
                                ({"truncate_prompt_tokens": 151}, "truncate_prompt_tokens"),
                                ({"prompt_name": "odd"}, "prompt_name")):
                error = self.ask(server, dict(body, input="a"), 400)["error"]
                self.assertEqual((error["code"], error["param"]), ("H0380", field))
        self.refused("H0168", [binary, "encode", "--text", "a", "--prompt-name", "odd"],
                     "document, query")
        for name, change, code in (
                ("sentence_bert_config.json", {"max_seq_length": 0}, "H0375"),
                ("config_sentence_transformers.json", {"default_prompt_name": "odd"},
                 "H0375"),
                ("2_Dense/config.json", {"in_features": 31}, "H0378")):
            with self.subTest(name):
                case = json.loads(json.dumps(cases["dense"]))
                case["files"][name].update(change)
                self.refused(code, [binary, "encode", "--text", "a", "--weights",
                                    self.write_sentences(case)], status=3)

    def test_a_text_has_its_bits_alone_and_among_others(self):
        for flags in ((), ("--quantize", "int8"), ("--precision", "fp16"),
                      *[("--precision", "bf16")] * h.LONG):
            with self.subTest(flags):
                binary = self.build(*flags)
                together = self.embeddings(binary, IDS)
                for ids, row in list(zip(IDS, together))[::3]:
                    np.testing.assert_array_equal(self.embeddings(binary, [ids]), [row])
                backwards = self.embeddings(binary, IDS[::-1])[::-1]
                np.testing.assert_array_equal(backwards, together)
                wanted = np.array([each["mean"] for each in ENCODED])
                self.assertLess(h.relative(together, wanted), 0.02)

    @h.needs_mpi
    def test_tensor_ranks(self):
        one = self.embeddings(self.build(), IDS)
        binary = self.build("--mesh", "tensor=3", output="three")
        three = self.embeddings(binary, IDS, ranks=3)
        np.testing.assert_allclose(three, one, rtol=0, atol=1e-5)

    @h.needs_mpi
    def test_groups(self):
        """Each group computes some texts of a run, with the bits of one rank."""
        one = self.embeddings(self.build(), IDS)
        for ranks, flags in ((2, ("data=2",)), (3, ("data=3", "--max-batch", 3))):
            binary = self.build("--mesh", *flags, output="groups")
            for ids, rows in ((IDS, one), (IDS[:1], one[:1])):
                np.testing.assert_array_equal(self.embeddings(binary, ids, ranks=ranks),
                                              rows)
        scored = self.embeddings(binary, IDS, "--logits", ranks=3)
        np.testing.assert_allclose(scored, one, rtol=0, atol=1e-6)
        refused = [h.HEDDLE, "compile", self.model, "--mode", "encode", "--max-batch", 3,
                   "--mesh", "data=2", "-o", self.path("x")]
        self.refused("H0139", refused, "3 texts", "multiple of 2")

    def test_holds_no_training_and_says_what_it_holds(self):
        parameters = sum(int(np.prod(shape)) for shape in RECORD["weights"].values())
        for precision, width in (("fp32", 4), ("bf16", 2)):
            binary = self.build("--precision", precision, "--max-batch", 3)
            plan = self.explain(binary)
            owners = plan["memory"]["owners"]
            for name in ("gradients", "optimizer", "cache"):
                self.assertNotIn(name, owners)
            self.assertLess(owners["parameters"], parameters * width * 1.1)
        info = h.run([binary, "info"]).stdout
        for tokens in (16, 64, 128, 150):
            for name in (f"1x{tokens}", f"3x{tokens}", f"1x{tokens}/logits"):
                self.assertIn("encode/" + name, info)
        line = json.loads(h.run([binary, "encode", "--ids", "5,7,9", "--ids", "3"]).stdout)
        self.assertEqual(line["shape"], [2, 30])
        self.assertEqual(line["tokens"], [3, 1])
        rows = self.embeddings(binary, [[5, 7, 9], [3]])
        np.testing.assert_allclose(line["norms"], np.linalg.norm(rows, axis=1), rtol=1e-5)
        np.testing.assert_allclose(line["first"], rows[:, :4], rtol=1e-6)

    def test_weights_without_a_head(self):
        """As sentence encoders are saved; what is there is computed with."""
        whole = self.build()
        bare = make_model(self.path("bare"), head=False)
        for names, folder in (("prefixed", bare), ("plain", self.path("plain"))):
            if names == "plain":
                shutil.copytree(bare, folder)
                weights = os.path.join(folder, "model.safetensors")
                h.write_safetensors(weights, {
                    name.removeprefix("bert."): value
                    for name, value in h.read_safetensors(weights).items()})
            binary = self.compile(folder, "--mode", "encode", "--threads", 2,
                                  output="job-" + names)
            self.assertLess(self.explain(binary)["parameters"],
                            self.explain(whole)["parameters"])
            np.testing.assert_array_equal(self.embeddings(binary, IDS[:3]),
                                          self.embeddings(whole, IDS[:3]))
        self.refused("H0191", [binary, "encode", "--ids", "1", "--logits", "-o",
                               self.path("l")], "no head")
        self.refused("H0127", [h.HEDDLE, "compile", bare, "-o", self.path("x")],
                     "--mode encode")

    def test_long_texts(self):
        binary = self.build("--max-context", 21)
        text = IDS[-1]
        self.refused("H0132", [binary, "encode", "--ids", ",".join(map(str, text))],
                     "150 tokens", "21", "--truncate")
        cut = self.embeddings(binary, [text], "--truncate")
        np.testing.assert_array_equal(cut, self.embeddings(binary, [text[:21]]))

    def refused(self, code, command, *words, status=2):
        text = h.run(command, status=status).stderr
        for word in (code, *words):
            self.assertIn(word, text)

    def test_refuses_what_cannot_be_encoded(self):
        build = [h.HEDDLE, "compile", self.model, "--mode", "encode", "-o", self.path("x")]
        self.refused("H0128", build + ["--max-context", 151], "150")
        self.refused("H0129", build + ["--mesh", "seq=2"], "--mode encode", "tensor")
        gpt2, *_ = self.make_model("gpt2")
        self.refused("H0127", [h.HEDDLE, "compile", gpt2, "--mode", "encode", "-o",
                               self.path("x")], "--mode serve")
        binary = self.build()
        self.refused("H0195", [binary, "encode"], "--text")
        self.refused("H0195", [binary, "encode", "--ids", "1,400"], "400")
        self.refused("H0195", [binary, "encode", "--ids", "1;2"], "--ids 1,2,3")
        self.refused("H0190", [binary, "encode", "--text", ""], "--text")
        self.refused("H0190", [binary, "encode", "--text", "a", "--logits"])
        self.refused("H0191", [binary, "generate", "--prompt-ids", "1"], "encode")
        serves = self.compile(gpt2, "--mode", "serve", output="serves")
        self.refused("H0191", [serves, "encode", "--ids", "1"], "--mode encode")

    # --- over HTTP

    def ask(self, server, body, status=200, path="/v1/embeddings"):
        found, text = server.ask(path, body)
        self.assertEqual(found, status, text)
        return json.loads(text)

    def vectors(self, server, **body):
        """Of an answer, in the order of its inputs."""
        answer = self.ask(server, body)
        self.assertEqual(answer["object"], "list")
        self.assertEqual([each["index"] for each in answer["data"]],
                         list(range(len(answer["data"]))))
        rows = [each["embedding"] for each in answer["data"]]
        if body.get("encoding_format") == "base64":
            rows = [np.frombuffer(base64.b64decode(row), "<f4") for row in rows]
        return np.array(rows, np.float32), answer["usage"]

    def check_together(self, server, wanted):
        """Clients that ask at the same time have the bits of each alone."""
        found = {}

        def ask(i):
            found[i], _ = self.vectors(server, input=IDS[i % len(IDS)])

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i in range(30):
            np.testing.assert_array_equal(found[i], wanted[[i % len(IDS)]])

    def test_serve(self):
        binary = self.build("--max-batch", 3)
        wanted = self.embeddings(binary, IDS)
        count = sum(map(len, IDS))
        with Served([binary]) as server:
            for form in ("float", "base64"):
                rows, usage = self.vectors(server, input=IDS, encoding_format=form,
                                           model="bert", dimensions=30)
                np.testing.assert_array_equal(rows, wanted)
                self.assertEqual(usage, {"prompt_tokens": count, "total_tokens": count})
            for given, numbers in ((RECORD["texts"], [0, 1, 2]), (RECORD["texts"][1], [1]),
                                   (IDS[5], [5]), ([RECORD["texts"][2], IDS[4]], [2, 4])):
                rows, _ = self.vectors(server, input=given)
                np.testing.assert_array_equal(rows, wanted[numbers])
            self.check_together(server, wanted)
            for body, field in (({"model": "bert"}, "input"), ({"input": ""}, "input"),
                                ({"input": []}, "input"), ({"input": [[]]}, "input"),
                                ({"input": [400]}, "input"), ({"input": [1.5]}, "input"),
                                ({"input": [1] * 151}, "input"),
                                ({"input": ["a"] * 2049}, "input"),
                                ({"input": "a", "encoding_format": "f8"},
                                 "encoding_format"),
                                ({"input": "a", "dimensions": 29}, "dimensions")):
                error = self.ask(server, body, 400)["error"]
                self.assertEqual((error["code"], error["param"]), ("H0380", field), body)
            error = self.ask(server, {"input": "a", "model": "gpt-4"}, 404)["error"]
            self.assertEqual(error["code"], "H0479")
            error = self.ask(server, {"input": "a", "timeout": 0}, 504)["error"]
            self.assertEqual(error["code"], "H0475")
            error = self.ask(server, {"input": ["a"] * 300}, 400)["error"]
            self.assertEqual(error["code"], "H0380")
            self.assertIn("at most 256", error["message"])
            for path in ("/v1/completions", "/v1/chat/completions"):
                error = self.ask(server, {"prompt": "a"}, 404, path)["error"]
                self.assertEqual(error["code"], "H0480")
                self.assertIn("/v1/embeddings", error["message"])
            self.assertEqual(self.ask(server, None, path="/v1/models")["data"][0][
                "max_model_len"], 150)
            _, figures = server.ask("/metrics")
            self.assertIn('{path="/v1/embeddings",status="200"} 36\n', figures)
            runs = int(figures.split("\nheddle_runs_total ")[1].split()[0])
            self.assertGreater(runs, 0)
            self.assertIn("\nheddle_texts_waiting 0\n", figures)
            self.assertEqual(server.end(), 128 + 15)
        with Served([binary], "--pooling", "cls", "--normalize") as server:
            rows, _ = self.vectors(server, input=IDS)
            np.testing.assert_array_equal(
                rows, self.embeddings(binary, IDS, "--pooling", "cls", "--normalize"))

    def test_texts_that_wait_are_computed_together(self):
        binary = self.build("--max-batch", 3)
        with Served([binary]) as server:
            self.vectors(server, input=[[1, 2, 3]] * 9)
            self.assertIn("\nheddle_runs_total 3\n", server.ask("/metrics")[1])

    @h.needs_mpi
    def test_serve_on_ranks(self):
        binary = self.build("--mesh", "tensor=3", output="three")
        wanted = self.embeddings(binary, IDS, ranks=3)
        command = mpirun(binary)
        command[command.index("-n") + 1] = 3
        with Served(command) as server:
            rows, _ = self.vectors(server, input=IDS)
            np.testing.assert_array_equal(rows, wanted)
            server.end()

    @h.needs_mpi
    def test_serve_on_groups(self):
        """Nine texts take two runs of two groups with three texts each."""
        wanted = self.embeddings(self.build(), IDS)
        binary = self.build("--mesh", "data=2", "--max-batch", 6, output="groups")
        with Served(mpirun(binary), "--threads", 1) as server:
            rows, _ = self.vectors(server, input=[IDS[0]] * 9)
            np.testing.assert_array_equal(rows, wanted[[0] * 9])
            self.assertIn("\nheddle_runs_total 2\n", server.ask("/metrics")[1])
            self.check_together(server, wanted)
            server.end()

    def test_completions_have_no_embeddings(self):
        gpt2, *_ = self.make_model("gpt2")
        with Served([self.compile(gpt2, "--mode", "serve", output="serves")]) as server:
            error = self.ask(server, {"input": [1]}, 404)["error"]
            self.assertEqual(error["code"], "H0480")
            self.assertIn("only /v1/completions and /v1/chat/completions",
                          error["message"])

    @h.long_only
    def test_openai_client_is_there(self):
        h.run_with_packages(__file__, "Encode.test_openai_client")

    @openai_client.needs_openai
    def test_openai_client(self):
        import openai
        binary = self.build()
        wanted = self.embeddings(binary, RECORD["texts"])
        with Served([binary], "--api-key", "secret") as server, openai_client.connect(
                server.port, "secret") as client:
            for form in ({}, {"encoding_format": "float"}):
                answer = client.embeddings.create(model="bert", input=RECORD["texts"],
                                                  **form)
                rows = np.array([each.embedding for each in answer.data], np.float32)
                np.testing.assert_array_equal(rows, wanted)
                self.assertEqual(answer.usage.total_tokens,
                                 sum(map(len, IDS[:len(wanted)])))
            with self.assertRaises(openai.NotFoundError):
                client.completions.create(model="bert", prompt="a")
            with self.assertRaises(openai.AuthenticationError):
                client.with_options(api_key="x").embeddings.create(model="bert", input="a")

    @h.long_only
    def test_record_is_that_of_transformers(self):
        h.run([h.oracle_python(), os.path.join(ORACLES, "record_embeddings.py"),
               "--check"])


if __name__ == "__main__":
    unittest.main()
