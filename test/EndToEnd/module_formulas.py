# The costs of modules, by formulas.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models of every family, and the parameters, MACs and FLOPs of each of their
modules, computed from the configuration alone. FLOPs are those of DeepSpeed's
profiler: 2 for a MAC, 5 for an element of a layer norm, 4 for one of an RMS norm, 1 for
one of an activation function."""

import math
from dataclasses import dataclass, field

SMALL = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 44,
         "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 32, "initializer_range": 0.02}
GATED = {**SMALL, "num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "rope_theta": 100.0, "tie_word_embeddings": False}
CONFIGS = {
    "llama": GATED,
    "mistral": {**GATED, "sliding_window": 5},
    "qwen2": GATED,
    "qwen3": {**GATED, "head_dim": 12},
    "gemma2": {**GATED, "head_dim": 12, "hidden_activation": "gelu_pytorch_tanh",
               "query_pre_attn_scalar": 8, "sliding_window": 16,
               "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
               "tie_word_embeddings": True},
    "gpt_neox": {**SMALL, "hidden_act": "gelu", "rotary_pct": 0.25,
                 "rotary_emb_base": 10000, "use_parallel_residual": True,
                 "layer_norm_eps": 1e-5, "tie_word_embeddings": False},
    "bert": {**SMALL, "hidden_act": "gelu", "type_vocab_size": 2,
             "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.0,
             "attention_probs_dropout_prob": 0.0, "pad_token_id": 0},
    "opt": {"vocab_size": 97, "hidden_size": 32, "word_embed_proj_dim": 32,
            "ffn_dim": 44, "num_hidden_layers": 2, "num_attention_heads": 4,
            "activation_function": "relu", "max_position_embeddings": 32,
            "do_layer_norm_before": True, "dropout": 0.0, "attention_dropout": 0.0},
    "gpt_neo": {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 44,
                "num_layers": 2, "num_heads": 4, "activation_function": "gelu_new",
                "max_position_embeddings": 32, "window_size": 8,
                "attention_types": [[["global", "local"], 1]], "resid_dropout": 0.0,
                "embed_dropout": 0.0, "attention_dropout": 0.0},
    "gpt2": {"vocab_size": 97, "n_positions": 32, "n_embd": 32, "n_layer": 2,
             "n_head": 4, "n_inner": 44, "activation_function": "gelu_new",
             "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}


@dataclass
class Shard:
    """What a rank has of a micro-batch and of the model."""
    rows: int
    tokens: int
    seq: int = 1        # Ranks that split the sequence.
    tensor: int = 1     # Ranks that split heads and features.
    splits_norms: bool = False  # --sequence-parallel
    layers: range = range(2)
    first: bool = True  # Whether it has the first stage.
    last: bool = True


@dataclass
class Formulas:
    """Costs of each module without those inside of it: parameters, MACs, FLOPs."""
    shard: Shard
    own: dict = field(default_factory=dict)

    @property
    def count(self):
        """The tokens that this rank computes."""
        return self.shard.rows * self.shard.tokens // self.shard.seq

    def add(self, path, parameters=0, macs=0, flops=0):
        old = self.own.get(path, (0, 0, 0))
        self.own[path] = (old[0] + parameters, old[1] + macs, old[2] + 2 * macs + flops)

    def linear(self, path, inputs, outputs, bias, split=None, tied=False):
        """A product; ranks along tensor split its outputs or its inputs."""
        if split == "out":
            outputs = math.ceil(outputs / self.shard.tensor)
        elif split == "in":
            inputs //= self.shard.tensor
        parameters = 0 if tied else inputs * outputs + (outputs if bias else 0)
        self.add(path, parameters, self.count * inputs * outputs)

    def attention(self, path, heads, head):
        """Scores and weighted sums over all pairs of a query and a key."""
        self.add(path, 0, 2 * self.count * self.shard.tokens *
                 (heads // self.shard.tensor) * head)

    def norm(self, path, width, kind="layer", count=1):
        rows = self.count * count
        if self.shard.splits_norms:
            rows //= self.shard.tensor
        self.add(path, 2 * width if kind == "layer" else width, 0,
                 (5 if kind == "layer" else 4) * rows * width)

    def activation(self, path, width):
        self.add(path, flops=self.count * width // self.shard.tensor)

    def embedding(self, path, rows, width, split=True):
        if split:
            rows = math.ceil(rows / self.shard.tensor)
        self.add(path, rows * width)

    def totals(self):
        """Costs of each module with those inside of it; "" is the model."""
        sums = {}
        for path, costs in self.own.items():
            parts = path.split(".")
            for length in range(len(parts) + 1):
                name = ".".join(parts[:length])
                old = sums.get(name, (0, 0, 0))
                sums[name] = tuple(a + b for a, b in zip(old, costs))
        return sums


def of_gated(f, c, family):
    """llama and what follows it: RMS norms, gated MLPs, grouped keys."""
    width, inner = c["hidden_size"], c["intermediate_size"]
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    head = c.get("head_dim", width // heads)
    biased = family == "qwen2"
    if f.shard.first or (f.shard.last and c["tie_word_embeddings"]):
        f.embedding("embed_tokens", c["vocab_size"], width)
    for layer in f.shard.layers:
        at = f"layers.{layer}."
        norms = ["input_layernorm", "post_attention_layernorm"]
        if family == "gemma2":
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        for norm in norms:
            f.norm(at + norm, width, "rms")
        f.linear(at + "self_attn.q_proj", width, heads * head, biased, "out")
        f.linear(at + "self_attn.k_proj", width, kv * head, biased, "out")
        f.linear(at + "self_attn.v_proj", width, kv * head, biased, "out")
        if family == "qwen3":
            # The norms of single heads, whose weights all heads share.
            for name, number in (("q_norm", heads), ("k_norm", kv)):
                f.add(at + "self_attn." + name, head, 0,
                      4 * f.count * head * number // f.shard.tensor)
        f.attention(at + "self_attn", heads, head)
        f.linear(at + "self_attn.o_proj", heads * head, width, False, "in")
        f.linear(at + "mlp.gate_proj", width, inner, False, "out")
        f.linear(at + "mlp.up_proj", width, inner, False, "out")
        f.activation(at + "mlp.act_fn", inner)
        f.linear(at + "mlp.down_proj", inner, width, False, "in")
    if f.shard.last:
        f.norm("norm", width, "rms")
        f.linear("lm_head", width, c["vocab_size"], False, "out",
                 tied=c["tie_word_embeddings"])


def of_gpt2(f, c):
    width, inner = c["n_embd"], c["n_inner"] or 4 * c["n_embd"]
    if f.shard.first or f.shard.last:
        f.embedding("wte", c["vocab_size"], width)
    if f.shard.first:
        f.embedding("wpe", c["n_positions"], width, split=False)
    for layer in f.shard.layers:
        at = f"h.{layer}."
        f.norm(at + "ln_1", width)
        f.linear(at + "attn.c_attn", width, 3 * width, True, "out")
        f.attention(at + "attn", c["n_head"], width // c["n_head"])
        f.linear(at + "attn.c_proj", width, width, True, "in")
        f.norm(at + "ln_2", width)
        f.linear(at + "mlp.c_fc", width, inner, True, "out")
        f.activation(at + "mlp.act", inner)
        f.linear(at + "mlp.c_proj", inner, width, True, "in")
    if f.shard.last:
        f.norm("ln_f", width)
        f.linear("lm_head", width, c["vocab_size"], False, "out", tied=True)


def of_gpt_neo(f, c):
    width, inner, heads = c["hidden_size"], c["intermediate_size"], c["num_heads"]
    if f.shard.first or f.shard.last:
        f.embedding("wte", c["vocab_size"], width)
    if f.shard.first:
        f.embedding("wpe", c["max_position_embeddings"], width, split=False)
    for layer in f.shard.layers:
        at = f"h.{layer}."
        f.norm(at + "ln_1", width)
        for name in ("q_proj", "k_proj", "v_proj"):
            f.linear(at + "attn.attention." + name, width, width, False, "out")
        f.attention(at + "attn.attention", heads, width // heads)
        f.linear(at + "attn.attention.out_proj", width, width, True, "in")
        f.norm(at + "ln_2", width)
        f.linear(at + "mlp.c_fc", width, inner, True, "out")
        f.activation(at + "mlp.act", inner)
        f.linear(at + "mlp.c_proj", inner, width, True, "in")
    if f.shard.last:
        f.norm("ln_f", width)
        f.linear("lm_head", width, c["vocab_size"], False, "out", tied=True)


def of_gpt_neox(f, c):
    width, inner, heads = (c["hidden_size"], c["intermediate_size"],
                           c["num_attention_heads"])
    if f.shard.first:
        f.embedding("embed_in", c["vocab_size"], width)
    for layer in f.shard.layers:
        at = f"layers.{layer}."
        f.norm(at + "input_layernorm", width)
        for name in ("query", "key", "value"):
            f.linear(at + "attention." + name, width, width, True, "out")
        f.attention(at + "attention", heads, width // heads)
        f.linear(at + "attention.dense", width, width, True, "in")
        f.norm(at + "post_attention_layernorm", width)
        f.linear(at + "mlp.dense_h_to_4h", width, inner, True, "out")
        f.activation(at + "mlp.act", inner)
        f.linear(at + "mlp.dense_4h_to_h", inner, width, True, "in")
    if f.shard.last:
        f.norm("final_layer_norm", width)
        f.linear("embed_out", width, c["vocab_size"], False, "out")


def of_opt(f, c):
    width, inner, heads = c["hidden_size"], c["ffn_dim"], c["num_attention_heads"]
    if f.shard.first or f.shard.last:
        f.embedding("embed_tokens", c["vocab_size"], width)
    if f.shard.first:
        f.embedding("embed_positions", c["max_position_embeddings"] + 2, width,
                    split=False)
    for layer in f.shard.layers:
        at = f"layers.{layer}."
        f.norm(at + "self_attn_layer_norm", width)
        for name in ("q_proj", "k_proj", "v_proj"):
            f.linear(at + "self_attn." + name, width, width, True, "out")
        f.attention(at + "self_attn", heads, width // heads)
        f.linear(at + "self_attn.out_proj", width, width, True, "in")
        f.norm(at + "final_layer_norm", width)
        f.linear(at + "fc1", width, inner, True, "out")
        f.activation(at + "activation_fn", inner)
        f.linear(at + "fc2", inner, width, True, "in")
    if f.shard.last:
        f.norm("final_layer_norm", width)
        f.linear("lm_head", width, c["vocab_size"], False, "out", tied=True)


def of_bert(f, c):
    width, inner, heads = (c["hidden_size"], c["intermediate_size"],
                           c["num_attention_heads"])
    if f.shard.first or f.shard.last:
        f.embedding("embeddings.word_embeddings", c["vocab_size"], width)
    if f.shard.first:
        f.embedding("embeddings.position_embeddings", c["max_position_embeddings"],
                    width, split=False)
        f.embedding("embeddings.token_type_embeddings", c["type_vocab_size"], width)
        f.norm("embeddings.LayerNorm", width)
    for layer in f.shard.layers:
        at = f"encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            f.linear(at + "attention.self." + name, width, width, True, "out")
        f.attention(at + "attention.self", heads, width // heads)
        f.linear(at + "attention.output.dense", width, width, True, "in")
        f.norm(at + "attention.output.LayerNorm", width)
        f.linear(at + "intermediate.dense", width, inner, True, "out")
        f.activation(at + "intermediate", inner)
        f.linear(at + "output.dense", inner, width, True, "in")
        f.norm(at + "output.LayerNorm", width)
    if not f.shard.last:
        return
    f.linear("cls.predictions.transform.dense", width, width, True)
    # No rank shares this layer with others.
    f.add("cls.predictions.transform.transform_act_fn", flops=f.count * width)
    f.norm("cls.predictions.transform.LayerNorm", width)
    # The decoder is the embedding's table, with a bias of its own.
    f.linear("cls.predictions", width, c["vocab_size"], False, "out", tied=True)
    f.add("cls.predictions", math.ceil(c["vocab_size"] / f.shard.tensor))


def formulas(family, shard):
    """Costs of each module of CONFIGS[family] on a rank, by path."""
    f, c = Formulas(shard), CONFIGS[family]
    plain = {"gpt2": of_gpt2, "gpt_neo": of_gpt_neo, "gpt_neox": of_gpt_neox,
             "opt": of_opt, "bert": of_bert}
    if family in plain:
        plain[family](f, c)
    else:
        of_gated(f, c, family)
    return f.totals()
