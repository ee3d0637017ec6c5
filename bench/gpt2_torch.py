#!/usr/bin/env python3
"""GPT-2 trained in PyTorch on the CPU: the peer of train_cpu.py.

    gpt2_torch.py eager|compile fp32|bf16 BATCH SEQ THREADS CONFIG_JSON

Reads numbers of steps from stdin, a line each, and answers each with the
seconds of its steps and the processor seconds, two JSON lists.
"""

import contextlib
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads, epsilon):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, epsilon)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, epsilon)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, seq, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, seq, 3, self.heads, -1)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, epsilon = config["n_embd"], config["layer_norm_epsilon"]
        self.tokens = nn.Embedding(config["vocab_size"], width)
        self.positions = nn.Embedding(config["n_positions"], width)
        self.blocks = nn.ModuleList(
            Block(width, config["n_head"], epsilon)
            for _ in range(config["n_layer"]))
        self.norm = nn.LayerNorm(width, epsilon)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=config["initializer_range"])
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    mode, precision = sys.argv[1:3]
    batch, seq, threads = map(int, sys.argv[3:6])
    config = json.loads(sys.argv[6])
    torch.set_num_threads(threads)
    torch.manual_seed(7)
    model = Gpt2(config)
    forward = torch.compile(model) if mode == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ids, labels = torch.randint(config["vocab_size"], (2, batch, seq))

    def step():
        optimizer.zero_grad(set_to_none=True)
        cast = (torch.autocast("cpu", torch.bfloat16) if precision == "bf16"
                else contextlib.nullcontext())
        with cast:
            loss = forward(ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    for line in sys.stdin:
        seconds, processor = [], []
        for _ in range(int(line)):
            begin, busy = time.perf_counter(), time.process_time()
            step()
            seconds.append(time.perf_counter() - begin)
            processor.append(time.process_time() - busy)
        print(json.dumps([seconds, processor]), flush=True)


if __name__ == "__main__":
    main()
