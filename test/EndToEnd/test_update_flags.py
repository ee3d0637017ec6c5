# Updates that a flag on the device skips.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The condition of updates is a value of the IR. Here a dump is edited, so that it also
depends on the norm of the gradients or on a state: the device then skips an update
without the host's help. What comes after it has the bits and the learning rates of a run
that never saw the batch, on every mesh and on a GPU that is a step ahead of the host.
HEDDLE_TEST_LONG=1 takes all cases of the table."""

import json
import os
import re
import shutil
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ, VOCAB = 2, 8, 97
BAD = 100  # The number of the batch after whose norm an update is skipped.
LIMIT = 6  # Its norm is larger than this, that of other batches smaller.

# The flag of the condition, flags of the compiler, ranks, and whether the case is one of
# the default tests.
CASES = [("state", ["--mesh", "pipe=2", "--micro-batch", 1, "--accumulate", 2], 2, True),
         ("norm", ["--mesh", "data=2", "--zero", 3], 2, True),
         ("state", ["--mesh", "data=2", "--zero", 1, "--place", "optimizer=file",
                    "--sub-group-size", 1024], 2, True),
         ("state", ["--target", "sm_90", "--place", "optimizer=host", "--host-updates", 1,
                    "--sub-group-size", 5000], 1, True),
         ("state", ["--optimizer", "Lion", "--precision", "bf16"], 1, False),
         ("norm", ["--optimizer", "Lamb", "--mesh", "tensor=2"], 2, False),
         ("norm", ["--mesh", "data=2,pipe=2", "--zero", 1, "--micro-batch", 1], 4, False)]

# What is inserted before the operation that counts updates. $C is the condition, $N the
# norm of the gradients. The state is the norm of the step before.
VALUE = """
      %flagged = nn.map (%flag_a = $C, %flag_b = $V) : (tensor<f32>, tensor<f32>) -> tensor<f32> {
        %limit = arith.constant $L : f64
        %none = arith.constant 0.0 : f64
        %over = arith.cmpf ogt, %flag_b, %limit : f64
        %result = arith.select %over, %none, %flag_a : f64
        nn.return %result : f64
      }
"""
STATE = """
      %flag_before = nn.get @norm_before : tensor<f32>
""" + VALUE.replace("$V", "%flag_before") + """
      %flag_after = nn.update "note" %flag_before, $N : (tensor<f32>, tensor<f32>) -> tensor<f32> {
      ^bb0(%flag_old: f64, %flag_new: f64):
        nn.return %flag_new : f64
      }
      nn.set @norm_before, %flag_after : tensor<f32>
"""


def add_flag(text, flag):
    """Edits a dump of the phase `train`: updates also depend on a flag."""
    counts = re.search(r"\n *%\w+ = nn\.count_update %\w+ if (%\w+)", text)
    condition = counts[1]
    norm = re.search(r'nn\.update "nonfinite" %\w+, (%\w+)', text)[1]
    inserted = (STATE if flag == "state" else VALUE.replace("$V", norm)) \
        .replace("$C", condition).replace("$N", norm).replace("$L", f"{LIMIT:.1f}")
    end = text.index("\n    }", counts.start())
    step = re.sub(condition + r"\b", "%flagged", text[counts.start():end])
    text = text[:counts.start()] + inserted + step + text[end:]
    if flag == "state":
        text = re.sub(r"(\n *nn\.state @)(nonfinite role optimizer : tensor<f32>)",
                      r"\1norm_before role optimizer : tensor<f32>\1\2", text)
    return text


class UpdateFlags(h.HeddleTest):
    def setUp(self):
        self.model = self.make_model(vocab=VOCAB, positions=SEQ, embed=36)[0]

    def build(self, *flags, name="job"):
        return self.compile(self.model, "--seq", SEQ, "--batch", ROWS, "--threads", 1,
                            *flags, output=name, config=h.ds_config(warmup=4, clip=0.5, eps=1e-5))

    def build_flagged(self, flag, *flags):
        """A binary of the edited dump, whose path is `self.dump`."""
        dumps = self.path("dumps")
        self.build(*flags, "--dump-phases", dumps, name="plain")
        self.dump = os.path.join(dumps, "train.mlir")
        with open(self.dump) as file:
            text = add_flag(file.read(), flag)
        with open(self.dump, "w") as file:
            file.write(text)
        return self.path("plain"), self.compile(self.dump, "--start-from", "train",
                                                output="flagged")

    def batches(self, name, numbers):
        rows = []
        for number in numbers:
            ids = np.random.default_rng(number).integers(0, VOCAB, (ROWS, SEQ + 1))
            rows.append(np.full_like(ids, 7) if number == BAD else ids)
        rows = np.concatenate(rows).astype(np.int32)
        h.write_safetensors(self.path(name), {"ids": rows[:, :-1].copy(),
                                              "labels": rows[:, 1:].copy()})
        return self.path(name)

    def run_train(self, binary, data, steps, *flags, ranks=1, emulates=False, **more):
        log = self.path("log.jsonl")
        if os.path.exists(log):
            os.remove(log)
        first = [h.HEDDLE, "emulate", "--"] if emulates else []
        self.said = h.run_ranks(ranks, [*first, binary, "train", "--inputs", data,
                                        "--steps", steps, "--log", log, "--progress",
                                        "plain", *flags], **more).stderr
        return h.read_log(log)

    def saved_state(self, folder):
        with open(os.path.join(h.latest_of(folder), "heddle", "state.json")) as file:
            return json.load(file)

    def assert_no_trace(self, flag, *flags, ranks=1):
        """Compares with a run that never saw the batch of the skipped update. Returns
        the binary, the file of batches, and what was saved."""
        plain, flagged = self.build_flagged(flag, *flags)
        numbers = [0, 1, BAD, 2, 3]
        skipped = 2 if flag == "norm" else 3
        kind = dict(ranks=ranks, emulates="sm_90" in flags)
        data, saved, other = self.batches("all", numbers), self.path("a"), self.path("b")
        found = self.run_train(flagged, data, 5, "--save", saved, **kind)
        self.assertRegex(self.said, r"step %d/5 .*  skipped  " % (skipped + 1))
        self.assertEqual([step.get("skipped", False) for step in found],
                         [number == skipped for number in range(5)])
        self.assertEqual(self.saved_state(saved)["skipped"], 1)
        del numbers[skipped], found[skipped]
        rest = self.run_train(plain, self.batches("rest", numbers), 4, "--save", other,
                              **kind)
        keys = ("loss", "grad_norm", "lr")
        self.assertEqual([[step[key] for key in keys] for step in found],
                         [[step[key] for key in keys] for step in rest])
        self.assertEqual(h.bytes_saved(saved), h.bytes_saved(other))
        return flagged, data, saved

    def assert_interpreted(self, data, saved):
        """The interpreter skips the same update of the edited dump."""
        inputs = h.read_safetensors(data)
        steps = {f"{name}@{step + 1}": value[step * ROWS:(step + 1) * ROWS]
                 for name, value in inputs.items() for step in range(5)}
        h.write_safetensors(self.path("steps"), steps)
        h.run([h.HEDDLE, "eval", self.dump, "--program", "train", "--steps", 5,
               "--inputs", self.path("steps"), "--output", self.path("states")])
        states = h.read_safetensors(self.path("states"))
        self.assertEqual(states["state.updates"], 4)
        optimizer = h.read_safetensors(os.path.join(
            h.latest_of(saved), "heddle", "optimizer.safetensors"))
        self.assertAlmostEqual(states["state.beta2_power"],
                               optimizer["beta2_power"], delta=1e-12)
        for name, value in h.read_saved(saved).items():
            self.assert_close(states[f"state.{name.removeprefix('transformer.')}"], value,
                              1e-5, name)

    def test_skipped_updates_leave_no_trace(self):
        for flag, flags, ranks, is_short in CASES:
            if not (is_short or h.LONG) or (ranks > 1 and not h.MPIRUN):
                continue
            with self.subTest(flag=flag, flags=flags):
                self.assert_no_trace(flag, *flags, ranks=ranks)
                for name in ("a", "b", "dumps"):
                    shutil.rmtree(self.path(name))

    def test_resume_and_interpreter(self):
        """A checkpoint holds the count of updates, so a resumed run takes the same
        rates; the interpreter skips the same update."""
        flagged, data, saved = self.assert_no_trace("norm")
        for steps in (2, 3):
            part = self.path(f"part-{steps}")
            self.run_train(flagged, data, steps, "--save", part)
            self.run_train(flagged, data, 5, "--resume", part, "--save", part)
            self.assertEqual(h.bytes_saved(part), h.bytes_saved(saved))
        self.assert_interpreted(data, saved)

    @h.long_only
    def test_delayed_updates(self):
        """The update of a skipped step is skipped one step later; the rates are those
        of steps that are not delayed."""
        flagged = self.build_flagged("norm", "--delayed-update", "--place",
                                     "optimizer=file")[1]
        data, saved = self.batches("all", [0, 1, BAD, 2, 3]), self.path("saved")
        found = self.run_train(flagged, data, 5, "--save", saved)
        rates = [step["lr"] for step in found]
        self.assertEqual(rates[2], rates[3])
        self.assertLess(rates[1], rates[2])
        self.assertLess(rates[3], rates[4])
        self.assert_interpreted(data, saved)

    def test_the_host_does_not_wait(self):
        """On a GPU a skipped update costs no more waits of the host than another."""
        flagged, data, saved = self.assert_no_trace("norm", "--target", "sm_90")
        waits = []
        for steps in (2, 3, 4):
            counts = self.path("counts.json")
            self.run_train(flagged, data, steps, emulates=True,
                           HEDDLE_EMULATE_COUNTS=counts)
            with open(counts) as file:
                waits.append(json.load(file)["last_waits"])
        self.assertEqual(waits, waits[:1] * 3)


if __name__ == "__main__":
    unittest.main()
