# Training whose states are on file: where the files are.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each role has a file, in the directory that the compiler, a ds_config.json or the
binary is told. A place that cannot be had is said."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import unittest

import heddle_test as h
from swapping import BATCH, EVERYTHING, ROLES, SEQ, STEPS, SwapTest


class Places(SwapTest):
    def files(self, job):
        """The sizes of a job's swap files, by their directories: they have no names any
        more."""
        folder, found = f"/proc/{job.pid}/fd", {}
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
                where, mark, _ = os.readlink(path).partition("/heddle-swap-")
                if mark:
                    found.setdefault(where, []).append(os.stat(path).st_size)
        return {where: sorted(sizes) for where, sizes in found.items()}

    def test_each_role_has_a_file(self):
        """As long as the plan says, in the directory that the compiler, a
        ds_config.json or the binary is told."""
        first, second, third = (self.path(f"swap/{name}") for name in "abc")
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                             config=h.ds_config(), output="plain")
        expected = self.losses(plain)
        binary = self.compile_for(place=EVERYTHING, output="roles")
        compiled = self.compile_for("--swap-dir", f"{first},gradients={second}",
                                    place=EVERYTHING, output="compiled")
        path = {"device": "nvme", "nvme_path": first}
        config = h.ds_config(zero_optimization={
            "stage": 3, "offload_optimizer": path,
            "offload_param": dict(path, nvme_path=second)})
        given = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                             config=config, output="given")
        for program, flag, places in (
                (binary, first, {first: ROLES}),
                (binary, f"{first},parameters={second}",
                 {first: ROLES - {"parameters"}, second: {"parameters"}}),
                (compiled, "", {first: ROLES - {"gradients"}, second: {"gradients"}}),
                (compiled, third, {third: ROLES}),
                (compiled, f"parameters={third}",
                 {first: {"optimizer", "activations"}, second: {"gradients"},
                  third: {"parameters"}}),
                (given, "", {first: {"optimizer"}, second: {"parameters"}}),
                (given, third, {third: {"optimizer", "parameters"}}),
                (given, f"optimizer={third}", {second: {"parameters"},
                                               third: {"optimizer"}})):
            with self.subTest(program=os.path.basename(program), flag=flag):
                memory = self.explain(program)["memory"]
                sizes = memory["files"]
                self.assertEqual(set(sizes), set().union(*places.values()))
                self.assertEqual(sum(sizes.values()),
                                 memory["kinds"]["file"]["persistent"])
                self.swap = flag
                job = self.start(program, "--swap-check", way="auto")
                self.assertEqual(self.files(job),
                                 {where: sorted(sizes[role] for role in roles)
                                  for where, roles in places.items()})
                job.kill()
                job.communicate(timeout=10)
                for where in places:
                    self.assertEqual(os.listdir(where), [])
                self.check_last(program, expected)
        said = h.run([compiled, "info"], env=self.environment()).stdout
        self.assertIn(f"{first} for optimizer and parameters and activations, "
                      f"{second} for gradients, by threads in requests", said)
        found = json.loads(h.run([compiled, "info", "--json"],
                                 env=self.environment()).stdout)["swap"]
        self.assertEqual({one["directory"]: one["roles"] for one in found["directories"]},
                         {first: ["optimizer", "parameters", "activations"],
                          second: ["gradients"]})
        self.assertEqual((found["by"], found["request_bytes"], found["requests"]),
                         ("threads", 1 << 20, 16))
        found = json.loads(h.run([plain, "info", "--json"]).stdout)
        self.assertNotIn("swap", found)

    def test_errors_name_the_file_of_the_role(self):
        first, second = (self.path(f"swap/{name}") for name in "ab")
        self.swap = f"{first},parameters={second}"
        binary = self.compile_for(place="optimizer=file,parameters=file", output="roles")
        sizes, seen = self.explain(binary)["memory"]["files"], set()
        # The states of the optimizer are read last.
        for number in range(self.requests(binary), 0, -1):
            if len(seen) == 2:
                break
            shutil.rmtree(self.saved, ignore_errors=True)
            found = h.run(self.words(binary), 5,
                          env=self.environment(f"read EIO {number}")).stderr
            (state, byte, where), = re.findall(
                r"error.H0461.*state (\S+), at byte (\d+) of the offload file in (\S+): ",
                found)
            role = "optimizer" if ".exp_avg" in state else "parameters"
            seen.add(role)
            self.assertEqual(where, first if role == "optimizer" else second)
            self.assertLess(int(byte), sizes[role])
        self.assertEqual(seen, {"optimizer", "parameters"})
        # Each directory is tried with a page, then come the files.
        found = h.run(self.words(binary), 4, env=self.environment("full 4")).stderr
        self.assertIn(f"error[H0295]: the swap directory {second} has no room for the "
                      f"{sizes['parameters']} bytes of states (parameters)", found)
        for where in (first, second):
            self.assertEqual(os.listdir(where), [])

    def test_the_directory_that_was_compiled(self):
        """It holds where no flag names another, and only what is on file makes one."""
        words = ["train", "--data", self.data, "--steps", 1, "--progress", "none"]
        flag, compiled = self.swap, self.path("compiled")
        binary = self.compile_for("--swap-dir", compiled)
        h.run([binary, *words, "--swap-dir", flag])
        self.assertEqual((os.path.exists(flag), os.path.exists(compiled)), (True, False))
        h.run([binary, *words])
        self.assertTrue(os.path.exists(compiled))
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                             config=h.ds_config(), output="plain")
        h.run([plain, *words, "--swap-dir", self.path("unused")])
        self.assertFalse(os.path.exists(self.path("unused")))

    def test_places_that_cannot_be_had(self):
        binary = self.compile_for()
        with open(self.path("file"), "w"):
            pass
        found = h.run(self.words(binary), 4, env=self.environment("full 0"))
        self.assertIn(f"error[H0295]: the swap directory {self.swap} has no room for the",
                      found.stderr)
        self.assertIn("--swap-dir", found.stderr)
        found = h.run(self.words(binary), 2, env=self.environment(way="aio"))
        self.assertIn("error[H0190]: HEDDLE_SWAP_IO=aio", found.stderr)
        self.swap = self.path("file")
        found = h.run(self.words(binary), 5, env=self.environment())
        self.assertIn("error[H0402]", found.stderr)
        self.assertIn("the swap directory of states (optimizer)", found.stderr)
        self.assertIn("--swap-dir", found.stderr)
        self.swap = self.path("locked")
        os.mkdir(self.swap)
        found = h.run([*self.read_only(self.swap), *self.words(binary)], 5,
                      env=self.environment())
        self.assertIn(f"error[H0402]: cannot write {self.swap}", found.stderr)
        self.assertEqual(os.listdir(self.swap), [])

    def read_only(self, directory):
        """Words before a command to which the directory is read-only, also root's."""
        if os.geteuid() != 0:
            os.chmod(directory, 0o500)
            return []
        mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
        words = ["unshare", "-m", "sh", "-c", mount + ' && exec "$@"', directory]
        if subprocess.run([*words, "true"], capture_output=True).returncode:
            self.skipTest("no directory can be made read-only here")
        return words

    def test_two_jobs_swap_in_one_directory(self):
        """And one whose directory is removed goes on."""
        binary = self.compile_for()
        expected = self.losses(binary)
        started = []
        for i in range(2):
            log = self.path(f"run{i}.jsonl")
            if os.path.exists(log):
                os.remove(log)
            words = [binary, "train", "--data", self.data, "--steps", STEPS, "--log", log,
                     "--progress", "none", "--swap-dir", self.swap]
            started.append((log, subprocess.Popen(
                list(map(str, words)), env=self.environment("slow 0"))))
        time.sleep(0.3)
        shutil.rmtree(self.swap, ignore_errors=True)
        for log, job in started:
            self.assertEqual(job.wait(60), 0)
            self.assertEqual({step["step"]: (step["loss"], step["grad_norm"])
                              for step in h.read_log(log)}, expected)


if __name__ == "__main__":
    unittest.main()
