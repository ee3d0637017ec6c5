# Training whose states are on file: faults of the disk, limits, figures.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary whose optimizer is on file gives the bits of one that has it in memory,
moves as many bytes as its plan says, and needs no memory for what is on file. When
the disk fails, it says so and ends, and the last checkpoint goes on.
HEDDLE_TEST_LONG=1 kills more often."""

import contextlib
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

import families
import heddle_test as h
import running_jobs as jobs

FAULTS = os.path.join(h.BUILD, "test", "Runtime", "SwapFaults.so")
BATCH, SEQ, STEPS = 4, 16, 6
MODEL = dict(vocab=97, positions=SEQ, embed=48, layers=3, heads=3)
ROLES = {"optimizer", "parameters", "gradients", "activations"}
EVERYTHING = ",".join(f"{role}=file" for role in sorted(ROLES))
WAYS = ["threads", "auto"]  # The latter is io_uring where that may be used.
MEBIBYTE = 1 << 20


def make_group(limit):
    """A memory cgroup whose processes have so many bytes together: the file that they
    join by. None where no such group can be had."""
    for folder, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                         ("/sys/fs/cgroup", "memory.max")):
        group = os.path.join(folder, f"heddle-test-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(os.path.join(group, name), "r+") as file:
                file.write(str(limit))
            return os.path.join(group, "cgroup.procs")
        except OSError:  # The other version, or one that does not limit memory.
            os.rmdir(group)
    return None


# Runs a command, maybe in a group, and prints what it had in memory at most. What a
# process has when it forks counts for its child too, so this one is small.
MEASURE = """
import os, sys
group, *words = sys.argv[1:]
child = os.fork()
if child == 0:
    if group:
        with open(group, "w") as file:
            file.write(str(os.getpid()))
    os.execv(words[0], words)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss * 1024)
sys.exit(1 if status else 0)
"""


def run_within(limit, words, **options):
    """Runs a command in a memory cgroup of so many bytes, if there can be one: what it
    had in memory at most."""
    group = make_group(limit)
    try:
        said = h.run([sys.executable, "-S", "-c", MEASURE, group or "", *words], **options)
    finally:
        if group:
            os.rmdir(os.path.dirname(group))
    return int(said.stdout.split()[-1])


class Swap(h.HeddleTest):
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
                self.saved, "--save-every", every, "--keep-last", 2, "--log",
                self.path("run.jsonl"), "--progress", "none",
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

    # --- what is moved --------------------------------------------------------

    def test_every_way_gives_the_same_bits(self):
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                             config=h.ds_config(), output="plain")
        expected = self.losses(plain)
        kept = h.bytes_saved(self.saved)
        binary = self.compile_for()
        for way in WAYS:
            for flags in ([], ["--swap-check"]):
                with self.subTest(way=way, flags=flags):
                    shutil.rmtree(self.saved)
                    self.assertEqual(self.losses(binary, *flags, way=way), expected)
                    self.assertEqual(h.bytes_saved(self.saved), kept)
        self.assertEqual(os.listdir(self.swap), [])

    def test_resumes_from_one_placement_in_the_other(self):
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                             config=h.ds_config(), output="plain")
        binary = self.compile_for()
        expected = self.losses(plain)
        kept = h.bytes_saved(self.saved)
        for first, second in ((plain, binary), (binary, plain)):
            with self.subTest(first=os.path.basename(first)):
                shutil.rmtree(self.saved)
                h.run(self.words(first, steps=4), env=self.environment())
                found = self.losses(second, "--resume", self.saved)
                self.assertEqual(found, {step: expected[step] for step in (5, 6)})
                self.assertEqual(h.bytes_saved(self.saved), kept)

    def test_moves_what_the_plan_says(self):
        for place in (EVERYTHING, "optimizer=file"):
            binary = self.compile_for(place=place)
            plan = self.explain(binary)
            planned = {"read": 0, "written": 0}
            for move in plan["moves"]:
                planned["read"] += move["bytes"] if move["from"] == "file" else 0
                planned["written"] += move["bytes"] if move["to"] == "file" else 0
            for way in WAYS:
                found = json.loads(h.run(
                    [binary, "bench", "--steps", 3, "--warmup", 1, "--json", "--swap-dir",
                     self.swap], env=self.environment(way=way)).stdout)
                self.assertEqual(found["file_bytes_read"], planned["read"])
                self.assertEqual(found["file_bytes_written"], planned["written"])
        # Two moments of four bytes, in whole pages.
        least = 8 * plan["parameters"]
        for direction in ("read", "written"):
            self.assertGreaterEqual(planned[direction], least)
            self.assertLess(planned[direction], least + 64 * 4096)
        said = h.run([binary, "info"], env=self.environment()).stdout
        self.assertRegex(said, r"swap +\S+, by threads in requests of 1.00 MiB, 16 at")

    # --- where ----------------------------------------------------------------

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
                r"error.H0461.*state (\S+), at byte (\d+) of the swap file in (\S+): ",
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

    # --- requests -------------------------------------------------------------

    def test_requests_are_as_the_compiler_is_told(self):
        whole, cut = (self.compile_for(*flags, output=name) for name, flags in
                      (("whole", []),
                       ("cut", ["--swap-block-size", "10000", "--swap-queue-depth", 3])))
        self.assertEqual(self.losses(cut), self.losses(whole))
        # Of whole pages.
        self.assertGreater(self.requests(cut), self.requests(whole))
        for target in ("x86-64", "sm_90"):
            binary = self.compile_for("--swap-block-size", "10000", "--swap-queue-depth", 3,
                                      "--target", target, output="told")
            said = h.run([binary, "info"], env=self.environment()).stdout
            self.assertRegex(said, r"swap +\S+, by threads in requests of 8.00 KiB, 3 at")

    def test_files_in_memory_are_said(self):
        """The plan's memory is not all of it then."""
        memory = "/dev/shm/heddle-test-swap"
        self.addCleanup(shutil.rmtree, memory, ignore_errors=True)
        binary = self.compile_for()
        for self.swap, is_memory in ((self.swap, False), (memory, True)):
            os.makedirs(self.swap, exist_ok=True)
            kind = h.run(["stat", "-f", "-c", "%T", self.swap]).stdout.strip()
            if (kind == "tmpfs") != is_memory:
                self.skipTest(f"{self.swap} is on {kind}")
            said = h.run(self.words(binary, steps=1), env=self.environment()).stderr
            self.assertEqual("warning[H0463]" in said, is_memory, said)
        said = h.run([binary, "info"], env=dict(os.environ, TMPDIR=memory)).stdout
        self.assertIn(f"{memory} (in memory, or through its cache), by", said)
        plain = self.compile_for(place="activations=device", output="plain")
        said = h.run(self.words(plain, steps=1)).stderr
        self.assertNotIn("H0463", said)

    def test_traces_show_copies_beside_kernels(self):
        binary = self.compile_for("--sub-group-size", 1024)
        trace = self.path("trace.json")
        self.losses(binary, "--trace", trace, fault="slow 0")
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        self.check_copies(events)

    def check_copies(self, events):
        """Each takes as long as the slow disk needs, and kernels run beside them."""
        copies = [event for event in events if event["tid"] > 0]
        self.assertEqual({event["tid"] for event in copies}, {1, 2})
        host = [event for event in events if event["tid"] == 0]
        for copy in copies:
            self.assertGreaterEqual(copy["dur"], 5000)  # That is how slow it is.
            self.assertGreater(copy["args"]["bytes"], 0)
        beside = sum(copy["ts"] < kernel["ts"] + kernel["dur"] and
                     kernel["ts"] < copy["ts"] + copy["dur"]
                     for copy in copies for kernel in host
                     if kernel["args"]["command"] == "launch")
        self.assertGreater(beside, 0)

    def test_needs_no_memory_for_what_is_on_file(self):
        """Most bytes of states are on file, as of AdamW in bf16 14 of the 18 of a
        parameter, all but its gradient. A process that may have a third of them, where
        a memory cgroup can see to it, trains to the same bits."""
        gpt2 = h.gpt2_config(vocab=97, positions=SEQ, embed=768, layers=8, heads=12)
        llama = families.config(hidden_size=512, intermediate_size=2048,
                                num_hidden_layers=8)
        for name, config, flags, place in (
                ("gpt2", gpt2, ["--precision", "bf16"], "optimizer=file,parameters=file"),
                ("llama", llama, ["--precision", "bf16", "--optimizer", "Lion"],
                 "optimizer=file,parameters=file,gradients=file")):
            with self.subTest(name):
                self.check_memory(config, flags, place)

    def check_memory(self, config, flags, place):
        model = self.path("large-model.json")
        with open(model, "w") as file:
            json.dump(config, file)
        flags = ["--init", "random", "--batch", 1, "--seq", SEQ, "--threads", 2, *flags]
        plain = self.compile(model, *flags, config=h.ds_config(), output="plain")
        binary = self.compile(model, *flags, "--place", place, config=h.ds_config(),
                              output="large")
        words = ["train", "--data", self.data, "--steps", 3, "--progress", "none"]
        log = self.path("large.jsonl")
        h.run([plain, *words, "--log", log])
        expected = [(step["loss"], step["grad_norm"]) for step in h.read_log(log)]
        os.remove(log)
        memory = self.explain(binary)["memory"]["kinds"]
        limit = sum(memory["device"].values()) + 32 * MEBIBYTE
        states = memory["device"]["persistent"] + memory["file"]["persistent"]
        self.assertLess(limit, states / 3)
        shutil.rmtree(self.saved, ignore_errors=True)
        resident = run_within(limit, [binary, *words, "--log", log, "--save", self.saved,
                                      "--swap-dir", self.swap])
        found = [(step["loss"], step["grad_norm"]) for step in h.read_log(log)]
        os.remove(log)
        self.assertEqual(found, expected)
        self.assertLessEqual(resident, limit)
        print(f"states {states >> 20} MiB, planned {(limit >> 20) - 32} MiB of memory, "
              f"resident {resident >> 20} MiB")
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])

    def test_ranks_need_little_more_than_planned(self):
        """Each of them, also while it saves."""
        model = self.path("ranks-model.json")
        with open(model, "w") as file:
            json.dump(h.gpt2_config(vocab=97, positions=SEQ, embed=384, layers=8, heads=12),
                      file)
        for flags in (["--mesh", "data=4", "--zero", 3, "--place",
                       "optimizer=file,parameters=file"],
                      ["--mesh", "data=2,pipe=2", "--accumulate", 4, "--place",
                       "optimizer=file,parameters=file,activations=file"]):
            with self.subTest(flags[1]):
                binary = self.compile(model, "--init", "random", "--batch", 8, "--seq", SEQ,
                                      "--threads", 1, "--precision", "bf16", *flags,
                                      config=h.ds_config(), output="ranks")
                planned = max(self.explain(binary, "--rank", rank)["memory"]["peak"]
                              for rank in range(4))
                shutil.rmtree(self.saved, ignore_errors=True)
                words = self.words(binary, steps=2, every=1)
                said = h.run_ranks(4, [sys.executable, "-S", "-c", MEASURE, "", *words])
                resident = [int(line) for line in said.stdout.split()]
                print(f"planned {planned >> 20} MiB of memory, resident "
                      f"{[size >> 20 for size in sorted(resident)]} MiB")
                self.assertEqual(len(resident), 4)
                self.assertLessEqual(max(resident), planned + 32 * MEBIBYTE)

    # --- faults ---------------------------------------------------------------

    def check_resumable(self, binary, expected):
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])
        log = self.path("run.jsonl")
        os.remove(log)
        h.run(self.words(binary, "--resume", self.saved), env=self.environment())
        for step in h.read_log(log):
            self.assertEqual((step["loss"], step["grad_norm"]), expected[step["step"]])

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

    def check_last(self, binary, expected):
        """The last checkpoint is whole; if it is an early one, it goes on."""
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])
        with open(os.path.join(self.saved, "latest")) as file:
            at = int(file.read().strip().split("-")[1])
        if at < STEPS:
            self.check_resumable(binary, expected)

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
                    self.assertIn(f"of the swap file in {self.swap}", found.stderr)
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

    def requests(self, binary):
        """How many reads, and as many writes, a run makes at least."""
        shutil.rmtree(self.saved, ignore_errors=True)
        path = self.path("count")
        h.run(self.words(binary),
              env=dict(self.environment("count 0"), HEDDLE_TEST_COUNT=path))
        with open(path) as file:
            return min(map(int, file.read().split()))

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

    def test_short_and_slow_requests(self):
        binary = self.compile_for()
        expected = self.losses(binary)
        for fault in ("short 0", "slow 0"):
            with self.subTest(fault=fault):
                self.assertEqual(self.losses(binary, fault=fault), expected)

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

    def test_a_loss_that_is_not_finite(self):
        """The run ends, and what it saved before is whole."""
        binary = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                              "--place", "optimizer=file", config=h.ds_config(lr=1e30),
                              output="diverging")
        found = h.run(self.words(binary, every=1), 5, env=self.environment())
        self.assertIn("error[H0410]", found.stderr)
        self.assertEqual(os.listdir(self.swap), [])
        h.run([h.HEDDLE, "checkpoint", "verify", self.saved])

    def test_gpus(self):
        """What is on file goes through requests there too: the plan's bytes, the bits
        of a GPU that has all in its memory, and the same faults."""
        flags = ["--target", "sm_90"]
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, *flags,
                             config=h.ds_config(), output="plain-gpu")
        binary = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, *flags,
                              "--place", "optimizer=file,activations=file",
                              config=h.ds_config(), output="gpu")
        plan = self.explain(binary)
        moved = {(move["from"], move["to"]): move["bytes"] for move in plan["moves"]}
        emulate = [h.HEDDLE, "emulate", "--"]
        steps, expected = 2, None
        for program, order, way in ((plain, "late", "threads"), (binary, "late", "threads"),
                                    (binary, "early", "auto"), (binary, "seed:4", "auto")):
            with self.subTest(order=order, way=way):
                log = self.path("gpu.jsonl")
                if os.path.exists(log):
                    os.remove(log)
                h.run([*emulate, program, "train", "--data", self.data, "--steps", steps,
                       "--log", log, "--progress", "none", "--swap-dir", self.swap],
                      env=dict(self.environment(way=way), HEDDLE_EMULATE=order))
                found = [(step["loss"], step["grad_norm"]) for step in h.read_log(log)]
                expected = expected or found
                self.assertEqual(found, expected)
                end = h.read_log(log, "end")[0]
                if program == binary:
                    self.assertEqual(end["file_bytes_read"],
                                     steps * moved["file", "device"])
                    self.assertEqual(end["file_bytes_written"],
                                     steps * moved["device", "file"])
        self.assertEqual(os.listdir(self.swap), [])
        trace = self.path("gpu-trace.json")
        h.run([*emulate, *self.words(binary, "--trace", trace, steps=1)],
              env=self.environment("slow 0"))
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        self.check_copies(events)
        for fault in ("read EIO 3", "write EIO 3"):
            with self.subTest(fault=fault):
                found = h.run([*emulate, *self.words(binary)], 5,
                              env=self.environment(fault))
                self.assertIn("error[H0461]: cannot " + fault.split()[0], found.stderr)
                self.assertEqual(os.listdir(self.swap), [])

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


@h.long_only
class Large(h.HeddleTest):
    """Models whose states are larger than the memory of a machine of 24 GiB."""

    runs_alone = True

    def check(self, config, flags, place, steps):
        seq = 64
        model, log = self.path("model.json"), self.path("run.jsonl")
        with open(model, "w") as file:
            json.dump(config, file)
        # One row, again and again.
        data, _ = self.make_tokens(seq + 1, config["vocab_size"])
        binary = self.compile(model, "--init", "random", "--batch", 1, "--seq", seq,
                              "--precision", "bf16", "--place", place, "--memory-budget",
                              "device=8GiB", *flags, config=h.ds_config(lr=1e-4))
        plan = self.explain(binary)
        kinds = plan["memory"]["kinds"]
        filed, planned = (sum(kinds[kind].values()) for kind in ("file", "device"))
        self.assertLessEqual(planned, 8 << 30)
        free = shutil.disk_usage(self.folder).free
        if free < filed + (1 << 30):
            self.skipTest(f"{filed >> 30} GiB go to a disk that has {free >> 30} GiB")
        begun = time.monotonic()
        resident = run_within(planned + 32 * MEBIBYTE, [
            binary, "train", "--data", data, "--steps", steps, "--log", log, "--progress",
            "none", "--swap-dir", self.path("swap")], timeout=3600)
        losses = [step["loss"] for step in h.read_log(log)]
        print(f"{plan['parameters']} parameters, planned {planned >> 20} MiB and "
              f"{filed >> 20} MiB on file, resident {resident >> 20} MiB, "
              f"{(time.monotonic() - begun) / steps:.1f} s a step, losses {losses}")
        self.assertLessEqual(resident, planned + 32 * MEBIBYTE)
        self.assertEqual(len(losses), steps)
        self.assertLess(losses[-1], losses[0] - 1)
        # A run also reads and writes for its first values.
        found = json.loads(h.run([binary, "bench", "--steps", 1, "--warmup", 0, "--json",
                                  "--swap-dir", self.path("swap")], timeout=3600).stdout)
        for direction, end in (("read", "from"), ("written", "to")):
            self.assertEqual(found["file_bytes_" + direction],
                             sum(move["bytes"] for move in plan["moves"]
                                 if move[end] == "file"))

    def test_gpt2_xl(self):
        self.check(h.gpt2_config(vocab=50257, positions=1024, embed=1600, layers=48,
                                 heads=25), [], "optimizer=file,parameters=file", 10)

    def test_llama_of_3_billion(self):
        self.check(families.config(vocab_size=32000, hidden_size=3200,
                                   intermediate_size=8640, num_hidden_layers=22,
                                   num_attention_heads=32, num_key_value_heads=32,
                                   max_position_embeddings=2048,
                                   initializer_range=0.02, rope_theta=10000.0),
                   ["--optimizer", "Lion"],
                   "optimizer=file,parameters=file,gradients=file", 3)


if __name__ == "__main__":
    unittest.main()
