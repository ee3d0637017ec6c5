# Tests of the verb serve of a compiled binary.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiled model over HTTP: its texts are those of `generate`."""

import contextlib
import http.client
import json
import os
import pty
import re
import signal
import subprocess
import threading
import unittest

import numpy as np

import heddle_test as h
import openai_client
from running_jobs import descendants, free_port, wait_until


def mpirun(binary, ranks=2):
    """The command of a job of so many ranks."""
    oversubscribe = ["--oversubscribe"] if "openmpi" in h.MPIRUN else []
    return [h.MPIRUN, *oversubscribe, "-n", ranks, binary]


class Served(h.ServerProcess):
    """`BINARY serve` on a free port."""

    def __init__(self, command, *flags, **variables):
        self.process = subprocess.Popen(
            [*map(str, command), "serve", "--port", "0", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
                     OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **variables))
        self.said = ""
        while not (found := re.search(r"serving at http://[\d.]+:(\d+)/v1", self.said)):
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError(f"no server: {self.said}")
            self.said += line
        self.port = int(found.group(1))

    def ask(self, path, body=None):
        with contextlib.closing(http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("GET" if body is None else "POST", path,
                               body and json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def complete(self, prompt, **fields):
        status, text = self.ask("/v1/completions", dict(fields, prompt=prompt))
        assert status == 200, text
        return json.loads(text)["choices"][0]

    def running(self):
        """Texts that are computed, by all groups."""
        return sum(map(int, re.findall(r"^heddle_texts_running\S* (\d+)$",
                                       self.ask("/metrics")[1], re.M)))

    def end(self):
        """Ends it in order; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class ServeModelTest(h.HeddleTest):
    def build(self, *flags, output="job", **options):
        model, self.config, _ = self.make_model(**options)
        return self.compile(model, "--batch", 2, "--seq", 24, *flags, output=output,
                            config=h.ds_config(lr=1e-3, warmup=3))

    def generate(self, binary, ids, *flags):
        text = h.run([binary, "generate", "--prompt-ids", ",".join(map(str, ids)),
                      "--json", *flags]).stdout
        return json.loads(text.splitlines()[-1])["ids"]

    def check_texts(self, binary, server):
        """Texts that are asked for together are those of each alone."""
        prompts = [[5, 17, 2], [1], [5, 17, 2, 9, 9, 30, 4, 8, 8, 8, 1, 0, 3]]
        greedy = [self.generate(binary, ids, "--max-new-tokens", 9) for ids in prompts]
        drawn = [self.generate(binary, ids, "--max-new-tokens", 9, "--temperature", 1.5,
                               "--seed", 7, "--top-k", 20) for ids in prompts]
        found = {}

        def ask(i):
            found[i] = server.complete(
                prompts[i % 3], max_tokens=9, return_token_ids=True,
                **(dict(temperature=0) if i < 3 else dict(temperature=1.5, seed=7, top_k=20)))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([found[i]["token_ids"] for i in range(6)], greedy + drawn)
        return found

    @h.needs_mpi
    def test_echoes(self):
        """Log-probabilities of a prompt, of several runs, are those of `logits`."""
        with open(self.path("model.json"), "w") as file:
            json.dump(dict(model_type="gpt2", vocab_size=97, n_embd=36, n_layer=2, n_head=4,
                           n_positions=128), file)
        prompt = [(i * i + 3) % 97 for i in range(101)]
        for ranks in 1, 2:
            binary = self.compile(self.path("model.json"), "--init", "random", "--mode",
                                  "serve", "--max-batch", 1, "--mesh", f"tensor={ranks}",
                                  output="serving")
            command = mpirun(binary, ranks) if ranks > 1 else [binary]
            h.run_ranks(ranks, [binary, "logits", "--prompt-ids",
                                ",".join(map(str, prompt)), "-o", self.path("logits")])
            logits = h.read_safetensors(self.path("logits"))["logits"].astype(np.float64)
            expected = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
            with Served(command) as server:
                for count in 0, 3:
                    asked = dict(echo=True, logprobs=2, max_tokens=count, temperature=0)
                    answer = server.complete(prompt, **asked)
                    told = answer["logprobs"]
                    self.assertEqual([len(told[key]) for key in sorted(told)],
                                     4 * [len(prompt) + count])
                    self.assertEqual(told["tokens"][:101], list(map(str, prompt)))
                    for token, begin in zip(told["tokens"], told["text_offset"]):
                        self.assertTrue(answer["text"][begin:].lstrip().startswith(token))
                    self.assertEqual((told["token_logprobs"][0], told["top_logprobs"][0]),
                                     (None, None))
                    for at in range(1, len(prompt)):
                        self.assertAlmostEqual(told["token_logprobs"][at],
                                               expected[at - 1, prompt[at]], 4)
                        self.assertAlmostEqual(max(told["top_logprobs"][at].values()),
                                               expected[at - 1].max(), 4)
                    self.assertTrue(answer["text"].startswith("3 4 7 "))
                    self.assertEqual(len(answer["text"].split()), len(prompt) + count)
                    status, text = server.ask("/v1/completions",
                                              dict(asked, prompt=prompt, stream=True))
                    parts = [json.loads(line[6:])["choices"][0]
                             for line in text.split("\n\n")[:-2]]
                    self.assertEqual("".join(part["text"] for part in parts),
                                     answer["text"])
                    self.assertEqual(sum((part["logprobs"]["token_logprobs"]
                                          for part in parts if part["logprobs"]), []),
                                     told["token_logprobs"])
                # The texts alone.
                answer = server.complete(prompt[:3], echo=True, max_tokens=1)
                self.assertEqual((answer["text"][:6], answer["logprobs"]),
                                 ("3 4 7 ", None))
                server.end()

    def test_texts_are_those_of_generate(self):
        binary = self.build(layers=2)
        with Served([binary]) as server:
            found = self.check_texts(binary, server)
            # Without a tokenizer texts are numbers.
            self.assertEqual(found[0]["text"],
                             " ".join(map(str, found[0]["token_ids"])))
            status, text = server.ask("/v1/completions", {"prompt": "a text"})
            self.assertEqual(status, 400)
            self.assertIn("there is no tokenizer", text)
            status, text = server.ask("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "x"}]})
            self.assertEqual(status, 400)
            self.assertIn("chat template", text)
            status, text = server.ask("/v1/completions", {"prompt": [1] * 24})
            self.assertEqual(status, 400)
            self.assertIn("24 tokens", text)
            name = json.loads(server.ask("/v1/models")[1])["data"][0]["id"]
            self.assertEqual(server.complete([1], model=name, ignore_eos=True)
                             ["finish_reason"], "length")
            # The port is taken.
            taken = h.run([binary, "serve", "--port", server.port], status=2)
            self.assertIn("error[H0150]", taken.stderr)
            self.assertIn(f"--port {server.port + 1}", taken.stderr)
            self.assertEqual(server.end(), 128 + signal.SIGTERM)

    def serving(self, *flags):
        model, *_ = self.make_model(layers=2)
        return self.compile(model, "--mode", "serve", "--max-batch", 4, "--threads", 2,
                            *flags, output="serving")

    def test_texts_through_a_cache_of_pages(self):
        binary = self.serving()
        window = self.build(layers=2)
        self.assertEqual(self.generate(binary, [5, 17, 2], "--max-new-tokens", 20),
                         self.generate(window, [5, 17, 2], "--max-new-tokens", 20))
        os.environ["HEDDLE_CHECK_PAGES"] = "1"
        self.addCleanup(os.environ.pop, "HEDDLE_CHECK_PAGES")
        with Served([binary]) as server:
            self.check_texts(binary, server)
            # Again, with the pages of the first ones.
            self.check_texts(binary, server)
            self.assertEqual(server.end(), 128 + signal.SIGTERM)

    @h.needs_mpi
    def test_tensor_ranks_through_a_cache(self):
        one = self.serving()
        text = self.generate(one, [5, 17, 2], "--max-new-tokens", 9)
        binary = self.serving("--mesh", "tensor=2")
        with Served(mpirun(binary), "--threads", 1) as server:
            made = server.complete([5, 17, 2], max_tokens=9, temperature=0,
                                   return_token_ids=True)
            self.assertEqual(made["token_ids"], text)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(60)

    def test_bytes(self):
        binary = self.build(vocab=256)
        text = h.run([binary, "generate", "--prompt", "Once", "--json", "--temperature", 1,
                      "--seed", 3, "--max-new-tokens", 12]).stdout
        with Served([binary]) as server:
            made = server.complete("Once", max_tokens=12, seed=3, return_token_ids=True)
        expected = json.loads(text.splitlines()[-1])
        self.assertEqual(made["token_ids"], expected["ids"])
        self.assertEqual(made["text"], expected["text"])

    @h.long_only
    def test_openai_client_is_there(self):
        h.run_with_packages(__file__, "ServeModelTest.test_openai_client")

    @openai_client.needs_openai
    def test_openai_client(self):
        """Of a model that serves: what it gets is what `generate` writes."""
        model, *_ = self.make_model(layers=2, vocab=256)
        with open(os.path.join(model, "chat_template.jinja"), "w") as file:
            file.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
                       "{% endfor %}assistant: ")
        binary = self.compile(model, "--mode", "serve", output="serving")
        written = h.run([binary, "generate", "--prompt", "Once", "--json",
                         "--max-new-tokens", 20]).stdout
        with Served([binary], "--api-key", "secret") as server:
            text = openai_client.check_texts(self, server.port, "secret", temperature=0)
        self.assertEqual(text, json.loads(written.splitlines()[-1])["text"])

    @h.needs_mpi
    def test_ranks(self):
        """Rank 0 decides; the others, also those that have the logits, follow."""
        one = self.build(layers=2, output="one")
        for flags in (["tensor=2"], ["pipe=2"], ["pipe=2", "--max-context", 1],
                      ["data=2", "--zero", 3]):
            with self.subTest(flags):
                binary = self.build("--mesh", *flags, layers=2)
                with Served(mpirun(binary), "--threads", 1) as server:
                    self.check_texts(one, server)
                    server.process.send_signal(signal.SIGTERM)
                    server.process.wait(60)

    @h.long_only
    def test_progress_on_a_terminal(self):
        """Of weights that take longer than a second to load."""
        config = self.path("config.json")
        with open(config, "w") as file:
            json.dump(h.gpt2_config(vocab=50000, embed=1024, layers=8, heads=16), file)
        binary = self.compile(config, "--init", "random", "--mode", "serve",
                              "--threads", 1, "--max-context", 32)
        here, there = pty.openpty()
        process = subprocess.Popen(
            [binary, "generate", "--prompt-ids", "1", "--max-new-tokens", "1",
             "--weights-cache", "off"], stdout=subprocess.DEVNULL, stderr=there)
        os.close(there)
        said = ""
        with contextlib.suppress(OSError):  # The end of a terminal.
            while part := os.read(here, 4096):
                said += part.decode()
        os.close(here)
        self.assertEqual(process.wait(), 0, said)
        shown = re.findall(r"\r\x1b\[Kloaded ([\d.]+) of ([\d.]+) GB", said)
        self.assertGreater(len(shown), 0, said)
        loaded = [float(part) for part, _ in shown]
        self.assertEqual(loaded, sorted(loaded))
        self.assertLessEqual(loaded[-1], float(shown[0][1]))

    def long_texts(self, *flags):
        """Of a model whose texts take long enough to lose a rank meanwhile."""
        model, *_ = self.make_model(layers=2, positions=4096)
        return self.compile(model, "--mode", "serve", "--threads", 1, *flags,
                            output="long")

    LONG = dict(prompt=[1], max_tokens=4000, ignore_eos=True)

    def test_lost_rank(self):
        self.check_lost_rank(
            [self.long_texts("--mesh", "tensor=2", "--max-batch", 2)])

    def test_lost_rank_of_another_group(self):
        self.check_lost_rank([self.long_texts("--mesh", "data=2", "--max-batch", 8)])

    def check_lost_rank(self, command, **variables):
        """All clients hear of it, and rank 0 ends within ten seconds. Nobody ends it
        before: its launcher lets it live."""
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port()), **variables}
        other = subprocess.Popen([*command, "serve", "--port", "0"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 env={**os.environ, **common, "RANK": "1", "LOCAL_RANK": "1"})
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        with Served(command, **common, RANK="0", LOCAL_RANK="0") as server:
            answers = {}

            def ask(streams):
                answers[streams] = server.ask("/v1/completions",
                                              dict(self.LONG, stream=streams))

            threads = [threading.Thread(target=ask, args=(streams,))
                       for streams in (False, True)]
            for thread in threads:
                thread.start()
            self.assertTrue(wait_until(lambda: server.running() == 2, 60))
            other.kill()
            self.assertTrue(wait_until(lambda: server.process.poll() is not None, 10))
            for thread in threads:
                thread.join()
            # A stream had begun well.
            self.assertEqual([answers[streams][0] for streams in (False, True)],
                             [500, 200])
            for _, text in answers.values():
                self.assertRegex(text, r'"code":"H042\d"')
                # Of its silence, or of its connection.
                self.assertRegex(text, r"rank 1 (\(.*\) .* in step \d+|is broken)")
            self.assertEqual(server.process.returncode, 5)
            self.assertRegex(server.process.stderr.read(), r"error\[H042\d\]")

    @h.needs_mpi
    def test_a_job_of_mpirun_ends_with_its_rank(self):
        """Within ten seconds; mpirun may end rank 0 before it has answered."""
        binary = self.long_texts("--mesh", "tensor=2", "--max-batch", 2)
        with Served(mpirun(binary)) as server:
            def ask():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    server.ask("/v1/completions", self.LONG)

            thread = threading.Thread(target=ask)
            thread.start()
            self.assertTrue(wait_until(lambda: server.running() == 1, 60))
            ranks = [pid for pid in descendants(server.process.pid)
                     if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(binary)]
            self.assertEqual(len(ranks), 2)
            os.kill(max(ranks), signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not thread.is_alive() and
                                       server.process.poll() is not None, 10))


if __name__ == "__main__":
    unittest.main()
