# A server with an engine of hashes, and what tests ask it.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HeddleServeHash serves an engine whose logits are a hash of all tokens that it
reads back from the pages of the cache: a page of another text changes the text."""

import contextlib
import http.client
import json
import os
import subprocess
import time

import heddle_test as h

SERVER = os.path.join(h.BUILD, "bin", "HeddleServeHash")


class Server(h.ServerProcess):
    """A server with what it is asked."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([SERVER, *map(str, arguments)],
                                        stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, path, body=None, method=None, headers={}, connection=None):
        """The status and the body of an answer."""
        if connection is None:
            with contextlib.closing(self.connect()) as connection:
                return self.ask(path, body, method, headers, connection)
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method or ("POST" if body is not None else "GET"), path, text,
                           headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def complete(self, prompt="a", path="/v1/completions", **fields):
        body = dict(prompt=prompt, **fields) if "chat" not in path else fields
        status, text = self.ask(path, body)
        if status != 200:
            raise AssertionError(f"{status} {text}")
        return json.loads(text)

    def stream(self, path="/v1/completions", **fields):
        """The events of a stream."""
        status, text = self.ask(path, dict(fields, stream=True))
        assert status == 200, text
        events = text.split("\n\n")
        assert events.pop() == "" and all(e.startswith("data: ") for e in events), text
        return [e[6:] for e in events]

    def metrics(self):
        """Values by name and labels, as in heddle_pages{state="free"}."""
        lines = self.ask("/metrics")[1].splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in lines if not line.startswith("#")}

    def wait_until_idle(self):
        for _ in range(200):
            found = self.metrics()
            if found["heddle_texts_running"] + found["heddle_texts_waiting"] == 0:
                return found
            time.sleep(0.05)
        raise AssertionError("texts do not end")

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
