# Training that is killed and goes on.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run that is killed at any moment, also while it saves, and resumed, ends with
the bits of one that was left alone."""

import glob
import os
import random
import signal
import subprocess
import time
import unittest

import heddle_test as h
import running_jobs

STEPS, ROWS, SEQ = 60, 2, 16
KILLS = 8


class Resume(h.HeddleTest):
    def command(self, binary, data, out):
        command = [binary, "train", "--data", data, "--steps", str(STEPS), "--save",
                   out, "--save-every", "1", "--keep-last", "3", "--progress",
                   "none", "--seed", "3"]
        # It may have been killed before `latest` named the first one.
        if glob.glob(os.path.join(out, "step-*")):
            command += ["--resume", out]
        return command

    def final_bytes(self, out):
        folder = os.path.join(out, f"step-{STEPS:06}")
        names = ("model.safetensors", "heddle/optimizer.safetensors")
        contents = []
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                contents.append(file.read())
        return contents

    def kill_once(self, command, out, while_saving, longest):
        """Starts the run and kills it; False when it ended before that."""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + random.uniform(0.2, 1.0) * longest
        while process.poll() is None:
            late = time.monotonic() > deadline
            if late and (not while_saving or running_jobs.is_saving(out)):
                process.send_signal(signal.SIGKILL)
                process.wait()
                return True
            if not while_saving:
                time.sleep(0.002)
        self.assertEqual(process.returncode, 0)
        return False

    def test_killed_at_any_moment(self):
        model, config, _ = self.make_model(dropout=0.1, layers=2)
        data, _ = self.make_tokens(7 * ROWS * SEQ + 1, config["vocab_size"])
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ,
                              config=h.ds_config(lr=1e-3, warmup=4))
        whole, broken = self.path("whole"), self.path("broken")
        start = time.monotonic()
        h.run(self.command(binary, data, whole))
        longest = (time.monotonic() - start) / KILLS
        random.seed(11)
        kills = {False: 0, True: 0}
        for attempt in range(KILLS):
            while_saving = attempt % 2 == 1
            if not self.kill_once(self.command(binary, data, broken), broken,
                                  while_saving, longest):
                break
            kills[while_saving] += 1
        self.assertGreater(kills[False], 0)
        self.assertGreater(kills[True], 0)
        h.run(self.command(binary, data, broken))
        self.assertTrue(self.final_bytes(whole) == self.final_bytes(broken),
                        f"the runs ended with other bits, killed {kills}")

    def test_stops_cleanly_after_saving(self):
        model, config, _ = self.make_model()
        data, _ = self.make_tokens(7 * ROWS * SEQ + 1, config["vocab_size"])
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ,
                              config=h.ds_config())
        out = self.path("stopped")
        log = self.path("stopped.jsonl")
        process = subprocess.Popen(
            [binary, "train", "--data", data, "--steps", "1000000", "--save", out,
             "--log", log, "--progress", "none"], stderr=subprocess.DEVNULL)
        while not (os.path.exists(log) and h.has_steps(log)):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 143)
        with open(os.path.join(out, "latest")) as file:
            latest = file.read().strip()
        h.run([h.HEDDLE, "checkpoint", "verify", os.path.join(out, latest)])


if __name__ == "__main__":
    unittest.main()
