# What the openai package makes of a server's answers.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The client that most programs have, for the tests that run with packages."""

import concurrent.futures
import importlib.util
import unittest

needs_openai = unittest.skipUnless(importlib.util.find_spec("openai"),
                                   "needs the package openai")


def connect(port, key):
    import openai
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key,
                         max_retries=0)


def check_texts(test, port, key, **drawn):
    """Completions and chats, streaming and not, and what is refused. `drawn` says how
    tokens are chosen."""
    import openai
    with connect(port, key) as client:
        model = client.models.list().data[0].id
        words = dict(model=model, prompt="Once", max_tokens=20, logprobs=2, **drawn)
        whole = client.completions.create(**words)
        test.assertEqual(whole.usage.completion_tokens, 20)
        test.assertEqual(len(whole.choices[0].logprobs.token_logprobs), 20)
        parts = list(client.completions.create(**words, stream=True))
        test.assertEqual("".join(p.choices[0].text for p in parts), whole.choices[0].text)
        test.assertEqual(parts[-1].choices[0].finish_reason, "length")
        text = whole.choices[0].text
        chat = dict(model=model, messages=[{"role": "user", "content": "Hi"}],
                    max_completion_tokens=20, **drawn)
        whole = client.chat.completions.create(**chat)
        test.assertEqual(whole.choices[0].message.role, "assistant")
        parts = list(client.chat.completions.create(
            **chat, stream=True, stream_options={"include_usage": True}))
        test.assertEqual(parts.pop().usage, whole.usage)
        test.assertEqual("".join(p.choices[0].delta.content or "" for p in parts),
                         whole.choices[0].message.content)
        with test.assertRaises(openai.BadRequestError) as caught:
            client.completions.create(model=model, prompt="")
        test.assertEqual(caught.exception.code, "H0380")
        with test.assertRaises(openai.NotFoundError):
            client.completions.create(model="gpt-4", prompt="a")
        with test.assertRaises(openai.AuthenticationError):
            client.with_options(api_key="wrong").completions.create(**words)
        return text


def check_together(test, port, prompts, tokens):
    """A client for each prompt, all at once; every third one goes away after the first
    part of its answer. Returns the texts of the others, by the prompt's index."""
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool, \
            connect(port, "none") as client:
        model = client.models.list().data[0].id

        def ask(index):
            stream = client.completions.create(
                model=model, prompt=prompts[index], max_tokens=tokens, temperature=0,
                stream=True, extra_body={"ignore_eos": True})
            if index % 3 == 2:
                next(iter(stream))
                stream.close()
                return None
            return "".join(part.choices[0].text for part in stream)

        texts = list(pool.map(ask, range(len(prompts))))
    test.assertEqual([text is None for text in texts],
                     [index % 3 == 2 for index in range(len(prompts))])
    return {index: text for index, text in enumerate(texts) if text is not None}
