# Every verb on a device whose memory the host does not see.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The device `separate` hands out addresses that fault, and does submitted work
late, its two streams in an order that a seed chooses. All that a binary does
there must give the bits that it gives on the CPU."""

import json
import os
import tempfile
import unittest

import heddle_test as h

ROWS, SEQ, STEPS = 4, 16, 4


class Device(h.HeddleTest):
    def prepare(self, *flags, **options):
        self.model, config, _ = self.make_model(dropout=0.1, **options)
        self.data, _ = self.make_tokens(ROWS * SEQ * STEPS + 1,
                                        config["vocab_size"])
        self.binary = self.compile(self.model, "--batch", ROWS, "--seq", SEQ,
                                   "--threads", 2, *flags, config=h.ds_config())

    def call(self, device, *arguments):
        return h.run_ranks(self.ranks, [self.binary, *arguments],
                           HEDDLE_DEVICE=device).stdout

    def train(self, device, folder, steps, *flags):
        log = os.path.join(folder, f"log-{steps}.jsonl")
        self.call(device, "train", "--data", self.data, "--steps", steps, "--log",
                  log, "--save", os.path.join(folder, "saved"), "--dump",
                  os.path.join(folder, "dump.safetensors"), "--progress", "none",
                  *flags)
        return [(line["loss"], line["grad_norm"]) for line in h.read_log(log)]

    def outcome(self, device):
        """What the verbs print and write."""
        folder = tempfile.mkdtemp(dir=self.folder)
        found = {"whole": self.train(device, folder, STEPS)}
        files = {name: os.path.join(folder, name)
                 for name in ("dump.safetensors",
                              f"saved/step-{STEPS:06}/model.safetensors",
                              f"saved/step-{STEPS:06}/heddle/optimizer.safetensors")}
        for name, path in files.items():
            with open(path, "rb") as file:
                found[name] = file.read()
        saved = os.path.join(folder, "saved")
        found["resumed"] = self.train(device, folder, STEPS + 2, "--resume", saved,
                                      "--val", self.data, "--val-every", 1)
        found["eval"] = json.loads(self.call(device, "eval", "--data", self.data,
                                             "--weights", saved, "--json"))
        found["text"] = self.call(device, "generate", "--prompt-ids", "1,2,3",
                                  "--max-new-tokens", 4, "--weights", saved)
        return found

    def check(self, *devices, ranks=1):
        self.ranks = ranks
        expected = self.outcome("cpu")
        self.assertEqual(len(expected["whole"]), STEPS)
        for device in devices:
            found = self.outcome(device)
            self.assertEqual(found.keys(), expected.keys())
            for name, value in expected.items():
                self.assertTrue(found[name] == value, f"{name} on {device}")

    def test_one_rank(self):
        self.prepare("--accumulate", 2, "--keep", "logits")
        self.check("separate", "separate:7")

    @h.needs_mpi
    def test_data_ranks_with_split_states(self):
        self.prepare("--mesh", "data=2", "--zero", 2, "--precision", "bf16")
        self.check("separate:1", ranks=2)

    @h.needs_mpi
    def test_tensor_ranks(self):
        self.prepare("--mesh", "tensor=2", vocab=96)
        self.check("separate:2", ranks=2)

    @h.needs_mpi
    def test_stages(self):
        self.prepare("--mesh", "pipe=2", "--accumulate", 4)
        self.check("separate:3", ranks=2)

    def test_unknown_device(self):
        self.prepare()
        for name in ("gpu", "separate:x", "separate:1:2", ""):
            found = h.run([self.binary, "bench", "--steps", 1], status=2,
                          env=dict(os.environ, HEDDLE_DEVICE=name))
            self.assertIn("H0190", found.stderr)
            self.assertIn("HEDDLE_DEVICE", found.stderr)


if __name__ == "__main__":
    unittest.main()
