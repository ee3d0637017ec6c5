# Training whose states are on file: faults of the disk, and jobs that are killed.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When the disk fails, a binary says so and ends, and the last checkpoint goes on.
HEDDLE_TEST_LONG=1 kills more often."""

import contextlib
import os
import random
import shutil
import signal
import time
import unittest

import heddle_test as h
import running_jobs as jobs
from swapping import BATCH, FAULTS, SEQ, WAYS, SwapTest


class Faults(SwapTest):
    def test_the_disk_fails(self):
        binary = self.compile_for()
        expected = self.losses(binary)
        requests = self.requests(binary)
        for fault, said in (("read EIO", "Input/output error"),
                            ("write EIO", "Input/output error"),
                            ("write ENOSPC", "No space left on device")):
            for number in (1, requests // 2, requests - 1):
                with self.subTest(fault=fault, number=number):
                    shutil.rmtree(self.saved, ignore_errors=True)
                    begun = time.monotonic()
                    found = h.run(self.words(binary), 5,
                                  env=self.environment(f"{fault} {number}"))
                    self.assertLess(time.monotonic() - begun, 30)
                    self.assertIn("error[H0461]: cannot " + fault.split()[0],
                                  found.stderr)
                    self.assertIn(said, found.stderr)
                    self.assertIn(f"of the offload file in {self.swap}", found.stderr)
                    self.assertEqual(os.listdir(self.swap), [])
                    if os.path.exists(os.path.join(self.saved, "latest")):
                        self.check_resumable(binary, expected)

    def opened(self, job):
        """The swap file that a job has open: it has no name of its own any more."""
        folder = f"/proc/{job.pid}/fd"
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            try:
                if os.readlink(path).startswith(self.swap):
                    return path
            except FileNotFoundError:  # Meanwhile the job has closed this one.
                pass
        return self.fail("the job has no swap file")

    def test_the_file_is_cut_behind_the_job(self):
        """What comes back is not what was written, or nothing, also by io_uring."""
        binary = self.compile_for()
        expected = self.losses(binary)
        for way in WAYS:
            with self.subTest(way=way):
                job = self.start(binary, "--swap-check", way=way)
                # Within a page, so that a read of it moves less than it. Again and
                # again: between reads and writes nothing of it is needed.
                file, until = self.opened(job), time.monotonic() + 60
                while job.poll() is None and time.monotonic() < until:
                    with contextlib.suppress(FileNotFoundError):
                        os.truncate(file, 6000)
                    time.sleep(0.02)
                said = job.communicate(timeout=60)[1]
                self.assertEqual(job.returncode, 5, said)
                self.assertRegex(said, r"error\[H046[12]\]: ")
                self.check_last(binary, expected)

    def test_the_kernel_fails_requests(self):
        """A file that fails takes the place of the swap file while the job runs, so
        that io_uring gives back what the kernel says."""
        binary = self.compile_for()
        expected = self.losses(binary)
        for way in WAYS:
            for error, said, flags in (
                    ("EIO", "1]: cannot (read|write) .*: Input/output error", ()),
                    # What takes the full disk's place gives zeros to who reads first,
                    # which only sums notice: no checkpoint may be made of them.
                    ("ENOSPC", "(1]: cannot write .*: No space left on device|2])",
                     ["--swap-check"])):
                with self.subTest(way=way, error=error):
                    job = self.start(binary, *flags, way=way, fault=f"replace {error} 0")
                    job.send_signal(signal.SIGUSR1)
                    found = job.communicate(timeout=60)[1]
                    self.assertEqual(job.returncode, 5, found)
                    self.assertRegex(found, r"error\[H046" + said)
                    self.assertEqual(os.listdir(self.swap), [])
                    self.check_last(binary, expected)

    def test_the_disk_of_one_rank_fails(self):
        """Both ranks end, in a step and in a save, and say why."""
        binary = self.compile_for("--mesh", "data=2", "--zero", 1)
        for number in (1, 9):
            with self.subTest(number=number):
                shutil.rmtree(self.saved, ignore_errors=True)
                way = ["/usr/bin/env", "HEDDLE_SWAP_IO=threads", "LD_PRELOAD=" + FAULTS,
                       f"HEDDLE_TEST_FAULT=read EIO {number}"]
                job = jobs.Job(self.path("said"), "ranks", 2,
                               self.words(binary, steps=10 ** 6), before={1: way})
                self.addCleanup(job.end)
                self.assertEqual(job.wait(30), [5, 5], job.said())
                self.assertEqual(job.said().count("error[H0461]: cannot read"), 1,
                                 job.said())
                self.assertEqual(os.listdir(self.swap), [])

    def test_short_and_slow_requests(self):
        binary = self.compile_for()
        expected = self.losses(binary)
        for fault in ("short 0", "slow 0"):
            with self.subTest(fault=fault):
                self.assertEqual(self.losses(binary, fault=fault), expected)

    def test_a_loss_that_is_not_finite(self):
        """The run ends, and what it saved before is whole."""
        binary = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                              "--place", "optimizer=file", config=h.ds_config(lr=1e30),
                              output="diverging")
        found = h.run(self.words(binary, every=1), 5, env=self.environment())
        self.assertIn("error[H0410]", found.stderr)
        self.assertEqual(os.listdir(self.swap), [])
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])

    def test_killed_at_any_moment(self):
        binaries = [
            self.compile_for(place=place, output=f"swapping{number}")
            for number, place in enumerate((
                "optimizer=file", "optimizer=file,parameters=file,activations=file",
                "optimizer=file,gradients=file"))]
        expected = self.losses(binaries[0])
        generator = random.Random(5)
        for number in range(200 if h.LONG else 5):
            job = self.start(binaries[number % 3], way=WAYS[number % 2])
            time.sleep(generator.random() * 0.3)
            job.send_signal(signal.SIGKILL)
            job.communicate(timeout=10)
            # The kernel has the disk's space back at once.
            self.assertEqual(os.listdir(self.swap), [])
            self.check_last(binaries[number % 3], expected)


if __name__ == "__main__":
    unittest.main()
