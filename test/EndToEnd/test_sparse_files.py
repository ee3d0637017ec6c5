#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of attention layouts: checkpoints keep them, and files that do not fit the model
or the mesh are refused."""

import json
import os
import unittest

import numpy as np

import heddle_test as h
import test_recorded

ROWS, SEQ, BLOCK, HEADS, LAYERS, VOCAB = 2, 80, 16, 4, 3, 97
BLOCKS = SEQ // BLOCK


class SparseFiles(h.HeddleTest):
    def setUp(self):
        self.model, self.config, _ = self.make_model(
            vocab=VOCAB, positions=2 * SEQ, embed=32, layers=LAYERS, heads=HEADS)
        self.rng = np.random.default_rng(7)

    def layout(self, heads=HEADS, blocks=BLOCKS):
        drawn = self.rng.random((heads, blocks, blocks)) < 0.5
        return np.tril(drawn | np.eye(blocks, dtype=bool)).astype(np.uint8)

    def write(self, name, layout, block=BLOCK):
        path = self.path(name + ".safetensors")
        h.write_safetensors(path, {"layout": layout},
                            metadata={"block": str(block)} if block else None)
        return path

    def build(self, model, *flags, output="job"):
        return self.compile(model, "--batch", ROWS, "--seq", SEQ, "--threads", 2, *flags,
                            output=output, config=h.ds_config())

    def warning(self, model, *flags):
        return h.run([h.HEDDLE, "compile", model, "--batch", ROWS, "--seq", SEQ, *flags,
                      "--cache", self.path("cache"), "-o", self.path("again")]).stderr

    def saved(self, *flags, ranks=1):
        """Trains and saves; gives the checkpoint and what the run said."""
        data, _ = self.make_tokens(3 * ROWS * SEQ + 1, VOCAB)
        binary = self.build(self.model, *flags)
        said = h.run_ranks(ranks, [binary, "train", "--data", data, "--steps", 2, "--save",
                                   self.path("out"), "--save-every", 1, "--overwrite"])
        return self.path("out", "step-000002"), said.stdout + said.stderr

    def check_files(self, folder, layouts):
        """The files of a checkpoint, each with its layers, in the order of these."""
        listed = json.loads(h.run([h.HEDDLE, "checkpoint", "inspect", folder,
                                   "--json"]).stdout)
        text = h.run([h.HEDDLE, "checkpoint", "inspect", folder]).stdout
        self.assertEqual(len(listed["layouts"]), len(layouts))
        for number, (layers, layout) in enumerate(layouts):
            name = f"heddle/attention_layout.{number}.safetensors"
            self.assertEqual(listed["layouts"][number], {"file": name, "layers": layers})
            self.assertIn(f"attention layout {name}: {', '.join(layers)}\n", text)
            np.testing.assert_array_equal(
                h.read_safetensors(os.path.join(folder, name))["layout"], layout)
            self.assertIn(name, [file["name"] for file in listed["files"]])
        h.run([h.HEDDLE, "checkpoint", "verify", folder])

    def test_checkpoint_of_one_layout(self):
        layout = self.layout()
        file = self.write("layout", layout)
        folder, said = self.saved("--attention-layout", file)
        self.assertEqual(said.count("note: the layouts of attention are in heddle/"
                                    "attention_layout.0.safetensors"), 1)
        self.check_files(folder, [(["h.0", "h.1", "h.2"], layout)])
        kept = os.path.join(folder, "heddle", "attention_layout.0.safetensors")
        self.assertIn(f"add --attention-layout {kept}\n", self.warning(folder))
        self.assertNotIn("H0143", self.warning(folder, "--attention-layout", kept))
        self.check_serving(folder, kept)
        self.check_dense_binaries(folder)

        # The layout of the checkpoint gives the same numbers.
        data = self.path("tokens.bin")
        losses = [json.loads(h.run([self.build(folder, "--attention-layout", each), "eval",
                                    "--data", data, "--json"]).stdout)["loss"]
                  for each in (file, kept)]
        self.assertEqual(*losses)
        self.assertNotIn("note: ", self.dense_run())

    def check_serving(self, folder, kept):
        """The warning advises of positions that are those of the layout."""
        until = [h.HEDDLE, "compile", folder, "--stop-after", "import"]
        serve = [*until, "--mode", "serve"]
        said = h.run([*serve, "--max-context", SEQ]).stderr
        self.assertIn(f"add --attention-layout {kept}\n", said)
        said = h.run([*serve, "--max-context", SEQ + 1]).stderr
        advice = ["--attention-layout", kept, "--max-context", str(SEQ)]
        self.assertIn(f"add {' '.join(advice)}\n", said)
        self.assertNotIn("H0143", h.run([*serve, *advice]).stderr)
        said = h.run([*until, "--seq", SEQ - BLOCK]).stderr
        self.assertIn(f"add --attention-layout {kept} --seq {SEQ}\n", said)

        # The target's layouts, and how they are cut, are not the draft's.
        draft = [*serve, *advice, "--attention-layout-causal", "--draft"]
        said = h.run([*draft, folder]).stderr
        self.assertEqual(said.count("warning: H0143: "), 1)
        self.assertIn("drafts compute dense attention", said)
        self.assertNotIn("add --attention-layout", said)
        self.assertNotIn("H0143", h.run([*draft, self.model]).stderr)

    def check_dense_binaries(self, folder):
        """A binary without layouts says so when it is given weights with some."""
        warning = f"warning[H0143]: the weights in {folder} were trained with layouts"
        data = ["--data", self.path("tokens.bin")]
        binary = self.build(self.model, output="dense")
        for flags in (["eval", "--weights", folder],
                      ["train", "--steps", 3, "--resume", folder],
                      ["train", "--steps", 1, "--weights", self.path("out")]):
            with self.subTest(flags=flags):
                said = h.run([binary, *flags, *data]).stderr
                self.assertEqual(said.count(warning), 1, said)
        self.assertNotIn("H0143", h.run([binary, "eval", *data]).stderr)
        sparse = self.path("job")
        self.assertNotIn("H0143", h.run([sparse, "eval", "--weights", folder,
                                         *data]).stderr)
        # The compiler has warned of these weights.
        binary = self.build(folder, output="again")
        self.assertNotIn("H0143", h.run([binary, "eval", *data]).stderr)

    def dense_run(self):
        folder, said = self.saved()
        listed = json.loads(h.run([h.HEDDLE, "checkpoint", "inspect", folder,
                                   "--json"]).stdout)
        self.assertNotIn("layouts", listed)
        self.assertNotIn("H0143", self.warning(folder))
        return said

    def check_two(self, *flags, ranks=1):
        """A layout that heads share, and another of two layers."""
        first, second = self.layout(heads=1), self.layout()
        folder, _ = self.saved(
            "--attention-layout", self.write("first", np.repeat(first, HEADS, 0)),
            "--attention-layout", "h.[02]=" + self.write("second", second), *flags,
            ranks=ranks)
        self.check_files(folder, [(["h.0", "h.2"], second), (["h.1"], first)])
        kept = os.path.join(folder, "heddle", "attention_layout.")
        warning = self.warning(folder)
        for number, layer in ((0, 0), (0, 2), (1, 1)):
            self.assertIn(f" --attention-layout h.{layer}={kept}{number}.safetensors",
                          warning)

    def test_checkpoint_of_two_layouts(self):
        self.check_two()

    @h.needs_mpi
    def test_checkpoint_of_a_mesh(self):
        self.check_two("--mesh", "pipe=2", "--accumulate", 2, ranks=2)
        self.check_two("--mesh", "tensor=2", "--zero", 1, ranks=2)

    def refused(self, model, *flags):
        return h.run([h.HEDDLE, "compile", model, "--batch", ROWS, "--seq", SEQ, "-o",
                      self.path("none"), *flags], status=2).stderr

    def test_refuses_files(self):
        good, two = self.layout(), self.layout()
        two[1, 3, 2] = 2
        for file, error in [
                (self.write("heads", self.layout(heads=3)),
                 "error[H0198]: a layout of 3 heads for a model of 4"),
                (self.write("blocks", self.layout(blocks=6)),
                 "error[H0198]: a layout of 6 blocks of 16 tokens for sequences of 80"),
                (self.write("few", self.layout(blocks=4)),
                 "error[H0198]: a layout of 4 blocks of 16 tokens for sequences of 80"),
                (self.write("two", two),
                 'error[H0308]: the tensor "layout" has 2 at head 1, row 3, column 2'),
                (self.write("plain", good, block=None),
                 'error[H0329]: the metadata of a layout has no "block"'),
                (self.write("size", good, block=24),
                 'error[H0329]: the metadata of a layout gives blocks of "24" tokens')]:
            with self.subTest(error):
                said = h.run([h.HEDDLE, "compile", self.model, "--seq", SEQ, "-o",
                              self.path("none"), "--attention-layout", file],
                             status=2 if "[H01" in error else 3).stderr
                self.assertIn(error, said)
                self.assertIn("help: ", said)

    def test_refuses_windows(self):
        """Layers whose family gives them a sliding window."""
        for name in ("mistral", "gpt_neo", "gemma2"):
            with self.subTest(name):
                config = dict(test_recorded.models.CONFIGS[name],
                              max_position_embeddings=SEQ)
                with open(self.path(name + ".json"), "w") as file:
                    json.dump(config, file)
                heads = config.get("num_attention_heads", config.get("num_heads"))
                error = self.refused(
                    self.path(name + ".json"), "--init", "random", "--attention-layout",
                    self.write(name, self.layout(heads)))
                self.assertIn("error[H0143]: the attention of ", error)
                self.assertIn(" has a sliding window of its family, and a layout", error)

    def test_refuses_shards_that_cut_blocks(self):
        file = self.write("layout", self.layout())
        mesh = ["--attention-layout", file, "--mesh", "seq=2"]
        error = self.refused(self.model, *mesh, "--context", "ring")
        self.assertIn("error[H0130]: --mesh seq=2 gives a rank 40 of 80 tokens, which cuts "
                      "a block of 16 tokens of an attention layout", error)
        self.assertIn("use --context ulysses, or --seq 96", error)
        h.run([h.HEDDLE, "compile", self.model, "--batch", ROWS, "--seq", SEQ, "-o",
               self.path("none"), *mesh, "--context", "ulysses"])
        file = self.write("longer", self.layout(blocks=6))
        h.run([h.HEDDLE, "compile", self.model, "--batch", ROWS, "--seq", 96, "-o",
               self.path("none"), *mesh[2:], "--context", "ring", "--attention-layout",
               file])


if __name__ == "__main__":
    unittest.main()
