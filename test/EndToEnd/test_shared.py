#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models in the nn dialect whose layers share a parameter, over pipeline stages:
losses and gradient norms are one rank's."""

import json
import os
import re
import unittest

import numpy as np

from heddle_test import HEDDLE, HeddleTest, ds_config, read_log, run

LAYERS, ROWS, SEQ, STEPS = 4, 8, 16, 4
SHARED = ["mlp.c_fc.weight", "ln_1.bias"]
PLANS = [["--mesh", "pipe=3"],
         ["--mesh", "pipe=3", "--accumulate", 2, "--schedule", "zb-h1"],
         ["--mesh", "pipe=4,tensor=2", "--accumulate", 2],
         ["--mesh", "pipe=3,data=2", "--accumulate", 2, "--zero", 2],
         ["--mesh", "pipe=2", "--accumulate", 2, "--virtual-stages", 2]]


def share(text):
    """Gives all layers the first one's parameters."""
    for name in SHARED:
        other = rf"@h\.[1-9]\.{re.escape(name)}\b"
        text = re.sub(rf"^ *nn.state {other}.*\n", "", text, flags=re.M)
        text = re.sub(other, f"@h.0.{name}", text)
    return text


class Shared(HeddleTest):
    def train_shared(self, model, data, *flags):
        dumps, log = self.path("dumps"), self.path("log.jsonl")
        run([HEDDLE, "compile", model, "--batch", ROWS, "--seq", SEQ, "--threads", 1,
             "--dump-phases", dumps, "--stop-after", "import", "--config",
             self.settings, *flags])
        with open(os.path.join(dumps, "import.mlir")) as file:
            text = share(file.read())
        with open(self.path("shared.mlir"), "w") as file:
            file.write(text)
        binary = self.path("shared")
        run([HEDDLE, "compile", self.path("shared.mlir"), "--start-from", "import",
             "--cache", self.path("cache"), "-o", binary])
        if os.path.exists(log):
            os.remove(log)
        run([HEDDLE, "run", binary, "--", "train", "--data", data, "--steps", STEPS,
             "--progress", "none", "--log", log])
        return read_log(log)

    def test_stages_that_share_a_parameter(self):
        model, config, _ = self.make_model(layers=LAYERS, positions=SEQ, embed=32)
        data, _ = self.make_tokens(ROWS * SEQ * STEPS + 1, config["vocab_size"])
        self.settings = self.path("settings.json")
        with open(self.settings, "w") as file:
            json.dump(ds_config(eps=1e-5), file)
        expected = self.train_shared(model, data)
        self.assertLess(expected[-1]["loss"], expected[0]["loss"])
        for flags in PLANS:
            with self.subTest(flags=flags):
                steps = self.train_shared(model, data, *flags)
                for key in ("loss", "grad_norm"):
                    np.testing.assert_allclose([step[key] for step in steps],
                                               [step[key] for step in expected],
                                               rtol=1e-5, err_msg=key)


if __name__ == "__main__":
    unittest.main()
