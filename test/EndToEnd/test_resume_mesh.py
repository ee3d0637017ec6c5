# Training that goes on with another plan than the one that saved.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A checkpoint has no trace of the mesh that wrote it: a run goes on from it on any
other mesh, ZeRO stage, schedule or division into micro-batches with the losses
that it would have had. And what users do with the checkpoint of a sharded run
besides. HEDDLE_TEST_LONG=1 takes every plan to every other."""

import json
import os
import shutil
import unittest

import numpy as np

import heddle_test as h
import test_parallel
from test_parallel import BATCH, SEQ, flags_of, ranks_of

SAVED, STEPS = 3, 6
MODEL = dict(test_parallel.MODEL, dropout=0.1)
PLANS = {
    "one rank": dict(mesh={}),
    "one rank, micro-batches": dict(mesh={}, accumulate=4, recompute="full"),
    "data, ZeRO 1": dict(mesh={"data": 2}, zero=1),
    "data, ZeRO 2": dict(mesh={"data": 4}, zero=2, accumulate=2),
    "data and tensor, ZeRO 3": dict(mesh={"data": 2, "tensor": 2}, zero=3),
    "tensor": dict(mesh={"tensor": 2}, sequence_parallel=True),
    "seq and tensor": dict(mesh={"seq": 2, "tensor": 2}, zero=1, accumulate=2),
    "interleaved": dict(mesh={"pipe": 2}, schedule="interleaved", accumulate=4,
                        virtual_stages=2),
    "data and pipe, zb-h1, ZeRO 2": dict(mesh={"pipe": 2, "data": 2}, zero=2,
                                         schedule="zb-h1", accumulate=4),
    "pipe": dict(mesh={"pipe": 4}, accumulate=8, schedule="gpipe"),
    "data, tensor and pipe": dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, zero=3,
                                  accumulate=2),
}
# What is taken every day: from the first plan to all others.
SHORT = [["data and tensor, ZeRO 3", "one rank", "interleaved"],
         ["interleaved", "data, ZeRO 1"]]
# What every day's test resumes from.
DAMAGES = [("model.safetensors", "missing"),
           ("heddle/optimizer.safetensors", "changed")]


@h.needs_mpi
class ResumeOnAnotherMesh(h.HeddleTest):
    def setUp(self):
        self.model, self.config, _ = self.make_model(**MODEL)
        self.data, _ = self.make_tokens(BATCH * SEQ * STEPS + 1,
                                        self.config["vocab_size"])
        self.binaries = {}

    def binary_of(self, name):
        if name not in self.binaries:
            self.binaries[name] = self.compile(
                self.model, *flags_of(**PLANS[name]),
                config=h.ds_config(lr=3e-3, clip=0.5, warmup=4, eps=1e-5),
                output=f"job-{len(self.binaries)}")
        return self.binaries[name]

    def train(self, name, *flags, steps=STEPS, status=0):
        """Trains on the plan's ranks; gives the steps of the log, or what was said
        when another status is expected."""
        log = self.path("run.jsonl")
        if os.path.exists(log):
            os.remove(log)
        command = [self.binary_of(name), "train", "--data", self.data, "--steps",
                   steps, "--log", log, "--progress", "none", "--seed", 3, *flags]
        result = h.run_ranks(ranks_of(PLANS[name]["mesh"]), command, status)
        return result.stderr if status else h.read_log(log)

    def final_weights(self, folder):
        file = os.path.join(folder, f"step-{STEPS:06}", "model.safetensors")
        return h.read_safetensors(file)

    def test_the_losses_are_those_of_the_run_that_saved(self):
        routes = [[name] + [other for other in PLANS if other != name]
                  for name in PLANS]
        for first, *others in routes if h.LONG else SHORT:
            saved, again = self.path("saved"), self.path("again")
            shutil.rmtree(saved, ignore_errors=True)
            expected = self.train(first, "--save", saved, "--save-every", SAVED)
            for other in others:
                with self.subTest(saved_by=first, resumed_by=other):
                    shutil.rmtree(again, ignore_errors=True)
                    steps = self.train(other, "--resume",
                                       os.path.join(saved, f"step-{SAVED:06}"),
                                       "--save", again)
                    self.assertEqual([step["step"] for step in steps],
                                     list(range(SAVED + 1, STEPS + 1)))
                    for key in ("loss", "lr"):
                        np.testing.assert_allclose(
                            [step[key] for step in steps],
                            [step[key] for step in expected[SAVED:]], rtol=1e-6)
                    mine, theirs = map(self.final_weights, (again, saved))
                    self.assertEqual(mine.keys(), theirs.keys())
                    for name in theirs:
                        self.assertLessEqual(h.relative(mine[name], theirs[name]),
                                             1e-5, name)

    # --- what users do with it --------------------------------------------------

    def checkpoint(self, verb, *arguments, status=0):
        return h.run([h.HEDDLE, "checkpoint", verb, *arguments], status)

    def eval_loss(self, binary, *flags):
        output = h.run([binary, "eval", "--data", self.data, "--json", *flags]).stdout
        return json.loads(output.splitlines()[-1])["loss"]

    def test_a_checkpoint_of_a_sharded_run(self):
        name, saved = "data, ZeRO 1", self.path("sharded")
        self.train(name, "--save", saved, steps=2)
        step = os.path.join(saved, "step-000002")
        shapes = h.gpt2_shapes(self.config)

        said = json.loads(self.checkpoint("inspect", saved, "--json").stdout)
        self.assertEqual(said["step"], 2)
        listed = {tensor["name"]: tuple(tensor["shape"]) for tensor in said["tensors"]}
        self.assertEqual(listed, {"transformer." + key: shape
                                  for key, shape in shapes.items()})
        verified = self.checkpoint("verify", saved).stdout.splitlines()
        self.assertTrue(all(line.startswith("good") for line in verified), verified)

        exported, converted = self.path("exported"), self.path("converted")
        self.checkpoint("export", saved, "-o", exported)
        self.checkpoint("convert", exported, "-o", converted, "--dtype", "BF16",
                        "--shard-size", "64KiB")
        self.assertFalse(os.path.exists(os.path.join(exported, "heddle")))
        whole = self.eval_loss(self.binary_of("one rank"), "--weights", step)
        other = self.compile(exported, *flags_of({}), output="from-export")
        self.assertEqual(self.eval_loss(other), whole)
        shards = [file for file in os.listdir(converted)
                  if file.endswith(".safetensors")]
        self.assertGreater(len(shards), 1)
        narrow = self.compile(converted, *flags_of({}), output="from-bf16")
        self.assertAlmostEqual(self.eval_loss(narrow), whole, delta=0.01 * whole)

    def damage(self, file, how):
        if how == "missing":
            os.remove(file)
        elif how == "short":
            os.truncate(file, os.path.getsize(file) - 4)
        else:
            with open(file, "r+b") as stream:
                stream.seek(-5, os.SEEK_END)
                byte = stream.read(1)
                stream.seek(-5, os.SEEK_END)
                stream.write(bytes([byte[0] ^ 1]))

    def test_damage_is_named_once(self):
        name, saved, broken = "data, ZeRO 1", self.path("good"), self.path("broken")
        self.train(name, "--save", saved, steps=1)
        for part in ("model.safetensors", "heddle/optimizer.safetensors"):
            for how, code in [("missing", "H0361"), ("short", "H0362"),
                              ("changed", "H0363")]:
                with self.subTest(part=part, how=how):
                    shutil.rmtree(broken, ignore_errors=True)
                    shutil.copytree(saved, broken)
                    self.damage(os.path.join(broken, "step-000001", part), how)
                    said = self.checkpoint("verify", broken, status=3)
                    self.assertIn("damaged  " + part, said.stdout)
                    if not h.LONG and (part, how) not in DAMAGES:
                        continue
                    said = self.train(name, "--resume", broken, status=3)
                    self.assertEqual(said.count("error[" + code), 1, said)
                    self.assertEqual(said.count("error["), 1, said)
                    self.assertIn(part, said)


if __name__ == "__main__":
    unittest.main()
