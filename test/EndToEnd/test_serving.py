#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Binaries of `--mode serve` have PyTorch's logits; what they compute token by
token has the bits of what they compute at once; and what cannot serve is refused."""

import json
import os
import re
import unittest

import numpy as np

import families
import heddle_test as h
import serving

CONTEXT = 90
WIDE = dict(max_position_embeddings=CONTEXT, vocab_size=103)
CASES = {"llama": families.config(hidden_size=30, num_attention_heads=3,
                                  num_key_value_heads=1, head_dim=10,
                                  intermediate_size=37, **WIDE),
         "qwen2": families.config("qwen2", **WIDE)}


class Serving(serving.ServingTest):
    def models(self):
        """Directories of several families, with their configurations and weights."""
        yield ("gpt2", *self.make_model("gpt2", vocab=103, positions=CONTEXT, embed=36,
                                        heads=4))
        for name, config in CASES.items():
            weights = families.random_weights(config)
            h.write_model(self.path(name), config, weights, prefix="")
            yield name, self.path(name), config, weights

    @h.needs_torch
    def test_logits_of_pytorch_at_once_and_token_by_token(self):
        import oracle
        tokens = h.random_tokens(CONTEXT, 103, 3)
        for name, model, config, weights in self.models():
            theirs = (oracle.Gpt2 if name == "gpt2" else families.Decoder)(
                config, weights)
            wanted = theirs.logits(h.torch.tensor(tokens[None].astype(np.int64)))
            wanted = wanted[0].detach().numpy()
            for precision, tolerance in (("fp32", 1e-4), ("bf16", 0.1), ("fp16", 0.015)):
                binary = self.serve(model, "--precision", precision)
                # Of one page, of a page and a token, of more than one chunk.
                for count in (1, 16, 17, CONTEXT):
                    with self.subTest(name, precision=precision, tokens=count):
                        once = self.logits(binary, tokens[:count])
                        self.assertEqual(once.shape, (count, 103))
                        np.testing.assert_allclose(once, wanted[:count], rtol=0,
                                                   atol=tolerance)
                        steps = self.logits(binary, tokens[:count], "--decode")
                        np.testing.assert_array_equal(once, steps)

    def test_keys_in_parts_have_the_bits_of_keys_at_once(self):
        """Longer texts than a part of 256 keys, token by token and in chunks, on any
        number of threads, and in every type of the cache."""
        config = families.config(hidden_size=24, num_attention_heads=3,
                                 num_key_value_heads=1, head_dim=8,
                                 intermediate_size=37, max_position_embeddings=601,
                                 vocab_size=103)
        h.write_model(self.path("long"), config, families.random_weights(config), "")
        tokens = h.random_tokens(601, 103, 3)
        for flags in ([], ["--precision", "bf16"], ["--precision", "fp16"],
                      ["--kv-type", "int8"], ["--precision", "bf16", "--kv-type", "fp32"]):
            with self.subTest(flags=flags):
                binary = self.serve(self.path("long"), *flags)
                once = self.logits(binary, tokens)
                for threads in (1, 2):
                    steps = self.logits(binary, tokens, "--decode", "--threads", threads)
                    np.testing.assert_array_equal(once, steps)
        text = h.run([binary, "bench", "--decode", "--kernels", "--tokens", 2]).stdout
        self.assertIn("k_paged_attention_join", text)

    def test_threads_take_what_others_leave(self):
        """Of weights that are large enough for that: queries, keys and values with
        their turning and the cache, a gate, and the head."""
        config = {"model_type": "llama", "vocab_size": 5003, "hidden_size": 640,
                  "intermediate_size": 1944, "num_hidden_layers": 1,
                  "num_attention_heads": 10, "num_key_value_heads": 5,
                  "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
                  "hidden_act": "silu", "tie_word_embeddings": False}
        with open(self.path("wide.json"), "w") as file:
            json.dump(config, file)
        tokens = [number * 37 % 5003 for number in range(150)]
        for flags in (["fp32"], ["bf16", "--quantize", "int8"], *[["bf16"]] * h.LONG):
            binary = self.serve(self.path("wide.json"), "--init", "random",
                                "--max-context", len(tokens), "--precision", *flags)
            alone = self.logits(binary, tokens, "--threads", 1)
            for how in ([], [], ["--decode"]):
                np.testing.assert_array_equal(
                    self.logits(binary, tokens, "--threads", 2, *how), alone, str(flags))

    def test_rows_as_codes(self):
        """A few per cent off, and the same bits alone and among others."""
        model, *_ = self.make_model(vocab=103, positions=CONTEXT, embed=128, heads=4)
        tokens = h.random_tokens(CONTEXT, 103, 3)
        for number, quantize in enumerate(("int8", "int4")):
            for precision in ("fp32", "bf16") if h.LONG else (("fp32", "bf16")[number],):
                with self.subTest(quantize, precision=precision):
                    weights, both = (
                        self.serve(model, "--precision", precision, "--quantize",
                                   quantize, "--quantize-activations", rows,
                                   output=rows) for rows in ("none", "int8"))
                    wanted, found = (self.logits(b, tokens) for b in (weights, both))
                    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
                    self.assertLess(error, 0.03)
                    self.assertGreater(error, 1e-4)
                    np.testing.assert_array_equal(
                        self.logits(both, tokens, "--decode"), found)

    def test_rows_are_codes_where_that_pays(self):
        model, *_ = self.make_model(positions=CONTEXT)
        for march, batch, quantize, rows in (
                ("x86-64-v3", 1, "int8", "int8"), ("x86-64-v4", 8, "int4", "int8"),
                ("x86-64-v4", 1, "int8", "none"), ("amx", 1, "int8", "int8"),
                ("amx", 8, "none", "none")):
            said = h.run([h.HEDDLE, "compile", model, "--mode", "serve", "--march", march,
                          "--max-batch", batch, "--quantize", quantize,
                          "--quantize-activations", "auto", "--explain-config"]).stdout
            found = re.search(r"quantize_(?:activations)?\s+(none|int8)", said)
            self.assertEqual(found[1], rows, said)
        # Where nothing is rounded no dump says auto, which none may.
        dumps = self.path("dumps")
        h.run([h.HEDDLE, "compile", model, "--batch", 2, "--seq", 8,
               "--quantize-activations", "auto", "--dump-phases", dumps, "-o",
               self.path("trains")])
        with open(os.path.join(dumps, "import.mlir")) as file:
            self.assertIn("activations = none", file.read())
        h.run([h.HEDDLE, "compile", model, "--mode", "serve", "--quantize", "int8",
               "--dump-phases", dumps, "-o", self.path("serves")])
        h.run([h.HEDDLE, "compile", os.path.join(dumps, "import.mlir"), "--start-from",
               "import", "--quantize-activations", "auto", "--max-batch", 8,
               "--dump-phases", self.path("others"), "-o", self.path("again")])
        with open(self.path("others", "model.mlir")) as file:
            self.assertIn("activations = int8", file.read())

    def test_generates_what_the_whole_window_gives(self):
        for name, model, config, weights in self.models():
            if name == "qwen2" and not h.LONG:
                continue
            with self.subTest(name):
                window = self.compile(model, "--batch", 1, "--seq", CONTEXT,
                                      "--threads", 2, output="window")
                binary = self.serve(model)
                for prompt in ([5], list(range(33))):
                    self.assertEqual(self.generate(binary, prompt, 40),
                                     self.generate(window, prompt, 40))
                # The text ends where the context does.
                self.assertEqual(len(self.generate(binary, prompt, 1000)),
                                 CONTEXT - 33)

    def test_maps_no_gradients_and_no_moments(self):
        model, _, weights = self.make_model(positions=CONTEXT)
        parameters = sum(value.size for value in weights.values())
        for precision, width in (("fp32", 4), ("bf16", 2)):
            binary = self.serve(model, "--precision", precision, "--max-batch", 3)
            owners = self.owners(binary)
            self.assertNotIn("gradients", owners)
            self.assertLess(owners["parameters"], parameters * width * 1.1)
            pages = 3 * -(-CONTEXT // 16)
            self.assertEqual(owners["cache"], 2 * 2 * pages * 16 * 48 * width)

    def owners(self, binary):
        return self.explain(binary)["memory"]["owners"]

    def bench(self, binary, *flags, ranks=1):
        text = h.run_ranks(ranks, [binary, "bench", "--decode", "--json", *flags])
        return json.loads(text.stdout)

    def test_measures_tokens(self):
        model, config, weights = self.make_model(positions=CONTEXT)
        width, layers = config["n_embd"], config["n_layer"]
        # Packed in panels of 32 outputs.
        padded = lambda inputs, outputs: inputs * -(-outputs // 32) * 32
        products = padded(*weights["wte.weight"].shape[::-1]) + sum(
            padded(*value.shape) for name, value in weights.items()
            if value.ndim == 2 and "e.weight" not in name)
        binary = self.serve(model, "--max-batch", 3)
        for batch, context, tokens in ((1, 17, 5), (3, 40, 2)):
            line = self.bench(binary, "--batch", batch, "--context", context,
                              "--tokens", tokens)
            self.assertEqual(line["batch"], batch)
            self.assertEqual(line["context"], context)
            self.assertEqual(line["tokens"], tokens)
            # A token is one parallel region of all its launches.
            self.assertGreater(line["launches"], 4 * layers)
            self.assertEqual(line["submissions"], 1)
            # The weights of products once, rows of embeddings and vectors, which
            # are little, and for each text all positions up to the token's own.
            cache = 2 * layers * width * (context + 1 + (tokens - 1) / 2) * 4
            least = products * 4 / batch + cache
            self.assertGreaterEqual(line["bytes_per_token"], least)
            self.assertLess(line["bytes_per_token"], 1.05 * least)
            self.assertAlmostEqual(
                line["fraction_of_stream"] * line["stream_gb_s"] * 1e9,
                line["bytes_per_token"] * line["tokens_per_s"], delta=1e6)
            self.assertAlmostEqual(line["tokens_per_s"] * line["median_s"], batch,
                                   places=3)
            self.assertAlmostEqual(
                line["prefill_tokens_per_s"] * line["first_token_s"], context,
                places=3)
            self.assertLessEqual(line["min_s"], line["median_s"])
        codes = self.bench(self.serve(model, "--quantize", "int8"), "--tokens", 1,
                           "--context", 17)
        self.assertLess(codes["bytes_per_token"], 0.5 * 4 * products)
        text = h.run([binary, "bench", "--decode", "--kernels", "--tokens", 2]).stdout
        self.assertIn("decode/1:", text)
        self.assertIn("k_paged_attention", text)
        self.assertIn("prefill/90:", text)

    def test_bytes_of_layers_with_windows_and_without(self):
        """Each layer counts with the positions that its tokens see."""
        tokens, width = 6, 2 * 2 * 8 * 4  # Keys and values of two heads.
        for family, windowed, changes in (
                ("qwen2", 2, dict(use_sliding_window=True, max_window_layers=1)),
                ("mistral", 3, {})):
            config = families.config(family, vocab_size=103, num_hidden_layers=3,
                                     sliding_window=8, max_position_embeddings=60,
                                     **changes)
            h.write_model(self.path(family), config, families.random_weights(config), "")
            binary = self.serve(self.path(family), "--max-batch", 2)
            whole = 3 - windowed
            caches = [{"bytes_per_position": layers * width, "positions": positions}
                      for layers, positions in ((whole, 60), (windowed, 8)) if layers]

            def cache_at(positions):
                return width * (whole * positions + windowed * min(positions, 8))

            for batch in (1, 2):
                with self.subTest(family, batch=batch):
                    found = self.explain(binary, "--program", f"decode/{batch}")
                    self.assertEqual(found["cache"], caches)
                    self.assertEqual(found["bytes"],
                                     found["state_bytes"] + batch * cache_at(60))
                    # Over the end of the window, and behind it.
                    for context in (5, 40):
                        line = self.bench(binary, "--batch", batch, "--context", context,
                                          "--tokens", tokens)
                        cache = sum(cache_at(context + 1 + i)
                                    for i in range(tokens)) / tokens
                        self.assertAlmostEqual(line["bytes_per_token"],
                                               found["state_bytes"] / batch + cache,
                                               delta=0.01)
            text = h.run([h.HEDDLE, "explain", binary, "--program", "decode/2"]).stdout
            self.assertEqual("in other layers" in text, whole > 0)
            self.assertIn("for each position that a row sees, here 8", text)

    def test_products_of_the_same_rows_are_one_kernel(self):
        for name, model, config, _ in self.models():
            if name == "gpt2":
                continue  # Its queries, keys and values are one weight.
            layers = config["num_hidden_layers"]
            with self.subTest(name):
                text = h.run([self.serve(model), "bench", "--decode", "--kernels",
                              "--tokens", 1]).stdout.split("prefill/")[0]
                launches = {line.split()[-1].rsplit("_", 1)[0]: int(line.split()[2])
                            for line in text.splitlines() if " k_" in line}
                joined = {"k_rms_norm" + 3 * "_packed_linear" + 2 * "_rotary": layers,
                          "k_rms_norm" + 2 * "_packed_linear" + "_silu_mul": layers,
                          "k_rms_norm_packed_linear": 1}  # The head.
                self.assertEqual({kernel: count for kernel, count in launches.items()
                                  if "packed_linear" in kernel
                                  and "packed_linear_add" not in kernel}, joined)

    @h.needs_mpi
    def test_tensor_ranks_have_the_logits_of_one(self):
        tokens = h.random_tokens(50, 103, 3)
        for name, model, *_ in self.models():
            with self.subTest(name):
                binary = self.serve(model, "--max-batch", 2)
                one, whole = self.logits(binary, tokens), self.owners(binary)
                # Qwen2 has two heads of keys, llama one, which each rank has.
                for ranks in (2, 4) if name == "gpt2" else (2,):
                    binary = self.serve(model, "--max-batch", 2, "--mesh",
                                        f"tensor={ranks}")
                    more = self.logits(binary, tokens, ranks=ranks)
                    np.testing.assert_allclose(more, one, rtol=0, atol=1e-4)
                    np.testing.assert_array_equal(
                        self.logits(binary, tokens, "--decode", ranks=ranks), more)
                    # Each has its heads' keys, and the weights that make them, in panels.
                    part = self.owners(binary)
                    self.assertEqual(part["cache"] * (1 if name == "llama" else ranks),
                                     whole["cache"])
                    if name == "gpt2":
                        self.assertLess(part["packed weights"],
                                        1.2 * whole["packed weights"] / ranks)

    @h.needs_mpi
    def test_tensor_ranks_pack_the_codes_of_one(self):
        """Each packs its part, with the scales that the whole weight has."""
        config = families.config(hidden_size=96, num_attention_heads=4,
                                 num_key_value_heads=4, head_dim=24,
                                 intermediate_size=160, **WIDE)
        h.write_model(self.path("llama"), config, families.random_weights(config), "")
        odd, even = (self.make_model(f"gpt2-{width}", vocab=103, positions=CONTEXT,
                                     embed=width, heads=4)[0] for width in (100, 96))
        tokens = h.random_tokens(37, 103, 3)
        for model, ranks, *flags in (
                (odd, 4, "int8"), (even, 2, "int4", "--group", 8, "--quantize-zeros"),
                (self.path("llama"), 2, "int8", "--group", 8),
                *[(self.path("llama"), 4, "int8")] * h.LONG):
            with self.subTest(model, ranks=ranks, flags=flags):
                binaries = [self.serve(model, "--max-context", len(tokens), "--quantize",
                                       *flags, *mesh, output=name)
                            for mesh, name in (([], "one"),
                                               (["--mesh", f"tensor={ranks}"], "more"))]
                one = self.logits(binaries[0], tokens)
                more = self.logits(binaries[1], tokens, ranks=ranks)
                np.testing.assert_allclose(more, one, rtol=0, atol=1e-4)
                whole, part = (json.loads(h.run(
                    [h.HEDDLE, "explain", binary, "--json"]).stdout)["memory"]["owners"]
                    ["packed weights"] for binary in binaries)
                # Panels of 32 outputs are padded: more than the part alone.
                self.assertLess(part, 0.75 * whole)
        # Half of the inputs of down_proj.
        self.refused("H0144", [h.HEDDLE, "compile", self.path("llama"), "--mode",
                               "serve", "--quantize", "int8", "--group", 16, "--mesh",
                               "tensor=4", "--keep-16bit", "*.[oqkvgu]*_proj.weight",
                               "--keep-16bit", "*embed*", "--keep-16bit", "lm_head*",
                               "-o", self.path("x")],
                     "use --quantize-group", "fewer tensor ranks", "--quantize none")

    def refused(self, code, command, *words, status=2):
        text = h.run(command, status=status).stderr
        for word in (code, *words):
            self.assertIn(word, text)
        return text

    def test_refuses_what_cannot_serve(self):
        model, *_ = self.make_model(positions=CONTEXT)
        build = [h.HEDDLE, "compile", model, "--mode", "serve", "-o", self.path("x")]
        self.refused("H0126", build + ["--target", "sm_80", "--gemm", "library"],
                     "leave out --gemm library")
        self.refused("H0128", build + ["--max-context", 91], "n_positions = 90")
        self.refused("H0129", build + ["--mesh", "pipe=2"], "data=N,tensor=N")
        self.refused("H0139", build + ["--mesh", "data=2", "--max-batch", 3],
                     "a multiple of 2")
        self.refused("H0139", build + ["--mesh", "data=2", "--max-batch", 1], "data=2")
        self.refused("H0204", build + ["--kv-cache", "1KiB"], "--kv-cache 73728",
                     status=4)
        self.refused("H0145", build + ["--quantize", "int8", "--keep-16bit", "h.[0"],
                     '"h.[0" of --keep-16bit is no pattern', "[[]")
        self.refused("H0145", build + ["--quantize", "int8", "--keep-16bit", "*.mlp"],
                     '"*.mlp" of --keep-16bit is the name of no parameter')
        bert = {"model_type": "bert", "vocab_size": 97, "hidden_size": 32,
                "num_hidden_layers": 1, "num_attention_heads": 2,
                "intermediate_size": 64, "max_position_embeddings": 32}
        with open(self.path("bert.json"), "w") as file:
            json.dump(bert, file)
        self.refused("H0127", [h.HEDDLE, "compile", self.path("bert.json"), "--init",
                               "random", "--mode", "serve", "-o", self.path("x")])
        binary = self.serve(model, "--max-context", 20)
        ids = ",".join(["1"] * 21)
        self.refused("H0132", [binary, "generate", "--prompt-ids", ids], "21 tokens",
                     "20", "--max-context 22")
        for count, isFull in ((8, False), (9, True)):
            done = h.run([binary, "generate", "--prompt-ids", ids[:2 * 12 - 1],
                          "--max-new-tokens", count])
            self.assertEqual(len(done.stdout.split()), 12 + 8)
            self.assertEqual("warning[H0465]: the text ends after 8 of 9 tokens: it and "
                             "the prompt can have 20 together" in done.stderr, isFull)
        self.refused("H0132", [binary, "logits", "--prompt-ids", ids, "-o",
                               self.path("o")])
        bench = [binary, "bench", "--decode"]
        self.refused("H0166", bench + ["--batch", 9], "--max-batch 9")
        self.refused("H0166", bench + ["--context", 20], "--max-context 21")
        small = self.serve(model, "--max-context", 20, "--kv-cache", "24576",
                           "--max-batch", 2)
        self.refused("H0166", [small, *bench[1:], "--batch", 2, "--tokens", 2],
                     "--kv-cache")
        trains = self.compile(model, "--batch", 1, "--seq", 8, "--max-context", 1)
        self.refused("H0191", [trains, *bench[1:]], "--mode serve")
        self.refused("H0191", [trains, "logits", "--prompt-ids", "1", "-o",
                               self.path("o")], "--mode serve")
        self.assertFalse(os.path.exists(self.path("o")))
        # Of each kind once, however many sizes there are.
        held = self.refused("H0191", [binary, "encode", "--ids", "1"])
        self.assertIn("it holds: prefill, score, decode;", held)
        for flags in (["--quantize-group", 32], ["--quantize-zeros"], ["--keep-16bit", "wte"],
                      ["--quantize-activations", "int8"]):
            self.refused("H0134", [h.HEDDLE, "compile", model, "--mode", "serve", *flags,
                                   "-o", self.path("o")], flags[0], "--quantize int8")
        # What trains has no codes.
        said = h.run([h.HEDDLE, "compile", model, "--batch", 1, "--seq", 8, "--quantize",
                      "int8", "--group", 32, "--stop-after", "import"]).stderr
        self.assertIn("warning: --quantize, --group without effect", said)
        said = h.run([h.HEDDLE, "compile", model, "--mode", "serve", "--quantize", "int8",
                      "--stop-after", "import"]).stderr
        self.assertNotIn("without effect", said)
        # What serves has no optimizer. One flag says two places.
        said = h.run([h.HEDDLE, "compile", model, "--mode", "serve", "--lr", 0.1, "--place",
                      "optimizer=file,parameters=file", "--stop-after", "import"]).stderr
        self.assertIn("warning: --place, --lr without effect: the binary does not train",
                      said)


if __name__ == "__main__":
    unittest.main()
