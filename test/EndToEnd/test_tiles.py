# Products with a few rows of their weight at a time.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary with --tile trains as the one without, in less memory: with the same
bits where a rank has all of a layer's weights, and where ranks gather them the same
losses, but for the order in which tiles are summed. HEDDLE_TEST_LONG=1 draws many;
HEDDLE_TEST_SEED=N draws one."""

import json
import os
import random
import re
import unittest

import families
import heddle_test as h
import test_bert

STEPS = 3
# Seeds of an everyday run: one rank, stages, and ranks that gather; each family.
SHORT, LONG = (0, 1, 2, 6), range(30)
PLACES = ["parameters=file", "parameters=host", "parameters=file,optimizer=file"]


def draw(seed):
    """A model, ranks, flags, and the tiles. Ranks that gather need weights that
    they share out evenly; where a rank fetches, sizes are odd."""
    pick = random.Random(seed)
    family = pick.choice(["gpt2", "llama", "bert"])
    gathers, head = pick.random() < 0.5, False
    if gathers:
        mesh, ranks = pick.choice([("data=2", 2), ("data=2,tensor=2", 4), ("seq=2", 2)])
        flags = ["--zero", 3]
        if pick.random() < 0.4:
            flags += ["--place", pick.choice(PLACES)]
        tiles = pick.choice([2, 4])
    else:
        mesh, ranks = pick.choice([("data=1", 1), ("data=1", 1), ("tensor=2", 2),
                                   ("pipe=2", 2), ("data=2", 2)])
        flags = ["--place", pick.choice(PLACES),
                 "--zero", pick.choice([0, 1, 2]) if mesh == "data=2" else 0]
        tiles = pick.choice([2, 3, 5])
        if pick.random() < 0.3:
            head = True
    flags += ["--mesh", mesh, "--batch", 4, "--accumulate", 2, "--seq", 18,
              "--recompute", pick.choice(["none", "selective", "full"])]
    pattern = {"gpt2": pick.choice(["h.*.mlp.*", "h.*", "h.1.*.c_attn.weight"]),
               "llama": pick.choice(["layers.*.mlp.*", "layers.*", "*.down_proj.*"]),
               "bert": pick.choice(["encoder.layer.*", "*.intermediate.*"])}[family]
    if head:
        pattern = "*"  # With the head, whose table is that of the embeddings.
    width = 128 if gathers else 72 if family == "llama" else 76
    if not gathers and not head:
        flags += ["--precision", pick.choice(["fp32", "bf16"])]
    # Of the head the loss is summed in another order, and the gradients of norms
    # behind products, as bert has them.
    is_exact = not gathers and not head and family != "bert"
    return family, width, ranks, flags, f"{pattern}={tiles}", is_exact


def waits_of_tiles(lines):
    """The lines of a plan in which a tile's call waits, right before it, for the copy
    that brings the tile."""
    def last_before(place, pattern):
        """The last match before a line: names begin anew in each sequence."""
        return next((number, match) for number in range(place - 1, -1, -1)
                    for match in [re.match(pattern, lines[number].strip())] if match)

    for place, line in enumerate(lines):
        call = re.match(r"plan\.call @\S*\.tile\S*\((.*)\) frame", line.strip())
        wait = call and re.match(r"plan\.wait (%\d+) loc", lines[place - 1].strip())
        if not wait:
            continue
        tile = call[1].split(", ")[1]
        _, view = last_before(place, rf"{tile} = plan\.view (%\d+)\[")
        record, _ = last_before(place, rf"{wait[1]} = plan\.record  copy")
        if lines[record - 1].strip().startswith(f"plan.copy {view[1]},"):
            yield place - 1


class Tiles(h.HeddleTest):
    def model_of(self, family, seed, width, **more):
        if family == "gpt2":
            return self.make_model(f"gpt2-{seed}", seed=seed + 1, embed=width, layers=3)[0]
        config = (families.config(hidden_size=width, num_hidden_layers=3, **more)
                  if family == "llama"
                  else dict(test_bert.CONFIG, hidden_size=width, num_hidden_layers=3,
                            intermediate_size=2 * width, max_position_embeddings=32))
        with open(self.path(f"{family}-{seed}.json"), "w") as file:
            json.dump(config, file)
        return self.path(f"{family}-{seed}.json")

    def check(self, seed, *of_both):
        """Compares a binary with tiles to one without, both with the flags `of_both`.
        The steps of the one with tiles."""
        family, width, ranks, flags, tile, is_exact = draw(seed)
        flags += of_both
        data, _ = self.make_tokens(3000, 97)
        more = {"intermediate_size": 256} if width == 128 else {}
        model = self.model_of(family, seed, width, **more)
        if family != "gpt2":
            flags += ["--init", "random"]
        masks = ["--mask-probability", 0.3, "--mask-token", 3] if family == "bert" else []
        runs, saved = [], []
        for name, tiled in (("whole", []), ("tiled", ["--tile", tile])):
            binary = self.compile(model, *flags, *tiled, config=h.ds_config(),
                                  output=f"{name}-{seed}")
            folder = self.path(f"saved-{name}-{seed}")
            runs.append(self.train(binary, data, STEPS, *masks, "--save", folder,
                                   ranks=ranks))
            saved.append(h.bytes_saved(folder))
        if is_exact:
            self.assertEqual([(step["loss"], step["grad_norm"]) for step in runs[0]],
                             [(step["loss"], step["grad_norm"]) for step in runs[1]])
            self.assertTrue(saved[0] == saved[1], "weights or moments differ")
            return runs[1]
        for whole, tiled in zip(*runs):
            self.assert_close(tiled["loss"], whole["loss"], 2e-6, "loss")
            self.assert_close(tiled["grad_norm"], whole["grad_norm"], 5e-6, "norm")
        # Weights that are stored [out, in] give the forward pass its bits; of bert
        # a bias is added by a kernel of its own, to the same sum.
        if family != "gpt2":
            self.assertEqual(runs[0][0]["loss"], runs[1][0]["loss"])
        return runs[1]

    def test_trains_alike(self):
        seeds = LONG if h.LONG else SHORT
        if "HEDDLE_TEST_SEED" in os.environ:
            seeds = [int(os.environ["HEDDLE_TEST_SEED"])]
        for seed in seeds:
            with self.subTest(seed=seed, drawn=draw(seed)):
                self.check(seed)

    def test_layers_that_steps_drop(self):
        """A step skips all tiles of a layer with it."""
        for seed in LONG if h.LONG else (1, 12):
            with self.subTest(seed=seed, drawn=draw(seed)):
                steps = self.check(seed, "--layer-drop-schedule", "0,0.6,0.6")
                self.assertLess(min(len(step["kept_layers"]) for step in steps), 3)

    def test_tiles_of_the_head(self):
        """Three of one length, which one function computes behind the last layer."""
        model = self.make_model(embed=76)[0]
        data, _ = self.make_tokens(3000, 97)
        losses = []
        for tile in ([], ["--tile", "wte.weight=4"]):
            binary = self.compile(model, "--batch", 2, "--seq", 18, "--place",
                                  "parameters=file", *tile)
            losses.append([step["loss"] for step in self.train(binary, data, STEPS)])
        # The loss is summed by a kernel of its own, of logits with the same bits.
        for whole, tiled in zip(*losses):
            self.assert_close(tiled, whole, 2e-6, "loss")

    def test_memory_falls(self):
        """Where the weights of an MLP are most of a layer, two layers of them are
        there without tiles, and two tiles with."""
        width, inner, tiles = 128, 2048, 8
        model = self.model_of("llama", 0, width, intermediate_size=inner)
        data, _ = self.make_tokens(3000, 97)
        for flags, ranks in ((["--place", "parameters=file"], 1),
                             (["--mesh", "data=2", "--zero", 3], 2)):
            flags += ["--init", "random", "--micro-batch", 2, "--seq", 18]
            plans, evals = [], []
            for name, more in (("whole", []),
                               ("tiled", ["--tile", f"layers.*.mlp.*={tiles}"])):
                binary = self.compile(model, *flags, *more, output=name)
                plans.append(self.explain(binary))
                said = h.run_ranks(ranks, [binary, "eval", "--data", data, "--steps", 2])
                evals.append(re.findall(r"loss\S* ([0-9.]+)", said.stdout))
            arenas = [plan["memory"]["kinds"]["device"]["arena"] for plan in plans]
            weights = 2 * 3 * 4 * width * inner
            self.assertGreater(arenas[0] - arenas[1], weights / 2)
            self.assertEqual(*evals)
            self.assertTrue(evals[0])

    def test_what_is_refused(self):
        model = self.model_of("llama", 0, 72)

        def refused(*flags):
            return h.run([h.HEDDLE, "compile", model, "-o", self.path("no"), "--init",
                          "random", "--batch", 2, "--seq", 18, *flags], status=2).stderr

        place = ["--place", "parameters=file"]
        for text in ("layers.*.mlp.*", "layers.*=1", "layers.*=x", "=2"):
            self.assertIn("error[H0148]", refused(*place, "--tile", text))
        said = refused(*place, "--tile", "layers.*.mpl.up_proj.*=2")
        self.assertIn("error[H0149]", said)
        self.assertIn("layers.0.mlp.up_proj.weight", said)
        said = refused("--mesh", "data=2", "--zero", 3, "--tile", "layers.*.mlp.*=5")
        self.assertIn("error[H0149]", said)
        said = h.run([h.HEDDLE, "compile", model, "-o", self.path("no"), "--init",
                      "random", "--batch", 2, "--seq", 18, "--tile", "layers.*=2"]).stderr
        self.assertIn("warning: --tile has no effect", said)

    def test_what_is_lost_is_found(self):
        """An edited plan that computes with a tile before it is there."""
        model = self.model_of("llama", 0, 72)
        dumps = self.path("dumps")
        self.compile(model, "--init", "random", "--batch", 2, "--seq", 18, "--place",
                     "parameters=file", "--tile", "layers.*.mlp.*=2", "--dump-phases", dumps)
        with open(os.path.join(dumps, "memory.mlir")) as file:
            lines = file.read().split("\n")
        waits = list(waits_of_tiles(lines))
        self.assertGreater(len(waits), 4)
        for wait in (waits[0], waits[-1]):
            path = self.path("edited.mlir")
            with open(path, "w") as file:
                file.write("\n".join(lines[:wait] + lines[wait + 1:]))
            result = h.run([h.HEDDLE, "compile", path, "--start-from", "memory", "-o",
                            self.path("edited")], status=3)
            self.assertIn("error[H0354]", result.stderr)

    def test_goes_on_from_a_dump(self):
        """Pieces of a layer are in its stage; so is the head."""
        model = self.model_of("llama", 0, 72)
        dumps = self.path("spmd")
        flags = ["--init", "random", "--batch", 4, "--accumulate", 2, "--seq", 18, "--mesh",
                 "pipe=2", "--place", "parameters=file", "--tile", "*=2"]
        binary = self.compile(model, *flags, "--dump-phases", dumps)
        again = self.path("again")
        h.run([h.HEDDLE, "compile", os.path.join(dumps, "spmd.mlir"), "--start-from",
               "spmd", "-o", again])
        kernels = [[row["name"] for row in self.explain(job)["kernels"]]
                   for job in (binary, again)]
        self.assertEqual(*kernels)

    def test_emulated_gpu(self):
        model = self.model_of("llama", 0, 72)
        data, _ = self.make_tokens(200, 97)
        losses = []
        for tile in ([], ["--tile", "layers.*.mlp.*=3"],
                     ["--tile", "embed_tokens.weight=3"]):
            binary = self.compile(model, "--init", "random", "--batch", 2, "--seq", 18,
                                  "--target", "sm_90", "--place", "parameters=host", *tile,
                                  output="gpu")
            log = self.path("gpu.jsonl")
            h.run([h.HEDDLE, "emulate", "--", binary, "train", "--data", data, "--steps",
                   2, "--log", log, "--progress", "none"])
            losses.append([step["loss"] for step in h.read_log(log)])
        for whole, tiled in zip(*losses[:2]):
            self.assert_close(tiled, whole, 2e-6, "loss")
        self.assertEqual(losses[0], losses[2])

    def test_embeddings(self):
        """Tiles of a table give its rows, bit for bit: what is gathered, and what is
        fetched whole, since all its rows are wanted."""
        data, _ = self.make_tokens(3000, 97)
        for precision, flags, ranks, vocab, tiles in (
                ("fp32", ["--mesh", "data=2", "--zero", 3], 2, 112, 4),
                ("bf16", ["--mesh", "data=2", "--zero", 3, "--place", "parameters=file"], 2,
                 128, 2),
                ("fp32", ["--place", "parameters=file"], 1, 97, 5)):
            model = self.model_of("llama", vocab, 128, vocab_size=vocab,
                                  intermediate_size=256)
            runs, kernels = [], []
            for tile in ([], ["--tile", f"embed_tokens.weight={tiles}"]):
                binary = self.compile(model, *flags, *tile, "--init", "random",
                                      "--precision", precision, "--micro-batch", 2, "--seq", 18,
                                      config=h.ds_config(), output="embedded")
                runs.append([(step["loss"], step["grad_norm"]) for step in self.train(
                    binary, data, STEPS, ranks=ranks)])
                kernels.append(len(self.explain(binary)["kernels"]))
            self.assertEqual(*runs)
            self.assertGreater(kernels[1], kernels[0])


if __name__ == "__main__":
    unittest.main()
