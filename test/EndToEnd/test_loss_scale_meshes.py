# The loss scale on drawn meshes.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drawn models on drawn meshes, with drawn offloading, groups of parameters, optimizers,
dropped layers and delayed updates. The scale begins so high that squares of gradients
overflow in fp32. Each run follows the rule for the scale, and its updates have the losses
and gradient norms of one rank's updates. A plan that the compiler refuses is counted and
drawn again.
HEDDLE_TEST_LONG=1 draws many, HEDDLE_TEST_SEED=N or N-M those alone."""

import json
import os
import random
import unittest

import numpy as np

import heddle_test as h
import loss_scales
import test_shapes
from test_layer_drop_meshes import GROUPS, PLACES

SHORT, LONG = (1, 3, 4), range(40)
RUN, UPDATES = 14, 4  # Steps of a run, and the updates that are compared.


def draws(seed):
    """What test_shapes.py draws, flags of both binaries, and flags of the mesh's alone."""
    pick = random.Random(seed)
    for options, plan, precision, divided in test_shapes.draws(seed):
        scale = {"initial": 2.0 ** pick.randint(64, 67), "window": pick.choice([1, 2, 3]),
                 "hysteresis": pick.choice([1, 1, 2]), "min": 1}
        # Not Lion, which takes signs of gradients that are rounding.
        shared = [*loss_scales.flags_of(scale),
                  "--optimizer", pick.choice(["AdamW", "AdamW", "Adam", "Lamb"])]
        if pick.random() < 0.3:
            shared += ["--group", pick.choice(GROUPS)]
        if pick.random() < 0.2:
            shared += ["--delayed-update"]
        own = []
        if pick.random() < 0.4:
            own += ["--place", pick.choice(PLACES), "--sub-group-size",
                    pick.choice([1, 1000, 10 ** 6])]
            if "optimizer=host" in own[1] and pick.random() < 0.5:
                own += ["--host-updates", pick.choice([0.5, 1])]
        yield dict(options, dropout=0), plan, precision, divided, shared, own


@h.needs_mpi
class Meshes(test_shapes.ShapesTest):
    draws = staticmethod(draws)

    def setUp(self):
        super().setUp()
        self.delayed = set()  # The folders of draws whose updates are delayed.

    def make_tokens(self, count, vocab, name, seed=5):
        """The same batch in every step, so that a step that another run skips changes no
        later batch."""
        period = (count - 1) // test_shapes.STEPS
        tokens = np.resize(h.random_tokens(period, vocab, seed), count)
        h.write_tokens(self.path(name), tokens)
        return self.path(name), tokens

    def check(self, seed, options, plan, precision, divided, shared=(), own=()):
        if "--delayed-update" in shared:
            self.delayed.add(self.path(str(seed)))
        super().check(seed, options, plan, precision, divided, shared, own)

    def figures_of(self, binary, data, ranks):
        log = os.path.basename(os.path.dirname(binary)) + "/log"
        steps = self.train(binary, data, RUN, ranks=ranks, name=log)
        is_delayed = os.path.dirname(binary) in self.delayed
        shown = h.run([binary, "info", "--json"]).stdout
        self.assertFollowsRule(steps, shown)
        updates = [step for step in steps if not step["skipped"]][:UPDATES]
        self.assertEqual(len(updates), UPDATES)
        # A delayed update comes a step later, so the losses of updates depend on where
        # steps were skipped between them.
        keys = ("lr",) if is_delayed else ("loss", "grad_norm", "lr")
        return {key: [step[key] for step in updates] for key in keys}

    def assertFollowsRule(self, steps, shown):
        scale = json.loads(shown)["loss_scale"]
        expected = loss_scales.scales_of(scale["initial"], scale["window"],
                                         scale["hysteresis"], scale["min"],
                                         [step["skipped"] for step in steps])
        np.testing.assert_allclose([step["loss_scale"] for step in steps], expected,
                                   rtol=1e-8)

    def in_float64(self, *_):
        """Doubles do not overflow where floats do, so they are no reference here."""
        return {}

    def test_give_the_numbers_of_one_rank(self):
        self.check_seeds(LONG if h.LONG else SHORT)


if __name__ == "__main__":
    unittest.main()
