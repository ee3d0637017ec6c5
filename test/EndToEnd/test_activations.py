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
import re
import unittest

import families
import heddle_test as h
import test_bert

STEPS = 3
# Seeds of an everyday run: stages, a split sequence, one rank; all families, both
# precisions.
SHORT, LONG = (0, 2, 4, 5), range(40)


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


class ActivationsTest(h.HeddleTest):
    """Compares a plan with one whose activations are kept otherwise."""

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

    def check(self, seed, draw):
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

    def seeds(self, short, long):
        if "HEDDLE_TEST_SEED" in os.environ:
            return [int(os.environ["HEDDLE_TEST_SEED"])]
        return long if h.LONG else short


class Activations(ActivationsTest):
    def test_trains_to_the_same_bits(self):
        seeds = self.seeds(SHORT, LONG)
        moving = 0
        for seed in seeds:
            with self.subTest(seed=seed, drawn=draw(seed)):
                moving += self.check(seed, draw) > 0
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
            saved = here["memory"]["peak"] - there["memory"]["peak"]
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


# Of an everyday run: each family and precision, two and four tensor ranks, and stages.
PARTED_SHORT, PARTED_LONG = (0, 2, 4), range(24)


def draw_parted(seed):
    """A model, its number of ranks, and flags of both binaries, then of one."""
    pick = random.Random(seed)
    mesh, ranks = pick.choice([("tensor=2", 2), ("tensor=4", 4), ("data=2,tensor=2", 4),
                               ("tensor=2,pipe=2", 4), ("seq=2,tensor=2", 4)])
    flags = ["--mesh", mesh, "--zero", pick.choice([0, 3]) if "data" in mesh else 0,
             "--micro-batch", 2, "--accumulate",
             3 if "pipe" in mesh else pick.choice([1, 2]),
             "--seq", 18, "--precision", pick.choice(["fp32", "bf16"]),
             "--recompute", pick.choice(["none", "selective", "full", "full"])]
    if "pipe" in mesh:
        flags += ["--schedule", pick.choice(["1f1b", "gpipe", "zb-h1"])]
    more = pick.choice([[], ["--place", "activations=file"], ["--place", "activations=host"]])
    # The others have two heads.
    family = "gpt2" if mesh == "tensor=4" else pick.choice(["gpt2", "llama", "bert"])
    return (family, ranks, flags, ["--partition-activations", *more])


class Parted(ActivationsTest):
    """--partition-activations: what ranks along `tensor` hold alike."""

    def test_trains_to_the_same_bits(self):
        for seed in self.seeds(PARTED_SHORT, PARTED_LONG):
            with self.subTest(seed=seed, drawn=draw_parted(seed)):
                self.check(seed, draw_parted)

    def test_memory_and_traffic_are_as_planned(self):
        """The inputs of all layers but the last two are cut; each is gathered once
        for each micro-batch. All in parts of equal length, 64 elements at least."""
        layers, rows, seq, width, ranks = 13, 2, 29, 76, 4
        model = self.make_model(embed=width, layers=layers)[0]
        flags = ["--batch", 2 * rows, "--accumulate", 2, "--seq", seq, "--recompute",
                 "full", "--mesh", "tensor=4"]
        whole, parted, filed = (
            self.explain(self.compile(model, *flags, *more, output=name))
            for name, more in (("whole", []), ("parted", ["--partition-activations"]),
                               ("filed", ["--partition-activations", "--place",
                                          "activations=file"])))
        part = -(-rows * seq * width // (64 * ranks)) * 64 * 4

        def gathered(plan):
            return sum(row["bytes_sent"] for row in plan["communication"]
                       if row["kind"] == "all_gather")

        self.assertEqual(gathered(parted) - gathered(whole),
                         2 * (layers - 2) * (ranks - 1) * part)
        saved = whole["memory"]["peak"] - parted["memory"]["peak"]
        cut = (layers - 2) * (ranks - 1) * part
        self.assertGreater(saved, cut / 2)
        self.assertLess(saved, cut)
        # On file each rank has its own parts, in whole pages.
        self.assertEqual(filed["memory"]["kinds"]["file"]["persistent"],
                         (layers - 2) * -(-part // 4096) * 4096)

    def test_ds_config(self):
        model = self.make_model(embed=76, layers=5)[0]
        config = h.ds_config(activation_checkpointing={"partition_activations": True})

        def compiled(*flags):
            return h.run([h.HEDDLE, "compile", model, "-o", self.path("job"), "--config",
                          self.path("job.json"), "--batch", 2, "--seq", 17, *flags,
                          "--explain-config", "--all"]).stdout

        binary = self.compile(model, "--batch", 2, "--seq", 29, "--mesh", "tensor=2",
                              config=config)
        kinds = [row["kind"] for row in self.explain(binary)["communication"]
                 if row["bytes_sent"] > 4096]
        self.assertIn("all_gather", kinds)
        # Its name is on two lines, as is the reason.
        idle = r"partition_ +true +\S+ +no meaning here: one\n"
        self.assertNotRegex(compiled("--mesh", "tensor=2"), idle)
        self.assertRegex(compiled(), idle)

    def test_what_is_lost_is_found(self):
        """Edits of the plan that would read a whole before it is there."""
        model = self.make_model(embed=76, layers=5)[0]
        dumps = self.path("parted-dumps")
        self.compile(model, "--batch", 2, "--seq", 29, "--mesh", "tensor=2",
                     "--partition-activations", "--dump-phases", dumps)
        with open(os.path.join(dumps, "memory.mlir")) as file:
            lines = file.read().split("\n")
        gathers = [line.split(" = ")[0].strip() for line in lines
                   if "plan.collective" in line and '"activations"' in line]
        self.assertGreater(len(gathers), 1)
        token = gathers[-1]
        for lost in (rf"plan\.wait {token}\b", rf"{token}\b"):
            edited = [line for line in lines if not re.search(lost, line)]
            self.assertIn(len(lines) - len(edited), (1, 2))
            path = self.path("edited.mlir")
            with open(path, "w") as file:
                file.write("\n".join(edited))
            said = h.run([h.HEDDLE, "compile", path, "--start-from", "memory", "-o",
                          self.path("edited")], status=3).stderr
            self.assertIn("error[H0354]", said)

    def test_what_has_no_effect_is_said(self):
        model = self.make_model(embed=76, layers=2)[0]
        said = h.run([h.HEDDLE, "compile", model, "-o", self.path("none"), "--batch", 2,
                      "--seq", 17, "--mesh", "tensor=2",
                      "--partition-activations"]).stderr
        self.assertIn("warning: --partition-activations has no effect", said)


if __name__ == "__main__":
    unittest.main()
