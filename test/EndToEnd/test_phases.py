# The same numbers at every phase.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference interpreter on the dump of every phase, and dumps that go on."""

import base64
import json
import os
import re
import unittest

import numpy as np

import heddle_test as h

PHASES = ["import", "model", "train", "shard", "pipe", "spmd", "fuse", "kernels",
          "memory", "prove", "emit"]
ROWS, SEQ, STEPS = 4, 8, 2
RATE = 2e-3


class Phases(h.HeddleTest):
    def prepare(self, *flags, **options):
        options.setdefault("embed", 24)
        options.setdefault("heads", 3)
        model, config, _ = self.make_model(**options)
        data, tokens = self.make_tokens(ROWS * SEQ * STEPS + 1, config["vocab_size"])
        dumps = self.path("dumps")
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ, "--dump-phases",
                              dumps, *flags, config=h.ds_config(lr=RATE))
        h.write_inputs(self.path("inputs.safetensors"), tokens, STEPS, ROWS, SEQ)
        return binary, data, dumps

    def evaluate(self, file, *flags, steps=STEPS):
        output = self.path("eval.safetensors")
        h.run([h.HEDDLE, "eval", file, "--inputs", self.path("inputs.safetensors"),
               "--steps", steps, "--output", output, *flags])
        return h.read_safetensors(output)

    def check_all(self, *flags, tolerance=1e-5, **options):
        binary, data, dumps = self.prepare(*flags, **options)
        steps = self.train(binary, data, STEPS, "--seed", 0)
        reference = self.evaluate(os.path.join(dumps, "train.mlir"),
                                  "--precision", "f64")
        for phase in PHASES:
            file = os.path.join(dumps, phase + ".mlir")
            with self.subTest(phase=phase):
                forward_only = phase in ("import", "model")
                found = self.evaluate(file, steps=1 if forward_only else STEPS)
                self.assertLessEqual(
                    h.relative(found["loss@1"], steps[0]["loss"]), tolerance)
                if forward_only:
                    continue
                for step in range(STEPS):
                    for value in ("loss", "grad_norm"):
                        error = h.relative(found[f"{value}@{step + 1}"],
                                           steps[step][value])
                        self.assertLessEqual(error, tolerance, value)
                for name, expected in reference.items():
                    if name.endswith("wte.weight"):
                        self.assertLessEqual(h.relative(found[name], expected),
                                             tolerance, name)

    def test_fp32(self):
        self.check_all()

    def test_states_on_file(self):
        self.check_all("--place", "optimizer=file,parameters=file", "--sub-group-size",
                       3000)

    def test_rows_of_a_table_on_file(self):
        self.check_all("--place", "parameters=file", vocab=4099)
        for phase, op in (("spmd", "dist.fetch_rows"), ("memory", "plan.copy_rows")):
            with open(self.path(f"dumps/{phase}.mlir")) as file:
                self.assertIn(op, file.read())

    def test_activations_on_file(self):
        self.check_all("--place", "activations=file", "--accumulate", 2, layers=4)

    def test_dropout_and_accumulation(self):
        self.check_all("--accumulate", 2, dropout=0.2)

    def test_recompute(self):
        self.check_all("--recompute", "full", dropout=0.1)

    def test_random_initialisation(self):
        with open(self.path("config.json"), "w") as file:
            json.dump(h.gpt2_config(embed=24, heads=3), file)
        data, tokens = self.make_tokens(ROWS * SEQ + 1, 97)
        binary = self.compile(self.path("config.json"), "--init", "random", "--seed",
                              5, "--batch", ROWS, "--seq", SEQ, "--dump-phases",
                              self.path("random"))
        h.write_inputs(self.path("inputs.safetensors"), tokens, 1, ROWS, SEQ)
        (step,) = self.train(binary, data, 1)
        for phase in ("import", "emit"):
            found = self.evaluate(self.path("random", phase + ".mlir"), steps=1)
            self.assertLessEqual(h.relative(found["loss"], step["loss"]), 1e-6)

    def test_threads_of_the_objects(self):
        _, _, dumps = self.prepare("--threads", 3)
        file = os.path.join(dumps, "kernels.mlir")
        one = self.evaluate(file, "--threads", 1)
        for threads in (2, 3):
            found = self.evaluate(file, "--threads", threads)
            for name, value in one.items():
                self.assertLessEqual(h.relative(found[name], value, 1e-6), 1e-5, name)

    def test_bf16(self):
        self.check_all("--precision", "bf16", tolerance=1e-2)

    def test_eval_and_generate(self):
        _, _, dumps = self.prepare("--micro-batch", 2, "--max-context", 1, dropout=0.1)
        found = {}
        for phase in PHASES:
            file = os.path.join(dumps, phase + ".mlir")
            loss = self.evaluate(file, "--program", "eval", steps=1)["loss"]
            h.write_safetensors(self.path("prompt.safetensors"), {
                "ids": np.arange(SEQ, dtype=np.int32),
                "position": np.array(4, np.int32)})
            output = self.path("generate.safetensors")
            h.run([h.HEDDLE, "eval", file, "--program", "generate", "--inputs",
                   self.path("prompt.safetensors"), "--output", output])
            found[phase] = loss, h.read_safetensors(output)["logits"]
        for phase, (loss, logits) in found.items():
            with self.subTest(phase=phase):
                self.assertLessEqual(h.relative(loss, found["train"][0]), 1e-5)
                self.assertLessEqual(h.relative(logits, found["train"][1]), 1e-5)

    def test_inputs_that_stand_for_nothing(self):
        """They would be places outside of tables: each is refused before it is used."""
        model, config, _ = self.make_model()
        dumps = self.path("dumps")
        self.compile(model, "--mode", "serve", "--max-batch", 1, "--max-context", 24,
                     "--dump-phases", dumps)
        right = {"ids": np.zeros((1, 16), np.int32),
                 "positions": np.arange(16, dtype=np.int32)[None],
                 "lengths": np.array([16], np.int32), "position": np.array(15, np.int32),
                 "pages": np.arange(2, dtype=np.int32)[None]}
        cases = [(name, np.full_like(right[name], number)) for name, number in (
            ("ids", config["vocab_size"]), ("positions", -1), ("positions", 24),
            ("lengths", 17), ("position", 16), ("pages", -1), ("pages", 2))]
        cases.append(("ids", right["ids"].astype(np.float32)))
        for phase in ("train", "memory"):
            command = [h.HEDDLE, "eval", os.path.join(dumps, phase + ".mlir"),
                       "--program", "prefill/16", "--inputs", self.path("in.safetensors")]
            h.write_safetensors(self.path("in.safetensors"), right)
            h.run(command)
            for name, value in cases:
                h.write_safetensors(self.path("in.safetensors"), {**right, name: value})
                said = h.run(command, status=3).stderr
                self.assertIn(f"error[H0371]: input '{name}' has", said)

    def check_serving(self, *flags):
        """Two prompts, and then tokens of both texts through the cache, on pages that
        are not in order: the logits are those of one text at once."""
        model, config, _ = self.make_model(embed=24, heads=2)
        dumps, random = self.path("dumps"), np.random.default_rng(3)
        self.compile(model, "--mode", "serve", "--max-batch", 2, "--max-context", 32,
                     "--dump-phases", dumps, *flags)
        texts = random.integers(config["vocab_size"], size=(2, 17)).astype(np.int32)
        pages = np.array([[3, 1], [0, 2]], np.int32)
        inputs = {}

        def add(step, ids, positions, lengths, pages):
            for name, value in (("ids", ids), ("positions", positions),
                                ("lengths", lengths), ("pages", pages)):
                inputs[f"{name}@{step}"] = np.array(value, np.int32)

        prompts, places = (15, 5), np.arange(16)[None]
        for row, (text, length) in enumerate(zip(texts, prompts)):
            prompt = np.where(places < length, text[:16], 0)
            add(1 + row, prompt, places, [length], pages[row:row + 1])
            inputs[f"position@{1 + row}"] = np.array(length - 1, np.int32)
        for more in (0, 1):
            positions = [[length + more] for length in prompts]
            ids = [[text[place]] for text, [place] in zip(texts, positions)]
            add(3 + more, ids, positions, [1, 1], pages)
        whole = np.concatenate([texts[0], np.zeros(15, np.int32)])[None]
        add(5, whole, np.arange(32)[None], [17], pages[:1])
        programs = "prefill/16,prefill/16,decode/2,decode/2,score/32"
        h.write_safetensors(self.path("inputs.safetensors"), inputs)
        exact = None
        for phase in PHASES:
            file = os.path.join(dumps, phase + ".mlir")
            is_plan = PHASES.index(phase) >= PHASES.index("memory")
            how = ["--program", programs, *(["--poison"] if is_plan else [])]
            with self.subTest(phase=phase):
                # Parts of an odd vocabulary are as large as each other.
                logits, scores = (
                    self.evaluate(file, "--ranks", *how,
                                  steps=steps)["logits"][..., :config["vocab_size"]]
                    for steps in (4, 5))
                self.assertEqual(logits.shape[:2], (2, 1))
                self.assertLessEqual(h.relative(logits[0, 0], scores[0, 16]), 1e-5)
                if exact is None:
                    exact = self.evaluate(file, *how, "--precision", "f64",
                                          steps=4)["logits"]
                self.assertLessEqual(h.relative(logits, exact), 1e-5)

    def test_programs_that_serve(self):
        self.check_serving()

    def test_programs_that_serve_on_ranks(self):
        self.check_serving("--mesh", "tensor=2")

    def check_mesh(self, mesh, *flags, **options):
        """Every phase of a plan for a mesh gives what one rank's model gives."""
        data = mesh.get("data", 1)
        name = "-".join(f"{axis}{size}" for axis, size in mesh.items())
        _, _, dumps = self.prepare("--accumulate", 2, "--micro-batch", 2, heads=4,
                                   dropout=0.1, **options)
        expected = self.evaluate(os.path.join(dumps, "model.mlir"), steps=1)["loss"]
        exact = self.evaluate(os.path.join(dumps, "train.mlir"), "--precision", "f64")
        self.assertLessEqual(h.relative(exact["loss@1"], expected), 1e-6)
        parts = self.path(name)
        self.compile(self.path("model"), "--batch", ROWS, "--seq", SEQ, "--accumulate",
                     2, "--micro-batch", 2 // data, "--threads", 1, "--mesh",
                     ",".join(f"{axis}={size}" for axis, size in mesh.items()),
                     "--dump-phases", parts, *flags, config=h.ds_config(lr=RATE),
                     output="mesh")
        for phase in PHASES[PHASES.index("shard"):]:
            file = os.path.join(parts, phase + ".mlir")
            interpreted = PHASES.index(phase) < PHASES.index("kernels")
            how = ["--precision", "f64"] if interpreted else ["--poison"]
            with self.subTest(phase=phase):
                found = self.evaluate(file, "--ranks", *how)
                tolerance = 1e-9 if interpreted else 1e-6
                for step in range(1, STEPS + 1):
                    for value in (f"loss@{step}", f"grad_norm@{step}"):
                        error = h.relative(found[value], exact[value])
                        self.assertLessEqual(error, tolerance, value)
                for weight, value in exact.items():
                    if weight.startswith("state.") and weight.endswith("weight"):
                        error = h.relative(found[weight], value)
                        self.assertLessEqual(error, tolerance, weight)
                if phase in ("spmd", "memory"):
                    h.run([h.HEDDLE, "eval", file], status=2)

    def test_data_ranks_with_split_states(self):
        self.check_mesh({"data": 2}, "--zero", 3)

    def test_data_ranks_with_states_on_file(self):
        for zero in (1, 3) if h.LONG else (3,):
            self.check_mesh({"data": 2}, "--zero", zero, "--place",
                            "optimizer=file,parameters=file", "--sub-group-size", 3000)

    def test_tensor_ranks(self):
        self.check_mesh({"tensor": 2})

    def test_tensor_ranks_with_rows_on_file(self):
        self.check_mesh({"tensor": 2}, "--place", "parameters=file", vocab=4099)
        for phase, op in (("spmd", "dist.fetch_rows"), ("memory", "plan.copy_rows")):
            with open(self.path("tensor2", f"{phase}.mlir")) as file:
                self.assertRegex(file.read(), op + ".* first ")

    def test_stages(self):
        self.check_mesh({"pipe": 2})

    def test_stages_with_activations_on_file(self):
        self.check_mesh({"pipe": 2}, "--place", "activations=file")

    def test_columns_of_the_vocabulary_by_data_ranks(self):
        self.check_mesh({"data": 2, "tensor": 2})

    def test_ranks_along_the_sequence(self):
        self.check_mesh({"seq": 2})

    def test_corrupted_object_is_seen(self):
        _, _, dumps = self.prepare()
        file = os.path.join(dumps, "kernels.mlir")
        with open(file) as stream:
            text = stream.read()
        sound = self.evaluate(file)["loss@2"]

        def corrupt(match):
            data = bytearray(base64.b64decode(match.group(2)))
            # Operation codes of x86-64: sums become differences, and so on.
            for index, byte in enumerate(data):
                if byte in (0x58, 0x59, 0x5c):  # vaddps, vmulps, vsubps
                    data[index] = {0x58: 0x5c, 0x59: 0x58, 0x5c: 0x59}[byte]
            return match.group(1) + base64.b64encode(data).decode() + '"'

        changed = re.sub(r'(plan\.object @\S+ ")([A-Za-z0-9+/=]+)"', corrupt, text)
        self.assertNotEqual(changed, text)
        broken = self.path("broken.mlir")
        with open(broken, "w") as stream:
            stream.write(changed)
        try:
            found = self.evaluate(broken)["loss@2"]
        except h.Failed:
            return
        self.assertFalse(h.relative(found, sound) <= 1e-5)

    def test_edited_dump_goes_on(self):
        binary, data, dumps = self.prepare()
        with open(os.path.join(dumps, "train.mlir")) as stream:
            text = stream.read()
        # The epsilon in the body of the update.
        edited = text.replace("arith.constant 1.000000e-08 :",
                              "arith.constant 1.000000e-03 :")
        self.assertNotEqual(edited, text)
        with open(self.path("edited.mlir"), "w") as stream:
            stream.write(edited)
        changed = self.compile(self.path("edited.mlir"), "--start-from", "train",
                               output="edited")
        asked = self.compile(self.path("model"), "--batch", ROWS, "--seq", SEQ,
                             config=h.ds_config(lr=RATE, eps=1e-3), output="asked")
        runs = [[step["loss"] for step in self.train(job, data, 6)]
                for job in (changed, asked, binary)]
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    def test_every_dump_goes_on_unchanged(self):
        binary, data, dumps = self.prepare()
        expected = [step["loss"] for step in self.train(binary, data, 3)]
        for phase in PHASES[:-1]:
            with self.subTest(phase=phase):
                again = self.compile(os.path.join(dumps, phase + ".mlir"),
                                     "--start-from", phase, output="again")
                losses = [step["loss"] for step in self.train(again, data, 3)]
                self.assertEqual(losses, expected)


if __name__ == "__main__":
    unittest.main()
