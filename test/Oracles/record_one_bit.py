#!/usr/bin/env python3
# Records runs of DeepSpeed's optimizers that send signs.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""record_one_bit.py DIR_OR_TARBALL [--check]

Trains a small GPT-2 in fp32 on two ranks with OnebitAdam, ZeroOneAdam and OnebitLamb of
DeepSpeed's sources, and writes the losses of their updates to one_bit.json. With --check
compares the file with what the classes give.

The classes and their CompressedBackend are executed as they are. Ranks are threads. What
neither has without a GPU is replaced: the collectives, by copies between the threads,
and the kernel that packs bits, by numpy's. The first call of `step` is a dry run that
changes no parameter but counts. It gets the first batch, the second call gets it again,
and the count is set back in between."""

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
SOURCES = [f"deepspeed/runtime/{name}.py" for name in (
    "comm/utils", "comm/compressed", "fp16/onebit/adam", "fp16/onebit/zoadam",
    "fp16/onebit/lamb")]
RANKS, ROWS, SEQ, STEPS, DENSE = 2, 2, 16, 30, 10
# Every tensor is a multiple of 64 elements for each rank: DeepSpeed's scales count
# padding, Heddle's do not. Every element has a gradient.
MODEL = {"vocab": 128, "positions": SEQ, "embed": 128, "layers": 1, "heads": 4}
SHARED = {"betas": [0.9, 0.99], "weight_decay": 0.0}
# By the names that ds_config.json has for them.
RUNS = {"OneBitAdam": {"lr": 3e-4, "eps": 1e-6, "freeze_step": DENSE},
        "ZeroOneAdam": {"lr": 3e-4, "eps": 1e-6, "var_freeze_step": 17,
                        "var_update_scaler": 4, "local_step_scaler": 4,
                        "local_step_clipper": 3},
        # Ranks step by themselves from update 11 on.
        "ZeroOneAdam-local": {"lr": 1e-4, "eps": 1e-3, "var_freeze_step": 6,
                              "var_update_scaler": 4, "local_step_scaler": 3,
                              "local_step_clipper": 4},
        "OneBitLamb": {"lr": 3e-3, "eps": 1e-6, "freeze_step": DENSE, "coeff_beta": 0.8,
                       "factor_threshold": 0.2}}
CLASSES = {"OneBitAdam": ("adam", "OnebitAdam"), "ZeroOneAdam": ("zoadam", "ZeroOneAdam"),
           "OneBitLamb": ("lamb", "OnebitLamb")}
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
    """The modules of the classes, in a directory or an archive of sources."""
    accelerator = mock.MagicMock()
    accelerator.current_device_name.return_value = "cpu"
    imported = {name: mock.MagicMock() for name in (
        "deepspeed", "deepspeed.comm", "deepspeed.accelerator", "deepspeed.ops",
        "deepspeed.ops.op_builder", "deepspeed.runtime", "deepspeed.runtime.comm",
        "deepspeed.runtime.utils", "deepspeed.utils", "deepspeed.utils.torch")}
    imported["deepspeed"].comm = imported["deepspeed.comm"] = ranks
    imported["deepspeed.accelerator"].get_accelerator = lambda: accelerator
    imported["deepspeed.ops.op_builder"].PackbitsBuilder = Packer
    # No parameter is empty.
    imported["deepspeed.runtime.utils"].filter_empty_parameters = lambda params: params
    modules = {}
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
            modules[name.rpartition(".")[2]] = module
        return modules


def read_record():
    with open(RECORD) as file:
        return json.load(file)


def share_tensors(backend, sizes):
    """Lets chunk r of the flat tensor of all parameters, which OnebitLamb sends, have part
    r of each of them, as Heddle's chunks do, instead of whole tensors. The class does not
    know which elements follow each other."""
    ends = np.cumsum(sizes)
    parts = [np.split(np.arange(end - size, end), RANKS) for end, size in zip(ends, sizes)]
    order = torch.from_numpy(np.concatenate([part[rank] for rank in range(RANKS)
                                             for part in parts]))
    send = backend.compressed_allreduce

    def send_parts(self, tensor, *errors):
        if tensor.numel() == len(order):
            sent = tensor[order]
            tensor[order] = send(self, sent, *errors)
            return tensor
        return send(self, tensor, *errors)
    backend.compressed_allreduce = send_parts


def make_inputs():
    """The configuration, weights and tokens that both sides train with. The record has the
    tokens, because versions of numpy draw other ones."""
    config = h.gpt2_config(**MODEL)
    return (config, h.random_weights(config, 1),
            np.frombuffer(bytes.fromhex(read_record()["tokens"]), np.uint8).astype(np.int64))


def train(kind, params, ranks, rank, losses):
    ranks.own.rank = rank
    config, weights, tokens = make_inputs()
    model = oracle.Gpt2(config, weights, torch.float32)
    engine = types.SimpleNamespace(mpu=None, local_rank=rank,
                                   enable_backward_allreduce=True)
    optimizer = kind(model.parameters(), engine, comm_backend_name="compressed",
                     **SHARED, **params)
    for step in [-1, *range(STEPS)]:
        ids, labels = h.batch(tokens, max(step, 0), RANKS * ROWS, SEQ)
        own = slice(rank * ROWS, (rank + 1) * ROWS)
        optimizer.zero_grad()
        loss, _ = model.loss(ids[own], labels[own])
        loss.backward()
        if engine.enable_backward_allreduce:
            for parameter in model.parameters():
                parameter.grad = torch.stack(ranks.exchange(parameter.grad)).mean(0)
        optimizer.step()
        if step < 0:
            for state in optimizer.state.values():
                state["step"] = 0
        else:
            losses[rank].append(loss.item())


def run(modules, ranks, name):
    """The mean losses of the two ranks in each update."""
    file, kind = CLASSES[name.split("-")[0]]
    losses = [[] for _ in range(RANKS)]
    threads = [threading.Thread(target=train, args=(
        getattr(modules[file], kind), RUNS[name], ranks, rank, losses))
               for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.mean(losses, axis=0)


def main():
    ranks = Threads()
    modules = load(sys.argv[1], ranks)
    share_tensors(modules["compressed"].CompressedBackend,
                  [weight.size for weight in make_inputs()[1].values()])
    found = {name: run(modules, ranks, name) for name in RUNS}
    recorded = read_record()
    if "--check" not in sys.argv:
        recorded.update({name: [round(loss, 9) for loss in losses]
                         for name, losses in found.items()})
        with open(RECORD, "w") as file:
            json.dump(recorded, file, indent=1)
            file.write("\n")
        return
    for name, losses in found.items():
        if np.abs(np.array(recorded[name]) / losses - 1).max() > LIMIT:
            sys.exit(f"{RECORD} is not what {name} of {sys.argv[1]} gives")


if __name__ == "__main__":
    main()
