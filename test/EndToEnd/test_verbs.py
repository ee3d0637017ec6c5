# The verbs of a binary beside train: eval, generate, resume, data.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Evaluation, generation and resumption, against the oracle and each other."""

import base64
import json
import os
import socket
import time
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ = 3, 12


class Verbs(h.HeddleTest):
    def build(self, *flags, output="job", **options):
        model, self.config, self.weights = self.make_model(**options)
        return self.compile(model, "--batch", ROWS, "--seq", SEQ, *flags,
                            output=output, config=h.ds_config(lr=1e-3, warmup=3))

    def evaluate(self, binary, data, *flags):
        text = h.run([binary, "eval", "--data", data, "--json", *flags]).stdout
        return json.loads(text.splitlines()[-1])

    @h.needs_torch
    def test_eval_is_the_mean_over_rows(self):
        """Of all rows, whatever the batch that was compiled: one that divides them, one
        whose last batch is short, and one that is larger than the file. What is left
        of the tokens is no row."""
        import oracle

        binary = self.build("--micro-batch", 1)
        data, tokens = self.make_tokens(SEQ * 17 + SEQ, self.config["vocab_size"])
        reference = oracle.Gpt2(self.config, self.weights)
        losses = [reference.loss(*h.batch(tokens, row, 1, SEQ))[0].item()
                  for row in range(17)]
        evaluations = [(binary, 17), (binary, 6, "--steps", 2), (binary, 17, "--steps", 6)]
        for batch in (17, 5, 40):
            other = self.compile(self.path("model"), "--batch", batch, "--seq", SEQ,
                                 output=f"batch{batch}", config=h.ds_config())
            evaluations.append((other, 17))
        for which, rows, *flags in evaluations:
            found = self.evaluate(which, data, *flags)
            expected = np.mean(losses[:rows])
            self.assertEqual(found["tokens"], rows * SEQ)
            self.assertLessEqual(abs(found["loss"] / expected - 1), 1e-5)
            self.assertLessEqual(abs(found["perplexity"] / np.exp(expected) - 1), 1e-4)
        first = self.evaluate(binary, data)
        for which, _ in evaluations[3:]:
            self.assertLessEqual(abs(self.evaluate(which, data)["loss"]
                                     / first["loss"] - 1), 3e-7)
        # One row is enough, for a validation too; none is not.
        short, _ = self.make_tokens(SEQ + 1, self.config["vocab_size"], name="short.bin")
        self.assertEqual(self.evaluate(binary, short)["tokens"], SEQ)
        self.train(binary, data, 1, "--val", short)
        none, _ = self.make_tokens(SEQ, self.config["vocab_size"], name="none.bin")
        error = h.run([binary, "eval", "--data", none], status=3).stderr
        self.assertIn("error[H0347]", error)
        self.assertIn(f"one row of {SEQ} tokens", error)

    @h.needs_torch
    def test_greedy_text_is_pytorchs(self):
        import oracle

        binary = self.build(layers=3)
        reference = oracle.Gpt2(self.config, self.weights)
        ids = [5, 17, 2]
        for _ in range(SEQ - len(ids)):
            logits = reference.logits([ids]).detach().numpy()
            ids.append(int(logits[0, -1].argmax()))
        text = h.run([binary, "generate", "--prompt-ids", "5,17,2", "--temperature",
                      0, "--max-new-tokens", SEQ - 3]).stdout
        found = [int(word) for word in text.replace(",", " ").split()]
        self.assertEqual(found[-(SEQ - 3):], ids[3:])

    def test_validation_while_training(self):
        binary = self.build()
        data, _ = self.make_tokens(ROWS * SEQ * 8 + 1, self.config["vocab_size"])
        out = self.path("out")
        self.train(binary, data, 4, "--val", data, "--val-every", 2, "--save", out)
        events = h.read_log(self.path("run.jsonl"), "eval")
        self.assertEqual([event["step"] for event in events], [2, 4])
        found = self.evaluate(binary, data, "--weights",
                              os.path.join(out, "step-000004"))
        self.assertAlmostEqual(found["loss"], events[-1]["loss"], delta=1e-6)

    def test_another_plan_goes_on(self):
        binary = self.build(dropout=0.1)
        other = self.build("--micro-batch", 1, "--recompute", "full", output="other",
                           dropout=0.1)
        data, _ = self.make_tokens(ROWS * SEQ * 9 + 1, self.config["vocab_size"])
        whole = self.train(binary, data, 8)
        out = self.path("out")
        self.train(binary, data, 4, "--save", out)
        rest = self.train(other, data, 8, "--resume", out, name="rest")
        self.assertEqual([step["step"] for step in rest], [5, 6, 7, 8])
        np.testing.assert_allclose([step["loss"] for step in rest],
                                   [step["loss"] for step in whole[4:]], rtol=1e-5)

    def test_weights_are_saved_in_the_type_in_which_they_came(self):
        model, config, weights = self.make_model(torch_dtype="float16")
        narrow = {name: value.astype(np.float16) for name, value in weights.items()}
        h.write_model(model, config, narrow)
        binary, other = (self.compile(model, "--batch", ROWS, "--seq", SEQ, "--precision",
                                      "bf16", *flags, output=name,
                                      config=h.ds_config(lr=1e-3, warmup=3))
                         for name, flags in (("job", ()), ("other", ("--micro-batch", 1))))
        data, _ = self.make_tokens(ROWS * SEQ * 9 + 1, config["vocab_size"])
        whole = self.train(binary, data, 6)
        out = self.path("out")
        self.train(binary, data, 3, "--save", out)
        folder = h.latest_of(out)
        self.assertEqual({value.dtype for value in h.read_saved(out).values()},
                         {np.dtype(np.float16)})
        with open(os.path.join(folder, "config.json")) as file:
            saved = json.load(file)
        self.assertEqual((saved["dtype"], saved["torch_dtype"]), ("float16", "float16"))
        masters = h.read_safetensors(os.path.join(folder, "heddle", "masters.safetensors"))
        for name, value in h.read_saved(out).items():
            np.testing.assert_array_equal(masters[name].astype(np.float16), value)
        rest = self.train(binary, data, 6, "--resume", out, name="rest")
        for one, two in zip(whole[3:], rest, strict=True):
            self.assertEqual([one[key] for key in ("loss", "grad_norm", "lr")],
                             [two[key] for key in ("loss", "grad_norm", "lr")])
        rest = self.train(other, data, 6, "--resume", out, name="rest")
        np.testing.assert_allclose([step["loss"] for step in rest],
                                   [step["loss"] for step in whole[3:]], rtol=1e-3)
        # Another program may change some bits in place.
        with open(os.path.join(folder, "model.safetensors"), "r+b") as file:
            file.seek(-64, os.SEEK_END)
            file.write(bytes(range(64)))
        for command in ([binary, "eval", "--data", data, "--weights", out],
                        [binary, "generate", "--prompt-ids", 1, "--weights", folder],
                        [binary, "train", "--data", data, "--steps", 1, "--weights", out],
                        [h.HEDDLE, "compile", out, "-o", self.path("damaged")]):
            self.assertIn("error[H0363]: model.safetensors is damaged",
                          h.run(command, status=3).stderr)

    def test_text_to_tokens_to_training(self):
        text = self.path("text.txt")
        with open(text, "w") as file:
            file.write("the cat sat on the mat and the dog sat on the cat. " * 40)
        h.run([h.HEDDLE, "data", "prepare", text, "--tokenizer", "bytes", "-o",
               self.path("text.bin"), "--val-fraction", 0.1])
        binary = self.build(vocab=256, embed=32)
        steps = self.train(binary, self.path("text.bin"), 40, "--save", self.path("out"))
        self.assertLess(steps[-1]["loss"], 0.9 * steps[0]["loss"])
        self.evaluate(binary, self.path("text.val.bin"))
        self.check_generate(binary)

    def check_generate(self, binary):
        """The forms in which a text is given, and what ends it."""
        def generate(*flags):
            return h.run([binary, "generate", "--weights", self.path("out"), "--prompt",
                          "the cat", "--max-new-tokens", 12, *flags]).stdout

        text = generate()
        self.assertTrue(text.startswith("the cat") and text.endswith("\n"))
        made = text[len("the cat"):-1]
        self.assertEqual(generate("--ids"),
                         " ".join(str(byte) for byte in ("the cat" + made).encode()) + "\n")
        told = json.loads(generate("--json"))
        self.assertEqual((told["text"], told["ids"]), (made, list(made.encode())))
        self.assertEqual((told["prompt_tokens"], told["new_tokens"]), (7, 12))
        ids = ",".join(str(byte) for byte in b"the cat")
        asked = h.run([binary, "generate", "--weights", self.path("out"), "--prompt-ids",
                       ids, "--max-new-tokens", 12, "--json"]).stdout
        for other in (generate("--ids", "--json"), asked):
            other = json.loads(other)
            self.assertEqual([other[key] for key in ("text", "ids")],
                             [told[key] for key in ("text", "ids")])
        self.assertGreater(min(told[key] for key in ("prefill_s", "decode_s",
                                                     "tokens_per_s")), 0)
        stop = made[4:6]
        self.assertEqual(generate("--stop", "never there", "--stop", stop),
                         "the cat" + made[:made.index(stop)] + "\n")
        cut = json.loads(generate("--stop", stop, "--json"))
        self.assertEqual(cut["text"], made[:made.index(stop)])
        self.assertEqual(cut["new_tokens"], made.index(stop) + len(stop))
        self.assertEqual(generate("--min-p", 1, "--seed", 3), text)
        self.assertEqual(generate("--repetition-penalty", 1), text)
        once = json.loads(generate("--repetition-penalty", 100, "--json"))["ids"]
        self.assertEqual(len(set(once)), 12)
        self.check_chat(binary)

    def check_chat(self, binary):
        """A conversation is what generate says of its text, turn by turn."""
        out = self.path("out")
        command = [binary, "chat", "--weights", out, "--max-new-tokens", 5]
        self.assertIn("H0359", h.run(command, 3, input="the\n").stderr)
        latest = h.latest_of(out)
        with open(os.path.join(latest, "chat_template.jinja"), "w") as file:
            file.write("{% for m in messages %}{{ m.content }} {% endfor %}")
        told = h.run([*command, "--system", "sat"], input="the cat\n\non\n").stdout
        text, answers = "sat ", []
        for line in ("the cat", "on"):
            text += line + " "
            answers.append(json.loads(h.run(
                [binary, "generate", "--weights", out, "--prompt", text,
                 "--max-new-tokens", 5, "--json"]).stdout)["text"])
            text += answers[-1] + " "
        self.assertEqual(told, "".join(answer + "\n" for answer in answers))
        with open(os.path.join(latest, "chat_template.jinja"), "w") as file:
            file.write("{{ raise_exception('not today') }}")
        self.assertIn("not today", h.run(command, 3, input="the\n").stderr)

    def test_a_save_directory_is_a_model(self):
        """Its latest checkpoint is what every flag and verb takes it for."""
        binary = self.build()
        letters = [chr(33 + i) for i in range(94)] + ["\u0120", "ab", "bc"]
        tokenizer = {"model": {"type": "BPE", "merges": ["a b"], "vocab": {
            letter: i for i, letter in enumerate(letters)}},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"}}
        with open(self.path("model", "tokenizer.json"), "w") as file:
            json.dump(tokenizer, file)
        with open(self.path("model", "chat_template.jinja"), "w") as file:
            file.write("{{ messages[0].content }}")
        data, _ = self.make_tokens(ROWS * SEQ * 8 + 1, self.config["vocab_size"])
        out, step = self.path("saved"), self.path("saved", "step-000002")
        self.train(binary, data, 2, "--save", out)
        os.remove(self.path("model", "tokenizer.json"))
        generate = [binary, "generate", "--prompt", "xab c", "--max-new-tokens", 4]
        texts = [h.run([*generate, "--weights", folder]).stdout
                 for folder in (step, out)]
        self.assertTrue(texts[0].startswith("xab c"))
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(self.evaluate(binary, data, "--weights", out),
                         self.evaluate(binary, data, "--weights", step))
        with open(self.path("text.txt"), "w") as file:
            file.write("ab c" * 30)
        h.run([h.HEDDLE, "data", "prepare", self.path("text.txt"), "--tokenizer",
               out, "-o", self.path("text.bin")])
        # What a run saves that begins with these weights has the tokenizer too.
        self.train(binary, data, 1, "--weights", out, "--save", self.path("next"))
        h.run([h.HEDDLE, "checkpoint", "convert", self.path("next"), "--dtype", "BF16",
               "-o", self.path("narrow")])
        for folder in self.path("next", "step-000001"), self.path("narrow"):
            self.assertLessEqual({"tokenizer.json", "chat_template.jinja"},
                                 set(os.listdir(folder)))
        said = []
        for folder in self.path("next", "step-000001"), self.path("narrow"):
            with open(os.path.join(folder, "config.json")) as file:
                said.append(json.load(file))
        self.assertEqual(said[1], dict(said[0], dtype="bfloat16",
                                       torch_dtype="bfloat16"))
        for folder, precision in ((self.path("next", "step-000001"), "fp32"),
                                  (self.path("narrow"), "bf16")):
            h.run([h.HEDDLE, "compile", folder, "--mode", "serve", "--max-batch", 1, "-o",
                   self.path("serving")])
            self.assertEqual(json.loads(h.run(
                [self.path("serving"), "info", "--json"]).stdout)["precision"], precision)
        again = self.compile(out, "--batch", ROWS, "--seq", SEQ, output="again")
        self.assertEqual(h.run([again, *generate[1:]]).stdout, texts[0])

    def test_deepspeeds_launcher_can_start_it(self):
        binary = self.build()
        data, _ = self.make_tokens(ROWS * SEQ * 3 + 1, self.config["vocab_size"])
        for rank in (["--local_rank=0"], ["--local-rank", "0"]):
            h.run([binary, *rank, "train", "--data", data, "--steps", 1])
        config = {"train_batch_size": ROWS, "gradient_clipping": 0.5}
        code = base64.urlsafe_b64encode(json.dumps(config).encode()).decode()
        h.run([h.HEDDLE, "compile", self.path("model"), "--config", code, "-o",
               self.path("coded")])
        self.assertIn("clip 0.5", h.run([h.HEDDLE, "explain", self.path("coded")]).stdout)

    def test_ranks_that_do_not_come_are_named_in_time(self):
        binary = self.build()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "3",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        started = time.monotonic()
        result = h.run([binary, "info", "--join-timeout", 1], status=4, env=environment)
        self.assertLess(time.monotonic() - started, 20)
        self.assertIn("error[H0225]: rank 0 of 3", result.stderr)
        self.assertIn("rank 1, 2 did not come", result.stderr)
        self.assertIn("--join-timeout", result.stderr)

    def test_seed_decides_the_shuffle(self):
        binary = self.build()
        data, _ = self.make_tokens(ROWS * SEQ * 6 + 1, self.config["vocab_size"])
        plain = self.train(binary, data, 6)
        runs = [self.train(binary, data, 6, "--shuffle", "--seed", seed)
                for seed in (1, 1, 2)]
        losses = [[step["loss"] for step in run] for run in (plain, *runs)]
        self.assertEqual(losses[1], losses[2])
        self.assertNotEqual(losses[1], losses[0])
        self.assertNotEqual(losses[1], losses[3])


if __name__ == "__main__":
    unittest.main()
