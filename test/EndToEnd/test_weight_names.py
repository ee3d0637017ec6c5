# Weight files with names that are not Hugging Face's.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What wrappers of PyTorch put into names is taken out, and said; what is no model
is named. The head of a tied model, where a file has one."""

import json
import os
import unittest

import numpy

import families
import heddle_test as h


class WeightNames(h.HeddleTest):
    def setUp(self):
        super().setUp()
        self.config = families.config()
        self.weights = families.random_weights(self.config)
        h.write_model(self.path("plain"), self.config, self.weights, "")

    def logits(self, folder):
        run = h.run([h.HEDDLE, "compile", self.path(folder), "--mode", "serve",
                     "--max-batch", 1, "--max-context", 32, "-o", self.path("serving")])
        h.run([self.path("serving"), "logits", "--prompt-ids", "1,2,3,5,8", "-o",
               self.path("logits.safetensors")])
        return (h.read_safetensors(self.path("logits.safetensors"))["logits"], run.stderr)

    def renamed(self, rename):
        weights = {rename(name): tensor for name, tensor in self.weights.items()}
        h.write_model(self.path("renamed"), self.config, weights, "")

    def test_wrappers(self):
        expected, said = self.logits("plain")
        self.assertNotIn("without", said)
        self.renamed(lambda name: "module._orig_mod." + name.replace(
            "mlp.", "_checkpoint_wrapped_module.mlp."))
        actual, said = self.logits("renamed")
        self.assertTrue((actual == expected).all())
        self.assertIn("the names of tensors are read without _checkpoint_wrapped_module., "
                      "_orig_mod., module.", said)

    def test_adapters(self):
        self.renamed(lambda name: "base_model.model." + name)
        path = self.path("renamed", "model.safetensors")
        files = h.read_safetensors(path)
        name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
        h.write_safetensors(path, {**files, name: numpy.zeros((2, 2), numpy.float32)})
        compile_ = [h.HEDDLE, "compile", self.path("renamed"), "--explain-config"]
        found = h.run(compile_, 3).stderr
        self.assertIn("error[H0395]", found)
        self.assertIn("merge_and_unload", found)
        h.write_safetensors(path, files)
        self.assertIn("base_model.model.", h.run(compile_).stderr)
        # As PEFT saves it.
        os.rename(path, self.path("renamed", "adapter_model.safetensors"))
        with open(self.path("renamed", "adapter_config.json"), "w") as file:
            json.dump({"peft_type": "LORA"}, file)
        self.assertIn("has an adapter, not a model", h.run(compile_, 3).stderr)
        os.remove(self.path("renamed", "config.json"))
        self.assertIn("has an adapter, not a model", h.run(compile_, 3).stderr)

    def test_a_head_of_a_tied_model(self):
        """One that is the embedding is passed over; another one is the model's, as in
        transformers 5."""
        tied = dict(self.config, tie_word_embeddings=True)
        expected, _ = self.logits("plain")
        h.write_model(self.path("other"), tied, self.weights, "")
        actual, said = self.logits("other")
        self.assertTrue((actual == expected).all())
        self.assertIn("lm_head.weight in the weights is not embed_tokens.weight", said)

        table = self.weights["model.embed_tokens.weight"]
        alike = {**self.weights, "lm_head.weight": table}
        h.write_model(self.path("alike"), tied, alike, "")
        with_head, said = self.logits("alike")
        self.assertNotIn("warning", said)
        del alike["lm_head.weight"]
        h.write_model(self.path("alone"), tied, alike, "")
        self.assertTrue((with_head == self.logits("alone")[0]).all())

        # What is saved, and what goes on from a dump, has the head.
        h.run([h.HEDDLE, "compile", self.path("other"), "--batch", 1, "--seq", 8,
               "--dump-phases", self.path("dumps"), "-o", self.path("whole")])
        h.run([h.HEDDLE, "compile", self.path("dumps", "model.mlir"), "--start-from",
               "model", "-o", self.path("job")])
        tokens, _ = self.make_tokens(9, self.config["vocab_size"])
        h.run([self.path("job"), "train", "--data", tokens, "--steps", 1, "--lr", 0,
               "--save", self.path("saved")])
        saved = h.latest_of(self.path("saved"))
        with open(os.path.join(saved, "config.json")) as file:
            self.assertFalse(json.load(file)["tie_word_embeddings"])
        actual, said = self.logits(saved)
        self.assertNotIn("warning", said)
        self.assertTrue((actual == expected).all())

    def test_shards_without_an_index(self):
        expected, _ = self.logits("plain")
        h.write_model(self.path("renamed"), self.config, {}, "")
        os.remove(self.path("renamed", "model.safetensors"))
        names = sorted(self.weights)
        for number in (1, 2):
            h.write_safetensors(
                self.path("renamed", f"model-0000{number}-of-00002.safetensors"),
                {name: self.weights[name] for name in names[number - 1::2]})
        actual, _ = self.logits("renamed")
        self.assertTrue((actual == expected).all())


if __name__ == "__main__":
    unittest.main()
