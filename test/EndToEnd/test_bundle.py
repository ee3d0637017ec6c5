# The archive for machines with GPUs, and what cmake installs, in emulation.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/gpu_bundle.sh packs small models, and run_gpu.sh of the archive runs all
of its stages on emulated GPUs, by a `heddle` that cmake installed."""

import json
import os
import shutil
import unittest

import heddle_test as h

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAGES = ("info", "check", "train", "cpu", "ranks", "kill", "kernels")


class Bundle(h.HeddleTest):
    def install(self):
        """The path of an installed heddle."""
        prefix = self.path("prefix")
        h.run(["cmake", "--install", h.BUILD, "--component", "heddle", "--prefix", prefix])
        return os.path.join(prefix, "bin", "heddle")

    def unpack(self):
        archive = self.path("bundle.tar.gz")
        h.run([os.path.join(ROOT, "scripts", "gpu_bundle.sh"), "--small", "--build",
               h.BUILD, "-o", archive])
        self.assertLess(os.path.getsize(archive), 60 << 20)
        folder = self.path("there")
        shutil.unpack_archive(archive, folder)
        return os.path.join(folder, "heddle-gpu", "run_gpu.sh")

    def results(self, folder):
        with open(os.path.join(folder, "results.json")) as file:
            return json.load(file)

    def test_every_stage_runs(self):
        heddle, script = self.install(), self.unpack()
        emulate = [heddle, "emulate", "--devices", 2, "--", script, "--small"]
        h.run([*emulate, "--gpus", 2, "--out", self.path("good")])
        good = self.results(self.path("good"))
        self.assertEqual(good["wrong"], 0, good)
        measured = {row["stage"] for row in good["results"] if row["verdict"] == "ok"}
        self.assertEqual(measured, set(STAGES))
        self.assertEqual(good["not_measured"], 0, good)
        with open(os.path.join(self.path("good"), "results.txt")) as file:
            self.assertEqual(len(file.readlines()), len(good["results"]))
        # A machine on which nothing works is no machine that was not measured.
        broken = dict(os.environ, HEDDLE_EMULATE_FAULT="no-device")
        h.run([*emulate, "--stage", "info", "--stage", "check", "--out",
               self.path("bad")], 1, env=broken)
        self.assertEqual(self.results(self.path("bad"))["ok"], 0)
        self.assertGreater(self.results(self.path("bad"))["wrong"], 5)


if __name__ == "__main__":
    unittest.main()
