# Hyperparameters and threads that a run chooses.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run that is told other numbers than its binary was compiled with has the bits
of a binary that was compiled with these."""

import json
import unittest

import heddle_test as h

STEPS = 4


def config(optimizer, lr, decay, clip, warmup, total):
    return {"optimizer": {"type": optimizer, "params": {"lr": lr, "weight_decay": decay}},
            "gradient_clipping": clip,
            "scheduler": {"type": "WarmupDecayLR", "params": {
                "warmup_min_lr": 0, "warmup_max_lr": lr, "warmup_num_steps": warmup,
                "total_num_steps": total, "warmup_type": "linear"}}}


class Hyperparameters(h.HeddleTest):
    def setUp(self):
        super().setUp()
        self.model, settings, _ = self.make_model()
        self.data, _ = self.make_tokens(2 * 16 * STEPS + 1, settings["vocab_size"])

    def binary(self, name, ds_config, *flags):
        return self.compile(self.model, "--batch", 2, "--seq", 16, *flags, config=ds_config,
                            output=name)

    def steps(self, binary, *flags):
        return [(step["loss"], step["grad_norm"], step["lr"])
                for step in self.train(binary, self.data, STEPS, *flags)]

    def test_told_is_as_compiled(self):
        told = ["--lr", 0.02, "--weight-decay", 0.25, "--clip", 0.125, "--warmup-steps", 2,
                "--train-steps", 9]
        for optimizer in ("AdamW", *["Lamb", "Lion"] * h.LONG):
            with self.subTest(optimizer=optimizer):
                one = self.binary("one", config(optimizer, 1e-3, 0, 1, 3, 30), "--threads", 1)
                other = self.binary("other", config(optimizer, 0.02, 0.25, 0.125, 2, 9),
                                    "--threads", 1)
                self.assertEqual(self.steps(one, *told), self.steps(other))
                self.assertNotEqual(self.steps(one), self.steps(other))
                # Without clipping, as the other way round.
                self.assertNotEqual(self.steps(other, "--clip", 0), self.steps(other))

    def test_threads_of_the_machine_where_it_runs(self):
        binary = self.binary("binary", {})
        runs = [self.steps(binary, "--threads", threads) for threads in (1, 3)]
        self.assertEqual(*runs)
        info = json.loads(h.run([binary, "info", "--json"]).stdout)
        self.assertEqual(info["hyperparameters"]["clip"], 1)
        self.assertEqual(info["hyperparameters"]["optimizer"], "AdamW")


if __name__ == "__main__":
    unittest.main()
