# heddle quantize with a calibration: GPTQ, errors of outputs, perplexities.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The judge is the paper's algorithm in numpy, on what PyTorch's model reads layer by
layer when the layers before are the codes that were written (gptq.py)."""

import itertools
import json
import os
import re
import shutil
import unittest

import numpy as np

import families
import gptq
import heddle_test as h
from test_encode import make_model as make_encoder
from test_quantize import unpack
from test_serve_recorded import models, records


def quantized(folder, name, bits):
    """Codes, with 0 in the middle, and values of a weight that was written, [in, out]."""
    files = h.read_safetensors(os.path.join(folder, "model.safetensors"))
    codes = unpack(files[name + ".qweight"].T.copy(), bits).T
    zero = (unpack(files[name + ".qzeros"], bits) + 1) % 2 ** bits
    groups = files[name + ".g_idx"]
    values = files[name + ".scales"].astype(np.float64)[groups] * (codes - zero[groups])
    return codes - 2 ** (bits - 1), values


class Gptq(h.HeddleTest):
    seq, rows = 24, 40

    def model(self, **keys):
        """Embeddings are sums of few vectors: what layers read is correlated."""
        config = families.config(**{"intermediate_size": 48, **keys})
        weights = families.random_weights(config)
        random = np.random.default_rng(7)
        shape = weights["model.embed_tokens.weight"].shape
        weights["model.embed_tokens.weight"] = (
            random.standard_normal((shape[0], 6)) @ random.standard_normal((6, shape[1])) +
            0.1 * random.standard_normal(shape)).astype(np.float32)
        h.write_model(self.path("plain"), config, weights, "")
        ids = random.integers(0, config["vocab_size"], 2 * self.rows * self.seq + 1)
        ids.astype(np.uint16).tofile(self.path("text.bin"))
        return config, weights, ids

    def quantize(self, output, *flags):
        """The report, by weight."""
        h.run([h.HEDDLE, "quantize", self.path("plain"), "-o", self.path(output),
               "--calibration", self.path("text.bin"), "--calibration-rows", self.rows,
               "--seq", self.seq, "--report", self.path("report.json"), *flags])
        with open(self.path("report.json")) as file:
            report = json.load(file)
        return report, {row["name"][:-len(".weight")]: row for row in report["weights"]}

    def check_layers(self, config, weights, ids, output, bits, group, stages=("",),
                     **options):
        """Each layer is what numpy makes of what it reads when the layers before it are
        codes, and of the layer itself the stages before: patterns of names. Those that
        numpy rounds otherwise are few."""
        values = dict(weights)
        batch = ids[:self.rows * self.seq].reshape(self.rows, self.seq)
        errors, same = {}, []
        for layer, stage in itertools.product(range(config["num_hidden_layers"]), stages):
            read = gptq.moments(config, values, batch)
            for name in sorted(read):
                if f"layers.{layer}." not in name or not re.search(stage, name):
                    continue
                weight = weights[name + ".weight"].T.astype(np.float64)
                expected, wanted = gptq.gptq(weight, read[name], bits, group, **options)
                codes, made = quantized(self.path(output), name, bits)
                same.append((codes == expected).mean())
                errors[name] = gptq.output_error(weight, made, read[name])
                self.assertLess(
                    errors[name], 1.02 * gptq.output_error(weight, wanted, read[name]))
                values[name + ".weight"] = np.ascontiguousarray(made.T.astype(np.float32))
        # An error is handed on: one code that fell on the other side changes others.
        self.assertGreater(np.mean(same), 0.98)
        return values, errors

    def test_the_products_of_a_layer_one_after_the_other(self):
        """--true-sequential: what AutoGPTQ says of llama. What the second stage reads
        differs from what it reads with the first one's weights as they were."""
        stages = ("[qkv]_proj", "o_proj", "gate_proj|up_proj", "down_proj")
        config, weights, ids = self.model()
        made = {}
        for name, flags in (("once", []), ("stages", ["--true-sequential"])):
            report, rows = self.quantize(name, "--method", "gptq", "--group", 16, *flags)
            made[name] = report["perplexity"]["after"]
            with open(self.path(name, "config.json")) as file:
                said = json.load(file)["quantization_config"]
            self.assertEqual(said["true_sequential"], bool(flags))
        values, errors = self.check_layers(config, weights, ids, "stages", 4, 16, stages)
        for name, error in errors.items():
            self.assert_close(rows[name]["output_error"], error, 1e-4, name)
        self.assert_close(made["stages"], self.perplexity(
            config, values, ids[self.rows * self.seq:]), 1e-5, "after")
        self.assertNotEqual(made["stages"], made["once"])
        with self.assertRaises(AssertionError):
            self.check_layers(config, weights, ids, "once", 4, 16, stages)

    def test_says_what_memory_it_takes(self):
        config, _, _ = self.model()
        widths = [config["hidden_size"]] * 6 + [config["intermediate_size"]]
        for flags, stage in (([], widths), (["--true-sequential"], widths[:3])):
            said = h.run([h.HEDDLE, "quantize", self.path("plain"), "-o", self.path("out"),
                          "--method", "gptq", "--group", 16, "--calibration",
                          self.path("text.bin"), "--calibration-rows", self.rows, "--seq",
                          self.seq, *flags]).stderr
            shutil.rmtree(self.path("out"))
            regions = dict(re.findall(r"(?:: |, )([a-z ]+) (\d+) bytes", said))
            self.assertEqual(list(regions), ["weights", "arena", "hidden states",
                                             "moments"])
            # Of the largest stage, in fp64.
            self.assertEqual(int(regions["moments"]), 8 * sum(w ** 2 for w in stage))
            self.assertEqual(int(regions["hidden states"]),
                             4 * self.rows * self.seq * config["hidden_size"])

    def perplexity(self, config, weights, ids):
        rows = (len(ids) - 1) // self.seq
        inputs = ids[:rows * self.seq].reshape(rows, self.seq)
        labels = ids[1:rows * self.seq + 1].reshape(rows, self.seq)
        loss, _ = families.Decoder(config, weights).loss(inputs, labels)
        return np.exp(loss.item())

    def test_as_the_paper(self):
        """Codes, errors and perplexities, of rows of groups that do not fill a block and
        of groups that blocks divide; a row fewer than runs take is not computed."""
        cases = [({"intermediate_size": 56}, 4, 8, [], {}),
                 ({"hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 1,
                   "attention_bias": True}, 8, 0, [], {}),
                 ({"intermediate_size": 264}, 4, 0, ["--zeros"], {"even": False}),
                 ({}, 4, 16, ["--act-order"], {"largest_first": True})]
        for keys, bits, group, flags, options in cases:
            with self.subTest(keys, bits=bits, group=group, flags=flags):
                config, weights, ids = self.model(**keys)
                output = f"made{bits}{group}"
                report, rows = self.quantize(output, "--method", "gptq", "--bits", bits,
                                             "--group", group, *flags)
                values, errors = self.check_layers(config, weights, ids, output, bits,
                                                   group, **options)
                for name, error in errors.items():
                    self.assertEqual(rows[name]["method"], "gptq")
                    self.assert_close(rows[name]["output_error"], error, 1e-4, name)
                # What is left of the text.
                rest = ids[self.rows * self.seq:]
                said = report["perplexity"]
                self.assertEqual(said["rows"], self.rows)
                for when, tensors in (("before", weights), ("after", values)):
                    self.assert_close(said[when], self.perplexity(config, tensors, rest),
                                      1e-5, when)

    def test_numbers_that_are_none(self):
        config, weights, _ = self.model()
        for name in ("gate_proj", "up_proj"):
            weights[f"model.layers.0.mlp.{name}.weight"] *= np.float32(1e20)
        h.write_model(self.path("plain"), config, weights, "")
        refused = h.run([h.HEDDLE, "quantize", self.path("plain"), "-o",
                         self.path("none"), "--method", "gptq", "--calibration",
                         self.path("text.bin"), "--seq", self.seq, "--group", 16],
                        status=2)
        self.assertIn("H0154", refused.stderr)
        self.assertIn("layers.0.mlp.down_proj", refused.stderr)

    def test_better_than_to_the_nearest(self):
        config, weights, ids = self.model()
        _, nearest = self.quantize("rtn", "--group", 16)
        _, better = self.quantize("gptq", "--group", 16, "--method", "gptq")
        first = [name for name in nearest if ".layers.0." in name]
        for name in first:
            self.assertLess(better[name]["output_error"], nearest[name]["output_error"])
            self.assertGreater(better[name]["error"], nearest[name]["error"])
        # The errors that are said of rounding to the nearest are those of its outputs.
        read = gptq.moments(config, weights, ids[:self.rows * self.seq].reshape(
            self.rows, self.seq))
        for name in first:
            if "proj" in name and ("q_proj" in name or "v_proj" in name):
                _, made = quantized(self.path("rtn"), name, 4)
                weight = weights[name + ".weight"].T.astype(np.float64)
                self.assert_close(nearest[name]["output_error"],
                                  gptq.output_error(weight, made, read[name]), 1e-4, name)

    def test_every_family(self):
        """What transformers' models of each family are made of, four times as wide so
        that words of codes divide it."""
        widths = ("hidden_size", "n_embd", "intermediate_size", "n_inner", "ffn_dim",
                  "head_dim", "word_embed_proj_dim")
        for name, record in records():
            if not h.LONG and name not in ("gpt2", "gpt_neox", "gemma2"):
                continue
            with self.subTest(name):
                config = {key: 4 * value if key in widths and value else value
                          for key, value in record["config"].items()}
                weights = {}
                for each, (*rows, width) in record["weights"].items():
                    is_table = any(word in each for word in ("emb", "wte", "wpe", "head"))
                    rows = rows if is_table else [4 * size for size in rows]
                    shape = [*rows, 4 * width]
                    weights[each] = models.weight(each, shape)
                h.write_model(self.path("plain"), config, weights, "")
                tokens = h.random_tokens(self.rows * self.seq + 1, config["vocab_size"])
                h.write_tokens(self.path("text.bin"), tokens)
                report, weights = self.quantize(name, "--method", "gptq", "--bits", 8,
                                                "--group", 0)
                for row in weights.values():
                    self.assertEqual(row["method"], "gptq", row["name"])
                    self.assertLess(row["output_error"], 0.01)
                said = report["perplexity"]
                self.assertEqual(said["data"], "the rows of the calibration")
                self.assert_close(said["after"], said["before"], 2e-3, name)
                # Its codes are served as they are, also where a tensor has those of
                # several weights.
                logits = [self.logits_of(self.path(name), *flags)
                          for flags in ([], ["--quantize", "none"])]
                self.assertLess(np.abs(logits[0] - logits[1]).max(),
                                1e-5 * np.abs(logits[0]).max())

    def logits_of(self, model, *flags):
        binary, out = self.path("served"), self.path("logits.safetensors")
        h.run([h.HEDDLE, "compile", model, "--mode", "serve", "--precision", "fp32",
               "--max-context", 16, "--max-batch", 1, *flags, "-o", binary])
        h.run([binary, "logits", "--prompt-ids", "5,9,2,7,3", "-o", out])
        return h.read_safetensors(out)["logits"]

    def test_bad_input(self):
        config, weights, ids = self.model()
        flags = [h.HEDDLE, "quantize", self.path("plain"), "-o", self.path("made")]
        group = ["--group", 8]
        calibration = [*group, "--calibration", self.path("text.bin")]

        def refused(code, status, *more):
            found = h.run([*flags, *more], status)
            self.assertIn(f"error[{code}]", found.stderr)
            self.assertFalse(os.path.exists(self.path("made")))
            self.assertEqual([name for name in os.listdir(self.path()) if ".calib" in name],
                             [])
            return found.stderr

        self.assertIn("--calibration", refused("H0113", 2, "--method", "gptq"))
        refused("H0113", 2, *group, "--seq", 8)
        for flag in ("--act-order", "--true-sequential"):
            self.assertIn(flag, refused("H0113", 2, *calibration, flag))
        refused("H0340", 3, *group, "--calibration", self.path("none.bin"))
        refused("H0116", 2, *calibration, "--seq", 33)
        refused("H0152", 2, *calibration[2:], "--group", 24)
        ids[:20].astype(np.uint16).tofile(self.path("short.bin"))
        refused("H0347", 3, *group, "--calibration", self.path("short.bin"), "--seq", 20)
        refused("H0347", 3, *calibration, "--eval-data", self.path("short.bin"),
                "--seq", 20)
        make_encoder(self.path("encoder"))
        self.assertIn("predicts masked tokens", h.run(
            [h.HEDDLE, "quantize", self.path("encoder"), "-o", self.path("made"),
             "--keep-16bit", "*", *calibration], 2).stderr)
        ids[7] = config["vocab_size"]
        ids.astype(np.uint16).tofile(self.path("text.bin"))
        self.assertIn("token 7", refused("H0346", 3, *calibration, "--seq", self.seq))


if __name__ == "__main__":
    unittest.main()
