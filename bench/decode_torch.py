# Tokens of GPT-2 by PyTorch and transformers, for decode_cpu.py.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""decode_torch.py CONFIG BATCH CONTEXT TOKENS THREADS: one JSON object with the
median seconds of a token of all texts, in bf16 with a cache, and of a prompt."""

import json
import statistics
import sys
import time

import torch
import transformers


def main():
    config, batch, context, tokens, threads = sys.argv[1], *map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    with open(config) as file:
        config = transformers.GPT2Config(**json.load(file))
    model = transformers.GPT2LMHeadModel(config).to(torch.bfloat16).eval()
    with torch.inference_mode():
        ids = torch.randint(config.vocab_size, (batch, context))
        prompts = []
        for _ in range(3):
            begin = time.perf_counter()
            model(ids[:1], use_cache=True, logits_to_keep=1)
            prompts.append(time.perf_counter() - begin)
        cache = model(ids, use_cache=True, logits_to_keep=1).past_key_values
        times = []
        for _ in range(tokens + 2):
            next_ids = torch.randint(config.vocab_size, (batch, 1))
            begin = time.perf_counter()
            out = model(next_ids, past_key_values=cache, use_cache=True)
            out.logits.float()
            times.append(time.perf_counter() - begin)
            cache = out.past_key_values
    print(json.dumps({"median_s": statistics.median(times[2:]),
                      "first_token_s": statistics.median(prompts)}))


if __name__ == "__main__":
    main()
