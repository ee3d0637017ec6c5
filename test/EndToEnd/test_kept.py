# What a run must not lose, and must not take for something else.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Signals while nobody reads what a run prints, and during a validation; a
directory of checkpoints that is renamed, or has those of another run; files of a
checkpoint as outputs; damaged files that a conversion reads; the weights of a model
that computes something else."""

import glob
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

import families
import heddle_test as h

STEPS = 6
LIMIT = 60


class Kept(h.HeddleTest):
    def setUp(self):
        self.model, config, _ = self.make_model(layers=1)
        self.data, self.tokens = self.make_tokens(2001, config["vocab_size"])
        self.binary = self.compile(self.model, "--batch", 2, "--seq", 16, "--threads", 1)
        self.saved = self.path("saved")

    def words(self, steps, *flags, saved=None):
        return [self.binary, "train", "--data", self.data, "--steps", steps, "--progress",
                "plain", "--save", saved or self.saved, *flags]

    def start(self, *flags, **options):
        words = list(map(str, self.words(10**8, *flags)))
        job = subprocess.Popen(words, **options)
        self.addCleanup(job.kill)
        return job

    def write(self, path, data):
        with open(path, "wb") as file:
            file.write(data)

    def wait_for(self, is_there):
        end = time.time() + LIMIT
        while not is_there():
            self.assertLess(time.time(), end)
            time.sleep(0.02)

    def stop_between_saves(self, job):
        """Holds a run that has saved, and is not saving."""
        def is_between():
            job.send_signal(signal.SIGSTOP)
            steps = sorted(glob.glob(os.path.join(self.saved, "step-*")))
            if steps and os.path.exists(os.path.join(self.saved, "latest")) and \
                    h.latest_of(self.saved) == steps[-1] and not glob.glob(
                        os.path.join(self.saved, ".heddle-tmp-*")):
                return True
            job.send_signal(signal.SIGCONT)
            return False

        self.wait_for(is_between)

    def test_nobody_reads_what_is_printed(self):
        """A full pipe holds up neither the steps nor the save."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        log = self.path("log.jsonl")
        job = self.start("--log", log, stderr=writer)
        os.close(writer)
        # Far more than the pipe has room for.
        self.wait_for(lambda: os.path.exists(log) and os.path.getsize(log) > 1 << 18)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(LIMIT), 143)
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])

    def test_nobody_reads_the_log(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        log = self.path("log.csv")
        job = self.start("--log", pipe, "--log-csv", log, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: os.path.exists(log) and os.path.getsize(log) > 1 << 18)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(LIMIT), 143)
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])

    def test_a_signal_during_a_validation(self):
        """The rest of it, which would take minutes, is abandoned."""
        long = self.path("long.bin")
        h.write_tokens(long, np.tile(self.tokens, 15000))
        job = self.start("--val", long, "--val-every", 2, "--data-check", "batch",
                         stderr=subprocess.PIPE, text=True)
        for line in job.stderr:
            if line.startswith("step 2/"):
                break
        time.sleep(0.2)
        job.send_signal(signal.SIGTERM)
        said = job.stderr.read()
        self.assertEqual(job.wait(LIMIT), 143)
        self.assertIn("step 2: the validation is abandoned", said)
        self.assertTrue(h.latest_of(self.saved).endswith("step-000002"))

    def test_a_directory_that_is_renamed(self):
        """The run that has moved away with it saves no more where another one does."""
        first = self.start("--save-every", 500, stderr=subprocess.PIPE, text=True)
        self.stop_between_saves(first)
        os.rename(self.saved, self.path("moved"))
        h.run(self.words(2, "--save-every", 1))
        before = h.bytes_saved(self.saved)
        first.send_signal(signal.SIGCONT)
        said = first.stderr.read()
        self.assertEqual(first.wait(LIMIT), 2)
        self.assertIn("error[H0155]: --save: " + self.saved, said)
        self.assertEqual(h.bytes_saved(self.saved), before)

    def test_a_directory_that_is_removed(self):
        job = self.start("--save-every", 500, "--keep-last", 2, stderr=subprocess.DEVNULL)
        self.stop_between_saves(job)
        shutil.rmtree(self.saved)
        job.send_signal(signal.SIGCONT)
        self.wait_for(lambda: os.path.exists(os.path.join(self.saved, "latest")))
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(LIMIT), 143)
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])

    def test_later_checkpoints_of_another_run(self):
        h.run(self.words(6, "--save-every", 2))
        # A run that ended between its last save and `latest` goes on.
        with open(os.path.join(self.saved, "latest"), "w") as file:
            file.write("step-000004\n")
        h.run(self.words(6, "--resume", self.saved))
        h.run(self.words(3, "--overwrite", "--lr", 1e-4))
        said = h.run(self.words(4, "--resume", self.saved), 2).stderr
        self.assertIn("error[H0155]", said)
        self.assertIn("is of another run", said)

    def test_files_of_the_resumed_checkpoint_are_no_outputs(self):
        h.run(self.words(2))
        files = ["model.safetensors", "heddle/optimizer.safetensors",
                 "heddle/state.json", "heddle/manifest.json"]
        for flag, name in zip(["--log", "--trace", "--log-csv", "--dump"], files):
            path = os.path.join(h.latest_of(self.saved), name)
            words = self.words(3, "--resume", self.saved, flag, path)
            self.assertIn("error[H0160]", h.run(words, 2).stderr)
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])

    def test_conversions_read_no_damaged_file(self):
        h.run(self.words(2, "--save-dtype", "BF16"))
        step = h.latest_of(self.saved)
        convert = [h.HEDDLE, "checkpoint", "convert", self.saved, "--dtype", "F32", "-o"]
        h.run([*convert, self.path("good")])
        for name in ("heddle/masters.safetensors", "config.json"):
            path = os.path.join(step, name)
            with open(path, "rb") as file:
                whole = file.read()
            damaged = {"H0363": whole[:-4] + b"    ", "H0362": b"", "H0361": None}
            for code, data in damaged.items():
                os.remove(path)
                if data is not None:
                    self.write(path, data)
                self.assertIn(f"error[{code}]",
                              h.run([*convert, self.path("bad")], 3).stderr)
                self.write(path, whole)
        self.assertFalse(os.path.exists(self.path("bad")))

    def test_a_failed_run_leaves_the_trace_before(self):
        trace = self.path("trace.json")
        h.run(self.words(2, "--trace", trace))
        with open(trace) as file:
            before = file.read()
        h.run(self.words(20, "--overwrite", "--lr", 1e30, "--trace", trace), 5)
        with open(trace) as file:
            self.assertEqual(file.read(), before)

    def test_weights_of_a_model_that_computes_something_else(self):
        config = families.config()
        weights = families.random_weights(config)
        h.write_model(self.path("llama"), config, weights, "")
        other = dict(config, rms_norm_eps=0.1)
        h.write_model(self.path("other"), other, weights, "")
        self.binary = self.compile(self.path("llama"), "--batch", 2, "--seq", 16)
        data, _ = self.make_tokens(200, config["vocab_size"])
        evaluate = [self.binary, "eval", "--data", data, "--weights"]
        self.assertNotIn("warning", h.run([*evaluate, self.path("llama")]).stderr)
        said = h.run([*evaluate, self.path("other")]).stderr
        self.assertIn("warning[H0418]", said)
        self.assertIn("says rms_norm_eps 0.1; this binary was compiled with "
                      + json.dumps(config["rms_norm_eps"]), said)


if __name__ == "__main__":
    unittest.main()
