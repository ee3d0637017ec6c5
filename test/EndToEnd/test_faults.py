# Ranks that die, stop, are slow, or have not what they need.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whatever befalls one rank of a training run, all ranks end soon, say who failed
in which step, and leave a whole checkpoint to go on from. HEDDLE_TEST_LONG=1 takes
every fault in every phase under every launcher."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import heddle_test as h
import running_jobs as jobs

BATCH, SEQ = 8, 32
MODEL = dict(vocab=97, positions=SEQ, embed=64, layers=3, heads=4)
PHASES = ["forward", "backward", "reduction", "optimizer", "save"]
# What the others say that it did; it waits in no collective where it computes.
AT = {"reduction": "reduce_scatter over data"}
MPI = ["mpirun", "recovering"] if shutil.which("mpirun.openmpi") else []
LIMIT = 10  # Seconds in which everything ends.


class Faults(h.HeddleTest):
    def setUp(self):
        random.seed(7)
        self.model, self.config, _ = self.make_model(**MODEL)
        self.data, _ = self.make_tokens(BATCH * SEQ * 9 + 1,
                                        self.config["vocab_size"])
        self.saved = self.path("saved")
        shutil.rmtree(self.saved, ignore_errors=True)

    def compile_for(self, *flags, output="job"):
        return self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads",
                            1, *flags, config=h.ds_config(), output=output)

    def train_words(self, binary, steps=1000000):
        return [binary, "train", "--data", self.data, "--steps", steps, "--save",
                self.saved, "--save-every", 4, "--keep-last", 2, "--log",
                self.path("run.jsonl"), "--progress", "none", "--seed", 3]

    def job(self, starter, ranks, command, **options):
        if os.path.exists(self.path("run.jsonl")):
            os.remove(self.path("run.jsonl"))
        job = jobs.Job(self.path("said"), starter, ranks, command, **options)
        self.addCleanup(job.end)
        return job

    def wait_for_checkpoint(self, job):
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(self.saved, "latest")):
            self.assertLess(time.monotonic(), deadline, job.said())
            time.sleep(0.05)

    def steps_done(self):
        with open(self.path("run.jsonl")) as file:
            return file.read().count('"event":"step"')

    def check_resumable(self, ranks, binary):
        """The newest checkpoint is whole, and the run goes on from it as if nothing
        had been."""
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])
        with open(os.path.join(self.saved, "latest")) as file:
            at = int(file.read().strip().split("-")[1])
        before = {step["step"]: step["loss"]
                  for step in h.read_log(self.path("run.jsonl"))}
        job = self.job("ranks", ranks, self.train_words(binary, at + 2) +
                       ["--resume", self.saved])
        self.assertEqual(job.wait(60), [0] * ranks, job.said())
        again = h.read_log(self.path("run.jsonl"))
        self.assertEqual([step["step"] for step in again], [at + 1, at + 2])
        for step in again:
            if step["step"] in before:
                self.assertEqual(step["loss"], before[step["step"]])

    # --- ranks that die or stop -------------------------------------------------

    def check_fault(self, starter, ranks, binary, victim, phase, number):
        """One rank is killed or stopped; the others say so and end."""
        job = self.job(starter, ranks, self.train_words(binary))
        self.wait_for_checkpoint(job)
        pids = job.pids()
        others = [pid for pid in pids if pid != pids[victim]]
        if phase == "reduction":
            jobs.catch_in_reduction(pids[victim], others[0], self.kernels)
        else:
            jobs.catch(pids[victim], phase, self.kernels, self.saved)
        at = self.steps_done() + 1
        if number == signal.SIGKILL:
            os.kill(pids[victim], number)
        alone = starter == "ranks"
        statuses = job.wait(LIMIT, [victim] if alone else [])
        said = job.said()
        if alone:
            expected = [5] * ranks
            expected[victim] = None
            self.assertEqual(statuses, expected, said)
        elif starter == "run" or number == signal.SIGSTOP:
            self.assertEqual(statuses, [5], said)
        elif starter == "mpirun":
            self.assertNotIn(statuses[0], (0, None), said)
        else:
            self.assertIsNotNone(statuses[0], said)
        self.assertFalse(any(jobs.is_running(pid) for pid in others))
        code, what = (("H0421", "died") if number == signal.SIGKILL else
                      ("H0422", "stopped answering"))
        if starter == "mpirun" and number == signal.SIGKILL:
            job.end()  # It may have been faster than those who had something to say.
            self.check_resumable(ranks, binary)
            return
        named = re.findall(rf"error\[{code}\]: rank {victim} \(.*?\) {what} "
                           r"in step (\d+)(?:, in (.*))?", said)
        self.assertEqual(len(named), ranks - 1, said)
        for step, activity in named:
            # The step is logged by rank 0, a little later or earlier than this.
            self.assertLessEqual(abs(int(step) - at), 1, said)
            if phase in AT:
                self.assertEqual(activity, AT[phase], said)
        # Rank 0's, or of the first that is left: its words, at the log's end.
        with open(self.path("run.jsonl")) as file:
            last = json.loads(file.readlines()[-1])
        self.assertEqual((last["event"], last["code"]), ("error", code))
        self.assertIn(f"error[{code}]: {last['message']}\n", said)
        job.end()
        self.check_resumable(ranks, binary)

    def test_a_rank_dies_or_stops(self):
        binary = self.compile_for("--mesh", "data=2", "--zero", 1)
        self.kernels = jobs.Kernels(binary)
        every = [("ranks", 1, "reduction", signal.SIGKILL),
                 ("run", 1, "save", signal.SIGKILL),
                 ("run", 0, "backward", signal.SIGSTOP)]
        if h.LONG:
            every = [(starter, random.choice([0, 1]), phase, number)
                     for starter in ("ranks", "run", *MPI) for phase in PHASES
                     for number in (signal.SIGKILL, signal.SIGSTOP)
                     # This mpirun waits for a rank that is stopped.
                     if (starter, number) != ("recovering", signal.SIGSTOP)]
        for starter, victim, phase, number in every:
            with self.subTest(starter=starter, victim=victim, phase=phase,
                              signal=number.name):
                shutil.rmtree(self.saved, ignore_errors=True)
                self.check_fault(starter, 2, binary, victim, phase, number)

    def test_a_slow_rank_raises_no_alarm(self):
        binary = self.compile_for("--mesh", "data=2")
        job = self.job("ranks", 2, self.train_words(binary, 1000000))
        self.wait_for_checkpoint(job)
        for stopped in range(4 if h.LONG else 1):
            pid = job.pids()[stopped % 2]
            os.kill(pid, signal.SIGSTOP)
            time.sleep(4)  # The limit is 6.
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.5)
        before, deadline = self.steps_done(), time.monotonic() + 60
        while self.steps_done() == before:
            self.assertLess(time.monotonic(), deadline, job.said())
            time.sleep(0.05)
        for pid in job.pids():
            os.kill(pid, signal.SIGTERM)
        self.assertEqual(job.wait(LIMIT), [143, 143], job.said())
        self.assertNotIn("error[", job.said())

    def test_the_launcher_is_killed(self):
        binary = self.compile_for("--mesh", "data=2")
        job = self.job("run", 2, self.train_words(binary))
        self.wait_for_checkpoint(job)
        pids = job.pids()
        os.kill(job.processes[0].pid, signal.SIGKILL)
        job.wait(LIMIT)
        self.assertTrue(jobs.wait_until(
            lambda: not any(jobs.is_running(pid) for pid in pids), LIMIT),
            "the ranks run on")
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])

    def check_saved(self, starter, words, number, status=None):
        """Sends a signal, if any, to all processes of a job: its last step is saved."""
        job = self.job(starter, 2, words)
        self.wait_for_checkpoint(job)
        if number:
            for pid in (job.processes[0].pid, *job.pids()):
                os.kill(pid, number)
        found = job.wait(LIMIT)[0]
        if status:
            self.assertEqual(found, status, job.said())
        with open(self.path("run.jsonl")) as file:
            save, end = map(json.loads, file.readlines()[-2:])
        self.assertEqual((save["event"], end["event"]), ("save", "end"))
        self.assertEqual(save["step"], end["steps"])
        h.run([h.HEDDLE, "checkpoint", "verify", save["path"]])
        shutil.rmtree(self.saved)

    def test_one_request_that_reaches_every_process(self):
        """As systemd and scancel send it, and GNU timeout."""
        binary = self.compile_for("--mesh", "data=2")
        words = self.train_words(binary)
        for starter, number, status in [
                ("run", signal.SIGTERM, 143), ("run", signal.SIGINT, 130),
                ("timeout", 0, 124),
                *[(starter, signal.SIGTERM, None) for starter in MPI[:1]]]:
            with self.subTest(starter=starter, signal=number):
                self.check_saved(starter, words, number, status)

    # --- what does not fit --------------------------------------------------------

    def check_refused(self, job, status, code, text=""):
        """All ranks end with the status, and one of them says why."""
        self.assertEqual(job.wait(LIMIT), [status] * len(job.processes), job.said())
        said = job.said()
        self.assertEqual(said.count("error["), 1, said)
        self.assertIn(f"error[{code}]: {text}", said)

    def test_plans_and_worlds_that_do_not_fit(self):
        binary = self.compile_for("--mesh", "data=2")
        other = self.compile_for("--mesh", "data=2", "--zero", 1, output="other")
        words = self.train_words(binary, 2)
        job = self.job("ranks", 2, words, binaries={1: other})
        self.check_refused(job, 4, "H0222", "rank 1 (")
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.check_refused(self.job("ranks", ranks, words), 4, "H0220",
                                   "the plan is for 2 ranks (data=2), the job has "
                                   + str(ranks))
        self.assertFalse(os.path.exists(self.saved))

    def test_a_budget_that_is_too_small(self):
        said = h.run([h.HEDDLE, "compile", self.model, "-o", self.path("none"),
                      "--batch", BATCH, "--seq", SEQ, "--mesh", "data=2,tensor=2",
                      "--memory-budget", "64KiB"], 4).stderr
        self.assertIn("error[H0201]", said)
        self.assertIn("optimizer", said)
        self.assertFalse(os.path.exists(self.path("none")))

    def limited(self, limit, size):
        """Words that start a command with a limit of its resources."""
        return [sys.executable, "-c",
                "import os, resource, sys; resource.setrlimit(resource." + limit +
                f", ({size}, {size})); os.execv(sys.argv[1], sys.argv[1:])"]

    def test_a_rank_has_too_little_memory(self):
        binary = self.compile(self.model, "--batch", 2048, "--seq", SEQ, "--threads", 1,
                              "--mesh", "data=2")
        job = self.job("ranks", 2, self.train_words(binary, 2),
                       before={1: self.limited("RLIMIT_AS", 400 << 20)})
        self.check_refused(job, 4, "H0292")
        if not h.LONG:
            return
        # Wherever it runs out: at the start, or in the midst of anything.
        binary = self.compile_for("--mesh", "data=2")
        for mebibytes in range(20, 400, 20):
            with self.subTest(mebibytes=mebibytes):
                job = self.job("ranks", 2, self.train_words(binary, 2),
                               before={1: self.limited("RLIMIT_AS", mebibytes << 20)})
                statuses = job.wait(30)
                self.assertNotIn(None, statuses, job.said())
                if statuses != [0, 0]:
                    self.assertNotIn("H0901", job.said())
                    self.assertNotIn(0, statuses)

    def test_a_rank_cannot_write(self):
        binary = self.compile_for("--mesh", "data=2", "--zero", 1)
        job = self.job("ranks", 2, self.train_words(binary, 4))
        self.assertEqual(job.wait(60), [0, 0], job.said())
        words = self.train_words(binary, 8) + ["--resume", self.saved]
        job = self.job("ranks", 2, words,
                       before={1: self.limited("RLIMIT_FSIZE", 64 << 10)})
        self.check_refused(job, 5, "H0402")
        self.assertEqual(sorted(os.listdir(self.saved)), ["latest", "step-000004"])
        self.check_resumable(2, binary)

    def test_the_disk_is_full(self):
        disk = self.path("disk")
        os.mkdir(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs",
                                  disk], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        self.saved = os.path.join(disk, "saved")
        binary = self.compile_for("--mesh", "data=2", "--zero", 1)
        self.check_refused(self.job("ranks", 2, self.train_words(binary, 8)), 5,
                           "H0401")
        self.assertEqual(sorted(os.listdir(self.saved)), ["latest", "step-000004"])
        h.run(["mount", "-o", "remount,size=64m", disk])
        self.check_resumable(2, binary)


if __name__ == "__main__":
    unittest.main()
