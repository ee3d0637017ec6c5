#!/usr/bin/env python3
"""usage: gpt2_deepspeed.py STAGE SEQ STEPS CONFIG

Trains GPT-2 with DeepSpeed on two CPU ranks, one thread each, and prints seconds
of each step but the first, and the largest resident set of a rank, as JSON. What
bench/parallel_cpu.py runs beside Heddle.
"""

import json
import os
import resource
import subprocess
import sys
import time

MICRO_BATCH = 2


def train(stage, seq, steps, config):
    import deepspeed
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    model = GPT2LMHeadModel(GPT2Config(**config))
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(),
        config={"train_micro_batch_size_per_gpu": MICRO_BATCH,
                "bf16": {"enabled": True}, "gradient_clipping": 1.0,
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
                "zero_optimization": {"stage": stage}})
    ids = torch.randint(config["vocab_size"], (MICRO_BATCH, seq))
    times = []
    for _ in range(steps + 1):
        begin = time.monotonic()
        engine.backward(engine(ids, labels=ids).loss)
        engine.step()
        times.append(time.monotonic() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if engine.local_rank == 0:
        print(json.dumps({"times": times[1:], "peak_rss": peak}))


def launch(arguments):
    """Starts both ranks; what rank 0 prints is printed here."""
    ranks = []
    for rank in range(2):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                           WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT="29511", DS_ACCELERATOR="cpu",
                           OMP_NUM_THREADS="1")
        ranks.append(subprocess.Popen([sys.executable, __file__, *arguments],
                                      env=environment))
    return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    if "RANK" not in os.environ:
        sys.exit(launch(sys.argv[1:]))
    train(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]),
          json.loads(sys.argv[4]))
