# Tokens by PyTorch and transformers, for decode_cpu.py.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""decode_torch.py CONFIG BATCH CONTEXT TOKENS THREADS [compile]: one JSON object
with the median seconds of a token of all texts, in bf16 with a cache, and of a
prompt. Weights are random. With `compile` the model is compiled by torch.compile,
and its cache has a fixed size, as transformers recommends for that."""

import json
import statistics
import sys
import time

import torch
import transformers


def main():
    config, batch, context, tokens, threads = sys.argv[1], *map(int, sys.argv[2:6])
    compiles = sys.argv[6:] == ["compile"]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    with open(config) as file:
        fields = json.load(file)
    config = transformers.AutoConfig.for_model(**fields)
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    step = torch.compile(model) if compiles else model

    def fresh_cache():
        if not compiles:
            return transformers.DynamicCache()
        return transformers.StaticCache(config=config, max_batch_size=batch,
                                        max_cache_len=context + tokens + 2,
                                        dtype=torch.bfloat16)

    def prefill(ids, cache):
        return model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1,
                     cache_position=torch.arange(ids.shape[1]))

    with torch.inference_mode():
        ids = torch.randint(config.vocab_size, (batch, context))
        prompts = []
        for _ in range(3):
            begin = time.perf_counter()
            prefill(ids[:1], transformers.DynamicCache())
            prompts.append(time.perf_counter() - begin)
        cache = fresh_cache()
        prefill(ids, cache)
        times = []
        for i in range(tokens + 2):
            next_ids = torch.randint(config.vocab_size, (batch, 1))
            begin = time.perf_counter()
            out = step(next_ids, past_key_values=cache, use_cache=True,
                       cache_position=torch.tensor([context + i]))
            out.logits.float()
            times.append(time.perf_counter() - begin)
    print(json.dumps({"median_s": statistics.median(times[2:]),
                      "first_token_s": statistics.median(prompts)}))


if __name__ == "__main__":
    main()
