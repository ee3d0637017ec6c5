# What a mesh of thousands of ranks costs to compile for.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPT of 10^12 parameters for thousands of ranks compiles in seconds: plans are
made for each stage of the pipeline, not for each rank, micro-batch or layer."""

import functools
import json
import os
import subprocess
import unittest

import heddle_test as h

GPT_1T = h.gpt2_config(vocab=51200, positions=2048, embed=25600, layers=128,
                       heads=160)


class Scale(h.HeddleTest):
    runs_alone = True

    def measure(self, data=6, tensor=8, pipe=64, micro_batches=64, name="job",
                cache="cache"):
        """Seconds of processors and most bytes of a compilation, and the binary. The
        second one with a cache finds its kernels there."""
        config = self.path("config.json")
        with open(config, "w") as file:
            json.dump(GPT_1T, file)
        command = [h.HEDDLE, "compile", config, "--init", "random", "--seed", "1",
                   "--seq", "2048", "--precision", "bf16", "--zero", "1",
                   "--batch", str(data * micro_batches), "--micro-batch", "1",
                   "--accumulate", str(micro_batches), "--threads", "1",
                   "--mesh", f"data={data},tensor={tensor},pipe={pipe}",
                   "-o", self.path(name), "--cache",
                   os.path.join(os.path.dirname(self.folder), cache)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        self.assertEqual(status, 0, errors)
        process.returncode = status
        process.stderr.close()
        return (usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024,
                self.path(name))

    def test_thousands_of_ranks(self):
        for data in (6, 8) if h.LONG else (8,):
            with self.subTest(ranks=data * 8 * 64):
                # Where time is no matter, every run compiles its kernels.
                runs = [self.measure(data=data, cache=f"cache-{data}-{turn}" if h.LONG
                                     else "cache") for turn in range(2)]
                self.assertLessEqual(min(run[0] for run in runs), 5)
                self.assertLess(max(run[1] for run in runs), 2**30)
                binary = runs[-1][2]
                plan = self.explain(binary)
                self.assertEqual(plan["ranks"], data * 8 * 64)
                self.assertGreater(plan["parameters"], 1e12)
                self.assertGreater(plan["memory"]["peak"], 0)
                self.assertTrue(plan["communication"])
                # (p - 1) / (m + p - 1) where all stages take as long.
                self.assertAlmostEqual(plan["bubble"], 63 / 127, delta=0.05)

    def test_ranks_and_micro_batches_cost_little(self):
        few = functools.partial(self.measure, data=2)
        few()  # Now its kernels are kept.
        for options in dict(data=32), dict(data=2, micro_batches=512):
            with self.subTest(**options):
                self.assert_costs(1.2, few, functools.partial(self.measure, **options))


if __name__ == "__main__":
    unittest.main()
