#!/usr/bin/env python3
"""Trains GPT-2 with DeepSpeed on CPU ranks, and prints seconds of each step but the
first, and the largest resident set of a rank, as JSON. What bench/parallel_cpu.py and
bench/offload.py run beside Heddle.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time


def zero_of(options):
    """The section zero_optimization: with `cpu` or `nvme` the optimizer is there, and
    DeepSpeed's own CPUAdam updates it."""
    zero = {"stage": options.stage}
    if options.offload:
        zero["offload_optimizer"] = {"device": options.offload,
                                     "nvme_path": options.swap_dir}
    return zero


def train(options):
    import deepspeed
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = json.loads(options.config)
    torch.set_num_threads(options.threads)
    deepspeed.init_distributed("gloo")
    model = GPT2LMHeadModel(GPT2Config(**config))
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(),
        config={"train_micro_batch_size_per_gpu": options.micro_batch,
                "bf16": {"enabled": True}, "gradient_clipping": 1.0,
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
                "zero_optimization": zero_of(options)})
    ids = torch.randint(config["vocab_size"], (options.micro_batch, options.seq))
    times = []
    for _ in range(options.steps + 1):
        begin = time.monotonic()
        engine.backward(engine(ids, labels=ids).loss)
        engine.step()
        times.append(time.monotonic() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if engine.local_rank == 0:
        print(json.dumps({"times": times[1:], "peak_rss": peak}))


def launch(options):
    """Starts the ranks; what rank 0 prints is printed here."""
    ranks = []
    for rank in range(options.ranks):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                           WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT="29511", DS_ACCELERATOR="cpu",
                           OMP_NUM_THREADS=str(options.threads))
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    return max(rank.wait() for rank in ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", type=int)
    parser.add_argument("seq", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("config", help="a config.json, as text")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--micro-batch", type=int, default=2)
    parser.add_argument("--offload", choices=["cpu", "nvme"])
    parser.add_argument("--swap-dir", help="where nvme is")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        return launch(options)
    return train(options)


if __name__ == "__main__":
    sys.exit(main())
