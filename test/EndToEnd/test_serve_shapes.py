# Drawn models that serve have the logits of the model at once.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of every family in shapes that nobody would choose, each with a serving plan
drawn with it: the logits of a text, at once and token by token, are those that the
interpreter has of the model without a cache, in double precision; with codes, those
that it has of the plan's own kernels. Texts go on with the tokens of the largest
logits, alone and among others over few pages. A plan that the compiler refuses, with
a code and what to change, is counted and drawn again. HEDDLE_TEST_LONG=1 draws 300,
HEDDLE_TEST_SEED=N or N-M those alone."""

import json
import os
import random
import re
import shutil
import threading
import unittest
from collections import Counter

import numpy as np

import heddle_test as h
import serving
from test_serve_model import Served, mpirun
from test_serve_recorded import records
from test_shapes import Refused, refusals

SHORT, LONG = 4, 300
PRIMES = [n for n in range(11, 400) if all(n % d for d in range(2, int(n**0.5) + 1))]
PAGE = 16
# What families call the same thing.
KEYS = {"heads": ("num_attention_heads", "n_head", "num_heads"),
        "shared": ("num_key_value_heads",), "head": ("head_dim",),
        "width": ("hidden_size", "n_embd"),
        "inner": ("intermediate_size", "n_inner", "ffn_dim"),
        "layers": ("num_hidden_layers", "n_layer", "num_layers"),
        "vocab": ("vocab_size",), "range": ("initializer_range", "init_std"),
        "window": ("sliding_window", "window_size"),
        "positions": ("max_position_embeddings", "n_positions")}
# How far logits may be from exact ones, relatively: by the type of the cache, and by
# what is multiplied.
CACHES = {"fp32": 1e-5, "bf16": 2e-2, "int8": 4e-2}
PRODUCTS = {"fp32": 1e-5, "bf16": 1e-1}


def draw_model(pick):
    """A configuration."""
    family, record = pick.choice(list(records()))
    config = dict(record["config"])

    def put(**values):
        for role, value in values.items():
            config.update({key: value for key in KEYS[role] if key in config})

    shared = pick.choice([1, 1, 2, 3, 4])
    heads = shared * pick.choice([1, 1, 2, 3]) if "num_key_value_heads" in config else (
        pick.randint(1, 7))
    # Rotary embeddings turn pairs, of some families in a half of each head.
    size = pick.choice([4, 8, 12, 20, 32, 36, 64])
    width = pick.randint(5, 130) if "head_dim" in config else heads * size
    layers = pick.choice([1, 1, 2, 3])
    put(heads=heads, shared=shared, head=size, width=width, layers=layers,
        inner=pick.randint(3, 150), vocab=pick.choice(PRIMES),
        range=min(0.3, 2 / width**0.5), window=pick.choice([1, 2, 5, 16, 17, 33]))
    if "attention_types" in config:
        config["attention_types"] = [[[pick.choice(["global", "local"])], 1]
                                     for _ in range(layers)]
    if "max_window_layers" in config:
        config["max_window_layers"] = pick.randint(0, layers)
    return family, config, put


def value_of(config, role):
    return next((config[key] for key in KEYS[role] if key in config), None)


def size_of_head(config):
    return value_of(config, "head") or (
        value_of(config, "width") // value_of(config, "heads"))


def draw_codes(pick, config, put):
    """Flags of codes; mostly such as the model's sizes allow."""
    bits = pick.choice([8, 4])
    group = pick.choice([None, 8, 16, 32] if bits == 8 else [8, 16, 32, 64])
    if group and pick.random() < 0.85:
        inner, width, size = (-(-length // group) * group for length in (
            value_of(config, "inner") or group, value_of(config, "width"),
            size_of_head(config)))
        if "head_dim" not in config:
            width = size * value_of(config, "heads")
        put(inner=inner, width=width, head=size)
    flags = {"--quantize": f"int{bits}", **({"--group": group} if group else {})}
    return flags, ["--quantize-zeros"] if pick.random() < 0.4 else []


def draw_plan(pick, config, put):
    """The flags of a serving plan, and how many ranks it has."""
    context = pick.choice([2, 15, 16, 17, pick.randint(2, 90)])
    plan = {"--max-context": context, "--max-batch": pick.randint(1, 4),
            "--precision": pick.choice(["fp32", "fp32", "fp32", "bf16"]),
            "--fusion": pick.choice(["deep", "deep", "generic", "none"]),
            "--threads": pick.choice([1, 2])}
    plan["--kv-type"] = pick.choice([plan["--precision"]] * 2 + ["bf16", "int8"])
    zeros = []
    if pick.random() < 0.5:
        codes, zeros = draw_codes(pick, config, put)
        plan.update(codes)
    if pick.random() < 0.5:
        # Pages for one text, and perhaps a few more.
        width = {"fp32": 4, "bf16": 2, "int8": 1}[plan["--kv-type"]]
        of_head = size_of_head(config) * width + (2 if plan["--kv-type"] == "int8" else 0)
        heads = value_of(config, "shared") or value_of(config, "heads")
        page = 2 * PAGE * value_of(config, "layers") * heads * of_head
        plan["--kv-cache"] = page * (-(-context // PAGE) + pick.choice([0, 1, 2]))
    ranks = pick.choice([1, 1, 1, 2, 2, 3, 4])
    if ranks > 1:
        plan["--mesh"] = f"tensor={ranks}"
        plan["--threads"] = 1
    return plan, zeros, ranks


def draws(seed):
    """A model and a plan, and what is drawn in their place after a refusal."""
    pick = random.Random(seed)
    while True:
        family, config, put = draw_model(pick)
        plan, zeros, ranks = draw_plan(pick, config, put)
        put(positions=plan["--max-context"] + pick.choice([0, 0, 5]))
        yield config, plan, zeros, ranks, pick.randrange(2**32)


def flags_of(plan, zeros):
    return [*(part for flag in plan.items() for part in flag), *zeros]


@h.needs_mpi
class ServeShapes(serving.ServingTest):
    def compile_drawn(self, model, plan, zeros, output):
        with refusals():
            return self.compile(model, "--init", "random", "--seed", 3, "--mode", "serve",
                                *flags_of(plan, zeros), "--dump-phases", output + "-dump",
                                output=output)

    def evaluate(self, dump, inputs, *flags):
        """The logits of a program, in double precision."""
        file = dump + ".safetensors"
        h.write_safetensors(file, inputs)
        h.run([h.HEDDLE, "eval", dump, "--inputs", file, "--precision", "f64",
               "--output", file + ".out", *flags])
        return h.read_safetensors(file + ".out")["logits"]

    def logits_at(self, model, tokens, place, folder):
        """Those that the model has after `place`, computed at once without a cache."""
        dump = folder + "/whole"
        if not os.path.exists(dump):
            self.compile(model, "--init", "random", "--seed", 3, "--batch", 1, "--seq",
                         len(tokens), "--max-context", 1, "--stop-after", "model",
                         "--dump-phases", dump, output="whole-of-" + os.path.basename(folder))
        return self.evaluate(dump + "/model.mlir", {
            "ids": tokens, "position": np.array(place, np.int32)},
            "--program", "generate").ravel()

    def scores(self, dump, tokens, plan, ranks):
        """The logits of the last tokens of a text as the interpreter has them of the
        plan's kernels: of the last chunk, with pages that are not in order."""
        with open(dump) as file:
            size = max(map(int, re.findall(r"nn.step @score.(\d+)\(", file.read())))
        count = -(-plan["--max-context"] // PAGE)
        inputs, steps = {}, -(-len(tokens) // size)
        for step in range(steps):
            part = tokens[step * size:(step + 1) * size]
            for name, value in (
                    ("ids", [*part, *[0] * (size - len(part))]),
                    ("positions", range(step * size, (step + 1) * size)),
                    ("pages", range(count - 1, -1, -1))):
                inputs[f"{name}@{step + 1}"] = np.array([list(value)], np.int32)
            inputs[f"lengths@{step + 1}"] = np.array([len(part)], np.int32)
        found = self.evaluate(dump, inputs, "--steps", steps, "--program",
                              ",".join([f"score/{size}"] * steps),
                              *(["--ranks"] if ranks > 1 else []))
        return found[0, :len(part)]

    def assert_near(self, found, wanted, bound, what):
        error = h.relative(found, wanted)
        self.assertLessEqual(error, bound, what)

    def check(self, binary, config, plan, ranks, number):
        folder = os.path.dirname(binary)
        model = folder + "/config.json"
        vocab, context = value_of(config, "vocab"), plan["--max-context"]
        pick = random.Random(number)
        tokens = h.random_tokens(context, vocab, number)[:pick.randint(1, context)].astype(
            np.int32)
        once = self.logits(binary, tokens, ranks=ranks)
        steps = self.logits(binary, tokens, "--decode", ranks=ranks)
        if ranks > 2:  # Whose sums depend on how many rows are sent.
            self.assert_near(steps, once, 1e-5, "token by token")
        else:
            np.testing.assert_array_equal(steps, once)
        bound = CACHES[plan["--kv-type"]] + PRODUCTS[plan["--precision"]]
        if "--quantize" in plan:
            wanted = self.scores(folder + "/serving-dump/fuse.mlir", tokens, plan, ranks)
            self.assert_near(once[-len(wanted):], wanted[..., :vocab], bound, "of codes")
        else:
            for place in {0, len(tokens) // 2, len(tokens) - 1}:
                self.assert_near(once[place],
                                 self.logits_at(model, tokens, place, folder), bound,
                                 f"position {place}")
        if len(tokens) < context:
            self.check_texts(binary, tokens, ranks, pick)

    def check_texts(self, binary, tokens, ranks, pick):
        """That the tokens of the largest logits follow; and texts together."""
        prompts = [tokens[:pick.randint(1, len(tokens))].tolist() for _ in range(3)]
        texts = [self.generate(binary, prompt, 5, ranks=ranks) for prompt in prompts]
        logits = self.logits(binary, prompts[0] + texts[0], ranks=ranks)
        chosen = logits.argmax(-1)[len(prompts[0]) - 1:-1]
        if ranks <= 2:
            self.assertEqual(chosen.tolist(), texts[0])
        if pick.random() < 0.5:
            return
        found = {}
        with Served(mpirun(binary, ranks) if ranks > 1 else [binary],
                    HEDDLE_CHECK_PAGES="1") as server:
            def ask(i):
                found[i] = server.complete(
                    prompts[i], max_tokens=5, temperature=0, return_token_ids=True,
                    ignore_eos=True)["token_ids"]

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            server.end()
        self.assertEqual(found, dict(enumerate(texts)))

    def check_seed(self, seed):
        """Checks what the seed draws first that is not refused; gives the codes of
        what was refused before."""
        refused, folder = [], self.path(str(seed))
        for config, plan, zeros, ranks, number in draws(seed):
            os.makedirs(folder, exist_ok=True)
            with open(folder + "/config.json", "w") as file:
                json.dump(config, file)
            try:
                binary = self.compile_drawn(folder + "/config.json", plan, zeros,
                                            folder + "/serving")
            except Refused as refusal:
                refused.append(refusal.args[0])
                continue
            with self.subTest(seed=seed, config=config, plan=plan):
                self.check(binary, config, plan, ranks, number)
            shutil.rmtree(folder)
            return refused

    def test_have_the_logits_of_the_model_at_once(self):
        seeds = range(LONG if h.LONG else SHORT)
        if "HEDDLE_TEST_SEED" in os.environ:
            first, _, last = os.environ["HEDDLE_TEST_SEED"].partition("-")
            seeds = range(int(first), int(last or first) + 1)
        refusals = Counter()
        for seed in seeds:
            refusals.update(self.check_seed(seed))
        said = ", ".join(f"{code} {count}" for code, count in sorted(refusals.items()))
        print(f"drawn {len(seeds)}; refused and drawn again: {said or 'none'}")


if __name__ == "__main__":
    unittest.main()
