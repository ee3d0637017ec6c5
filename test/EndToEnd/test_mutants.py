# Edited dumps of plans that train: right or refused.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dumps of training, as `judging_mutants.py` edits them: losses and norms of what is
compiled are the interpreter's. HEDDLE_TEST_LONG=1 takes 10,000 mutants."""

import os
import unittest

import numpy as np

import heddle_test as h
from judging_mutants import (NOT_FINITE, PHASES, Bad, Ended, MutantsTest, are_near,
                             seeds)

ROWS, SEQ, STEPS, VOCAB = 4, 5, 2, 11
# Flags, and the number of ranks.
CONFIGURATIONS = {
    "one": (["--accumulate", 2], 1),
    "mesh": (["--accumulate", 2, "--micro-batch", 1, "--mesh", "data=2,pipe=2",
              "--zero", 2], 4),
}

# That once failed, while the dumps were as they were then.
ONCE = [239, 356, 809]


class Mutants(MutantsTest):
    takes_long = True
    configurations = CONFIGURATIONS
    steps, few, once = STEPS, 120, ONCE

    def config(self):
        # With Adam's usual eps a gradient that is zero but for rounding would be
        # made as long as the others.
        return h.ds_config(lr=2e-3, eps=1e-3)

    def prepare(self, name, flags):
        model, _, _ = self.make_model(vocab=VOCAB, positions=6, embed=8, heads=2,
                                      dropout=0.1, name=name)
        return self.dumps(model, "--batch", ROWS, "--seq", SEQ, *flags, name=name,
                          config=self.config())

    def train(self, binary, ranks):
        log = binary + ".jsonl"
        launch = [h.HEDDLE, "run"] if ranks > 1 else []
        dashes = ["--"] if ranks > 1 else []
        ended = Ended([*launch, binary, *dashes, "train", "--data", self.data,
                       "--steps", self.steps, "--seed", 0, "--log", log, "--progress",
                       "none"]).check("train")
        if ended.status in (3, 5) and ended.code == "H0385":
            raise Bad("train: H0385")
        steps = h.read_log(log) if os.path.exists(log) else []
        return ended.code, steps

    def compare(self, file, job, name, phase):
        code, steps = self.train(job, self.configurations[name][1])
        if code == NOT_FINITE:
            # A step without a loss is not in the log.
            steps.append({"loss": None})
        if not steps:
            return "ends with " + code
        # There is no step in them yet: the second one would be the first again.
        count = 1 if phase in ("import", "model") else len(steps)
        values = [("loss", 1)] if count == 1 else [
            (value, step) for step in range(1, count + 1)
            for value in ("loss", "grad_norm")]

        def find_wrong(single, double):
            for value, step in values:
                got = [found.get(f"{value}@{step}") for found in (single, double)]
                if value == "grad_norm" and steps[step - 1]["loss"] is None:
                    continue
                if (value in steps[step - 1]) != (got[0] is not None):
                    return f"{value} of one alone", f"step {step}"
                if value not in steps[step - 1]:
                    continue
                expected = steps[step - 1][value]
                # As JSON has it.
                expected = np.nan if expected is None else expected
                if not are_near(*got, expected):
                    return (f"{value} of step {step}", f"binary {expected}, interpreter "
                            + " ".join(str(float(g)) for g in got))
            return None

        self.confirm(file, find_wrong, "--inputs", self.inputs, "--steps", count)
        if code:
            return "both end with " + code
        # Bits, as the same kernels give the same.
        alike = [(s["loss"], s["grad_norm"]) for s in steps] == self.unedited[name]
        return "as before" if alike else "equal"

    def test_accepted_and_right_or_refused(self):
        self.data, tokens = self.make_tokens(ROWS * SEQ * self.steps + 1, VOCAB)
        self.inputs = self.path("inputs.safetensors")
        h.write_inputs(self.inputs, tokens, self.steps, ROWS, SEQ)
        self.texts, self.unedited = {}, {}
        for name, (flags, ranks) in self.configurations.items():
            self.texts[name] = self.prepare(name, flags)
            _, steps = self.train(self.path(name + "-job"), ranks)
            self.unedited[name] = [(s["loss"], s["grad_norm"]) for s in steps]
        known = [phase for phase in PHASES if any(phase in texts for texts in
                                                  self.texts.values())]
        self.assert_right_or_refused(seeds(self.few, self.once, known))


class OneBitMutants(Mutants):
    """Of programs that send signs. Before the phase spmd nothing says what a rank has
    of a partial sum, so the interpreter has other norms there."""

    configurations = {"signs": (["--mesh", "data=2"], 2)}
    steps, few, once = 4, 30, []

    def config(self):
        return {"optimizer": {"type": "OneBitAdam", "params": {
            "lr": 2e-3, "eps": 1e-3, "freeze_step": 2}}}

    def prepare(self, name, flags):
        texts = super().prepare(name, flags)
        return {phase: texts[phase] for phase in PHASES[PHASES.index("spmd"):]}


@h.long_only
class LocalStepMutants(OneBitMutants):
    """Of a dense step, two that synchronize and two that do not."""

    steps = 5

    def config(self):
        return {"optimizer": {"type": "ZeroOneAdam", "params": {
            "lr": 2e-3, "eps": 1e-3, "var_freeze_step": 0, "local_step_scaler": 1,
            "local_step_clipper": 4}}}


if __name__ == "__main__":
    unittest.main()
