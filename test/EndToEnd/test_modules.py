#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle explain --modules`: parameters, MACs and FLOPs of every module equal the
formulas of its family, on one rank and on meshes."""

import json
import os
import unittest

from heddle_test import HEDDLE, LONG, HeddleTest, ds_config, run
from module_formulas import CONFIGS, Shard, formulas

ROWS, SEQ = 4, 16
# Flags, and for each rank to look at what it has.
MESHES = {
    "gpt2": [
        (["--mesh", "data=2", "--zero", 3], {0: Shard(2, SEQ)}),
        (["--accumulate", 2], {0: Shard(2, SEQ)}),
        (["--mesh", "tensor=2"], {1: Shard(4, SEQ, tensor=2)}),
        (["--mesh", "tensor=2", "--sequence-parallel"],
         {0: Shard(4, SEQ, tensor=2, splits_norms=True)}),
        (["--mesh", "seq=2", "--context", "ulysses"], {1: Shard(4, SEQ, seq=2)}),
        (["--mesh", "seq=2", "--context", "ring"], {0: Shard(4, SEQ, seq=2)}),
        (["--mesh", "pipe=2", "--accumulate", 2],
         {0: Shard(2, SEQ, layers=range(0, 1), last=False),
          1: Shard(2, SEQ, layers=range(1, 2), first=False)}),
    ],
    "llama": [(["--mesh", "data=2,tensor=2"], {3: Shard(2, SEQ, tensor=2)})],
}
# Each family is counted on one of these meshes, and on both in long runs.
FAMILY_MESHES = [
    (["--mesh", "data=2,tensor=2", "--zero", 1], {3: Shard(2, SEQ, tensor=2)}),
    (["--mesh", "pipe=2", "--accumulate", 2],
     {0: Shard(2, SEQ, layers=range(0, 1), last=False),
      1: Shard(2, SEQ, layers=range(1, 2), first=False)})]
COSTS = ("parameters", "macs", "flops")


class Modules(HeddleTest):
    def build(self, family, *flags):
        model = self.path(family)
        os.makedirs(model, exist_ok=True)
        with open(os.path.join(model, "config.json"), "w") as file:
            json.dump({"model_type": family, **CONFIGS[family]}, file)
        return self.compile(model, "--init", "random", "--batch", ROWS, "--seq", SEQ,
                            "--threads", 1, *flags, config=ds_config(), output="job")

    def check(self, binary, family, shard, rank=0):
        plan = self.explain(binary, "--modules", "--rank", rank)
        found = {module["path"]: tuple(module[cost] for cost in COSTS)
                 for module in plan["modules"]}
        self.assertEqual(len(found), len(plan["modules"]))
        expected = formulas(family, shard)
        # Modules without costs, such as the loss, are in no formula.
        for path, costs in found.items():
            self.assertEqual(costs, expected.get(path, (0, 0, 0)), path)
        self.assertLessEqual(expected.keys(), found.keys())
        return plan

    def test_families_on_one_rank(self):
        for family in CONFIGS:
            with self.subTest(family=family):
                plan = self.check(self.build(family), family, Shard(ROWS, SEQ))
                model = plan["modules"][0]
                self.assertEqual(model["path"], "")
                self.assertEqual(model["parameters"], plan["parameters"])
                # A step is three forward passes for MFU.
                self.assertEqual(3 * model["model_flops"], plan["flops_per_step"])

    def test_meshes(self):
        for number, family in enumerate(CONFIGS):
            cases = FAMILY_MESHES if LONG else [FAMILY_MESHES[number % 2]]
            for flags, ranks in cases + MESHES.get(family, []):
                with self.subTest(family=family, flags=flags):
                    binary = self.build(family, *flags)
                    for rank, shard in ranks.items():
                        self.check(binary, family, shard, rank)

    def test_bytes_are_those_of_the_launches(self):
        binary = self.build("gpt2")
        plan = self.explain(binary, "--modules", "--program", "eval")
        self.assertEqual(sum(kernel["calls"] * kernel["bytes"]
                             for kernel in plan["kernels"]),
                         plan["modules"][0]["bytes"])

    def test_text_and_depth(self):
        binary = self.build("llama")
        text = run([HEDDLE, "explain", binary, "--modules", "--depth", 1]).stdout
        self.assertIn("lm_head", text)
        self.assertNotIn("layers.0", text)
        self.assertIn("self_attn", run([HEDDLE, "explain", binary, "--modules"]).stdout)
        paths = [module["path"] for module in
                 self.explain(binary, "--modules", "--depth", 2)["modules"]]
        self.assertIn("layers.1", paths)
        self.assertNotIn("layers.1.mlp", paths)

    def test_serving_programs(self):
        binary = self.build("llama", "--mode", "serve", "--max-context", 32)
        plan = self.explain(binary, "--modules")
        self.assertGreater(plan["modules"][0]["macs"], 0)


if __name__ == "__main__":
    unittest.main()
