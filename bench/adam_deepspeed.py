#!/usr/bin/env python3
"""DeepSpeed's CPUAdam over one flat array: the peer of offload.py.

    adam_deepspeed.py fp32|bf16 PARAMETERS THREADS

Parameters, gradients and moments are fp32, as ZeRO-Offload has them; in bf16 the
updated parameters are also rounded to a copy in bf16. Reads numbers of steps from
stdin, a line each, and answers each with the seconds of its steps, a JSON list.
"""

import json
import os
import sys
import time

# DeepSpeed logs to stdout, where only answers are to go.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402
from deepspeed.ops.adam import DeepSpeedCPUAdam  # noqa: E402


def main():
    precision, parameters, threads = sys.argv[1], *map(int, sys.argv[2:4])
    torch.set_num_threads(threads)
    torch.manual_seed(7)
    parameter = torch.nn.Parameter(torch.randn(parameters))
    parameter.grad = torch.randn(parameters) * 1e-3
    copy = torch.empty(parameters, dtype=torch.bfloat16) if precision == "bf16" else None
    optimizer = DeepSpeedCPUAdam([parameter], lr=1e-3, weight_decay=0.01)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            optimizer.step()
            if copy is not None:
                copy.copy_(parameter.data)
            seconds.append(time.perf_counter() - begin)
        print(json.dumps(seconds), file=ANSWERS, flush=True)


if __name__ == "__main__":
    main()
