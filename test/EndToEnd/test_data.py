#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a run reads: where a resumed one goes on, what it says when it cannot, and
mixtures of files. With a learning rate of 0 the loss of a step says which rows
it read."""

import json
import os
import re
import shutil
import unittest

import numpy as np

import heddle_test as h

ROWS, SEQ, BATCHES = 4, 8, 9
TOKENS = ROWS * SEQ * BATCHES + 5


class Data(h.HeddleTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cache_of_class = os.path.join(cls.folder, "kernels")

    def setUp(self):
        self.model, self.config, _ = self.make_model(layers=1, embed=16, heads=2)
        self.data, self.tokens = self.make_tokens(TOKENS, self.config["vocab_size"])
        self.binary = self.build("job")

    def build(self, name, rows=ROWS, seq=SEQ, *flags):
        return self.compile(self.model, "--batch", rows, "--seq", seq, *flags,
                            output=name, config=h.ds_config(lr=0.0),
                            cache=self.cache_of_class)

    def losses(self, binary, data, steps, *flags, name="run"):
        return [step["loss"] for step in
                self.train(binary, data, steps, *flags, name=name)]

    def save_at(self, step, *flags):
        out = self.path("out")
        shutil.rmtree(out, ignore_errors=True)
        self.losses(self.binary, self.data, step, "--save", out, *flags)
        return out

    def fails(self, code, *flags, data=None, binary=None):
        result = h.run([binary or self.binary, "train", "--data", data or self.data,
                        "--steps", 99, "--progress", "none", *flags],
                       status=2 if code.startswith("H01") else 3)
        self.assertIn(f"error[{code}]", result.stderr)
        return result.stderr

    def test_another_batch_goes_on_with_the_next_token(self):
        out = self.save_at(5)
        for rows, seq in ((2, 8), (3, 5), (6, 8), (2, 16)):
            other = self.build("other", rows, seq)
            found = self.losses(other, self.data, 8, "--resume", out, name="rest")
            rest = self.path("rest.bin")
            h.write_tokens(rest, self.tokens[5 * ROWS * SEQ:])
            left = (len(self.tokens) - 1 - 5 * ROWS * SEQ) // (rows * seq)
            count = min(3, left)
            self.assertEqual(found[:count],
                             self.losses(other, rest, count, name="expected"))
            # After the end of the file it begins again.
            self.assertEqual(found[count:], self.losses(
                other, self.data, 3 - count, name="again") if count < 3 else [])
        result = h.run([other, "train", "--data", self.data, "--steps", 6,
                        "--resume", out])
        self.assertIn("the batch was 4 x 8 tokens: the data goes on at token 160",
                      result.stderr)

    def test_other_data_is_refused_unless_asked_for(self):
        out = self.save_at(3)
        longer, _ = self.make_tokens(TOKENS + 64, self.config["vocab_size"], "l.bin")
        changed = self.path("changed.bin")
        tokens = self.tokens.copy()
        tokens[17] = (tokens[17] + 1) % self.config["vocab_size"]
        h.write_tokens(changed, tokens)
        moved = self.path("moved.bin")
        shutil.copy(self.data, moved)
        whole = self.losses(self.binary, self.data, 5)
        # The same tokens under another name are the same.
        self.assertEqual(self.losses(self.binary, moved, 5, "--resume", out), whole[3:])
        for other in (longer, changed):
            text = self.fails("H0368", "--resume", out, data=other)
            self.assertIn("--data-position start", text)
            self.assertIn("--data-position keep", text)
            expected = self.losses(self.binary, other, 5)
            self.assertEqual(self.losses(self.binary, other, 5, "--resume", out,
                                         "--data-position", "keep"), expected[3:])
            self.assertEqual(self.losses(self.binary, other, 5, "--resume", out,
                                         "--data-position", "start"), expected[:2])
        self.fails("H0368", "--resume", out, "--shuffle")
        self.fails("H0368", "--resume", out, "--data", longer,
                   "--data-position", "keep")

    def test_without_the_check_the_number_of_tokens_counts(self):
        out = self.save_at(3, "--data-check", "batch")
        longer, _ = self.make_tokens(TOKENS + 64, self.config["vocab_size"], "l.bin")
        same, _ = self.make_tokens(TOKENS, self.config["vocab_size"], "s.bin", seed=8)
        self.fails("H0368", "--resume", out, data=longer)
        whole = self.losses(self.binary, same, 5)
        for flags in ([], ["--data-check", "batch"]):
            self.assertEqual(self.losses(self.binary, same, 5, "--resume", out, *flags),
                             whole[3:])

    def test_other_weights_of_the_same_files(self):
        other, _ = self.make_tokens(TOKENS, self.config["vocab_size"], "o.bin", seed=8)
        out = self.path("mixed")
        self.losses(self.binary, self.data + ":1", 2, "--data", other + ":1",
                    "--save", out)
        # From here on nearly all rows are of the first file: 8 of the first 8.
        found = self.losses(self.binary, self.data + ":1", 4, "--data",
                            other + ":0.01", "--resume", out)
        rest = self.path("rest.bin")
        h.write_tokens(rest, self.tokens[ROWS * SEQ:])
        self.assertEqual(found, self.losses(self.binary, rest, 2))

    def test_permuted_rows_go_on(self):
        out = self.save_at(3, "--shuffle")
        whole = self.losses(self.binary, self.data, 12, "--shuffle")
        self.assertEqual(self.losses(self.binary, self.data, 12, "--shuffle",
                                     "--resume", out), whole[3:])
        self.fails("H0368", "--resume", out)
        self.fails("H0368", "--resume", out, "--shuffle", "--seed", 7)
        other = self.build("other", ROWS, 4)
        self.assertIn("permuted rows of 8 tokens", self.fails(
            "H0368", "--resume", out, "--shuffle", binary=other))

    def test_checkpoints_of_older_versions(self):
        out = self.save_at(3)
        folder = os.path.join(out, "step-000003", "heddle")
        with open(os.path.join(folder, "state.json")) as file:
            state = json.load(file)
        self.assertEqual(state["data"]["rows"], 3 * ROWS)
        self.assertEqual(state["data"]["tokens"], 3 * ROWS * SEQ)
        del state["data"]
        state.update(data_position=3, data_file=self.data, extra={"shuffle": False})
        with open(os.path.join(folder, "manifest.json")) as file:
            manifest = json.load(file)
        # The digest is not at hand here: it is read from the error.
        text = json.dumps(state)
        with open(os.path.join(folder, "state.json"), "w") as file:
            file.write(text)
        for entry in manifest["files"]:
            if entry["name"] == "heddle/state.json":
                entry["bytes"] = len(text)
                with open(os.path.join(folder, "manifest.json"), "w") as file:
                    json.dump(manifest, file)
                error = self.fails("H0363", "--resume", out)
                entry["xxh3"] = re.search(r"checksum is (\w+)", error)[1]
        with open(os.path.join(folder, "manifest.json"), "w") as file:
            json.dump(manifest, file)
        whole = self.losses(self.binary, self.data, 12)
        self.assertEqual(self.losses(self.binary, self.data, 12, "--resume", out),
                         whole[3:])
        other = self.build("other", 2)
        result = h.run([other, "train", "--data", self.data, "--steps", 4,
                        "--resume", out])
        self.assertIn("does not say which batch", result.stderr)
        self.fails("H0368", "--resume", out, "--shuffle")

    def test_nothing_left_to_do(self):
        out = self.save_at(3)
        for steps in (3, 2):
            result = h.run([self.binary, "train", "--data", self.data, "--steps",
                            steps, "--resume", out, "--progress", "none"])
            self.assertIn("nothing is left to do: the checkpoint is after step 3",
                          result.stderr)

    def test_a_mixture_is_what_its_files_are(self):
        # Each file says one token over and over, so that the loss of a batch is
        # the mean of its rows' losses.
        names, alone = [], []
        for i, token in enumerate((3, 50)):
            names.append(self.path(f"{i}.bin"))
            h.write_tokens(names[-1], np.full(500, token))
            alone.append(self.losses(self.binary, names[-1], 1)[0])
        mixed = self.losses(self.binary, names[0] + ":0.7", 10, "--data",
                            names[1] + ":0.3")
        turns, counts = [], np.zeros(2)
        for row in range(10 * ROWS):
            turns.append(int(np.argmax(np.array([0.7, 0.3]) * (row + 1) - counts
                                       + [1e-9, 0])))
            counts[turns[-1]] += 1
        expected = [np.mean([alone[turn] for turn in turns[step:step + ROWS]])
                    for step in range(0, len(turns), ROWS)]
        np.testing.assert_allclose(mixed, expected, rtol=1e-5)
        self.assertEqual(list(counts), [28, 12])
        out = self.path("out")
        flags = ["--data", names[1] + ":0.3"]
        self.losses(self.binary, names[0] + ":0.7", 4, *flags, "--save", out)
        self.assertEqual(self.losses(self.binary, names[0] + ":0.7", 10, *flags,
                                     "--resume", out), mixed[4:])
        self.assertIn("error[H0186]",
                      self.fails("H0186", "--data", names[1], data=names[0] + ":1"))

    def test_stops_when_no_better(self):
        out = self.path("stopped")
        result = h.run([self.binary, "train", "--data", self.data, "--steps", 50,
                        "--val", self.data, "--val-every", 2, "--save", out,
                        "--stop-when-no-better", 2, "--log", self.path("log")])
        # The loss stays as it is: the first validation is the best one.
        self.assertIn("stopped after step 6: no validation was better than that of "
                      "step 2", result.stderr)
        self.assertTrue(os.path.exists(os.path.join(out, "step-000006")))
        end = h.read_log(self.path("log"), "end")[0]
        self.assertEqual((end["steps"], end["stopped"]), (6, "no better validation"))
        # A resumed run remembers.
        h.run([self.binary, "train", "--data", self.data, "--steps", 3, "--val",
               self.data, "--val-every", 2, "--save", self.path("part")])
        result = h.run([self.binary, "train", "--data", self.data, "--steps", 50,
                        "--val", self.data, "--val-every", 2, "--resume",
                        self.path("part"), "--stop-when-no-better", 3])
        self.assertIn("stopped after step 6", result.stderr)
        self.fails("H0187", "--stop-when-no-better", 2)


if __name__ == "__main__":
    unittest.main()
