#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`train --profile`: the parts of a step add up to it, the modules have the counts of
`explain --modules` and all of the kernels' time, and a profiled run computes what any
other does."""

import json
import os
import unittest

from heddle_test import HeddleTest, ds_config, run

ROWS, SEQ = 4, 32
PARTS = {"forward", "backward", "optimizer", "waits", "copies", "not_covered"}
COUNTS = ("parameters", "macs", "flops", "model_flops", "bytes")


class Profile(HeddleTest):
    def prepare(self, *flags, **keys):
        model, config, _ = self.make_model()
        self.data, _ = self.make_tokens(3000, config["vocab_size"])
        return self.compile(model, "--batch", ROWS, "--seq", SEQ, "--threads", 1,
                            *flags, config=ds_config(**keys))

    def profile(self, binary, *flags, steps=4, ranks=1):
        file = self.path("profile.json")
        steps = self.train(binary, self.data, steps, "--profile-file", file, *flags,
                           ranks=ranks, name="profiled")
        with open(file) as stream:
            return json.load(stream), steps

    def check(self, profile, binary, rank=0):
        parts = profile["parts"]
        self.assertEqual(parts.keys(), PARTS)
        self.assertTrue(all(seconds >= 0 for seconds in parts.values()), parts)
        self.assertAlmostEqual(sum(parts.values()), profile["step_s"],
                               delta=1e-6 * profile["step_s"])
        model = profile["modules"][0]
        for part in ("forward", "backward"):
            self.assertAlmostEqual(model[part + "_s"], parts[part], delta=1e-9)
            self.assertGreater(parts[part], 0)
        counts = {module["path"]: [module[key] for key in COUNTS]
                  for module in profile["modules"]}
        expected = {module["path"]: [module[key] for key in COUNTS] for module in
                    self.explain(binary, "--modules", "--rank", rank)["modules"]}
        self.assertLessEqual(expected.keys(), counts.keys())
        # Modules that only training steps use have no counts.
        for path, values in counts.items():
            self.assertEqual(values, expected.get(path, [0] * len(COUNTS)), path)

    def test_parts_are_the_step(self):
        binary = self.prepare("--accumulate", 2)
        profile, steps = self.profile(binary)
        self.check(profile, binary)
        self.assertEqual((profile["step"], profile["rank"]), (3, 0))
        self.assertLess(profile["step_s"], sum(step["time_s"] for step in steps))
        times = {module["path"]: module for module in profile["modules"]}
        for path in ("wte", "h.0.attn", "h.1.mlp.c_fc", "ln_f", "lm_head"):
            self.assertGreater(times[path]["forward_s"], 0, path)
            self.assertGreater(times[path]["backward_s"], 0, path)
        self.assertEqual(times["loss"]["backward_s"], 0)
        self.assertTrue(any("split by FLOPs" in note for note in profile["notes"]))

    def test_covers_the_step(self):
        """What no part covers is little. Other programs may take the core between two
        commands, so one of five runs must show it."""
        binary, shares = self.prepare(), []
        for _ in range(5):
            profile, _ = self.profile(binary)
            shares.append(profile["parts"]["not_covered"] / profile["step_s"])
            if shares[-1] < 0.2:
                return
        self.fail(f"shares of the step that nothing covers: {shares}")

    def test_computes_what_other_runs_do(self):
        binary = self.prepare()
        plain = self.train(binary, self.data, 4)
        for flags in ([], ["--profile=1"], ["--profile=4"]):
            _, steps = self.profile(binary, *flags)
            self.assertEqual([step["loss"] for step in steps],
                             [step["loss"] for step in plain])

    def test_text(self):
        binary = self.prepare()
        command = [binary, "train", "--data", self.data, "--steps", 3, "--progress",
                   "none"]
        text = run([*command, "--profile", "--profile-depth", 2, "--profile-top",
                    2]).stderr
        for words in ("profile of step 3 on rank 0", "forward MACs of a micro-batch",
                      "not covered", "h.0", "depth 2", "note:"):
            self.assertIn(words, text)
        self.assertNotIn("h.0.attn", text)
        file = self.path("profile.txt")
        printed = run([*command, "--profile=2", "--profile-file", file]).stderr
        self.assertNotIn("profile of", printed)
        with open(file) as stream:
            self.assertIn("profile of step 2", stream.read())
        self.assertEqual(run(command).stderr.count("profile"), 0)
        self.assertIn("--profile-top have no effect: no step is profiled", run(
            [*command[:-1], "plain", "--profile-top", 3]).stderr)

    def test_short_and_resumed_runs(self):
        binary, saved = self.prepare(), self.path("saved")
        profile, _ = self.profile(binary, "--save", saved, steps=2)
        self.assertEqual(profile["step"], 2)
        profile, _ = self.profile(binary, "--resume", saved, steps=9)
        self.assertEqual(profile["step"], 5)

    def test_ranks(self):
        binary = self.prepare("--mesh", "pipe=2", "--accumulate", 2)
        profile, _ = self.profile(binary, ranks=2)
        self.check(profile, binary)
        with open(self.path("profile.rank1.json")) as stream:
            other = json.load(stream)
        self.check(other, binary, rank=1)
        paths = [{module["path"] for module in one["modules"]}
                 for one in (profile, other)]
        self.assertIn("h.0", paths[0] - paths[1])
        self.assertIn("h.1", paths[1] - paths[0])
        self.assertGreater(other["parts"]["waits"], 0)
        self.assertTrue(any("waits are" in note for note in profile["notes"]))

    def test_flame(self):
        binary, file = self.prepare(), self.path("flame.json")
        run([binary, "train", "--data", self.data, "--steps", 3, "--progress", "none",
             "--profile-flame", file])
        with open(file) as stream:
            flame = json.load(stream)
        self.assertEqual(flame["$schema"],
                         "https://www.speedscope.app/file-format-schema.json")
        names = [frame["name"] for frame in flame["shared"]["frames"]]
        (profile,) = flame["profiles"]
        stack, now, seen = [], profile["startValue"], set()
        for event in profile["events"]:
            self.assertGreaterEqual(event["at"], now)
            now = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
                seen.add(tuple(names[frame] for frame in stack))
            else:
                self.assertEqual(event["frame"], stack.pop())
        self.assertEqual((stack, now), ([], profile["endValue"]))
        self.assertTrue(any(frames[:3] == ("h", "h.1", "h.1.attn") for frames in seen))
        self.assertTrue(any(frames[0] == "optimizer" for frames in seen))

    def test_defaults_of_ds_config(self):
        file = self.path("of-config.json")
        binary = self.prepare(flops_profiler={
            "enabled": True, "profile_step": 2, "module_depth": 1, "output_file": file})
        self.train(binary, self.data, 3)
        with open(file) as stream:
            profile = json.load(stream)
        self.assertEqual(profile["step"], 2)
        self.assertNotIn("h.0", {module["path"] for module in profile["modules"]})
        # Flags win.
        profile, _ = self.profile(binary, "--profile=1", "--profile-depth", 2, steps=2)
        self.assertEqual(profile["step"], 1)
        self.assertIn("h.0", {module["path"] for module in profile["modules"]})
        # A flag turns the profile off.
        os.remove(file)
        self.train(binary, self.data, 3, "--profile=0")
        self.assertFalse(os.path.exists(file))
        # A run without the step has no profile.
        run([binary, "train", "--data", self.data, "--steps", 1, "--progress", "none"])

    def test_bad_steps(self):
        binary = self.prepare()
        command = [binary, "train", "--data", self.data, "--steps", 3]
        for flag, code in (("--profile=4", "H0199"), ("--profile=x", "H0190")):
            self.assertIn(code, run([*command, flag], status=2).stderr)
        self.assertIn("--profile=2", run([*command, "--profile", 2], status=2).stderr)


if __name__ == "__main__":
    unittest.main()
