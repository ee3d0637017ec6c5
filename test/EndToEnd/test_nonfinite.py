# Steps whose loss or gradient norm is not finite.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Such a step updates nothing: what comes after it has the bits of a run that never
saw its batch, on every mesh. One row of the embeddings is zero, and the epsilon of
norms next to nothing: the loss of a batch that has this token is finite, but its
gradient passes two norms that multiply it by 1e22 each.
HEDDLE_TEST_LONG=1 takes all meshes of the table."""

import json
import os
import shutil
import unittest

import numpy as np

import families
import heddle_test as h

ROWS, SEQ, BAD = 2, 8, 5
# Flags of the compiler, ranks, and whether it is one of the default tests.
CASES = [([], 1, True),
         (["--precision", "bf16", "--optimizer", "Lamb"], 1, False),
         (["--optimizer", "Lion", "--place", "optimizer=file", "--sub-group-size",
           1024], 1, False),
         (["--delayed-update", "--place", "optimizer=file"], 1, False),
         (["--mesh", "pipe=2", "--micro-batch", 1, "--accumulate", 2], 2, True),
         (["--mesh", "tensor=2", "--precision", "bf16"], 2, False),
         (["--mesh", "data=2", "--zero", 0], 2, False),
         (["--mesh", "data=2", "--zero", 1], 2, False),
         (["--mesh", "data=2", "--zero", 2, "--place", "optimizer=file"], 2, False),
         (["--mesh", "data=2", "--zero", 3, "--precision", "bf16"], 2, True),
         (["--mesh", "data=2,pipe=2", "--zero", 1, "--micro-batch", 1], 4, False),
         # One of the ranks has the token; the second update is the last dense one.
         (["--mesh", "data=2", "--optimizer", "OneBitAdam", "--freeze-step", 2], 2, True),
         (["--mesh", "data=2,tensor=2", "--zero", 2, "--precision", "bf16",
           "--optimizer", "OneBitAdam", "--freeze-step", 2], 4, False)]


class NonFiniteTest(h.HeddleTest):
    """A model with a token whose gradient is not finite."""

    def setUp(self):
        self.config = families.config("qwen3", rms_norm_eps=1e-44, head_dim=8)
        weights = families.random_weights(self.config)
        weights["model.embed_tokens.weight"][BAD] = 0
        random = np.random.default_rng(3)
        for layer in range(self.config["num_hidden_layers"]):
            for name in ("q_norm", "k_norm"):
                weights[f"model.layers.{layer}.self_attn.{name}.weight"] = \
                    random.uniform(0.5, 1.5, self.config["head_dim"]).astype(np.float32)
        self.model = self.path("model")
        h.write_model(self.model, self.config, weights, prefix="")

    def build(self, *flags, output="job", clip=0.5):
        return self.compile(self.model, "--seq", SEQ, "--batch", ROWS, *flags,
                            output=output, config=h.ds_config(warmup=4, clip=clip))

    def batches(self, name, numbers):
        """Batches of these numbers; those from 100 on have the bad token."""
        rows = []
        for number in numbers:
            ids = np.random.default_rng(number).integers(
                BAD + 1, self.config["vocab_size"], (ROWS, SEQ + 1))
            if number >= 100:
                ids[1, 3] = BAD
            rows.append(ids)
        rows = np.concatenate(rows).astype(np.int32)
        h.write_safetensors(self.path(name), {"ids": rows[:, :-1].copy(),
                                              "labels": rows[:, 1:].copy()})

    def run_train(self, binary, name, steps, *flags, ranks=1, status=0, first=None,
                  **variables):
        log = self.path("log.jsonl")
        if os.path.exists(log):
            os.remove(log)
        first = first or []
        found = h.run_ranks(ranks, [*first, binary, "train", "--inputs", self.path(name),
                                    "--steps", steps, "--progress", "plain", "--log", log,
                                    *flags], status, **variables)
        with open(log) as file:
            self.lines = [json.loads(line, parse_constant=self.fail) for line in file]
        return found

    def steps(self):
        return [line for line in self.lines if line["event"] == "step"]


class NonFinite(NonFiniteTest):
    def test_skipped_steps_leave_no_trace(self):
        self.batches("bad", [0, 1, 100, 2, 101, 102, 3])
        self.batches("good", [0, 1, 2, 3])
        for case, (flags, ranks, isShort) in enumerate(CASES):
            if not (isShort or h.LONG) or (ranks > 1 and not h.MPIRUN):
                continue
            with self.subTest(flags=flags):
                binary = self.build(*flags, output=f"job-{case}")
                saved = [self.path(f"{name}-{case}") for name in ("bad", "good")]
                self.run_train(binary, "good", 4, "--save", saved[1], ranks=ranks)
                good = self.steps()
                self.run_train(binary, "bad", 7, "--save",
                               saved[0], "--on-nonfinite", "skip", ranks=ranks)
                bad = self.steps()
                self.assertEqual([step.get("skipped", False) for step in bad],
                                 [False, False, True, False, True, True, False])
                self.assertTrue(all(step["grad_norm"] is None for step in bad
                                    if "skipped" in step))
                if "--delayed-update" in flags:
                    continue  # The batch behind a bad one finds other parameters.
                keys = ("loss", "grad_norm", "lr")
                self.assertEqual([[step[key] for key in keys] for step in bad
                                  if "skipped" not in step],
                                 [[step[key] for key in keys] for step in good])
                self.assertEqual(h.bytes_saved(saved[0]), h.bytes_saved(saved[1]))

    def test_a_run_stops_before_the_step(self):
        """Also where it is the last one; what was saved is good, and goes on."""
        self.batches("bad", [0, 1, 100, 2])
        for clip in (0.5, 0):
            binary = self.build(clip=clip)
            saved, good = self.path(f"saved-{clip}"), self.path(f"good-{clip}")
            for steps in (3, 4):
                shutil.rmtree(saved, ignore_errors=True)
                said = self.run_train(binary, "bad", steps,
                                      "--save", saved, "--save-every", 1, "--keep-last",
                                      1, status=5).stderr
                self.assertIn("error[H0410]: the gradient norm of step 3 is not finite",
                              said)
                self.assertEqual(len(self.steps()), 2)
                self.assertEqual(self.lines[-1]["code"], "H0410")
                self.assertTrue(h.latest_of(saved).endswith("step-000002"))
            late = self.path(f"late-{clip}")
            self.run_train(binary, "bad", 4, "--save", late,
                           status=5)
            self.run_train(binary, "bad", 2, "--save", good)
            for folder in (saved, late):
                self.assertEqual(h.bytes_saved(folder), h.bytes_saved(good))
            h.run([h.HEDDLE, "checkpoint", "verify", saved])
            self.run_train(binary, "bad", 4, "--resume", late, "--on-nonfinite", "skip",
                           "--save", late)
            self.assertEqual([step.get("skipped", False) for step in self.steps()],
                             [True, False])
            with open(os.path.join(h.latest_of(late), "heddle", "state.json")) as file:
                self.assertEqual(json.load(file)["skipped"], 1)

    def test_too_many_in_a_row(self):
        self.batches("bad", [0, *range(100, 111), 1])
        binary = self.build()
        saved = self.path("saved")
        said = self.run_train(binary, "bad", 13, "--save",
                              saved, "--on-nonfinite", "skip", status=5).stderr
        self.assertIn("step 12 is not finite, as in the 10 steps before", said)
        self.assertEqual(len(self.steps()), 11)
        self.assertTrue(h.latest_of(saved).endswith("step-000011"))

    def test_a_gpu_that_is_a_step_ahead(self):
        """The step that was submitted behind a bad one is submitted again: rates and
        bits are those of a device that is not ahead."""
        self.batches("bad", [0, 100, 1, 2, 101, 102, 3])
        self.batches("good", [0, 1, 2, 3])
        binary = self.build("--target", "sm_90")
        emulate = [h.HEDDLE, "emulate", "--"]
        flags = ["--save"]
        self.run_train(binary, "good", 4, *flags, self.path("good-saved"), first=emulate)
        good = [(step["loss"], step["lr"]) for step in self.steps()]
        self.run_train(binary, "bad", 7, *flags, self.path("bad-saved"),
                       "--on-nonfinite", "skip", first=emulate)
        self.assertEqual([(step["loss"], step["lr"]) for step in self.steps()
                          if "skipped" not in step], good)
        self.assertEqual([step["step"] for step in self.steps()], list(range(1, 8)))
        self.assertEqual(h.bytes_saved(self.path("bad-saved")),
                         h.bytes_saved(self.path("good-saved")))
        self.run_train(binary, "bad", 7, *flags, self.path("stopped"), first=emulate,
                       status=5)
        self.assertTrue(h.latest_of(self.path("stopped")).endswith("step-000001"))


if __name__ == "__main__":
    unittest.main()
