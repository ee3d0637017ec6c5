# The oracle: GPT-2 in PyTorch, from its configuration.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPT-2 and its training in PyTorch, written from the configuration alone.

The model, AdamW (torch.optim) and clipping (torch.nn.utils) run in the type that
is asked for; in float64 they are what Heddle's numbers are measured against.
"""

import numpy as np
import torch
import torch.nn.functional as F

ACTIVATIONS = {
    "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(
        (2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3))),
    "gelu": F.gelu,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x) ** 2,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


def softmax_of_seen(scores, hidden):
    """Softmax over the keys that are not hidden; zeros for a query without any."""
    return scores.masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0.0)


class Gpt2:
    """Weights by their Hugging Face names, and the functions of the model."""

    def __init__(self, config, weights, dtype=torch.float64, label_smoothing=0.0):
        self.config = config
        self.label_smoothing = label_smoothing
        self.weights = {name: torch.tensor(value, dtype=dtype, requires_grad=True)
                        for name, value in weights.items()}

    def parameters(self):
        return list(self.weights.values())

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"],
                            self.weights[name + ".bias"],
                            self.config["layer_norm_epsilon"])

    def conv1d(self, x, name):
        """Hugging Face's Conv1D: the weight is [in, out]."""
        return x @ self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def hidden(self, name, length):
        """The keys [queries, keys] that queries do not see."""
        return torch.ones(length, length, dtype=torch.bool).triu(1)

    def attention(self, x, name):
        batch, length, width = x.shape
        heads = self.config["n_head"]
        size = width // heads
        qkv = self.conv1d(x, name + ".c_attn").view(batch, length, 3, heads, size)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2)
        if self.config.get("scale_attn_weights", True):
            scores = scores / size ** 0.5
        weights = softmax_of_seen(scores, self.hidden(name, length))
        mixed = (weights @ v).transpose(1, 2).reshape(x.shape)
        return self.conv1d(mixed, name + ".c_proj")

    def logits(self, ids):
        ids = torch.as_tensor(ids)
        x = self.weights["wte.weight"][ids]
        x = x + self.weights["wpe.weight"][:ids.shape[1]]
        activation = ACTIVATIONS[self.config["activation_function"]]
        for layer in range(self.config["n_layer"]):
            name = f"h.{layer}"
            x = x + self.attention(self.norm(x, name + ".ln_1"), name + ".attn")
            inner = self.conv1d(self.norm(x, name + ".ln_2"), name + ".mlp.c_fc")
            x = x + self.conv1d(activation(inner), name + ".mlp.c_proj")
        x = self.norm(x, "ln_f")
        head = self.weights.get("lm_head.weight", self.weights["wte.weight"])
        return x @ head.T

    def loss(self, ids, labels):
        """The mean over all label tokens, and the logits."""
        logits = self.logits(ids)
        labels = torch.as_tensor(labels).reshape(-1)
        return F.cross_entropy(logits.flatten(0, 1), labels,
                               label_smoothing=self.label_smoothing), logits

    def gradients(self, ids, labels):
        """Loss, logits, and every gradient by name, as numpy arrays."""
        loss, logits = self.loss(ids, labels)
        grads = torch.autograd.grad(loss, self.parameters())
        named = {name: grad.numpy() for name, grad in zip(self.weights, grads)}
        return loss.item(), logits.detach().numpy(), named

    def arrays(self):
        return {name: value.detach().numpy().copy()
                for name, value in self.weights.items()}


def train(model, batches, rates, clip, decay=0.01, eps=1e-8, betas=(0.9, 0.999),
          delayed=False):
    """One AdamW update for each batch and rate; gives losses and norms. `delayed`: of
    the gradients of the batch before, clipped by their own norm."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=betas, eps=eps,
                                  weight_decay=decay)
    losses, norms, waiting = [], [], None
    for (ids, labels), rate in zip(batches, rates):
        optimizer.zero_grad()
        loss, _ = model.loss(ids, labels)
        loss.backward()
        limit = clip if clip > 0 else float("inf")
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.param_groups[0]["lr"] = rate
        if delayed:
            made = [parameter.grad for parameter in model.parameters()]
            for parameter, grad in zip(model.parameters(), waiting or [None] * len(made)):
                parameter.grad = grad
            waiting = made
        optimizer.step()
        losses.append(loss.item())
        norms.append(float(norm))
    return losses, norms
