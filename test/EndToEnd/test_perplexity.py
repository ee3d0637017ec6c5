# What quantized weights cost a model that was trained on real text.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small GPT-2 over bytes learns this repository's pages; logits and perplexities are
those of binaries that serve it."""

import glob
import json
import os
import unittest

import numpy as np

import heddle_test as h
from serving import ServingTest

PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


class Perplexity(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train_model(cls())

    def train_model(self):
        text = b""
        for page in sorted(glob.glob(os.path.join(PAGES, "*.md"))):
            with open(page, "rb") as file:
                text += file.read()
        # Bytes as tokens; the end, 240 rows, is for evaluations.
        tokens = np.frombuffer(text, np.uint8).astype(np.uint16)
        tokens[:-15361].tofile(self.path("train.bin"))
        tokens[-15361:].tofile(self.path("val.bin"))
        model = self.path("config.json")
        with open(model, "w") as file:
            json.dump({"model_type": "gpt2", "vocab_size": 256, "n_positions": 64,
                       "n_embd": 128, "n_layer": 2, "n_head": 4, "resid_pdrop": 0,
                       "embd_pdrop": 0, "attn_pdrop": 0}, file)
        job = self.compile(model, "--init", "random", "--batch", 16, "--seq", 64, "--lr",
                           "2e-3", "--warmup-steps", 20, "--train-steps", 200)
        self.train(job, self.path("train.bin"), 200, "--shuffle", "--save",
                   self.path("out"))
        type(self).trained = h.latest_of(self.path("out"))

    def data(self, name):
        """The path of a file that the training of all tests wrote."""
        return os.path.join(type(self).folder, name)

    def perplexity(self, binary):
        found = h.run([binary, "eval", "--data", self.data("val.bin"), "--json"])
        return json.loads(found.stdout)["perplexity"]

    def test_int8(self):
        """Logits within 2 %, the perplexity within half a percent."""
        plain = self.serve(self.trained, "--precision", "fp32")
        tokens = np.fromfile(self.data("val.bin"), np.uint16)[:60]
        logits, perplexity = self.logits(plain, tokens), self.perplexity(plain)
        # It has learned more than how often each byte is.
        counts = np.bincount(np.fromfile(self.data("val.bin"), np.uint16))
        shares = counts[counts > 0] / counts.sum()
        self.assertLess(perplexity, 0.8 * np.exp(-(shares * np.log(shares)).sum()))
        for flags in ([], ["--group", 64]):
            with self.subTest(flags=flags):
                coded = self.serve(self.trained, "--precision", "fp32", "--quantize",
                                   "int8", *flags, output="coded")
                self.assertLess(h.relative(self.logits(coded, tokens), logits), 0.02)
                self.assertLess(self.perplexity(coded), 1.005 * perplexity)

    def test_int4(self):
        """Products with GPTQ's codes are nearer than with codes that are rounded to the
        nearest, and the binary that serves the codes has the perplexity that the report
        says."""
        errors = {}
        for method in ("rtn", "gptq"):
            made, report = self.path(method), self.path(method + ".json")
            h.run([h.HEDDLE, "quantize", self.trained, "--method", method, "--group", 64,
                   "--calibration", self.data("train.bin"), "--eval-data",
                   self.data("val.bin"), "--calibration-rows", 512, "--seq", 64, "--report",
                   report, "-o", made])
            with open(report) as file:
                report = json.load(file)
            said = report["perplexity"]
            served = self.perplexity(self.serve(made, "--precision", "fp32"))
            self.assert_close(served, said["after"], 1e-3, method)
            self.assertLess(said["after"], 1.005 * said["before"], method)
            errors[method] = sum(weight["output_error"] for weight in report["weights"])
        self.assertLess(errors["gptq"], 0.9 * errors["rtn"], errors)

    def test_perplexity_without_a_calibration(self):
        report = self.path("report.json")
        h.run([h.HEDDLE, "quantize", self.trained, "--group", 64, "--eval-data",
               self.data("val.bin"), "--seq", 64, "--report", report, "-o",
               self.path("rtn")])
        with open(report) as file:
            report = json.load(file)
        self.assertNotIn("calibration", report)
        said = report["perplexity"]
        # Rounding may happen to do a text good.
        self.assertNotEqual(said["before"], said["after"])
        self.assertLess(said["after"], 1.005 * said["before"])
        for model, name in ((self.trained, "before"), (self.path("rtn"), "after")):
            found = self.perplexity(self.serve(model, "--precision", "fp32", output=name))
            self.assert_close(found, said[name], 1e-3, name)


if __name__ == "__main__":
    unittest.main()
