# What a mesh of thousands of ranks costs to compile for.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPT of 10^12 parameters for thousands of ranks compiles in seconds: plans are
made for each stage of the pipeline, not for each rank, micro-batch or layer."""

import json
import os
import subprocess
import time
import unittest

import heddle_test as h

GPT_1T = h.gpt2_config(vocab=51200, positions=2048, embed=25600, layers=128,
                       heads=160)


class Scale(h.HeddleTest):
    def measure(self, data=6, tensor=8, pipe=64, micro_batches=64, name="job"):
        """Seconds and most bytes of a compilation; and what explain says."""
        config = self.path("config.json")
        with open(config, "w") as file:
            json.dump(GPT_1T, file)
        command = [h.HEDDLE, "compile", config, "--init", "random", "--seed", "1",
                   "--seq", "2048", "--precision", "bf16", "--zero", "1",
                   "--batch", str(data * micro_batches), "--micro-batch", "1",
                   "--accumulate", str(micro_batches), "--threads", "1",
                   "--mesh", f"data={data},tensor={tensor},pipe={pipe}",
                   "-o", self.path(name), "--cache", self.path("cache")]
        begin = time.monotonic()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        self.assertEqual(status, 0, errors)
        return seconds, usage.ru_maxrss * 1024, self.path(name)

    def best(self, **options):
        return min(self.measure(**options)[0] for _ in range(2))

    def test_thousands_of_ranks(self):
        for data in (6, 8):
            with self.subTest(ranks=data * 8 * 64):
                seconds, peak, binary = self.measure(data=data)
                self.assertLessEqual(seconds, 5)
                self.assertLess(peak, 2**30)
                plan = json.loads(
                    h.run([h.HEDDLE, "explain", binary, "--json"]).stdout)
                self.assertEqual(plan["ranks"], data * 8 * 64)
                self.assertGreater(plan["parameters"], 1e12)
                self.assertGreater(plan["memory"]["peak"], 0)
                self.assertTrue(plan["communication"])
                # (p - 1) / (m + p - 1) where all stages take as long.
                self.assertAlmostEqual(plan["bubble"], 63 / 127, delta=0.05)

    def test_ranks_and_micro_batches_cost_little(self):
        few = self.best(data=2)
        self.assertLessEqual(self.best(data=32), 1.2 * few, "ranks along data")
        self.assertLessEqual(self.best(micro_batches=512, data=2), 1.2 * few,
                             "micro-batches")


if __name__ == "__main__":
    unittest.main()
