# Training whose states are on file: what of it is in memory.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary needs no memory for what is on file. HEDDLE_TEST_LONG=1 trains models whose
states are larger than a machine's memory, and ranks on more meshes."""

import json
import os
import shutil
import sys
import tempfile
import time
import unittest

import families
import heddle_test as h
from swapping import SEQ, SwapTest

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


# Runs a command, maybe in a group, and adds to a file what it had in memory at most.
# What a process has when it forks counts for its child too, so this one is small. What
# ranks print may come in one line.
MEASURE = """
import os, sys
group, into, *words = sys.argv[1:]
child = os.fork()
if child == 0:
    if group:
        with open(group, "w") as file:
            file.write(str(os.getpid()))
    os.execv(words[0], words)
_, status, usage = os.wait4(child, 0)
with open(into, "a") as file:
    file.write(str(usage.ru_maxrss * 1024) + chr(10))
sys.exit(1 if status else 0)
"""


def run_within(limit, words, **options):
    """Runs a command in a memory cgroup of so many bytes, if there can be one: what it
    had in memory at most."""
    group = make_group(limit)
    try:
        with tempfile.NamedTemporaryFile("r") as resident:
            h.run([sys.executable, "-S", "-c", MEASURE, group or "", resident.name, *words],
                  **options)
            return int(resident.read())
    finally:
        if group:
            os.rmdir(os.path.dirname(group))


class Memory(SwapTest):
    takes_long = True

    def test_needs_no_memory_for_what_is_on_file(self):
        """Most bytes of states are on file, as of AdamW in bf16 14 of the 18 of a
        parameter, all but its gradient. A process that may have a third of them, where
        a memory cgroup can see to it, trains to the same bits."""
        gpt2 = h.gpt2_config(vocab=97, positions=SEQ, embed=640, layers=8, heads=10)
        llama = families.config(hidden_size=512, intermediate_size=2048,
                                num_hidden_layers=6)
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
        words = ["train", "--data", self.data, "--steps", 2, "--progress", "none"]
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
        for flags in (["--mesh", "data=2,pipe=2", "--accumulate", 4, "--place",
                       "optimizer=file,parameters=file,activations=file"],
                      *[["--mesh", "data=4", "--zero", 3, "--place",
                         "optimizer=file,parameters=file"]] * h.LONG):
            with self.subTest(flags[1]):
                binary = self.compile(model, "--init", "random", "--batch", 8, "--seq", SEQ,
                                      "--threads", 1, "--precision", "bf16", *flags,
                                      config=h.ds_config(), output="ranks")
                planned = max(self.explain(binary, "--rank", rank)["memory"]["peak"]
                              for rank in range(4))
                shutil.rmtree(self.saved, ignore_errors=True)
                words = self.words(binary, steps=2, every=1)
                into = self.path("resident")
                h.run_ranks(4, [sys.executable, "-S", "-c", MEASURE, "", into, *words])
                with open(into) as file:
                    resident = [int(line) for line in file]
                os.remove(into)
                print(f"planned {planned >> 20} MiB of memory, resident "
                      f"{[size >> 20 for size in sorted(resident)]} MiB")
                self.assertEqual(len(resident), 4)
                self.assertLessEqual(max(resident), planned + 32 * MEBIBYTE)


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
