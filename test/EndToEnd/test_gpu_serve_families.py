#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every family that serves, on emulated GPUs: its logits and texts are those that
Hugging Face's transformers gave (test/Oracles/served), the same bits token by token and
in other chunks; in bf16 they are about as far off as a CPU's. Several ranks, one of
which dies, and many clients. Most of it runs with HEDDLE_TEST_LONG=1 alone."""

import json
import re
import unittest

import numpy as np

import families
import heddle_test as h
import openai_client
import running_jobs as jobs
import serving
import test_serve_model
import test_serve_recorded as recorded
from test_gpu import emulated
from test_serve_model import Served

CHIPS = ("sm_80", "sm_90")
# The family and chip of the default run: qwen3 has norms of heads.
EVERYDAY = {"qwen3": "sm_80"}
PROMPT, CONTINUED = 17, 48


class GpuServeFamilies(serving.ServingTest):
    make = recorded.ServeRecorded.make
    assert_recorded = recorded.ServeRecorded.assert_recorded
    check_lost_rank = test_serve_model.ServeModelTest.check_lost_rank
    LONG = test_serve_model.ServeModelTest.LONG

    def cases(self):
        for name, record in recorded.records():
            for chip in CHIPS:
                if h.LONG or EVERYDAY.get(name) == chip:
                    with self.subTest(name, chip=chip):
                        yield name, record, chip

    def test_logits_and_texts(self):
        tokens = recorded.TEXT[:300 if h.LONG else 40]
        for name, record, chip in self.cases():
            binary = self.serve(self.make(name, record), "--target", chip)
            gpu = emulated(binary, "--chip", chip)
            logits = self.logits(gpu, tokens, **h.LIGHT)
            self.assert_recorded(logits, record)
            np.testing.assert_array_equal(
                self.logits(gpu, tokens, "--decode", **h.LIGHT), logits)
            for length in (5, 33):
                np.testing.assert_array_equal(
                    self.logits(gpu, tokens[:length], **h.LIGHT), logits[:length])
            text = record["generated"][recorded.models.PROMPTS.index(PROMPT)]
            self.assertEqual(self.generate(gpu, tokens[:PROMPT], CONTINUED, **h.LIGHT),
                             text[:CONTINUED])

    @h.long_only
    def test_bf16(self):
        """Beside what transformers computes in fp32."""
        for name, record, chip in self.cases():
            binary = self.serve(self.make(name, record), "--target", f"x86-64,{chip}",
                                "--precision", "bf16")
            tokens = recorded.TEXT[:max(at for at in recorded.models.SCORED if at < 300) + 1]
            places = [at for at in recorded.models.SCORED if at < len(tokens)]
            wanted = np.array(record["logits"][:len(places)])
            cpu, gpu = (h.relative(self.logits(command, tokens, **h.LIGHT)[places], wanted)
                        for command in ([binary], emulated(binary, "--chip", chip)))
            self.assertLess(gpu, 2 * cpu)

    @h.long_only
    @h.needs_mpi
    def test_tensor_ranks(self):
        for name, record, chip in self.cases():
            for ranks in (2, 4):
                if recorded.heads_of(record["config"]) % ranks:
                    continue
                binary = self.serve(self.make(name, record), "--target", chip, "--mesh",
                                    f"tensor={ranks}")
                self.assert_recorded(
                    self.logits(emulated(binary, "--chip", chip, "--devices", ranks),
                                recorded.TEXT[:102], ranks=ranks, **h.LIGHT), record)

    @h.long_only
    def test_lost_rank(self):
        model, *_ = self.make_model(layers=2, positions=4096)
        binary = self.serve(model, "--mesh", "tensor=2", "--max-batch", 2, "--target",
                            "sm_90")
        self.check_lost_rank(emulated(binary, "--devices", "2"), **h.LIGHT)

    @h.long_only
    @openai_client.needs_openai
    def test_many_clients(self):
        """Of a LLaMA with four layers. Texts are as alone, and no page is lost; memory
        is what the start says."""
        config = families.config("llama", num_hidden_layers=4, max_position_embeddings=96)
        h.write_model(self.path("llama"), config, families.random_weights(config), "")
        binary = self.serve(self.path("llama"), "--target", "sm_90", "--max-batch", 8,
                            "--max-context", 96)
        prompts = [list(map(int, recorded.TEXT[i:i + 1 + 7 * i % 45])) for i in range(32)]
        counts = self.path("counts.json")
        with Served(emulated(binary), HEDDLE_CHECK_PAGES="1",
                    HEDDLE_EMULATE_COUNTS=counts, **h.LIGHT) as server:
            found = openai_client.check_together(self, server.port, prompts, 40)
            for index in list(found)[:6]:
                self.assertEqual(
                    server.complete(prompts[index], max_tokens=40, temperature=0,
                                    ignore_eos=True)["text"], found[index])
            self.assertTrue(jobs.wait_until(lambda: server.running() == 0, 60))
            self.assertIn('heddle_pages{state="used"} 0', server.ask("/metrics")[1])
            server.end()
            said = server.said
        parts = re.findall(r"(?:weights|cache|arena) (\d+) bytes", said)
        self.assertEqual(len(parts), 3, said)
        with open(counts) as file:
            self.assertEqual(sum(map(int, parts)), json.load(file)["device_bytes"])


if __name__ == "__main__":
    unittest.main()
