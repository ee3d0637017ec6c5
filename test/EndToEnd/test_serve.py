# Tests of serving: the server's own side of it, with an engine of hashes.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Starts servers, asks them over HTTP, and reads what they answer."""

import contextlib
import json
import random
import signal
import socket
import threading
import time
import unittest

import heddle_test as h
import openai_client
from hash_server import Server


class ServeTest(unittest.TestCase):
    def setUp(self):
        server = Server(0)
        self.server = server
        self.addCleanup(server.__exit__)

    def refusal(self, status, code, *arguments, **named):
        found, text = self.server.ask(*arguments, **named)
        error = json.loads(text)["error"]
        self.assertEqual((found, error["code"]), (status, code), text)
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        return error

    def test_completion(self):
        made = self.server.complete("Once", max_tokens=9, temperature=0)
        self.assertEqual(made["object"], "text_completion")
        self.assertEqual(made["model"], "hash")
        self.assertEqual(made["usage"], {"prompt_tokens": 4, "completion_tokens": 9,
                                         "total_tokens": 13})
        (choice,) = made["choices"]
        self.assertEqual(choice["finish_reason"], "length")
        again = self.server.complete("Once", max_tokens=9, temperature=0)
        self.assertEqual(again["choices"][0]["text"], choice["text"])
        self.assertNotEqual(again["id"], made["id"])
        # Tokens in place of a text; 16 of them where nothing is said.
        ids = self.server.complete([ord(c) for c in "Once"], temperature=0,
                                   return_token_ids=True)["choices"][0]
        self.assertEqual(len(ids["token_ids"]), 16)
        self.assertEqual(bytes(ids["token_ids"][:9]).decode("utf-8", "replace"),
                         choice["text"])

    def test_seeds_and_several_texts(self):
        def texts(**fields):
            made = self.server.complete(["ab", "cd"], n=3, max_tokens=20,
                                        return_token_ids=True, **fields)
            self.assertEqual([c["index"] for c in made["choices"]], list(range(6)))
            self.assertEqual(made["usage"]["prompt_tokens"], 4)
            return [tuple(c["token_ids"]) for c in made["choices"]]

        first = texts(seed=5)
        self.assertEqual(len(set(first)), 6)
        self.assertEqual(texts(seed=5), first)
        self.assertNotEqual(texts(seed=6), first)
        self.assertNotEqual(texts(), texts())
        # The first of several is the one that is made alone.
        alone = self.server.complete("cd", max_tokens=20, seed=5, return_token_ids=True)
        self.assertEqual(tuple(alone["choices"][0]["token_ids"]), first[3])

    def test_stream(self):
        whole = self.server.complete("Once", max_tokens=30, seed=1, n=2)
        events = self.server.stream(prompt="Once", max_tokens=30, seed=1, n=2,
                                    stream_options={"include_usage": True})
        self.assertEqual(events.pop(), "[DONE]")
        events = [json.loads(event) for event in events]
        self.assertEqual(events.pop()["usage"], whole["usage"])
        for index in 0, 1:
            choices = [e["choices"][0] for e in events if e["choices"][0]["index"] == index]
            self.assertEqual("".join(c["text"] for c in choices),
                             whole["choices"][index]["text"])
            self.assertEqual([c["finish_reason"] for c in choices],
                             [None] * (len(choices) - 1) + ["length"])
            self.assertGreater(len(choices), 5)

    def test_chat(self):
        fields = dict(messages=[{"role": "user", "content": "Hi"}], seed=3, max_tokens=25)
        path = "/v1/chat/completions"
        made = self.server.complete(path=path, **fields)
        self.assertEqual(made["object"], "chat.completion")
        self.assertEqual(made["usage"]["prompt_tokens"], len("user: Hi\n"))
        message = made["choices"][0]["message"]
        self.assertEqual(message["role"], "assistant")
        same = self.server.complete("user: Hi\n", seed=3, max_tokens=25)
        self.assertEqual(message["content"], same["choices"][0]["text"])
        events = [json.loads(e) for e in self.server.stream(path, **fields)[:-1]]
        deltas = [e["choices"][0]["delta"] for e in events]
        self.assertEqual(deltas[0]["role"], "assistant")
        self.assertTrue(all("role" not in d for d in deltas[1:]))
        self.assertEqual("".join(d.get("content", "") for d in deltas), message["content"])
        self.assertEqual(events[0]["object"], "chat.completion.chunk")
        # As long as the context allows where nothing is said.
        made = self.server.complete(path=path, messages=fields["messages"])
        self.assertEqual(made["usage"]["total_tokens"], 256)

    @h.long_only
    def test_openai_client_is_there(self):
        h.run_with_packages(__file__, "ServeTest.test_openai_client")

    @openai_client.needs_openai
    def test_openai_client(self):
        with Server(0, "secret") as server:
            openai_client.check_texts(self, server.port, "secret", seed=3)

    def test_stops(self):
        text = self.server.complete("Once", max_tokens=60, seed=2)["choices"][0]["text"]
        # A stop of two characters from the middle.
        stop = next(text[i:i + 2] for i in range(20, 60)
                    if all(" " < c < "\x7f" for c in text[i:i + 2]))
        made = self.server.complete("Once", max_tokens=60, seed=2, stop=[stop, "never"])
        self.assertEqual(made["choices"][0]["finish_reason"], "stop")
        self.assertEqual(made["choices"][0]["text"], text[:text.index(stop)])
        events = self.server.stream(prompt="Once", max_tokens=60, seed=2, stop=stop)
        parts = [json.loads(e)["choices"][0]["text"] for e in events[:-1]]
        self.assertEqual("".join(parts), text[:text.index(stop)])

    def test_bias_and_penalties(self):
        def ids(**fields):
            return self.server.complete("Once", max_tokens=40, temperature=0,
                                        return_token_ids=True,
                                        **fields)["choices"][0]["token_ids"]

        self.assertEqual(ids(logit_bias={"120": 100}), [120] * 40)
        self.assertFalse(set(ids(logit_bias={str(i): -100 for i in range(128)}))
                         & set(range(128)))
        # What has come once pays more than any two logits differ here by.
        self.assertEqual(len(set(ids(presence_penalty=2, frequency_penalty=2))), 40)
        self.assertEqual(len(set(ids(presence_penalty=-2, frequency_penalty=-2))), 1)

    def test_logprobs(self):
        made = self.server.complete("Once", max_tokens=4, seed=2, logprobs=2,
                                    return_token_ids=True)
        told = made["choices"][0]["logprobs"]
        self.assertEqual(len(told["tokens"]), 4)
        for token, own, top in zip(told["tokens"], told["token_logprobs"],
                                   told["top_logprobs"]):
            self.assertLessEqual(own, max(top.values()))
            self.assertLess(own, 0)
            # The chosen token is told whether or not it is one of the likeliest.
            self.assertEqual(top[token], own)
            self.assertLessEqual(len(top), 3)
        alone = self.server.complete("Once", max_tokens=4, seed=2, logprobs=0)
        alone = alone["choices"][0]["logprobs"]
        self.assertEqual(alone["top_logprobs"],
                         [{token: own} for token, own in zip(told["tokens"],
                                                             told["token_logprobs"])])
        # Tokens that are parts of characters have names, too.
        many = self.server.complete("Once", max_tokens=4, seed=2, logprobs=20)
        for top in many["choices"][0]["logprobs"]["top_logprobs"]:
            self.assertIn(len(top), (20, 21), top)
        chat = self.server.complete(path="/v1/chat/completions", max_tokens=3, logprobs=True,
                                    top_logprobs=2, temperature=0,
                                    messages=[{"role": "user", "content": "Hi"}])
        for entry in chat["choices"][0]["logprobs"]["content"]:
            # Greedy takes the likeliest.
            self.assertEqual({k: entry[k] for k in ("token", "logprob", "bytes")},
                             entry["top_logprobs"][0])
            self.assertEqual(len(entry["top_logprobs"]), 2)

    def test_text_offsets(self):
        """Where tokens begin in the text, in characters; bytes of one character begin
        where it does."""
        for prompt in "Once", "caf\u00e9":
            asked = dict(max_tokens=24, seed=3, logprobs=0)
            choice = self.server.complete(prompt, **asked)["choices"][0]
            told = choice["logprobs"]
            self.assertEqual(len(told["text_offset"]), len(told["tokens"]))
            self.assertEqual(told["text_offset"], sorted(told["text_offset"]))
            for token, begin in zip(told["tokens"], told["text_offset"]):
                if not token.startswith("bytes:"):
                    self.assertEqual(choice["text"][begin:begin + len(token)], token)
            parts = [json.loads(event)["choices"][0]["logprobs"]
                     for event in self.server.stream(prompt=prompt, **asked)[:-1]]
            self.assertEqual(sum((part["text_offset"] for part in parts if part), []),
                             told["text_offset"])

    def test_pages_of_other_origins(self):
        """A browser asks first, without the key; answers say who may read them."""
        page = "http://page.example"
        with Server(0, "secret") as server:
            def headers(origin, method="OPTIONS", path="/v1/completions", **more):
                with contextlib.closing(server.connect()) as connection:
                    connection.request(method, path, headers={"Origin": origin, **more})
                    answer = connection.getresponse()
                    answer.read()
                    return answer.status, answer.headers
            status, told = headers(page, **{
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,x-stainless-os"})
            self.assertEqual((status, told["Access-Control-Allow-Origin"]), (200, page))
            self.assertEqual(told["Access-Control-Allow-Headers"],
                             "authorization,x-stainless-os")
            self.assertIn("POST", told["Access-Control-Allow-Methods"])
            self.assertEqual(told["Vary"], "Origin")
            # An error can be read, too.
            status, told = headers(page, "POST")
            self.assertEqual((status, told["Access-Control-Allow-Origin"]), (401, page))
            for path in "/health", "/v1/models":
                status, told = headers("http://evil.example", path=path)
                self.assertEqual((status, told["Access-Control-Allow-Origin"]), (200, None))
            self.assertEqual(headers(page, path="/nothing")[0], 404)

    def test_refusals(self):
        post = "/v1/completions"
        error = self.refusal(400, "H0380", post, "{oops")
        self.assertIn("line 1", error["message"])
        error = self.refusal(400, "H0380", post, {"prompt": "a", "temperature": "hot"})
        self.assertEqual(error["param"], "temperature")
        error = self.refusal(400, "H0380", post, {"prompt": "a" * 256})
        self.assertIn("256 tokens", error["message"])
        # Half a character, and half a surrogate.
        for prompt in b"caf\xc3", rb"\ud83d":
            error = self.refusal(400, "H0380", post, b'{"prompt": "%s"}' % prompt)
            self.assertIn("column", error["message"])
        self.refusal(400, "H0380", post, {"prompt": ""})
        self.refusal(400, "H0380", post, {"prompt": [999]})
        self.refusal(400, "H0380", post, {"prompt": "a", "logit_bias": {"999": 1}})
        chat = {"messages": [{"role": "user", "content": "a"}]}
        for path, fields in ((post, {"stop_token_ids": [1]}),
                             (post, {"structured_outputs": {"regex": "a"}}),
                             (post, {"allowed_token_ids": [5]}),
                             (post, {"skip_special_tokens": False}),
                             (post, {"add_special_tokens": False}),
                             ("/v1/chat/completions", {"add_special_tokens": True})):
            error = self.refusal(400, "H0380", path, {"prompt": "a", **fields} if path == post
                                 else {**chat, **fields})
            self.assertEqual(error["param"], *fields)
        self.server.complete(add_special_tokens=True, skip_special_tokens=True,
                             include_stop_str_in_output=False)
        self.refusal(415, "H0380", post, b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
        self.refusal(404, "H0479", post, {"prompt": "a", "model": "gpt-4"})
        self.refusal(404, "H0479", "/v1/nothing")
        for path, near in (("/completions", "/v1/completions"),
                           ("/v1/completions/", "/v1/completions"),
                           ("/v1/v1/chat/completions", "/v1/chat/completions")):
            self.assertIn("ask " + near,
                          self.refusal(404, "H0479", path, {"prompt": "a"})["message"])
        self.refusal(405, "H0479", post)
        self.refusal(405, "H0479", "/health", "{}")
        error = self.refusal(400, "H0359", "/v1/chat/completions",
                             {"messages": [{"role": "tool", "content": "x"}]})
        self.assertIn("no tools here", error["message"])
        self.refusal(413, "H0380", post, "x" * (2 << 20))
        self.refusal(431, "H0380", "/health", headers={"x": "y" * 40000})
        self.refusal(504, "H0475", post, {"prompt": "a", "timeout": 0})
        # It is up and well.
        self.assertEqual(self.server.ask("/health"), (200, '{"status":"ok"}'))
        self.server.complete()

    def test_no_http(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as raw:
            raw.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
            self.assertIn(b"400", raw.recv(1000))
        # HTTP/1.0 knows no chunks.
        with socket.create_connection(("127.0.0.1", self.server.port)) as raw:
            body = b'{"prompt": "a", "stream": true}'
            raw.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s"
                        % (len(body), body))
            answer = b""
            while part := raw.recv(10000):
                answer += part
        self.assertTrue(answer.endswith(b"data: [DONE]\n\n"), answer)

    def test_methods_and_targets(self):
        """A balancer asks with HEAD, and a proxy with the whole address; no answer is
        taken for the next one's."""
        asked = b"".join(b"%s HTTP/1.1\r\nHost: x\r\n\r\n" % line for line in (
            b"HEAD /health", b"PUT /health", b"HEAD /v1/completions",
            b"GET http://x:1/health"))
        with socket.create_connection(("127.0.0.1", self.server.port)) as raw:
            raw.sendall(asked + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
            answer = b""
            while part := raw.recv(10000):
                answer += part
        told = []
        for number in range(5):
            head, answer = answer.split(b"\r\n\r\n", 1)
            lines = head.split(b"\r\n")
            fields = dict(line.lower().split(b": ") for line in lines[1:])
            length = 0 if number in (0, 2) else int(fields[b"content-length"])
            told.append((int(lines[0].split()[1]), fields.get(b"allow")))
            body, answer = answer[:length], answer[length:]
            self.assertEqual(bool(body), number not in (0, 2))
        self.assertEqual(answer, b"")
        self.assertEqual(told, [(200, None), (405, b"get, head, options"),
                                (405, b"post, options"), (200, None), (200, None)])

    def test_connections_are_kept(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        for _ in range(20):
            status, _ = self.server.ask("/v1/completions", {"prompt": "a", "max_tokens": 1},
                                        connection=connection)
            self.assertEqual(status, 200)
        # A body that is announced first.
        with socket.create_connection(("127.0.0.1", self.server.port)) as raw:
            body = b'{"prompt": "a"}'
            raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                        b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            self.assertEqual(raw.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            raw.sendall(body)
            self.assertIn(b"200 OK", raw.recv(1000))

    def test_models(self):
        models = json.loads(self.server.ask("/v1/models")[1])
        self.assertEqual([m["id"] for m in models["data"]], ["hash", "other/name"])
        other = json.loads(self.server.ask("/v1/models/other/name")[1])
        self.assertEqual(other["id"], "other/name")
        for name in "hash", "other/name":
            self.assertEqual(self.server.complete("a", model=name)["model"], "hash")
        self.assertEqual(json.loads(self.server.ask("/v1/models/hash")[1]),
                         models["data"][0])


class SlowServeTest(unittest.TestCase):
    def test_together_as_alone(self):
        """Texts of many threads at once are those of each alone; what is
        cancelled gives its pages back; the memory stays as it is."""
        count = 1000 if h.LONG else 150
        draw = random.Random(4)
        asked = [dict(prompt="".join(draw.choice("abc") for _ in range(draw.randrange(1, 150))),
                      max_tokens=draw.randrange(1, 80), seed=i, temperature=draw.choice([0, 1]))
                 for i in range(count)]
        with Server(0) as server:
            alone = [server.complete(**fields)["choices"][0]["text"] for fields in asked[:40]]
            before = server.resident()
            texts, failed = [None] * count, []

            def client(first):
                own = random.Random(first)
                for i in range(first, count, 16):
                    try:
                        if i >= 40 and own.random() < 0.4:
                            # Goes away in the middle.
                            connection = server.connect()
                            connection.request("POST", "/v1/completions",
                                               json.dumps(dict(asked[i], stream=i % 2 == 0)))
                            if own.random() < 0.5:
                                time.sleep(own.random() * 0.02)
                            connection.close()
                        else:
                            texts[i] = server.complete(**asked[i])["choices"][0]["text"]
                    except Exception as error:  # noqa: BLE001
                        failed.append(repr(error))

            threads = [threading.Thread(target=client, args=(i,)) for i in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failed, [])
            self.assertEqual(texts[:40], alone)
            # The second finds the pages of the first.
            first, second = [server.complete(prompt="a" * 100, max_tokens=9, seed=1)
                             ["choices"][0]["text"] for _ in range(2)]
            self.assertEqual(first, second)
            found = server.wait_until_idle()
            self.assertEqual(found['heddle_pages{state="used"}'], 0)
            self.assertEqual(found['heddle_pages{state="kept"}']
                             + found['heddle_pages{state="free"}'], 96)
            self.assertGreater(found["heddle_shared_tokens_total"], 0)
            cancelled = found.get('heddle_requests_total{path="/v1/completions",status="499"}', 0)
            self.assertGreater(cancelled, count / 20)
            self.assertLess(server.resident() - before, 16 << 20)

    def test_going_away_frees_pages(self):
        with Server(20) as server:
            connection = server.connect()
            connection.request("POST", "/v1/completions",
                               json.dumps({"prompt": "a" * 100, "max_tokens": 150}))
            while server.metrics()["heddle_texts_running"] == 0:
                time.sleep(0.01)
            self.assertGreater(server.metrics()['heddle_pages{state="used"}'], 10)
            connection.close()
            found = server.wait_until_idle()
            self.assertEqual(found['heddle_pages{state="used"}'], 0)
            self.assertLess(found["heddle_new_tokens_total"], 150)

    def test_going_away_after_the_next_request(self):
        """A client that has sent more behind its request ends a text, too."""
        with Server(20) as server:
            body = json.dumps({"prompt": "a" * 100, "max_tokens": 150}).encode()
            request = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            raw = socket.create_connection(("127.0.0.1", server.port))
            self.addCleanup(raw.close)
            raw.sendall(request + b"GET /health HTTP/1.1\r\n")
            while server.metrics()["heddle_texts_running"] == 0:
                time.sleep(0.01)
            raw.close()
            found = server.wait_until_idle()
            self.assertLess(found["heddle_new_tokens_total"], 120)
            # One that stays has its answers, in order.
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                raw.sendall(request + b"GET /health HTTP/1.1\r\nHost: x\r\n"
                            b"Connection: close\r\n\r\n")
                answer = b""
                while part := raw.recv(10000):
                    answer += part
            self.assertRegex(answer, rb"(?s)^HTTP/1.1 200.*text_completion.*"
                                     rb"HTTP/1.1 200.*ok\"}$")

    def test_logits_that_are_not_finite(self):
        """An error for who asked, streaming or not; others have their texts."""
        with Server(0, "", 0, ord("!")) as server:
            before = server.complete("Once", max_tokens=9, seed=1)["choices"]
            for temperature in 0, 1:
                status, text = server.ask("/v1/completions",
                                          {"prompt": ["ab", "ab!"], "max_tokens": 5,
                                           "temperature": temperature})
                self.assertEqual((status, json.loads(text)["error"]["code"]),
                                 (500, "H0481"), text)
            events = server.stream(prompt="ab!", logprobs=3)
            self.assertEqual([json.loads(e)["error"]["code"] for e in events], ["H0481"])
            self.assertEqual(server.complete("Once", max_tokens=9, seed=1)["choices"],
                             before)
            self.assertEqual(server.wait_until_idle()['heddle_pages{state="used"}'], 0)

    def test_slow_prompts_stop_nobody_else(self):
        """While one is read, others are answered."""
        slow = {"messages": [{"role": "slow", "content": "x"}], "max_tokens": 2}
        with Server(0) as server:
            answers = []
            thread = threading.Thread(target=lambda: answers.append(
                server.ask("/v1/chat/completions", slow)))
            thread.start()
            time.sleep(0.1)
            for _ in range(5):
                self.assertEqual(server.ask("/health")[0], 200)
            self.assertEqual(answers, [])
            # Those who go away meanwhile are not answered.
            connection = server.connect()
            connection.request("POST", "/v1/chat/completions", json.dumps(slow))
            connection.close()
            thread.join()
            self.assertEqual(answers[0][0], 200)
            server.complete("after", max_tokens=1)
            found = server.wait_until_idle()
            self.assertEqual(found["heddle_new_tokens_total"], 3)
            self.assertEqual(found['heddle_requests_total{path="/v1/chat/completions",'
                                   'status="499"}'], 1)

    def test_metrics(self):
        with Server(1) as server:
            server.complete("abcdefgh", max_tokens=5)
            server.ask("/v1/completions", "{")
            found = server.metrics()
        self.assertEqual(found["heddle_prompt_tokens_total"], 8)
        self.assertEqual(found["heddle_new_tokens_total"], 5)
        self.assertEqual(found["heddle_first_token_seconds_count"], 1)
        self.assertEqual(found["heddle_between_tokens_seconds_count"], 4)
        self.assertEqual(found['heddle_between_tokens_seconds_bucket{le="+Inf"}'], 4)
        self.assertGreaterEqual(found["heddle_between_tokens_seconds_sum"], 0.004)
        for status in 200, 400:
            self.assertEqual(
                found[f'heddle_requests_total{{path="/v1/completions",status="{status}"}}'], 1)

    def test_limits(self):
        """Too many texts, and clients that dawdle."""
        with Server(50) as server:
            # It could never be answered: there is no use in asking again.
            status, text = server.ask("/v1/completions", {"prompt": ["a"] * 41})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "H0380"))
            self.assertIn("at most 40", text)
            waiting = server.connect()
            self.addCleanup(waiting.close)
            waiting.request("POST", "/v1/completions",
                            json.dumps({"prompt": ["a"] * 40, "max_tokens": 90}))
            while server.metrics()["heddle_texts_running"] == 0:
                time.sleep(0.01)
            status, text = server.ask("/v1/completions", {"prompt": "a"})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "H0476"))
            waiting.close()
            slow = socket.create_connection(("127.0.0.1", server.port))
            self.addCleanup(slow.close)
            slow.sendall(b"POST /v1/completions HTTP/1.1\r\n")
            for _ in range(8):
                time.sleep(0.5)
                try:
                    slow.sendall(b"a: b\r\n")
                except OSError:
                    break
            slow.settimeout(5)
            try:
                self.assertEqual(slow.recv(100), b"")
            except ConnectionResetError:
                pass
            # Idle connections give way to one more; those with a part of a request do not.
            idle = [socket.create_connection(("127.0.0.1", server.port))
                    for _ in range(200)]
            self.assertEqual(server.ask("/health")[0], 200)
            idle[0].settimeout(5)
            self.assertEqual(idle[0].recv(100), b"")
            many = []
            for _ in range(64):
                many.append(socket.create_connection(("127.0.0.1", server.port)))
                many[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nA:")
            time.sleep(0.2)
            last = socket.create_connection(("127.0.0.1", server.port))
            last.settimeout(5)
            self.assertIn(b"503", last.recv(1000))
            for each in many + idle + [last]:
                each.close()
            # When the server has seen that they are gone.
            deadline = time.monotonic() + 10
            while server.ask("/health")[0] != 200:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

    def test_access_log(self):
        """A line for each request: who, what, status, time, and why it was refused."""
        with Server(0) as server:
            server.complete("a", max_tokens=1)
            server.stream(prompt="a", max_tokens=1)
            server.ask("/v1/completions", {"prompt": ""})
            server.ask("/v1/nothing?secret=1")
            server.ask("/v1/completions", {"prompt": "a", "model": "x\n\u001b[31m\u202e"})
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                raw.sendall(b"what is this\r\n\r\n")
                raw.recv(1000)
            server.process.send_signal(signal.SIGTERM)
            lines = server.process.communicate(timeout=10)[1].splitlines()
        head = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 127\.0\.0\.1 "
        for line, expected in zip(lines, (
                r'"POST /v1/completions" 200 OK 0\.\d{3} s$',
                r'"POST /v1/completions" 200 OK 0\.\d{3} s$',
                r'"POST /v1/completions" 400 Bad Request 0\.\d{3} s "H0380: .*no tokens"$',
                r'"GET /v1/nothing" 404 Not Found 0\.\d{3} s "H0479: .*"$',
                r'"POST /v1/completions" 404 Not Found 0\.\d{3} s '
                r'"H0479: there is no model x\\n\\u001b\[31m\\u202e, only hash"$',
                r'"" 400 Bad Request 0\.\d{3} s "this is not HTTP"$')):
            self.assertRegex(line, head + expected)
        self.assertEqual(len(lines), 6, lines)

    def test_keys(self):
        with Server(0, "secret") as server:
            body = {"prompt": "a"}
            for header in {}, {"Authorization": "Bearer secre"}, {"Authorization": "secret"}:
                status, text = server.ask("/v1/completions", body, headers=header)
                self.assertEqual((status, json.loads(text)["error"]["code"]), (401, "H0478"))
            for scheme in "Bearer", "bearer":
                key = {"Authorization": scheme + " secret"}
                self.assertEqual(server.ask("/v1/completions", body, headers=key)[0], 200)
            self.assertEqual(server.ask("/health")[0], 200)

    def test_drains(self):
        """SIGTERM: what was begun is finished, what is new is refused."""
        with Server(20) as server:
            answers = []
            thread = threading.Thread(target=lambda: answers.append(
                server.complete("a", max_tokens=50)))
            thread.start()
            connection = server.connect()
            self.addCleanup(connection.close)
            while server.metrics()["heddle_texts_running"] == 0:
                time.sleep(0.01)
            server.ask("/health", connection=connection)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            self.assertEqual(server.ask("/health", connection=connection)[0], 503)
            status, text = server.ask("/v1/completions", {"prompt": "a"},
                                      connection=connection)
            self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "H0477"))
            thread.join()
            self.assertEqual(answers[0]["usage"]["completion_tokens"], 50)
            self.assertEqual(server.process.wait(10), signal.SIGTERM)

    def test_engine_fails(self):
        """Clients hear of it, and the server ends with the error."""
        with Server(5, "", 20) as server:
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(
                server.ask("/v1/completions", {"prompt": "a", "max_tokens": 100,
                                               "stream": i == 0}))) for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for status, text in answers:
                self.assertIn(status, (200, 500))
                self.assertIn('"code":"H0421"', text)
            self.assertEqual(server.process.wait(10), 5)
            self.assertIn("error[H0421]", server.process.stderr.read())


if __name__ == "__main__":
    unittest.main()
