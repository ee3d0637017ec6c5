# Training whose states are on file: what its tests share.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small model, jobs that train it with states on file, and their faults."""

import os
import shutil
import subprocess
import time

import heddle_test as h

FAULTS = os.path.join(h.BUILD, "test", "Runtime", "SwapFaults.so")
BATCH, SEQ, STEPS = 4, 16, 6
MODEL = dict(vocab=97, positions=SEQ, embed=48, layers=3, heads=3)
ROLES = {"optimizer", "parameters", "gradients", "activations"}
EVERYTHING = ",".join(f"{role}=file" for role in sorted(ROLES))
WAYS = ["threads", "auto"]  # The latter is io_uring where that may be used.


class SwapTest(h.HeddleTest):
    def setUp(self):
        self.model, self.config, _ = self.make_model(**MODEL)
        self.data, _ = self.make_tokens(BATCH * SEQ * 9 + 1,
                                        self.config["vocab_size"])
        self.swap = self.path("swap/deep")
        self.saved = self.path("saved")
        for directory in (self.swap, self.saved):
            shutil.rmtree(directory, ignore_errors=True)

    def compile_for(self, *flags, place="optimizer=file", output="swapping"):
        return self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                            "--place", place, *flags, config=h.ds_config(),
                            output=output)

    def words(self, binary, *flags, steps=STEPS, every=2):
        return [binary, "train", "--data", self.data, "--steps", steps, "--save",
                self.saved, "--save-every", every, "--keep-last", 2, "--overwrite",
                "--log", self.path("run.jsonl"), "--progress", "none",
                *(["--swap-dir", self.swap] if self.swap else []), *flags]

    def environment(self, fault=None, way="threads"):
        more = {"HEDDLE_SWAP_IO": way}
        if fault:
            more.update(LD_PRELOAD=FAULTS, HEDDLE_TEST_FAULT=fault)
        return dict(os.environ, **more)

    def losses(self, binary, *flags, **options):
        log = self.path("run.jsonl")
        if os.path.exists(log):
            os.remove(log)
        h.run(self.words(binary, *flags), env=self.environment(**options))
        return {step["step"]: (step["loss"], step["grad_norm"])
                for step in h.read_log(log)}

    def start(self, binary, *flags, way, fault=None):
        """A run without an end that has saved its first checkpoint."""
        shutil.rmtree(self.saved, ignore_errors=True)
        job = subprocess.Popen(
            list(map(str, self.words(binary, *flags, steps=10 ** 6))),
            env=self.environment(fault, way), stderr=subprocess.PIPE, text=True)
        while not os.path.exists(os.path.join(self.saved, "latest")):
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        return job

    def check_resumable(self, binary, expected):
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])
        log = self.path("run.jsonl")
        os.remove(log)
        h.run(self.words(binary, "--resume", self.saved), env=self.environment())
        for step in h.read_log(log):
            self.assertEqual((step["loss"], step["grad_norm"]), expected[step["step"]])

    def check_last(self, binary, expected):
        """The last checkpoint is whole; if it is an early one, it goes on."""
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])
        with open(os.path.join(self.saved, "latest")) as file:
            at = int(file.read().strip().split("-")[1])
        if at < STEPS:
            self.check_resumable(binary, expected)

    def requests(self, binary):
        """How many reads, and as many writes, a run makes at least."""
        shutil.rmtree(self.saved, ignore_errors=True)
        path = self.path("count")
        h.run(self.words(binary),
              env=dict(self.environment("count 0"), HEDDLE_TEST_COUNT=path))
        with open(path) as file:
            return min(map(int, file.read().split()))
