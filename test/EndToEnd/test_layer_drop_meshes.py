# Layer dropping on drawn meshes.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drawn models that drop layers, on drawn meshes with drawn offloading, groups of
parameters and optimizers: losses, gradient norms, kept layers and final weights are one
rank's. A plan that the compiler refuses is counted and drawn again.
HEDDLE_TEST_LONG=1 draws many, HEDDLE_TEST_SEED=N or N-M those alone."""

import os
import random
import unittest

import heddle_test as h
import test_shapes

# Seeds of an everyday run: four stages with updates on the host; stages of two replicas with
# delayed updates; ZeRO 3 with offloaded activations and a frozen parameter.
SHORT, LONG = (2, 4, 6), range(40)
# Seeds that once failed.
KEPT = [40]
PLACES = ["optimizer=host", "optimizer=file", "parameters=file", "parameters=pinned",
          "optimizer=file,parameters=file", "gradients=host",
          "optimizer=host,gradients=host", "activations=host", "activations=file",
          "optimizer=host,parameters=host,gradients=host,activations=host"]
GROUPS = ["ln_f:frozen", "wpe:frozen", r"h\.0\.:frozen", r"\.mlp\.:frozen", "attn:lr=0.5",
          "bias:weight_decay=0"]


def draw_rates(pick, layers):
    """Flags that drop layers."""
    if pick.random() < 0.5:
        theta, gamma = pick.choice([0.05, 0.3, 0.6]), pick.choice([0, 0.1, 1, 50])
        return ["--layer-drop", f"theta={theta},gamma={gamma}"]
    rates = [pick.choice([0, 0.2, 0.5, 0.8]) for _ in range(layers)]
    return ["--layer-drop-schedule",
            ",".join(map(str, rates if pick.random() < 0.6 else [pick.choice([0.3, 0.6])]))]


def draws(seed):
    """What test_shapes.py draws, flags of both binaries, and flags of the mesh's alone."""
    pick = random.Random(seed)
    for options, plan, _, divided in test_shapes.draws(seed):
        shared = draw_rates(pick, options["layers"])
        # Not Lion, which takes signs of gradients that are rounding.
        shared += ["--optimizer", pick.choice(["AdamW", "AdamW", "Adam", "Lamb"])]
        if pick.random() < 0.3:
            shared += ["--group", pick.choice(GROUPS)]
        if pick.random() < 0.15:
            shared += ["--delayed-update"]
        own = []
        if pick.random() < 0.5:
            own += ["--place", pick.choice(PLACES), "--sub-group-size",
                    pick.choice([1, 1000, 10 ** 6])]
            if "optimizer=host" in own[1] and pick.random() < 0.5:
                own += ["--host-updates", pick.choice([0.5, 1])]
        yield options, plan, "fp32", divided, shared, own


@h.needs_mpi
class Meshes(test_shapes.ShapesTest):
    draws = staticmethod(draws)

    def figures_of(self, binary, data, ranks):
        figures = super().figures_of(binary, data, ranks)
        steps = h.read_log(os.path.join(os.path.dirname(binary), "log.jsonl"))
        # As numbers above 0, which are compared relatively.
        kept = [1 + sum(2 ** layer for layer in step["kept_layers"]) for step in steps]
        return dict(figures, kept_layers=kept)

    def test_give_the_numbers_of_one_rank(self):
        self.check_seeds([*KEPT, *(LONG if h.LONG else SHORT)])


if __name__ == "__main__":
    unittest.main()
