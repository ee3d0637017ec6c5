#!/usr/bin/env python3
"""Attention on the CPU: the generated kernels beside PyTorch's.

    attention_cpu.py HEDDLE_BENCH_ATTENTION [f32|bf16] [THREADS]

Runs heddle-bench-attention and torch's scaled_dot_product_attention by turns on
each shape, and prints milliseconds and their ratio (above 1: Heddle is faster).
"""

import re
import subprocess
import sys
import time

import torch

SHAPES = [  # batch, sequence, heads, head size, causal
    (1, 1024, 12, 64, False),
    (1, 1024, 12, 64, True),
    (8, 256, 12, 64, True),
    (16, 64, 12, 64, True),
    (1, 1024, 6, 128, True),
]


def heddle_ms(binary, dtype, threads, shape):
    arguments = [str(int(value)) for value in shape] + ["0"]
    output = subprocess.run(
        [binary, dtype, str(threads), *arguments],
        check=True, capture_output=True, text=True).stdout
    return [float(ms) for ms in re.findall(r"([\d.]+) ms \d+ GF", output)]


def best_ms(call, clock=time.perf_counter):
    """The best of half a second of calls, after a warm-up."""
    call()
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < 0.5:
        begin = clock()
        call()
        best = min(best, clock() - begin)
    return best * 1e3


def passes(q, k, v, **mask):
    """Functions that call PyTorch's attention, forward and gradient."""
    attention = torch.nn.functional.scaled_dot_product_attention
    output = attention(q, k, v, **mask)
    grad = torch.randn_like(output)

    def forward():
        with torch.no_grad():
            attention(q, k, v, **mask)

    def gradient():
        torch.autograd.grad(output, (q, k, v), grad, retain_graph=True)

    return forward, gradient


def torch_ms(dtype, shape):
    batch, seq, heads, dim, causal = shape
    # The layout of a packed projection: [batch, seq, 3, heads, dim].
    qkv = torch.randn(batch, seq, 3, heads, dim, dtype=dtype)
    q, k, v = (part.transpose(1, 2).detach().requires_grad_()
               for part in qkv.unbind(2))
    return [best_ms(call) for call in passes(q, k, v, is_causal=causal)]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary = sys.argv[1]
    dtype = sys.argv[2] if len(sys.argv) > 2 else "f32"
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    torch.set_num_threads(threads)
    torch_dtype = torch.float32 if dtype == "f32" else torch.bfloat16
    print(f"{dtype}, {threads} thread(s), torch {torch.__version__}")
    print(f"{'B, T, H, D, causal':32} {'pass':8} {'heddle':>9} {'torch':>9}"
          f" {'ratio':>6}")
    for shape in SHAPES:
        rounds = [(heddle_ms(binary, dtype, threads, shape),
                   torch_ms(torch_dtype, shape)) for _ in range(2)]
        for i, name in enumerate(("forward", "gradient")):
            ours = min(heddle[i] for heddle, _ in rounds)
            theirs = min(peer[i] for _, peer in rounds)
            print(f"{str(shape):32} {name:8} {ours:9.3f} {theirs:9.3f}"
                  f" {theirs / ours:6.2f}")


if __name__ == "__main__":
    main()
