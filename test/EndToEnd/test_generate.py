# Texts of binaries that train.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary that trains continues texts through a cache. With `--max-context 1` it
computes a whole window for each token: both must give the same text."""

import json
import os
import unittest

import numpy as np

import families
import heddle_test as h


class Generate(h.HeddleTest):
    def job(self, model, seq, *flags, output="job"):
        return self.compile(model, "--batch", 2, "--seq", seq, "--threads", 2, *flags,
                            output=output)

    def text(self, binary, prompt, count, *flags, ranks=1):
        text = h.run_ranks(ranks, [binary, "generate", "--prompt-ids",
                                   ",".join(map(str, prompt)), "--max-new-tokens", count,
                                   "--json", *flags]).stdout
        made = json.loads(text)
        self.assertIsNone(made["text"])  # There is no tokenizer.
        return made["ids"]

    def info(self, binary):
        return json.loads(h.run([binary, "info", "--json"]).stdout)

    def names(self, binary):
        return [program["name"] for program in self.info(binary)["programs"]]

    def check_same(self, model, seq, vocab, *flags, count=None):
        """Within a window, and over the ends of several."""
        cached = self.job(model, seq, *flags)
        whole = self.job(model, seq, "--max-context", 1, *flags, output="whole")
        self.assertIn("decode/1", self.names(cached))
        self.assertEqual(self.names(whole), ["train", "eval", "generate"])
        generator = np.random.default_rng(seq)
        for length in {1, seq - 1, seq, 2 * seq + 1}:
            prompt = generator.integers(0, vocab, max(length, 1)).tolist()
            with self.subTest(seq=seq, prompt=length):
                self.assertEqual(self.text(cached, prompt, count or 3 * seq),
                                 self.text(whole, prompt, count or 3 * seq))

    def test_the_cache_gives_the_windows_text(self):
        for seq, shape in ((7, dict(embed=15, heads=1, vocab=89)),
                           (2, dict(embed=8, heads=2, vocab=11, layers=1)),
                           (33, dict(embed=33, heads=3, vocab=101, positions=40))):
            model, config, _ = self.make_model(f"model{seq}", **shape)
            self.check_same(model, seq, config["vocab_size"])

    def test_other_families(self):
        for family in ("llama", "mistral"):
            config = families.config(family)
            h.write_model(self.path(family), config, families.random_weights(config),
                          prefix="")
            self.check_same(self.path(family), 19, config["vocab_size"])

    def test_rows_of_one_size_do_not_share_layers(self):
        """Rows of evaluation may be as long as a chunk, or as a token."""
        model, config, _ = self.make_model()
        for seq in (12, 1):
            binary = self.compile(model, "--batch", 1, "--seq", seq, "--max-context",
                                  12, output=f"one{seq}")
            data, _ = self.make_tokens(5 * seq + 1, config["vocab_size"])
            self.train(binary, data, 2)
            self.assertEqual(self.text(binary, [3, 1, 4], 9),
                             self.text(self.job(model, 12), [3, 1, 4], 9))

    def test_on_ranks(self):
        """Over the end of a context, the text is that of one rank which computes windows.
        Weights that ZeRO 3 splits are gathered by all ranks, so these are one group."""
        model, config, _ = self.make_model(heads=4, layers=4)
        prompt = h.random_tokens(7, config["vocab_size"], 3).tolist()
        expected = self.text(self.job(model, 9, "--max-context", 1), prompt, 25)
        for ranks, mesh, flags, groups in (
                (2, "tensor=2", (), 1), (2, "seq=2", ("--zero", 3), 1),
                (2, "data=2", (), 2), (2, "data=2", ("--zero", 1), 2),
                (2, "data=2", ("--zero", 3), 1),
                (2, "pipe=2", ("--micro-batch", 1), 1),
                (2, "pipe=2", ("--micro-batch", 1, "--schedule", "interleaved",
                               "--virtual-stages", 2), 1),
                (4, "data=2,tensor=2", ("--zero", 2), 2),
                (4, "pipe=2,data=2", ("--zero", 3), 1)):
            with self.subTest(mesh=mesh, flags=flags):
                seq = 10 if "seq" in mesh else 9
                binary = self.compile(model, "--batch", 2, "--seq", seq, "--max-context", 9,
                                      "--threads", 1, "--mesh", mesh, *flags, output="ranks")
                self.assertIn("decode/1", self.names(binary))
                self.assertEqual(self.info(binary)["texts"], (
                    "up to 2 together, through a cache of 16 tokens in each of 2 groups of "
                    "ranks" if groups == 2 else
                    "up to 1 together, through a cache of 16 tokens"))
                self.assertEqual(self.text(binary, prompt, 25, ranks=ranks), expected)

    def test_logits_of_the_last_stage(self):
        """Rank 0 writes what another rank computes."""
        model, config, _ = self.make_model(heads=4, layers=2)
        found = []
        for ranks, flags in ((1, ()), (2, ("--mesh", "pipe=2"))):
            binary = self.job(model, 9, *flags)
            h.run_ranks(ranks, [binary, "logits", "--prompt-ids", "5,17,2", "--decode",
                                "--threads", 1, "-o", self.path("l.safetensors")])
            found.append(h.read_safetensors(self.path("l.safetensors"))["logits"])
        np.testing.assert_allclose(*found, atol=1e-5)
        self.assertGreater(abs(found[1]).min(), 0)

    def test_bytes_of_the_cache(self):
        model, config, _ = self.make_model(embed=24, heads=3, layers=3)
        for flags, texts, context, pages, width in (
                ((), 1, 20, 2, 4), (("--precision", "bf16"), 1, 20, 2, 2),
                (("--max-batch", 3, "--max-context", 32), 3, 32, 6, 4),
                (("--kv-type", "bf16", "--kv-cache", 2 * 24 * 3 * 16 * 2 * 5), 1, 20, 5, 2)):
            with self.subTest(flags=flags):
                info = self.info(self.job(model, 20, *flags))
                self.assertEqual(info["memory"]["owners"]["cache"],
                                 2 * 24 * 3 * 16 * pages * width)
                self.assertEqual(info["texts"], f"up to {texts} together, through a "
                                 f"cache of {16 * pages} tokens")
                self.assertEqual(info["memory"]["peak"],
                                 sum(info["memory"]["owners"].values()))

    def test_explains_a_program(self):
        """A token reads every weight once, but of positions one row."""
        layers, embed, positions, rows = 3, 32, 32, 2
        model, config, weights = self.make_model(embed=embed, vocab=96, layers=layers)
        parameters = sum(value.size for value in weights.values())
        least = 4 * (parameters - (positions - 1) * embed)
        for mode, batch in (("train", 1), ("serve", rows)):
            binary = self.compile(model, "--mode", mode, "--seq", 20, "--max-context", 20,
                                  "--max-batch", batch, output=mode)
            found = self.explain(binary, "--program", f"decode/{batch}")
            self.assertEqual((found["rows"], found["tokens"]), (batch, batch))
            self.assertEqual(found["cache"], [{"bytes_per_position": 2 * layers * embed * 4,
                                               "positions": 20}])
            self.assertGreaterEqual(found["state_bytes"], least)
            self.assertLess(found["state_bytes"], 1.02 * least)
            self.assertEqual(found["bytes"], found["state_bytes"] + batch * 20 *
                             2 * layers * embed * 4)
            calls = [(op, kernel["calls"]) for kernel in found["kernels"]
                     for op in kernel["ops"].split(" + ")]
            self.assertIn(("paged_attention", layers), calls)
            self.assertIn(("cache_write", layers), calls)
            self.assertGreater(found["seconds"] * found["peak_gflop_s"] * 1e9,
                               0.9 * sum(kernel["calls"] * kernel["flops"]
                                         for kernel in found["kernels"]))
            self.assertGreater(found["seconds"] * found["stream_gb_s"] * 1e9,
                               0.9 * found["bytes"])
        text = h.run([h.HEDDLE, "explain", binary, "--program", "decode/2"]).stdout
        self.assertIn("program decode/2: 2 tokens in 2 rows", text)
        refused = h.run([h.HEDDLE, "explain", binary, "--program", "decode/3"], status=2)
        self.assertIn("the plan has prefill/16, prefill/20", refused.stderr)

    def test_how_fast_the_quickstart_writes(self):
        """More than 2,000 tokens in a second of one thread, whatever else the machine
        does; compiled and asked as in scripts/quickstart.sh. In fp32, where it is
        twice the bytes and the machine has half the lanes, more than 800. A core that
        reads too slowly for that reads at half of its speed, at least."""
        with open("/proc/cpuinfo") as file:
            flags = file.read()
        narrow = "avx512_bf16" in flags or "amx_bf16" in flags
        binary = self.compile(
            os.path.join(h.ROOT, "examples", "gpt2-bytes", "config.json"), "--init",
            "random", "--seed", 7, "--seq", 128, "--batch", 16, "--precision",
            "bf16" if narrow else "fp32")

        def seconds(tokens):
            before = h.processor_seconds()
            h.run([binary, "generate", "--prompt", "And God said", "--temperature", 0.8,
                   "--seed", 1, "--threads", 1, "--max-new-tokens", tokens, "--json"])
            return h.processor_seconds() - before

        one, many = (min(seconds(tokens) for _ in range(3)) for tokens in (1, 401))
        rate = 400 / (many - one)
        if rate < (2000 if narrow else 800):
            found = json.loads(h.run([
                binary, "bench", "--decode", "--json", "--threads", 1, "--context", 60,
                "--tokens", 60]).stdout.splitlines()[-1])
            self.assertGreater(rate * found["bytes_per_token"],
                               0.5e9 * found["stream_gb_s"], (rate, found))

    def test_what_it_does_not_hold(self):
        model, config, _ = self.make_model()
        binary = self.job(model, 12)
        wanted = ["logits", "--prompt-ids", "1,2", "-o", self.path("l.safetensors")]
        self.assertIn("error[H0191]", h.run([binary, *wanted], status=2).stderr)
        h.run([binary, *wanted, "--decode"])
        refused = h.run([h.HEDDLE, "compile", model, "--seq", 12, "--max-context", 33,
                         "-o", self.path("job")], status=2).stderr
        self.assertIn("error[H0128]", refused)


if __name__ == "__main__":
    unittest.main()
