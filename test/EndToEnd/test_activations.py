# Activations outside of the device's memory.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary whose activations wait for the backward pass on file, or in the host's
memory, trains to the bits of the one that keeps them in the device's, in as much
less of it as the plan says. HEDDLE_TEST_LONG=1 draws many; HEDDLE_TEST_SEED=N
draws one."""

import filecmp
import json
import os
import random
import unittest

import families
import heddle_test as h
import test_bert

STEPS = 3
SHORT, LONG = 6, 40


def draw(seed):
    """A model, its number of ranks, and flags of both binaries, then of one."""
    pick = random.Random(seed)
    mesh, ranks = pick.choice([("data=1", 1), ("data=1", 1), ("data=2", 2),
                               ("tensor=2", 2), ("seq=2", 2), ("pipe=2", 2),
                               ("data=2,pipe=2", 4)])
    pipe = "pipe" in mesh
    flags = ["--mesh", mesh, "--zero",
             pick.choice([0, 2, 3] if not pipe else [0, 1]) if "data=2" in mesh else 0,
             "--micro-batch", pick.choice([1, 2, 3]), "--accumulate",
             pick.choice([2, 4]) if pipe else pick.choice([1, 2]),
             "--seq", pick.choice([18, 24]), "--precision", pick.choice(["fp32", "bf16"]),
             "--recompute", pick.choice(["none", "selective", "full"])]
    if pipe:
        schedule = pick.choice(["1f1b", "gpipe", "zb-h1", "interleaved"])
        flags += ["--schedule", schedule]
        if schedule == "interleaved":
            flags += ["--virtual-stages", 2]
    place = "activations=" + pick.choice(["file", "file", "file", "host"])
    if pick.random() < 0.3:
        place += ",optimizer=file"
    return pick.choice(["gpt2", "llama", "bert"]), ranks, flags, ["--place", place]


class Activations(h.HeddleTest):
    def model_of(self, family, seed):
        if family == "gpt2":
            return self.make_model(f"gpt2-{seed}", seed=seed + 1, embed=76, layers=5)[0]
        config = (families.config(hidden_size=72, num_hidden_layers=5)
                  if family == "llama"
                  else dict(test_bert.CONFIG, hidden_size=76, num_hidden_layers=5,
                            max_position_embeddings=32))
        with open(self.path(f"{family}-{seed}.json"), "w") as file:
            json.dump(config, file)
        return self.path(f"{family}-{seed}.json")

    def explain(self, binary):
        return json.loads(h.run([h.HEDDLE, "explain", binary, "--json"]).stdout)

    def check(self, seed):
        family, ranks, flags, place = draw(seed)
        data, _ = self.make_tokens(3000, 97)
        model = self.model_of(family, seed)
        if family != "gpt2":
            flags += ["--init", "random"]
        masks = ["--mask-probability", 0.3, "--mask-token", 3] if family == "bert" else []
        logs, folders, moved = [], [], []
        for name, more in (("here", []), ("there", place)):
            folder = self.path(f"{name}-{seed}")
            binary = self.compile(model, *flags, *more, config=h.ds_config(),
                                  output=f"job-{name}-{seed}")
            steps = self.train(binary, data, STEPS, "--save", folder, *masks,
                               ranks=ranks)
            logs.append([(step["loss"], step["grad_norm"]) for step in steps])
            folders.append(h.latest_of(folder))
            moved.append(len(self.explain(binary)["moves"]))
        self.assertEqual(logs[0], logs[1])
        for file in ("model.safetensors", "heddle/optimizer.safetensors"):
            self.assertTrue(
                filecmp.cmp(*(os.path.join(folder, file) for folder in folders),
                            shallow=False), file)
        return moved[1]

    def test_trains_to_the_same_bits(self):
        seeds = range(LONG if h.LONG else SHORT)
        if "HEDDLE_TEST_SEED" in os.environ:
            seeds = [int(os.environ["HEDDLE_TEST_SEED"])]
        moving = 0
        for seed in seeds:
            with self.subTest(seed=seed, drawn=draw(seed)):
                moving += self.check(seed) > 0
        # What is drawn may have less than a page, but seldom.
        self.assertGreaterEqual(moving, len(seeds) // 2)

    def test_memory_falls_as_planned(self):
        layers, rows, seq, width = 9, 3, 29, 76
        model = self.make_model(embed=width, layers=layers)[0]
        data, _ = self.make_tokens(3000, 97)
        for recompute in ("full", "none"):
            flags = ["--batch", rows, "--seq", seq, "--recompute", recompute]
            here, there = (
                self.explain(self.compile(model, *flags, *more, output=recompute + name))
                for name, more in (("h", []), ("t", ["--place", "activations=file"])))
            filed = there["memory"]["kinds"]["file"]["persistent"]
            saved = here["memory"]["peak"] - (there["memory"]["peak"] - filed)
            moves = {(move["from"], move["to"]): move["bytes"] for move in there["moves"]}
            # What is stored is fetched, once, in whole pages.
            self.assertEqual(moves, {("device", "file"): filed, ("file", "device"): filed})
            self.assertEqual(there["memory"]["owners"]
                             ["activations of micro-batches under way on file"], filed)
            if recompute == "full":
                # The inputs of all layers but the last two.
                boundary = -(-4 * rows * seq * width // 4096) * 4096
                self.assertEqual(filed, (layers - 2) * boundary)
                self.assertGreater(saved, (layers - 5) * boundary)
            else:
                self.assertGreater(saved, filed / 2)
            # What is planned is what the system calls move.
            log = self.path(recompute + ".jsonl")
            h.run([self.path(recompute + "t"), "train", "--data", data, "--steps", 2,
                   "--log", log, "--progress", "none"])
            end = h.read_log(log, "end")[0]
            for count in ("file_bytes_written", "file_bytes_read"):
                self.assertEqual(end[count], 2 * filed)

    def test_a_tight_budget_fetches_late(self):
        model = self.make_model(embed=76, layers=7)[0]
        data, _ = self.make_tokens(3000, 97)
        flags = ["--batch", 2, "--seq", 29, "--place", "activations=host"]
        free = self.compile(model, *flags, output="free")
        kinds = self.explain(free)["memory"]["kinds"]
        device = kinds["device"]["persistent"] + kinds["device"]["arena"]
        host = kinds["host"]["persistent"]
        tight = self.compile(model, *flags, "--memory-budget",
                             f"device={device - 8192},host={host}", output="tight")
        runs = [[step["loss"] for step in self.train(binary, data, 2)]
                for binary in (free, tight)]
        self.assertEqual(*runs)
        self.assertLess(self.explain(tight)["memory"]["kinds"]["device"]["arena"],
                        kinds["device"]["arena"])

    def test_emulated_gpus(self):
        model = self.make_model(embed=76, layers=4)[0]
        data, _ = self.make_tokens(200, 97)
        logs = []
        for place, order in (("device", "late"), ("host", "late"), ("pinned", "early"),
                             ("file", "late"), ("file", "early"), ("file", "seed:3"),
                             ("file,optimizer=host,parameters=file", "seed:5")):
            binary = self.compile(model, "--batch", 2, "--seq", 17, "--target", "sm_90",
                                  "--place", "activations=" + place, output="gpu")
            log = self.path(f"gpu-{place}-{order}.jsonl")
            h.run([h.HEDDLE, "emulate", "--", binary, "train", "--data", data,
                   "--steps", 1, "--log", log, "--progress", "none"],
                  env=dict(os.environ, HEDDLE_EMULATE=order))
            logs.append([(step["loss"], step["grad_norm"]) for step in h.read_log(log)])
        for log in logs[1:]:
            self.assertEqual(log, logs[0])

    def test_ds_config(self):
        model = self.make_model(embed=76, layers=4)[0]
        config = h.ds_config(activation_checkpointing={"cpu_checkpointing": True})
        binary = self.compile(model, "--batch", 2, "--seq", 17, "--target", "sm_90",
                              config=config)
        self.assertGreater(
            self.explain(binary)["memory"]["kinds"]["host"]["persistent"], 0)
        # A CPU computes in the host's memory.
        said = h.run([h.HEDDLE, "compile", model, "-o", self.path("job"), "--config",
                      self.path("job.json"), "--explain-config", "--all"]).stdout
        self.assertRegex(said, r"activation_\S* +true +\S+ +no meaning here: kernels")

    def test_what_has_no_effect_is_said(self):
        """Two layers are too near to each other."""
        model = self.make_model(embed=76, layers=2)[0]
        said = h.run([h.HEDDLE, "compile", model, "-o", self.path("none"), "--batch", 2,
                      "--seq", 17, "--place", "activations=file"]).stderr
        self.assertIn("warning: --place activations has no effect", said)


if __name__ == "__main__":
    unittest.main()
