#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Binaries that serve, on emulated GPUs: logits and texts against those of the same
binary on a CPU, the bits of what is computed together and alone, and memory."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import unittest

import numpy as np

import families
import heddle_test as h
import running_jobs as jobs
import serving
import test_encode
from test_gpu import emulated
from test_serve_model import Served

VOCAB, CONTEXT = 61, 48
COMMON = ["--target", "x86-64,sm_90"]


class GpuServing(serving.ServingTest):
    def gpt2(self, **options):
        return self.make_model("gpt2", vocab=VOCAB, positions=CONTEXT, embed=32, **options)[0]

    def llama(self, name="llama", **options):
        config = families.config(name, vocab_size=VOCAB, num_key_value_heads=2,
                                 max_position_embeddings=CONTEXT, **options)
        h.write_model(self.path(name), config, families.random_weights(config), "")
        return self.path(name)

    def both(self, model, *flags, **options):
        """A binary for a CPU and a GPU, as the commands that run it on each."""
        binary = self.serve(model, *COMMON, *flags, **options)
        return [binary], emulated(binary)

    def assert_serves_alike(self, model, *flags, tolerance=1e-4, tokens=37, new=8):
        cpu, gpu = self.both(model, *flags)
        ids = h.random_tokens(tokens, VOCAB, 3)
        expected = self.logits(cpu, ids)
        found = self.logits(gpu, ids)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        # Token by token, or a prefill in chunks: the same bits.
        few = ids[:tokens if h.LONG else 19]
        np.testing.assert_array_equal(self.logits(gpu, few, "--decode", **h.LIGHT),
                                      found[:len(few)])
        # On other GPUs, too.
        for count in (46, 132):
            np.testing.assert_array_equal(self.logits(
                gpu, few, HEDDLE_EMULATE_MULTIPROCESSORS=str(count), **h.LIGHT),
                found[:len(few)])
        self.assertEqual(self.generate(gpu, ids, new, **h.LIGHT),
                         self.generate(cpu, ids, new))
        return found

    def test_gpt2_serves_as_on_a_cpu(self):
        self.assert_serves_alike(self.gpt2(), "--max-batch", 2)
        self.assert_layer_launches(5, 5)

    def assert_layer_launches(self, alone, together):
        """Of the binary compiled last: norm and products of q, k and v, attention, product,
        norm and products of gate and up, product. Where rows may be guesses of a draft, the
        cache is written before. A launch more joins several parts of keys."""
        for program, launches in ("decode/1", alone), ("decode/2", together):
            explained = json.loads(h.run(
                [h.HEDDLE, "explain", self.path("serving"), "--kernels", "--program",
                 program, "--json"]).stdout)
            self.assertEqual(explained["layer_launches"], launches, program)

    def test_llama_serves_as_on_a_cpu(self):
        self.assert_serves_alike(self.llama(), "--max-batch", 2)
        self.assert_layer_launches(5, 5)

    @unittest.skipUnless(h.LONG, "HEDDLE_TEST_LONG=1 tests more families")
    def test_qwen3_serves_as_on_a_cpu(self):
        config = families.config("qwen3", vocab_size=VOCAB, head_dim=8,
                                 max_position_embeddings=CONTEXT)
        weights = families.random_weights(config)
        for layer in range(config["num_hidden_layers"]):
            for norm in "q_norm", "k_norm":
                weights[f"model.layers.{layer}.self_attn.{norm}.weight"] = np.linspace(
                    0.5, 1.5, 8, dtype=np.float32)
        h.write_model(self.path("qwen3"), config, weights, "")
        for flags in [], ["--kv-type", "int8"]:
            with self.subTest(flags=flags):
                self.assert_serves_alike(self.path("qwen3"), "--max-batch", 2, *flags)
                self.assert_layer_launches(5, 5)

    def test_quantized_weights_serve_as_on_a_cpu(self):
        for flags in (["--quantize", "int8"],
                      ["--quantize", "int4", "--quantize-group", 16, "--quantize-zeros"]):
            with self.subTest(flags=flags):
                self.assert_serves_alike(self.llama(intermediate_size=48), *flags,
                                         "--quantize-activations", "none",
                                         tolerance=1e-3, tokens=19, new=4)

    def counts(self, command, *flags, **variables):
        """What the emulated driver counts, and what the program says on stderr."""
        path = self.path("counts.json")
        said = h.run_ranks(1, [*command, *flags], HEDDLE_EMULATE_COUNTS=path,
                           **h.LIGHT, **variables).stderr
        with open(path) as file:
            return json.load(file), said

    def test_memory_and_graphs_are_the_plans(self):
        """The bytes that are allocated are those that are printed. Each run of the
        model is one graph, and the host waits only for logits."""
        _, gpu = self.both(self.gpt2(layers=1), "--max-batch", 2)
        prompt = ["generate", "--prompt-ids", "1,2,3", "--max-new-tokens"]
        few, said = self.counts(gpu, *prompt, 3)
        many, _ = self.counts(gpu, *prompt, 6)
        parts = dict(re.findall(r"(weights|cache|arena) (\d+) bytes", said))
        self.assertEqual(set(parts), {"weights", "cache", "arena"})
        self.assertEqual(sum(map(int, parts.values())), few["device_bytes"])
        for name in ("cuMemAlloc_v2", "cuMemHostAlloc", "cuLaunchKernel",
                     "cuStreamSynchronize"):
            self.assertEqual(few["calls"].get(name), many["calls"].get(name), name)
        self.assertEqual(many["calls"]["cuGraphLaunch"] - few["calls"]["cuGraphLaunch"], 3)
        # One by one, and waiting for each: the same text.
        texts = [self.generate(gpu, [1, 2, 3], 4, *flags, **h.LIGHT)
                 for flags in ([], ["--no-graph"], ["--sync"])]
        # A newer driver begins kernels early.
        texts.append(self.generate(gpu, [1, 2, 3], 4, HEDDLE_EMULATE_DRIVER="12.4"))
        self.assertEqual(texts, 4 * texts[:1])
        explained = json.loads(h.run([h.HEDDLE, "explain", gpu[-1], "--kernels",
                                      "--program", "decode/2", "--json"]).stdout)
        self.assertEqual(sum(kernel["calls"] * len(kernel["launches"])
                             for kernel in explained["kernels"]), explained["launches"])
        self.assertLess(explained["layer_launches"], explained["launches"])

    def test_cache_takes_what_the_gpu_has(self):
        """Whole pages of it, down to those of one text."""
        _, gpu = self.both(self.gpt2(layers=1), "--max-batch", 4)
        generate = [*gpu, "generate", "--prompt-ids", "1,2,3", "--max-new-tokens", 3]

        def run(*flags, status=0, free=None):
            fault = {} if free is None else {"HEDDLE_EMULATE_FAULT": f"little-memory:{free}"}
            return h.run_ranks(1, [*generate, *flags], status, **fault, **h.LIGHT)

        def sizes(said):
            return {name: int(size) for name, size in
                    re.findall(r"(weights|cache|arena) (\d+) bytes", said)}

        whole = run()
        full = sizes(whole.stderr)
        page = full["cache"] // (4 * CONTEXT // 16)
        beside = full["weights"] + full["arena"]
        # Four pages, and some bytes more. A text of 48 tokens has three pages.
        found = run("--device-memory", 0.5, free=2 * (beside + 4 * page + 6000))
        self.assertEqual(sizes(found.stderr)["cache"], 4 * page)
        self.assertEqual(found.stdout, whole.stdout)
        found = run("--device-memory", 1, free=beside + 2 * page + 6000, status=4)
        self.assertIn("error[H0284]", found.stderr)
        self.assertIn("--max-context 48", found.stderr)
        # A size that is asked for is given, or refused.
        _, gpu = self.both(self.gpt2(layers=1), "--max-batch", 4, "--kv-cache", 9 * page,
                           output="sized")
        generate[:len(gpu)] = gpu
        self.assertEqual(sizes(run().stderr)["cache"], 9 * page)
        found = run(free=beside + 7 * page, status=4)
        self.assertIn("error[H0284]", found.stderr)
        self.assertIn("2 requests of --max-context 48 tokens fit", found.stderr)

    def test_refuses_what_a_gpu_cannot_serve(self):
        binary = self.serve(self.gpt2(layers=1), "--target", "sm_90", output="gpu")
        found = h.run([h.HEDDLE, "emulate", "--chip", "sm_80", "--", binary, "generate",
                       "--prompt-ids", "1"], 4)
        self.assertIn("error[H0283]", found.stderr)

    def test_keeps_weights_for_the_next_start(self):
        """In a file of the target's: that of a CPU is another one, and damaged in its
        place."""
        model = self.gpt2(layers=1)
        cpu, gpu = self.both(model)
        flags = ["--weight-cache", "read", "--weight-cache-dir", self.path("kept")]

        def start(command):
            said = h.run_ranks(1, [*command, "generate", "--prompt-ids", "1,2,3",
                                   "--max-new-tokens", 4, *flags], **h.LIGHT)
            return said.stdout, said.stderr

        text, said = start(gpu)
        (kept,) = os.listdir(self.path("kept"))
        self.assertIn(f"weights: kept in {self.path('kept')}/{kept}", said)
        again, said = start(gpu)
        self.assertIn("weights: read from", said)
        self.assertEqual(again, text)
        _, said = start(cpu)
        self.assertIn("weights: kept in", said)
        (other,) = set(os.listdir(self.path("kept"))) - {kept}
        os.replace(self.path("kept", other), self.path("kept", kept))
        again, said = start(gpu)
        self.assertIn("warning[H0482]", said)
        self.assertEqual(again, text)

    def test_texts_together_are_those_alone(self):
        """Of a server with cancels in between: no page is lost."""
        cpu, gpu = self.both(self.llama(num_hidden_layers=1), "--max-batch", 4)
        count = 32 if h.LONG else 6
        prompts = [list(map(int, h.random_tokens(1 + 5 * i % 23, VOCAB, i)))
                   for i in range(count)]

        def ask(prompt, **more):
            return dict(prompt=prompt, max_tokens=7, return_token_ids=True, logprobs=1,
                        temperature=0, ignore_eos=True, **more)

        def told(choice):
            return choice["token_ids"], choice["logprobs"]["token_logprobs"]

        def cancel(server):
            with contextlib.closing(http.client.HTTPConnection(
                    "127.0.0.1", server.port, timeout=60)) as connection:
                connection.request("POST", "/v1/completions", json.dumps(
                    dict(ask(prompts[0]), max_tokens=40, stream=True)))
                connection.getresponse().read(1)

        with Served(gpu, HEDDLE_CHECK_PAGES="1", **h.LIGHT) as server:
            alone = [told(server.complete(**ask(prompt))) for prompt in prompts[:4]]
            with concurrent.futures.ThreadPoolExecutor(count + 2) as pool:
                cancelled = [pool.submit(cancel, server) for _ in range(2)]
                together = [pool.submit(server.complete, **ask(prompt))
                            for prompt in prompts]
                found = [told(each.result()) for each in together]
                for each in cancelled:
                    each.result()
            self.assertEqual(found[:4], alone)
            self.assertTrue(jobs.wait_until(lambda: server.running() == 0, 60))
            pages = dict(re.findall(r'heddle_pages\{state="(\w+)"\} (\d+)',
                                    server.ask("/metrics")[1]))
            self.assertEqual(pages["used"], "0", pages)
            self.assertEqual(server.end(), 128 + signal.SIGTERM)
        for prompt, (ids, _) in zip(prompts, found):
            self.assertEqual(ids, self.generate(cpu, prompt, 7))

    def test_lost_gpu(self):
        """While a server computes: the client hears of it, and the server ends."""
        _, gpu = self.both(self.gpt2(layers=1))
        with Served(gpu, HEDDLE_EMULATE_FAULT="lost-device:40", **h.LIGHT) as server:
            status, text = server.ask("/v1/completions", dict(
                prompt=[1], max_tokens=40, temperature=0))
            self.assertEqual(status, 500)
            self.assertIn('"code":"H0435"', text)
            self.assertTrue(jobs.wait_until(lambda: server.process.poll() is not None, 10))
            self.assertEqual(server.process.returncode, 5)

    def test_encodes_as_on_a_cpu(self):
        model = test_encode.make_model(self.path("bert"))
        binary = self.compile(model, "--mode", "encode", "--threads", 2, "--max-batch", 2,
                              "--max-context", 32, *COMMON, output="encode")
        texts = [word for ids in test_encode.IDS[:3]
                 for word in ("--ids", ",".join(map(str, ids[:32])))]
        found = []
        for command in [binary], emulated(binary):
            out = self.path(f"{len(found)}.safetensors")
            h.run_ranks(1, [*command, "encode", *texts, "-o", out])
            found.append(h.read_safetensors(out)["embeddings"])
        np.testing.assert_allclose(*found, rtol=0, atol=1e-4)

    def test_drafts_and_figures(self):
        """A draft changes no token; `check` and `bench` run the kernels of serving."""
        model = self.gpt2(layers=1)
        plain, _ = self.both(model, output="plain")
        _, gpu = self.both(model, "--draft", model, "--draft-tokens", 2, output="drafted")
        self.assertEqual(self.generate(gpu, [5, 17, 2], 9),
                         self.generate(plain, [5, 17, 2], 9))
        found = json.loads(h.run([*gpu, "bench", "--decode", "--context", 9, "--tokens", 2,
                                  "--json"]).stdout)
        self.assertEqual((found["program"], found["submissions"]), ("decode/1", 1))
        self.assertGreater(found["stream_gb_s"], 0)
        trace = self.path("trace.json")
        h.run([*gpu, "bench", "--decode", "--context", 9, "--tokens", 2, "--trace", trace])
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        kinds = {event["args"]["step"]: event["cat"] for event in events}
        self.assertEqual(sorted(kinds.values()), ["decode", "decode", "prefill"])
        self.assertTrue(all(event["dur"] >= 0 for event in events))
        self.assertIn("kernels agree", h.run([*gpu, "check"]).stdout)

    def test_what_trains_generates(self):
        """Through a cache, too, with the weights that it trains."""
        binary = self.compile(self.gpt2(layers=1), "--batch", 2, "--seq", 24, *COMMON,
                              config=h.ds_config())
        self.assertIn("through a cache of 32 tokens",
                      h.run([*emulated(binary), "info"]).stdout)
        self.assertEqual(self.generate(emulated(binary), [5, 17, 2], 9, **h.LIGHT),
                         self.generate(binary, [5, 17, 2], 9))

    @h.needs_mpi
    def test_tensor_ranks_through_nccl(self):
        model = self.gpt2(layers=1)
        cpu, gpu = self.both(model, "--mesh", "tensor=2")
        one = self.serve(model, output="one")
        ids = h.random_tokens(19, VOCAB, 3)
        expected = self.logits(one, ids)
        found = self.logits(gpu, ids, ranks=2)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
        self.assertEqual(self.generate(gpu, ids, 4, ranks=2, **h.LIGHT),
                         self.generate(one, ids, 4))


if __name__ == "__main__":
    unittest.main()
