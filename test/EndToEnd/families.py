# Models of the families llama, mistral and qwen2, and their oracle in PyTorch.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models with the names, shapes and meanings that Hugging Face gives them;
the oracle is written from the papers and that library's description of rotary
scaling, in the interface of `oracle.Gpt2`."""

import math

import numpy as np

import heddle_test as h


def config(family="llama", **changes):
    made = {"model_type": family, "vocab_size": 97, "hidden_size": 32,
            "intermediate_size": 44, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu",
            "max_position_embeddings": 32, "initializer_range": 0.1,
            "rms_norm_eps": 1e-5, "rope_theta": 100.0,
            "tie_word_embeddings": False}
    if family == "mistral":
        made["sliding_window"] = 5
    made.update(changes)
    return {key: value for key, value in made.items() if value is not None}


def head_dim(c):
    return c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])


def biases(c):
    """Whether q, k, v; o; and the MLP have biases."""
    if c["model_type"] == "qwen2":
        return True, False, False
    bias = c.get("attention_bias", False)
    return bias, bias, c.get("mlp_bias", False)


def shapes(c):
    width, inner = c["hidden_size"], c["intermediate_size"]
    queries, keys = (c[f"num_{kind}_heads"] * head_dim(c)
                     for kind in ("attention", "key_value"))
    qkv, out, mlp = biases(c)
    linears = {"self_attn.q_proj": (queries, width, qkv),
               "self_attn.k_proj": (keys, width, qkv),
               "self_attn.v_proj": (keys, width, qkv),
               "self_attn.o_proj": (width, queries, out),
               "mlp.gate_proj": (inner, width, mlp), "mlp.up_proj": (inner, width, mlp),
               "mlp.down_proj": (width, inner, mlp)}
    every = {"model.embed_tokens.weight": (c["vocab_size"], width)}
    for layer in range(c["num_hidden_layers"]):
        path = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            every[path + norm + ".weight"] = (width,)
        for name, (rows, columns, bias) in linears.items():
            every[path + name + ".weight"] = (rows, columns)
            if bias:
                every[path + name + ".bias"] = (rows,)
    every["model.norm.weight"] = (width,)
    if not c["tie_word_embeddings"]:
        every["lm_head.weight"] = (c["vocab_size"], width)
    return every


def random_weights(c, seed=1):
    generator = np.random.default_rng(seed)
    weights = {}
    for name, shape in shapes(c).items():
        value = generator.standard_normal(shape) * 0.1
        if "norm" in name:
            value = 1 + value
        weights[name] = value.astype(np.float32)
    return weights


# --- rotary positions -------------------------------------------------------

def yarn_rates(rates, rope, theta, dims, longest):
    original = rope.get("original_max_position_embeddings", longest)
    factor = rope["factor"]

    def pair(turns):
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair(rope.get("beta_fast", 32))), 0)
    high = min(math.ceil(pair(rope.get("beta_slow", 1))), dims - 1)
    ramp = (np.arange(dims // 2) - low) / ((high - low) or 0.001)
    stays = 1 - ramp.clip(0, 1)
    magnitude = rope.get("attention_factor")
    if magnitude is None:
        magnitude = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return rates / factor * (1 - stays) + rates * stays, magnitude


def llama3_rates(rates, rope):
    original, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    made = []
    for rate in rates:
        length = 2 * math.pi / rate
        smooth = (original / length - low) / (high - low)
        if length < original / high:
            made.append(rate)
        elif length > original / low:
            made.append(rate / factor)
        else:
            made.append((1 - smooth) * rate / factor + smooth * rate)
    return np.array(made)


def rotary_rates(c):
    """The rate of each pair, and what cosines and sines are multiplied by."""
    rope = c.get("rope_scaling") or c.get("rope_parameters") or {}
    theta, dims = rope.get("rope_theta", c.get("rope_theta", 10000.0)), head_dim(c)
    rates = theta ** (-np.arange(0, dims, 2) / dims)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "linear":
        return rates / rope["factor"], 1.0
    if kind == "llama3":
        return llama3_rates(rates, rope), 1.0
    if kind == "yarn":
        return yarn_rates(rates, rope, theta, dims, c["max_position_embeddings"])
    return rates, 1.0


# --- the oracle -------------------------------------------------------------

class Decoder(h.Parameters):
    def __init__(self, c, weights):
        super().__init__(weights)
        self.c = c

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, x, name):
        scale = (x.pow(2).mean(-1, keepdim=True) + self.c["rms_norm_eps"]).rsqrt()
        return x * scale * self.weights[name + ".weight"]

    def turn(self, x):
        torch, size = self.torch, x.shape[-1]
        rates, magnitude = rotary_rates(self.c)
        angles = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * torch.tensor(rates)
        angles = torch.cat([angles, angles], -1)
        turned = torch.cat([-x[..., size // 2:], x[..., :size // 2]], -1)
        return (x * angles.cos() + turned * angles.sin()) * magnitude

    def hidden(self, name, length):
        """The keys [queries, keys] that queries do not see."""
        places = self.torch.arange(length)
        age = places[:, None] - places
        return (age < 0) | (age >= (self.c.get("sliding_window") or length))

    def attention(self, x, name):
        torch, c = self.torch, self.c

        def heads(part):
            y = self.linear(x, f"{name}.{part}_proj")
            return y.view(*y.shape[:2], -1, head_dim(c)).transpose(1, 2)

        q, k, v = self.turn(heads("q")), self.turn(heads("k")), heads("v")
        groups = c["num_attention_heads"] // c["num_key_value_heads"]
        k, v = (y.repeat_interleave(groups, 1) for y in (k, v))
        scores = (q @ k.transpose(-1, -2)) / head_dim(c) ** 0.5
        hidden = self.hidden(name, x.shape[1])
        weights = scores.masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0.0)
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        return self.linear(mixed, name + ".o_proj")

    def logits(self, ids):
        torch = self.torch
        table = self.weights["model.embed_tokens.weight"]
        x = table[torch.as_tensor(ids)]
        for layer in range(self.c["num_hidden_layers"]):
            path = f"model.layers.{layer}"
            y = self.norm(x, path + ".input_layernorm")
            x = x + self.attention(y, path + ".self_attn")
            y = self.norm(x, path + ".post_attention_layernorm")
            gate = torch.nn.functional.silu(self.linear(y, path + ".mlp.gate_proj"))
            x = x + self.linear(gate * self.linear(y, path + ".mlp.up_proj"),
                                path + ".mlp.down_proj")
        head = table if self.c["tie_word_embeddings"] else self.weights["lm_head.weight"]
        return self.norm(x, "model.norm") @ head.T

    def loss(self, ids, labels):
        logits = self.logits(ids)
        labels = self.torch.as_tensor(labels).reshape(-1)
        return self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels), logits

    def gradients(self, ids, labels):
        loss, logits = self.loss(ids, labels)
        loss.backward()
        return (loss.item(), logits.detach().numpy(),
                {name: value.grad.numpy() for name, value in self.weights.items()})

    def arrays(self):
        return {name: value.detach().numpy().copy()
                for name, value in self.weights.items()}
