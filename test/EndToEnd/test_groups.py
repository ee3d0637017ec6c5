#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups of ranks along `data` share requests out. Texts, logits and losses are
those of one rank, bit for bit, whichever group computes them."""

import http.client
import json
import os
import re
import threading
import unittest

import heddle_test as h
from running_jobs import wait_until
from test_draft import VOCAB, DraftTest
from test_serve_model import Served, mpirun

# Of unequal lengths. The first page of the last two is the same.
PROMPTS = [[7], [int(t) for t in h.random_tokens(41, VOCAB, 3)], [5, 17, 2],
           list(range(33)), list(range(20))]


@h.needs_mpi
class Groups(DraftTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        of_class = cls()
        cls.target = of_class.model("target", heads=2)
        cls.near = of_class.model("near", noise=0.15, heads=2)
        cls.one = of_class.serve(cls.target, "--max-batch", 4, output="one")
        cls.two = of_class.serve(cls.target, "--max-batch", 4, "--mesh", "data=2",
                                 output="two")

    def setUp(self):
        os.environ["HEDDLE_CHECK_PAGES"] = "1"
        self.addCleanup(os.environ.pop, "HEDDLE_CHECK_PAGES")

    def ask_all(self, server, count):
        """The choices of so many requests at a time."""
        found = [None] * count

        def ask(i):
            found[i] = server.complete(
                PROMPTS[i % 5], max_tokens=6 + 5 * i, return_token_ids=True, seed=i,
                temperature=i % 2, logprobs=2 if i == 1 else None)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def ask_together(self, server):
        """Texts of one request, which begin at the same time; their tokens."""
        status, text = server.ask("/v1/completions", dict(
            prompt=PROMPTS, max_tokens=9, temperature=0, return_token_ids=True))
        self.assertEqual(status, 200, text)
        return [choice["token_ids"] for choice in json.loads(text)["choices"]]

    def pages(self, server, state):
        """Of each group."""
        text = server.ask("/metrics")[1]
        return [int(count) for count in re.findall(
            rf'^heddle_pages{{state="{state}",group="[01]"}} (\d+)$', text, re.M)]

    def expected(self, *counts):
        with Served([self.one]) as server:
            found = [self.ask_all(server, count) for count in counts]
            found.append(self.ask_together(server))
            server.end()
        return found

    def test_requests(self):
        """One alone, three and seven at a time, on groups of two texts each."""
        counts = (1, 3, 7)
        expected = self.expected(*counts)
        drafted = self.drafted(self.target, self.near, "--max-batch", 4, "--mesh", "data=2")
        for binary in (self.two, drafted):
            with Served(mpirun(binary), "--threads", 1) as server:
                self.assertEqual([*(self.ask_all(server, count) for count in counts),
                                  self.ask_together(server)], expected)
                # Both have computed, and nothing is lost.
                self.assertEqual(self.pages(server, "used"), [0, 0])
                self.assertGreater(min(self.pages(server, "kept")), 0)
                server.end()

    def test_with_tensor_ranks(self):
        """Groups that are split give the texts of one group that is."""
        found = []
        for ranks, mesh in ((2, "tensor=2"), (4, "data=2,tensor=2")):
            binary = self.serve(self.target, "--max-batch", 4, "--mesh", mesh, output="split")
            with Served(mpirun(binary, ranks), "--threads", 1) as server:
                found.append(self.ask_all(server, 3))
                server.end()
        self.assertEqual(*found)

    def test_cancels(self):
        expected, _ = self.expected(3)
        with Served(mpirun(self.two), "--threads", 1) as server:
            for i in range(6):
                gone = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                gone.request("POST", "/v1/completions", json.dumps(
                    dict(prompt=PROMPTS[i % 5], max_tokens=45, stream=True)))
                if i % 2:
                    gone.getresponse().readline()
                gone.close()
            self.assertTrue(wait_until(lambda: self.pages(server, "used") == [0, 0], 60))
            self.assertEqual(self.ask_all(server, 3), expected)
            self.assertEqual(self.pages(server, "used"), [0, 0])
            server.end()

    def test_other_verbs(self):
        prompt = PROMPTS[1]
        self.assertEqual(self.generate(self.two, prompt, 20, ranks=2),
                         self.generate(self.one, prompt, 20))
        for flags in ([], ["--decode"]):
            self.assertTrue((self.logits(self.two, prompt, *flags, ranks=2) ==
                             self.logits(self.one, prompt, *flags)).all())
        info = json.loads(h.run([self.two, "info", "--json"]).stdout)
        self.assertEqual((info["groups"], info["max_batch"]), (2, 4))
        for command in ([self.two, "info"], [h.HEDDLE, "explain", self.two]):
            self.assertIn("serves 4 texts of at most 90 tokens, with 12 pages of 16 positions "
                          "in each of 2 groups of ranks",
                          re.sub(" +", " ", h.run(command).stdout))

    def test_eval(self):
        """Five rows, which two groups take in turn; and one."""
        data, _ = self.make_tokens(5 * 90 + 1, VOCAB)
        for steps in (0, 1):
            loss = [json.loads(h.run_ranks(ranks, [
                binary, "eval", "--data", data, "--steps", steps, "--json"]).stdout)
                for ranks, binary in ((1, self.one), (2, self.two))]
            self.assertEqual(loss[0]["loss"], loss[1]["loss"])
            self.assertEqual(loss[0]["tokens"], (steps or 5) * 90)

    def test_bench(self):
        """Three texts, of which one group has two; and one, beside a group of none."""
        bytes_of_run = {}
        for batch in (3, 1):
            one, two = [json.loads(h.run_ranks(ranks, [
                binary, "bench", "--decode", "--batch", batch, "--context", 20, "--tokens",
                4, "--threads", 1, "--json"]).stdout)
                for ranks, binary in ((1, self.one), (2, self.two))]
            self.assertEqual((two["groups"], two["ranks"]), (2, 2))
            self.assertEqual(two["program"], "decode/2" if batch == 3 else "decode/1")
            bytes_of_run[batch] = [bench["bytes_per_token"] * batch for bench in (one, two)]
        said = h.run_ranks(2, [self.two, "bench", "--decode", "--batch", 3, "--context", 20,
                               "--tokens", 1, "--threads", 1, "--kernels"]).stdout
        self.assertIn("decode/2:", said)
        self.assertIn("prefill/32:", said)
        # Each group that has texts reads its weights.
        self.assertAlmostEqual(*bytes_of_run[1])
        self.assertGreater(bytes_of_run[3][1], 1.5 * bytes_of_run[3][0])


if __name__ == "__main__":
    unittest.main()
