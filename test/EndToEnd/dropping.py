# Layer dropping in PyTorch.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that skip layers, written from the paper of progressive layer dropping (Zhang
and He, NeurIPS 2020, arXiv 2010.13369), and their training. The caller says which layers
each step keeps."""

import math

import families
import numpy as np
import oracle
import test_optimizers
import torch
import torch.nn.functional as F

import heddle_test as h


def theta(step, limit, gamma):
    """Equation 7 of the paper, for steps counted from 0. DeepSpeed 0.19.6 computes the
    same in `ProgressiveLayerDrop.update_state` (deepspeed/runtime/
    progressive_layer_drop.py)."""
    return (1 - limit) * math.exp(-gamma * step) + limit


def keep_probability(step, layer, layers, limit, gamma):
    """The probability with which a step keeps a layer, counted from 1."""
    return 1 - layer / layers * (1 - theta(step, limit, gamma))


torch.set_num_threads(1)  # More threads take longer for models of this size.

# Each model has `kept`, the layers of the step, and `factor`, a function that gives the
# factor of a layer's branches.

class Gpt2(oracle.Gpt2):
    """Norms before the branches."""

    def freeze(self, prefix):
        for name, weight in self.weights.items():
            weight.requires_grad_(not name.startswith(prefix))

    def parameters(self):
        return [weight for weight in super().parameters() if weight.requires_grad]

    def logits(self, ids):
        ids = torch.as_tensor(ids)
        x = self.weights["wte.weight"][ids]
        x = x + self.weights["wpe.weight"][:ids.shape[1]]
        activation = oracle.ACTIVATIONS[self.config["activation_function"]]
        for layer in self.kept:
            name, factor = f"h.{layer}", self.factor(layer)
            mixed = self.attention(self.norm(x, name + ".ln_1"), name + ".attn")
            x = x + factor * mixed
            inner = self.conv1d(self.norm(x, name + ".ln_2"), name + ".mlp.c_fc")
            x = x + factor * self.conv1d(activation(inner), name + ".mlp.c_proj")
        x = self.norm(x, "ln_f")
        return x @ self.weights.get("lm_head.weight", self.weights["wte.weight"]).T


class Bert(h.Parameters):
    """Norms after the additions: a dropped layer has none either."""

    def __init__(self, config, weights):
        super().__init__(weights)
        self.config = config

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x, name):
        name += ".LayerNorm"
        return F.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"],
                            self.weights[name + ".bias"], self.config["layer_norm_eps"])

    def hidden(self, name, length, lengths):
        """The keys [rows, heads, queries, keys] that queries do not see."""
        return (torch.arange(length) >= lengths[:, None])[:, None, None]

    def attention(self, x, lengths, name):
        def heads(part):
            y = self.linear(x, f"{name}.self.{part}")
            return y.view(*y.shape[:2], self.config["num_attention_heads"],
                          -1).transpose(1, 2)

        q, k, v = heads("query"), heads("key"), heads("value")
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = oracle.softmax_of_seen(scores, self.hidden(name, x.shape[1], lengths))
        mixed = (weights @ v).transpose(1, 2).reshape(x.shape)
        return self.linear(mixed, name + ".output.dense")

    def loss(self, ids, labels, segments, lengths):
        ids, labels, segments, lengths = map(torch.as_tensor,
                                             (ids, labels, segments, lengths))
        activation = oracle.ACTIVATIONS[self.config["hidden_act"]]
        tables = [self.weights[f"bert.embeddings.{name}_embeddings.weight"]
                  for name in ("word", "token_type", "position")]
        x = self.norm(tables[0][ids] + tables[1][segments] + tables[2][:ids.shape[1]],
                      "bert.embeddings")
        for layer in self.kept:
            name, factor = f"bert.encoder.layer.{layer}", self.factor(layer)
            mixed = self.attention(x, lengths, name + ".attention")
            x = self.norm(x + factor * mixed, name + ".attention.output")
            inner = activation(self.linear(x, name + ".intermediate.dense"))
            x = self.norm(x + factor * self.linear(inner, name + ".output.dense"),
                          name + ".output")
        name = "cls.predictions.transform"
        x = self.norm(activation(self.linear(x, name + ".dense")), name)
        logits = x @ tables[0].T + self.weights["cls.predictions.bias"]
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits

    def arrays(self):
        return {name: value.detach().numpy().copy()
                for name, value in self.weights.items()}


class Llama(families.Decoder):
    """Norms before the branches; several queries share a key."""

    def logits(self, ids):
        table = self.weights["model.embed_tokens.weight"]
        x = table[torch.as_tensor(ids)]
        for layer in self.kept:
            path, factor = f"model.layers.{layer}", self.factor(layer)
            y = self.norm(x, path + ".input_layernorm")
            x = x + factor * self.attention(y, path + ".self_attn")
            y = self.norm(x, path + ".post_attention_layernorm")
            gate = F.silu(self.linear(y, path + ".mlp.gate_proj"))
            x = x + factor * self.linear(gate * self.linear(y, path + ".mlp.up_proj"),
                                         path + ".mlp.down_proj")
        return self.norm(x, "model.norm") @ self.weights["lm_head.weight"].T


# --- training ---------------------------------------------------------------

def adamw(parameters, rate, decay):
    optimizer = torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.999),
                                  eps=test_optimizers.EPS["AdamW"], weight_decay=decay)
    return lambda step: optimizer.step()


def lion(parameters, rate, decay):
    states = [{} for _ in parameters]

    def update(step):
        with torch.no_grad():
            for parameter, state in zip(parameters, states):
                parameter.copy_(torch.from_numpy(test_optimizers.lion(
                    parameter.numpy(), parameter.grad.numpy(), state, step, rate, decay)))
    return update


OPTIMIZERS = {"AdamW": adamw, "Lion": lion}


def train(model, batches, kept, scale, clip, update):
    """Losses and norms of gradients. `kept` has the layers of each step, counted from 1,
    and `scale` gives the factor of a layer in a step, counted from 0. Parameters of
    dropped layers get gradients of zero, with which they are updated."""
    losses, norms = [], []
    for step, batch in enumerate(batches):
        model.kept = kept[step + 1]
        model.factor = lambda layer: scale(step, layer)
        loss, _ = model.loss(*batch)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), clip)))
        update(step + 1)
        losses.append(loss.item())
    return np.array(losses), np.array(norms)
