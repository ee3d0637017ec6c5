# Stores that are under way when a step ends.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step on a CPU leaves its last stores to files to the next one. Whatever comes in
between waits for them: a validation, a checkpoint, a signal, the end. The disk is slow
here, so they are under way. HEDDLE_TEST_LONG=1 kills more often."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import heddle_test as h

FAULTS = os.path.join(h.BUILD, "test", "Runtime", "SwapFaults.so")
BATCH, SEQ, STEPS = 4, 16, 6
ROOM = ["--memory-budget", "1GiB"]


class Carried(h.HeddleTest):
    def setUp(self):
        self.model, config, _ = self.make_model(vocab=97, positions=SEQ, embed=48,
                                                layers=3, heads=3)
        self.data, _ = self.make_tokens(BATCH * SEQ * 9 + 1, config["vocab_size"])
        self.saved, self.swap = self.path("saved"), self.path("swap")

    def compile_for(self, *flags, clip=0, output="carrying"):
        return self.compile(self.model, "--batch", BATCH, "--seq", SEQ, "--threads", 2,
                            *flags, config=h.ds_config(clip=clip), output=output)

    def carried(self, *flags, place="optimizer=file", **options):
        """A binary, and how many stores its plan leaves to the next step."""
        folder = self.path("phases")
        binary = self.compile_for("--place", place, "--sub-group-size", 16384,
                                  "--dump-phases", folder, *flags, **options)
        with open(os.path.join(folder, "memory.mlir")) as file:
            plan = file.read()
        left = len(re.findall(r"plan.record +store carried ", plan))
        # All are waited for, by what is fetched and by what is computed.
        for stream in (" +on +copy", ""):
            waits = re.search(rf"plan.settle {left - 1}{stream}( loc.*)?\n", plan)
            self.assertEqual(bool(waits), left > 0)
        return binary, left

    def words(self, binary, *flags, steps=STEPS):
        return [binary, "train", "--data", self.data, "--steps", steps, "--save",
                self.saved, "--progress", "none", "--log", self.path("run.jsonl"),
                "--swap-dir", self.swap, *flags]

    def environment(self, fault="slow 0"):
        more = {"LD_PRELOAD": FAULTS, "HEDDLE_TEST_FAULT": fault,
                "HEDDLE_SWAP_IO": "threads"}
        return dict(os.environ, **more)

    def outcome(self, binary, *flags, **options):
        """What the log says of steps and validations, and the last checkpoint."""
        shutil.rmtree(self.saved, ignore_errors=True)
        log = self.path("run.jsonl")
        if os.path.exists(log):
            os.remove(log)
        h.run(self.words(binary, *flags, **options), env=self.environment())
        found = [[(line["step"], line["loss"], line.get("grad_norm"))
                  for line in h.read_log(log, event)] for event in ("step", "eval")]
        return found, h.bytes_saved(self.saved)

    def test_the_next_step_has_the_same_bits(self):
        """Also where each step is followed by a validation, whose values take the bytes
        that are stored, and by a checkpoint, which reads what they are stored to."""
        more = ["--val", self.data, "--val-every", 1, "--val-steps", 1,
                "--save-every", 2, "--keep-last", 1]
        for case, (flags, clip) in enumerate((
                ([], 0), (["--precision", "bf16"], 0), ([], 0.5),
                (["--delayed-update"], 0.5),
                (["--micro-batch", 2, "--optimizer", "Lion"], 0),
                (["--precision", "bf16", "--recompute", "full"], 0.5))):
            with self.subTest(flags=flags, clip=clip):
                plain = self.compile_for(*flags, clip=clip, output=f"plain-{case}")
                binary, left = self.carried(*flags, *ROOM, clip=clip,
                                            output=f"carrying-{case}")
                self.assertGreater(left, 0)
                self.assertEqual(self.outcome(binary), self.outcome(plain))
                self.assertEqual(self.outcome(binary, *more), self.outcome(plain, *more))

    def test_takes_no_more_memory_than_there_is(self):
        """Without a budget the plan is as large as one whose steps leave nothing."""
        binary, least = self.carried(output="least")
        peak = sum(self.explain(binary)["memory"]["kinds"]["device"].values())
        for more in (0, 1 << 16, 1 << 30):
            binary, left = self.carried("--memory-budget", peak + more)
            plan = self.explain(binary)
            self.assertLessEqual(sum(plan["memory"]["kinds"]["device"].values()),
                                 peak + more)
        self.assertGreaterEqual(left, least)
        (written,) = [move for move in plan["moves"] if move["to"] == "file"]
        self.assertEqual(written["beside_kernels"], written["bytes"])

    def test_is_for_files_of_whole_models(self):
        pipe = ["--mesh", "pipe=2", "--accumulate", 2, "--micro-batch", 2]
        for place, flags in (("optimizer=host", []), ("optimizer=file", pipe)):
            with self.subTest(place=place, flags=flags):
                self.assertEqual(self.carried(*ROOM, *flags, place=place)[1], 0)

    def test_resumes_behind_what_was_left(self):
        binary, _ = self.carried(*ROOM)
        (steps, _), kept = self.outcome(binary)
        self.outcome(binary, steps=3)
        log = self.path("run.jsonl")
        os.remove(log)
        h.run(self.words(binary, "--resume", self.saved), env=self.environment())
        self.assertEqual([(line["step"], line["loss"], line["grad_norm"])
                          for line in h.read_log(log)], steps[3:])
        self.assertEqual(h.bytes_saved(self.saved), kept)

    def test_stops_behind_what_was_left(self):
        """By a signal, after which the checkpoint is that of whole steps; and by one
        that nothing follows, after which the last checkpoint is."""
        binary, _ = self.carried(*ROOM)
        plain = self.compile_for(output="plain")
        expected = {}
        generator = random.Random(7)
        for number in range(60 if h.LONG else 4):
            sent = signal.SIGKILL if number % 2 else signal.SIGTERM
            shutil.rmtree(self.saved, ignore_errors=True)
            job = subprocess.Popen(
                list(map(str, self.words(binary, "--save-every", 3, steps=10 ** 6))),
                env=self.environment(), stderr=subprocess.DEVNULL)
            while not os.path.exists(os.path.join(self.saved, "latest")):
                self.assertIsNone(job.poll())
                time.sleep(0.01)
            time.sleep(generator.random() * 0.2)
            job.send_signal(sent)
            self.assertEqual(job.wait(60), -sent if sent == signal.SIGKILL else 128 + sent)
            h.run([h.HEDDLE, "checkpoint", "verify", self.saved])
            step = int(h.latest_of(self.saved).split("-")[-1])
            found = h.bytes_saved(self.saved)
            if step not in expected:
                expected[step] = self.outcome(plain, steps=step)[1]
            self.assertEqual(found, expected[step])

    def test_a_store_that_was_left_fails(self):
        """The step is said to be done, and the next one is not begun with it."""
        binary, left = self.carried(*ROOM)
        said = h.run([binary, "bench", "--steps", 1, "--warmup", 1, "--json",
                      "--swap-dir", self.swap]).stdout
        self.assertGreater(json.loads(said)["file_bytes_written"], 0)
        for number in (left, 3 * left):
            shutil.rmtree(self.saved, ignore_errors=True)
            found = h.run(self.words(binary, "--save-every", 1), 5,
                          env=self.environment(f"write EIO {number}"))
            self.assertIn("error[H0461]: cannot write", found.stderr)
            if os.path.exists(os.path.join(self.saved, "latest")):
                h.run([h.HEDDLE, "checkpoint", "verify", self.saved])


if __name__ == "__main__":
    unittest.main()
