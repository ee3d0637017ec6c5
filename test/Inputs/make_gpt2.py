#!/usr/bin/python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a small Hugging Face GPT-2 directory with random weights.

Biases and norms are not trivial, so that a missing or swapped one is seen.
Needs only numpy; see --help. `--break` writes a directory with one fault, for
the tests of errors.
"""

import argparse
import json
import os
import struct

import numpy as np


def parameters(args):
    """Names and values, in Hugging Face's layout."""
    rng = np.random.default_rng(args.seed)
    c = args.embd
    inner = args.inner or 4 * c

    def normal(*shape, std=0.02):
        return (rng.standard_normal(shape) * std).astype(np.float32)

    def norm(name):
        yield name + ".weight", (1 + normal(c, std=0.1)).astype(np.float32)
        yield name + ".bias", normal(c, std=0.1)

    std = args.std
    yield "wte.weight", normal(args.vocab, c, std=std)
    yield "wpe.weight", normal(args.positions, c, std=std)
    for i in range(args.layers):
        h = f"h.{i}."
        yield from norm(h + "ln_1")
        yield h + "attn.c_attn.weight", normal(c, 3 * c, std=std)
        yield h + "attn.c_attn.bias", normal(3 * c, std=0.05)
        yield h + "attn.c_proj.weight", normal(c, c, std=std)
        yield h + "attn.c_proj.bias", normal(c, std=0.05)
        yield from norm(h + "ln_2")
        yield h + "mlp.c_fc.weight", normal(c, inner, std=std)
        yield h + "mlp.c_fc.bias", normal(inner, std=0.05)
        yield h + "mlp.c_proj.weight", normal(inner, c, std=std)
        yield h + "mlp.c_proj.bias", normal(c, std=0.05)
    yield from norm("ln_f")
    if args.untied:
        yield "lm_head.weight", normal(args.vocab, c, std=std)


def named(args):
    """The tensors as the files name them, with mask buffers if asked for."""
    tensors = {}
    for name, value in parameters(args):
        prefix = "" if name.startswith("lm_head") else args.prefix
        tensors[prefix + name] = ("F32", value)
    if args.masks:
        n = args.positions
        mask = np.tril(np.ones((n, n), dtype=np.uint8)).reshape(1, 1, n, n)
        for i in range(args.layers):
            tensors[f"{args.prefix}h.{i}.attn.bias"] = ("U8", mask)
            tensors[f"{args.prefix}h.{i}.attn.masked_bias"] = (
                "F32", np.array(-1e4, dtype=np.float32))
    if args.dtype == "BF16":
        for name, (_, value) in tensors.items():
            if value.dtype == np.float32:
                bits = value.view(np.uint32)
                bits = bits + 0x7FFF + ((bits >> 16) & 1)
                tensors[name] = ("BF16", (bits >> 16).astype(np.uint16))
    elif args.dtype == "F16":
        for name, (_, value) in tensors.items():
            if value.dtype == np.float32:
                tensors[name] = ("F16", value.astype(np.float16))
    return tensors


def damage(args, tensors):
    """Applies one fault to the tensors."""
    first = args.prefix + "h.0.attn.c_attn.weight"
    if args.fault == "missing":
        del tensors[first]
    elif args.fault == "shape":
        dtype, value = tensors[first]
        tensors[first] = (dtype, np.ascontiguousarray(value.T))
    elif args.fault == "dtype":
        _, value = tensors[first]
        tensors[first] = ("I32", value.astype(np.int32))
    elif args.fault == "extra":
        value = np.zeros(args.embd, dtype=np.float32)
        tensors[f"{args.prefix}h.{args.layers}.ln_1.weight"] = ("F32", value)


def damage_header(fault, header):
    """Applies one fault to the header: what it says of the data is not so."""
    tensors = [entry for name, entry in header.items() if name[0] != "_"]
    begin, end = tensors[1]["data_offsets"]
    if fault == "overlap":
        tensors[1]["data_offsets"] = [begin - 64, end - 64]
    elif fault == "lie":
        tensors[1]["shape"][0] += 1
    elif fault == "hole":
        tensors[1]["data_offsets"] = [begin + 64, end + 64]


def write_safetensors(path, tensors, fault=None):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, value) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(value.shape),
                        "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    damage_header(fault, header)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for _, value in tensors.values():
            file.write(value.tobytes())


def write_weights(args, tensors):
    if args.shards == 1:
        write_safetensors(os.path.join(args.dir, "model.safetensors"), tensors,
                          args.fault)
        return
    names = list(tensors)
    weight_map = {}
    for shard in range(args.shards):
        file = f"model-{shard + 1:05}-of-{args.shards:05}.safetensors"
        part = names[shard::args.shards]
        write_safetensors(os.path.join(args.dir, file),
                          {name: tensors[name] for name in part})
        weight_map.update({name: file for name in part})
    total = sum(value.nbytes for _, value in tensors.values())
    with open(os.path.join(args.dir, "model.safetensors.index.json"),
              "w") as file:
        json.dump({"metadata": {"total_size": total},
                   "weight_map": weight_map}, file, indent=2)


def config(args):
    result = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": args.vocab,
        "n_positions": args.positions,
        "n_embd": args.embd,
        "n_layer": args.layers,
        "n_head": args.heads,
        "n_inner": args.inner,
        "activation_function": args.activation,
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": args.dropout,
        "embd_pdrop": args.dropout,
        "attn_pdrop": args.dropout,
        "initializer_range": 0.02,
        "scale_attn_weights": True,
        "use_cache": True,
        "bos_token_id": args.vocab - 1,
        "eos_token_id": args.vocab - 1,
    }
    if args.untied:
        result["tie_word_embeddings"] = False
    if args.generation == 5:
        result["dtype"] = "float32"
        result["transformers_version"] = "5.0.0"
    else:
        result["torch_dtype"] = "float32"
        result["n_ctx"] = args.positions
        result["transformers_version"] = "4.40.0"
    for assignment in args.set:
        key, value = assignment.split("=", 1)
        result[key] = json.loads(value)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir")
    parser.add_argument("--vocab", type=int, default=97)
    parser.add_argument("--positions", type=int, default=32)
    parser.add_argument("--embd", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--inner", type=int)
    parser.add_argument("--activation", default="gelu_new")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--untied", action="store_true")
    parser.add_argument("--masks", action="store_true",
                        help="add the causal-mask buffers of old files")
    parser.add_argument("--prefix", default="transformer.")
    parser.add_argument("--dtype", default="F32",
                        choices=["F32", "BF16", "F16"])
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--std", type=float, default=0.08)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--generation", type=int, default=4, choices=[4, 5],
                        help="of transformers, whose config.json is imitated")
    parser.add_argument("--set", action="append", default=[],
                        metavar="KEY=JSON", help="another key of config.json")
    parser.add_argument("--config-only", action="store_true")
    parser.add_argument("--break", dest="fault",
                        choices=["missing", "shape", "dtype", "extra",
                                 "overlap", "lie", "hole"])
    args = parser.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    with open(os.path.join(args.dir, "config.json"), "w") as file:
        json.dump(config(args), file, indent=2)
        file.write("\n")
    if args.config_only:
        return
    tensors = named(args)
    damage(args, tensors)
    write_weights(args, tensors)


if __name__ == "__main__":
    main()
