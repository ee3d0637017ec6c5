# Updates that are computed a step later.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With --delayed-update a step computes its gradients with parameters that lack the
update of the step before, and that update beside its backward pass: the numbers of a
loop in PyTorch that does so, the same for every placement, and over a resume."""

import json
import unittest

import numpy as np

import heddle_test as h

BATCH, SEQ, STEPS = 2, 7, 6
FLAGS = ["--batch", BATCH, "--seq", SEQ, "--delayed-update"]
PLACE = ["--place", "optimizer=file", "--sub-group-size", 2000]


class DelayedUpdate(h.HeddleTest):
    def setUp(self):
        self.model, self.config, self.weights = self.make_model(embed=36)
        self.data, self.tokens = self.make_tokens(BATCH * SEQ * (STEPS + 1), 97)

    def run_plan(self, *more, output="job", clip=0.5, train=(), ranks=1):
        binary = self.compile(self.model, *FLAGS, *more,
                              config=h.ds_config(lr=3e-3, clip=clip, eps=1e-5),
                              output=output)
        steps = self.train(binary, self.data, STEPS, *train, ranks=ranks)
        return [(step["loss"], step["grad_norm"]) for step in steps]

    @h.needs_torch
    def test_the_numbers_of_pytorch(self):
        import oracle
        for clip in (0, 0.5):
            model = oracle.Gpt2(self.config, self.weights)
            batches = [h.batch(self.tokens, step, BATCH, SEQ) for step in range(STEPS)]
            losses, norms = oracle.train(model, batches, [3e-3] * STEPS, clip=clip,
                                         eps=1e-5, delayed=True)
            saved = self.path(f"saved-{clip}")
            found = self.run_plan(clip=clip, train=["--save", saved])
            np.testing.assert_allclose(found, list(zip(losses, norms)), rtol=1e-5)
            kept = h.read_saved(saved)
            for name, value in model.arrays().items():
                self.assert_close(kept["transformer." + name], value, 1e-5, name)

    def test_every_placement_has_the_same_bits(self):
        for case, (mesh, ranks) in enumerate((
                ([], 1), (["--optimizer", "Lamb"], 1),
                (["--accumulate", 2, "--micro-batch", 1], 1),
                (["--mesh", "pipe=2", "--accumulate", 2, "--micro-batch", 1], 2),
                (["--mesh", "data=2", "--zero", 1], 2),
                (["--mesh", "data=2", "--zero", 3, "--precision", "bf16"], 2))):
            with self.subTest(mesh):
                here = self.run_plan(*mesh, output=f"here-{case}", ranks=ranks)
                there = self.run_plan(*mesh, *PLACE, output=f"there-{case}", ranks=ranks)
                self.assertEqual(here, there)

    def test_resumes_with_what_waits(self):
        whole = self.run_plan(*PLACE)
        saved = self.path("saved")
        binary = self.path("job")
        self.train(binary, self.data, 3, "--save", saved)
        rest = self.train(binary, self.data, STEPS, "--resume", saved)
        self.assertEqual([(step["loss"], step["grad_norm"]) for step in rest], whole[3:])

    def test_resumes_where_nothing_waits(self):
        """The last update is not in the checkpoint's parameters; a plan without delay
        goes on from them. The other way round gradients are missing."""
        self.run_plan(*PLACE)
        saved = self.path("saved")
        self.train(self.path("job"), self.data, 3, "--save", saved)
        plain = self.compile(self.model, "--batch", BATCH, "--seq", SEQ, output="plain")
        self.train(plain, self.data, 4, "--resume", saved)
        self.train(plain, self.data, 3, "--save", self.path("undelayed"))
        said = h.run([self.path("job"), "train", "--data", self.data, "--steps", 4,
                      "--resume", self.path("undelayed")], 3).stderr
        self.assertIn("error[H0335]", said)
        self.assertIn("--reset-optimizer", said)

    def test_updates_run_beside_the_backward_pass_with_clipping(self):
        trace = self.path("trace.json")
        self.run_plan(*PLACE, train=["--trace", trace])
        with open(trace) as file:
            events = [event for event in json.load(file)["traceEvents"]
                      if event["args"]["step"] == 1]
        ends = [number for number, event in enumerate(events)
                if "embedding_grad" in event["args"].get("ops", "")]
        stores = [number for number, event in enumerate(events) if event["tid"] == 2]
        self.assertLess(stores[0], ends[-1])


if __name__ == "__main__":
    unittest.main()
