#!/usr/bin/env python3
"""Block-sparse attention on the CPU, per block that is computed, beside the dense kernel.

    sparse_attention_cpu.py HEDDLE HEDDLE_BENCH_ATTENTION [--turns 15] [--threads 2]
        [--torch] [--shapes NAME,...]

Each turn runs the dense kernel once, and then the sparse one with each layout. For each
shape and layout the table has the density, milliseconds of processor time of both, and
two medians over turns with their 90 % intervals: how much faster the sparse kernel is,
and its rate per block by the dense kernel's rate per block. With --torch, milliseconds
of scaled_dot_product_attention with a mask and, forward, of compiled flex_attention are
beside them.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "test", "EndToEnd"))
import heddle_test as h  # noqa: E402

# Heads are independent: those of a shape are enough for two threads.
SHAPES = {  # batch, sequence, heads, head size, causal
    "bert-base-1k": (8, 1024, 12, 64, False),
    "bert-base-4k": (1, 4096, 12, 64, False),
    "gpt2-1k": (8, 1024, 12, 64, True),
    "gpt2-4k": (1, 4096, 12, 64, True),
    "bert-large-12k": (1, 12288, 2, 64, False),
    "bert-base-14k": (1, 14336, 2, 64, False),
    "bert-base-32k": (1, 32768, 2, 64, False),
    "gpt2-32k": (1, 32768, 2, 64, True),
}
FIXED = ["fixed", "--num-local-blocks", 4, "--num-global-blocks", 1]
SLIDING = ["bslongformer", "--num-sliding-window-blocks", 3]
LOCAL = ["local", "--num-sliding-window-blocks", 7]


def make_layout(heddle, folder, shape, block, mode):
    path = os.path.join(folder, f"{mode[0]}-{block}.safetensors")
    _, seq, heads, _, causal = shape
    command = [heddle, "layout", *mode, "--heads", heads, "--seq", seq, "--block", block,
               "-o", path]
    if causal and mode[0] != "local":
        command += ["--attention", "unidirectional"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return path


def measure(binary, threads, shape, *layout):
    """Milliseconds of processor time, forward and gradient."""
    words = [binary, "f32", threads, *map(int, shape), 0, *layout]
    said = subprocess.run([str(word) for word in words], check=True, capture_output=True,
                          text=True).stdout
    return np.array([float(ms) for ms in re.findall(r"processor ([\d.]+) ms", said)])


def interval(values):
    """The median and the 90 % interval."""
    return f"{np.median(values):.2f} ({np.quantile(values, 0.05):.2f} to " \
           f"{np.quantile(values, 0.95):.2f})"


def density_of(path, causal):
    layout = h.read_safetensors(path)["layout"].astype(bool)
    return (np.tril(layout) if causal else layout).mean()


def torch_ms(path, shape, block, threads):
    import torch
    from attention_cpu import best_ms, passes
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.set_num_threads(threads)
    batch, seq, heads, dim, causal = shape
    layout = torch.from_numpy(h.read_safetensors(path)["layout"].astype(bool))
    mask = layout.repeat_interleave(block, 1).repeat_interleave(block, 2)
    if causal:
        mask = mask.tril()
    q, k, v = (torch.randn(batch, heads, seq, dim, requires_grad=True) for _ in range(3))
    compiled = torch.compile(flex_attention)
    blocks = create_block_mask(lambda b, h, i, j: mask[h, i, j], None, heads, seq, seq,
                               device="cpu", BLOCK_SIZE=128)

    # On CPUs flex_attention refuses tensors that want gradients.
    fixed = [tensor.detach() for tensor in (q, k, v)]

    def flex():
        with torch.no_grad():
            compiled(*fixed, block_mask=blocks)

    calls = [*passes(q, k, v, attn_mask=mask), flex]
    return [best_ms(call, time.process_time) for call in calls]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heddle")
    parser.add_argument("bench")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--modes", type=int, default=3)
    parser.add_argument("--blocks", default="16,32,64,128")
    options = parser.parse_args()
    print("| shape | layout | block | density | pass | dense | sparse | faster | rate per "
          "block |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.shapes.split(","):
        with tempfile.TemporaryDirectory() as folder:
            compare(options, folder, name)


def compare(options, folder, name):
    shape = SHAPES[name]
    cases = [(mode, block, make_layout(options.heddle, folder, shape, block, mode))
             for mode in (FIXED, SLIDING, LOCAL)[:options.modes]
             for block in map(int, options.blocks.split(","))]
    turns = [(measure(options.bench, options.threads, shape),
              [measure(options.bench, options.threads, shape, path)
               for _, _, path in cases]) for _ in range(options.turns)]
    dense = np.array([each for each, _ in turns])
    for number, (mode, block, path) in enumerate(cases):
        sparse = np.array([each[number] for _, each in turns])
        density = density_of(path, shape[4])
        blocks = shape[1] / block
        share = density / ((blocks + 1) / (2 * blocks) if shape[4] else 1)
        report(name, mode, block, density, dense, sparse, share)
        if options.torch:
            forward, gradient, flex = torch_ms(path, shape, block, options.threads)
            print(f"torch: sdpa {forward:.1f} and {gradient:.1f} ms, flex_attention "
                  f"{flex:.1f} ms")


def report(name, mode, block, density, dense, sparse, share):
    """`share` is the part of the dense kernel's blocks that the layout has."""
    for i, which in enumerate(("forward", "gradient")):
        faster = dense[:, i] / sparse[:, i]
        print(f"| {name} | {mode[0]} | {block} | {density:.3f} | {which} "
              f"| {np.median(dense[:, i]):.1f} | {np.median(sparse[:, i]):.1f} "
              f"| {interval(faster)} | {interval(faster * share)} |", flush=True)


if __name__ == "__main__":
    main()
