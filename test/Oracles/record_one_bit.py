#!/usr/bin/env python3
# Records runs of DeepSpeed's 1-bit Adam.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""record_one_bit.py DIR_OR_TARBALL [--check]

Trains a small GPT-2 in fp32 on two ranks with OnebitAdam of DeepSpeed's sources and
writes the losses of its updates to one_bit.json. With --check compares the file with
what the class gives.

The class and its CompressedBackend are executed as they are. Ranks are threads. What
neither has without a GPU is replaced: the collectives, by copies between the threads,
and the kernel that packs bits, by numpy's. The first call of `step` is a dry run that
changes no parameter, so it gets the first batch, and the second call gets it again."""

import importlib.util
import json
import os
import pathlib
import sys
import tarfile
import tempfile
import threading
import types
from unittest import mock

import numpy as np
import torch

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "EndToEnd"))
import heddle_test as h  # noqa: E402
import oracle  # noqa: E402

RECORD = os.path.join(FOLDER, "one_bit.json")
SOURCES = ("deepspeed/runtime/comm/utils.py", "deepspeed/runtime/comm/compressed.py",
           "deepspeed/runtime/fp16/onebit/adam.py")
RANKS, ROWS, SEQ, STEPS, DENSE = 2, 2, 16, 30, 10
# Every tensor is a multiple of 64 elements for each rank: DeepSpeed's scales count
# padding, Heddle's do not. Every element has a gradient.
MODEL = {"vocab": 128, "positions": SEQ, "embed": 128, "layers": 1, "heads": 4}
PARAMS = {"lr": 3e-4, "betas": [0.9, 0.99], "eps": 1e-6, "weight_decay": 0.0}
LIMIT = 1e-5  # Of a loss that is computed again, on another processor.


class Threads:
    """The collectives among ranks, each of which is a thread."""

    def __init__(self):
        self.barrier = threading.Barrier(RANKS)
        self.given = [None] * RANKS
        self.own = threading.local()

    def exchange(self, mine):
        self.given[self.own.rank] = mine
        self.barrier.wait()
        all_of_them = [one.clone() for one in self.given]
        self.barrier.wait()
        return all_of_them

    def new_group(self, ranks):
        return tuple(ranks)

    def is_initialized(self):
        return True

    def get_rank(self, group=None):
        return self.own.rank

    def get_world_size(self, group=None):
        return RANKS

    def all_to_all_single(self, received, sent, group=None):
        received.copy_(torch.stack([one[self.own.rank] for one in self.exchange(sent)]))

    def all_gather(self, received, sent, group=None):
        for into, one in zip(received, self.exchange(sent)):
            into.copy_(one.reshape(into.shape))


class Packer:
    """Bits of signs, 1 for positive numbers and zero."""

    def load(self):
        return self

    def packbits(self, numbers, _count, _rank):
        return torch.from_numpy(np.packbits(numbers.numpy() >= 0))

    def unpackbits(self, packed, _count, _rank):
        bits = np.unpackbits(packed.numpy()).astype(np.float32)
        return torch.from_numpy(2 * bits - 1)


def load(package, ranks):
    """The class OnebitAdam, in a directory or an archive of sources."""
    accelerator = mock.MagicMock()
    accelerator.current_device_name.return_value = "cpu"
    imported = {name: mock.MagicMock() for name in (
        "deepspeed", "deepspeed.comm", "deepspeed.accelerator", "deepspeed.ops",
        "deepspeed.ops.op_builder", "deepspeed.runtime", "deepspeed.runtime.comm",
        "deepspeed.utils", "deepspeed.utils.logging", "deepspeed.utils.torch")}
    imported["deepspeed"].comm = imported["deepspeed.comm"] = ranks
    imported["deepspeed.accelerator"].get_accelerator = lambda: accelerator
    imported["deepspeed.ops.op_builder"].PackbitsBuilder = Packer
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(package)
        if root.is_file():
            with tarfile.open(root) as archive:
                for source in SOURCES:
                    member = next(m for m in archive.getmembers()
                                  if m.name.endswith("/" + source))
                    archive.extract(member, folder)
                root = pathlib.Path(folder) / member.name[:-len(source)]
        sys.modules.update(imported)
        for source in SOURCES:
            name = source[:-len(".py")].replace("/", ".")
            spec = importlib.util.spec_from_file_location(name, root / source)
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        return module.OnebitAdam


def make_inputs():
    """The configuration, weights and tokens that both sides train with."""
    config = h.gpt2_config(**MODEL)
    rows = RANKS * ROWS
    return (config, h.random_weights(config, 1),
            h.random_tokens(rows * SEQ * STEPS + 1, MODEL["vocab"], 5))


def train(kind, ranks, rank, losses):
    ranks.own.rank = rank
    config, weights, tokens = make_inputs()
    model = oracle.Gpt2(config, weights, torch.float32)
    engine = types.SimpleNamespace(mpu=None, local_rank=rank,
                                   enable_backward_allreduce=True)
    # freeze_step counts the dry run.
    optimizer = kind(model.parameters(), engine, freeze_step=DENSE + 1,
                     comm_backend_name="compressed", **PARAMS)
    for step in [0, *range(STEPS)]:
        ids, labels = h.batch(tokens, step, RANKS * ROWS, SEQ)
        own = slice(rank * ROWS, (rank + 1) * ROWS)
        optimizer.zero_grad()
        loss, _ = model.loss(ids[own], labels[own])
        loss.backward()
        if engine.enable_backward_allreduce:
            for parameter in model.parameters():
                parameter.grad = torch.stack(ranks.exchange(parameter.grad)).mean(0)
        optimizer.step()
        losses[rank].append(loss.item())


def main():
    ranks = Threads()
    losses = [[] for _ in range(RANKS)]
    kind = load(sys.argv[1], ranks)
    threads = [threading.Thread(target=train, args=(kind, ranks, rank, losses))
               for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Without the dry run.
    means = np.mean(losses, axis=0)[1:]
    if "--check" not in sys.argv:
        with open(RECORD, "w") as file:
            json.dump({"losses": [round(loss, 9) for loss in means]}, file, indent=1)
            file.write("\n")
        return
    with open(RECORD) as file:
        recorded = np.array(json.load(file)["losses"])
    if np.abs(recorded / means - 1).max() > LIMIT:
        sys.exit(f"{RECORD} is not what {sys.argv[1]} gives")


if __name__ == "__main__":
    main()
