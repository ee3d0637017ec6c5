# Random weights of a GPT-2 or LLaMA as llama.cpp reads them, for decode_cpu.py.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""decode_gguf.py CONFIG OUT [TOKENIZER]: writes a GGUF file with matrices in F16, by the
package `gguf`; the vocabulary is that of a byte-level tokenizer.json, if one is given."""

import json
import sys

import gguf
import numpy as np


def gpt2_tensors(c):
    width = c["n_embd"]
    inner = c.get("n_inner") or 4 * width
    yield "token_embd.weight", (c["vocab_size"], width)
    yield "position_embd.weight", (c["n_positions"], width)
    yield from norm("output_norm", width)
    for layer in range(c["n_layer"]):
        path = f"blk.{layer}."
        yield from norm(path + "attn_norm", width)
        yield from norm(path + "ffn_norm", width)
        for name, outputs, inputs in (("attn_qkv", 3 * width, width),
                                      ("attn_output", width, width),
                                      ("ffn_up", inner, width),
                                      ("ffn_down", width, inner)):
            yield path + name + ".weight", (outputs, inputs)
            yield path + name + ".bias", (outputs,)


def norm(name, width):
    yield name + ".weight", (width,)
    yield name + ".bias", (width,)


def llama_tensors(c):
    width, inner = c["hidden_size"], c["intermediate_size"]
    keys = width // c["num_attention_heads"] * c["num_key_value_heads"]
    yield "token_embd.weight", (c["vocab_size"], width)
    yield "output_norm.weight", (width,)
    if not c.get("tie_word_embeddings", False):
        yield "output.weight", (c["vocab_size"], width)
    for layer in range(c["num_hidden_layers"]):
        path = f"blk.{layer}."
        yield path + "attn_norm.weight", (width,)
        yield path + "ffn_norm.weight", (width,)
        for name, outputs, inputs in (
                ("attn_q", width, width), ("attn_k", keys, width),
                ("attn_v", keys, width), ("attn_output", width, width),
                ("ffn_gate", inner, width), ("ffn_up", inner, width),
                ("ffn_down", width, inner)):
            yield path + name + ".weight", (outputs, inputs)


def describe_gpt2(writer, c):
    writer.add_context_length(c["n_positions"])
    writer.add_embedding_length(c["n_embd"])
    writer.add_feed_forward_length(c.get("n_inner") or 4 * c["n_embd"])
    writer.add_block_count(c["n_layer"])
    writer.add_head_count(c["n_head"])
    writer.add_layer_norm_eps(c.get("layer_norm_epsilon", 1e-5))


def describe_llama(writer, c):
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_rope_dimension_count(c["hidden_size"] // c["num_attention_heads"])
    writer.add_rope_freq_base(c.get("rope_theta", 1e4))
    writer.add_layer_norm_rms_eps(c.get("rms_norm_eps", 1e-6))


def describe_tokenizer(writer, path):
    with open(path) as file:
        vocabulary = json.load(file)["model"]["vocab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(vocabulary, key=vocabulary.get))
    writer.add_token_types([gguf.TokenType.NORMAL] * len(vocabulary))
    # llama.cpp wants one at least.
    writer.add_token_merges(["a b"])


def main():
    with open(sys.argv[1]) as file:
        config = json.load(file)
    tensors, describe = {"gpt2": (gpt2_tensors, describe_gpt2),
                         "llama": (llama_tensors, describe_llama)}[config["model_type"]]
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(sys.argv[2], config["model_type"])
    describe(writer, config)
    writer.add_vocab_size(config["vocab_size"])
    if len(sys.argv) > 3:
        describe_tokenizer(writer, sys.argv[3])
    else:
        writer.add_tokenizer_model("none")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for name, shape in tensors(config):
        values = random.standard_normal(shape, np.float32) * np.float32(0.02)
        if "norm.weight" in name:
            values += 1
        writer.add_tensor(name, values.astype(np.float16) if len(shape) == 2 else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
