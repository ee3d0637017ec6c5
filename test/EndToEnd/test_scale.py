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

LONG = os.environ.get("HEDDLE_TEST_LONG") == "1"
GPT_1T = h.gpt2_config(vocab=51200, positions=2048, embed=25600, layers=128,
                       heads=160)


class Scale(h.HeddleTest):
    def measure(self, data=6, tensor=8, pipe=64, micro_batches=64, name="job",
                cache="cache"):
        """Seconds and most bytes of a compilation; the binary; and the seconds of
        processors. The second one with a cache finds its kernels there."""
        config = self.path("config.json")
        with open(config, "w") as file:
            json.dump(GPT_1T, file)
        command = [h.HEDDLE, "compile", config, "--init", "random", "--seed", "1",
                   "--seq", "2048", "--precision", "bf16", "--zero", "1",
                   "--batch", str(data * micro_batches), "--micro-batch", "1",
                   "--accumulate", str(micro_batches), "--threads", "1",
                   "--mesh", f"data={data},tensor={tensor},pipe={pipe}",
                   "-o", self.path(name), "--cache", self.path(cache)]
        begin = time.monotonic()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        self.assertEqual(status, 0, errors)
        process.returncode = status
        process.stderr.close()
        return (seconds, usage.ru_maxrss * 1024, self.path(name),
                usage.ru_utime + usage.ru_stime)

    def test_thousands_of_ranks(self):
        for data in (6, 8):
            with self.subTest(ranks=data * 8 * 64):
                # Where time is no matter, every run compiles its kernels.
                runs = [self.measure(data=data, cache=f"cache{turn * LONG}")
                        for turn in range(3)]
                self.assertLessEqual(min(run[0] for run in runs), 5)
                self.assertLess(max(run[1] for run in runs), 2**30)
                binary = runs[-1][2]
                plan = json.loads(
                    h.run([h.HEDDLE, "explain", binary, "--json"]).stdout)
                self.assertEqual(plan["ranks"], data * 8 * 64)
                self.assertGreater(plan["parameters"], 1e12)
                self.assertGreater(plan["memory"]["peak"], 0)
                self.assertTrue(plan["communication"])
                # (p - 1) / (m + p - 1) where all stages take as long.
                self.assertAlmostEqual(plan["bubble"], 63 / 127, delta=0.05)

    def test_ranks_and_micro_batches_cost_little(self):
        kinds = {"few": dict(data=2), "ranks along data": dict(data=32),
                 "micro-batches": dict(data=2, micro_batches=512)}
        best = dict.fromkeys(kinds, float("inf"))
        for _ in range(4):  # By turns: the machine may be busy for a while.
            for name, options in kinds.items():
                best[name] = min(best[name], self.measure(**options)[3])
        few = best.pop("few")
        for name, seconds in best.items():
            self.assertLessEqual(seconds, 1.2 * few, name)


if __name__ == "__main__":
    unittest.main()
