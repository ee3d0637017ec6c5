# A LLaMA as nn text, and its oracle in PyTorch.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A decoder with RMS norms, rotary positions, grouped queries, a gated MLP and a
head of its own; its weights are stored [out, in]. No importer knows it: the text
is written from the shapes, in the frame of a GPT-2's dump of the phase import."""

import re

import numpy as np

import heddle_test as h

CONFIG = dict(vocab=97, embed=32, layers=2, heads=4, kv_heads=2, inner=48,
              theta=10000.0, eps=1e-5)


def linear_shapes(c):
    """[out, in] of each product of a layer, by name."""
    head = c["embed"] // c["heads"]
    kv = c["kv_heads"] * head
    return {"q_proj": (c["embed"], c["embed"]), "k_proj": (kv, c["embed"]),
            "v_proj": (kv, c["embed"]), "o_proj": (c["embed"], c["embed"]),
            "gate_proj": (c["inner"], c["embed"]),
            "up_proj": (c["inner"], c["embed"]),
            "down_proj": (c["embed"], c["inner"])}


def block_shapes(c):
    shapes = {"norm_1.weight": (c["embed"],)}
    for name, shape in linear_shapes(c).items():
        if name == "gate_proj":
            shapes["norm_2.weight"] = (c["embed"],)
        shapes[name + ".weight"] = shape
    return shapes


def shapes(c):
    every = {"embed.weight": (c["vocab"], c["embed"])}
    for layer in range(c["layers"]):
        every.update({f"h.{layer}.{name}": shape
                      for name, shape in block_shapes(c).items()})
    every.update({"norm.weight": (c["embed"],),
                  "lm_head.weight": (c["vocab"], c["embed"])})
    return every


def random_weights(c, seed=1, transposed=True):
    """As they are stored: [out, in], or [in, out]."""
    generator = np.random.default_rng(seed)
    weights = {}
    for name, shape in shapes(c).items():
        value = generator.standard_normal(shape) * 0.1
        if len(shape) == 1:
            value = 1 + 2 * value
        elif not transposed and name != "embed.weight":
            value = np.ascontiguousarray(value.T)
        weights[name] = value.astype(np.float32)
    return weights


# --- the text ---------------------------------------------------------------

def tensor(*shape, element="f32"):
    return "tensor<" + "".join(f"{size}x" for size in shape) + element + ">"


class Writer:
    """The functions of a model for parts of `rows` rows of `seq` tokens."""

    def __init__(self, c, rows, seq, transposed):
        self.c, self.rows, self.seq, self.transposed = c, rows, seq, transposed
        self.hidden = tensor(rows, seq, c["embed"])
        self.positions = tensor(rows, seq, element="i32")

    def stored(self, shape):
        flip = len(shape) == 2 and not self.transposed
        return tensor(*(shape[::-1] if flip else shape))

    def linear(self, out, into, weight, shape, path):
        flag = " {transposed}" if self.transposed else ""
        types = [tensor(self.rows, self.seq, shape[1]), self.stored(shape)]
        result = tensor(self.rows, self.seq, shape[0])
        return (f"{out} = nn.linear {into}, {weight}{flag} : ({', '.join(types)}) "
                f'-> {result} loc("{path}")')

    def norm(self, out, into, weight):
        return (f"{out}, {out}r = nn.rms_norm {into}, {weight} "
                f"{{eps = {self.c['eps']:e} : f64}} : ({self.hidden}, "
                f"{tensor(self.c['embed'])}) -> ({self.hidden}, "
                f"{tensor(self.rows, self.seq)})")

    def rotary(self, out, into, heads):
        size = self.c["embed"] // self.c["heads"]
        kind = tensor(self.rows, self.seq, heads * size)
        return (f"{out} = nn.rotary {into} at %positions {{heads = {heads} : i64, "
                f"dims = {size} : i64, theta = {self.c['theta']:e} : f64}} : ({kind}, "
                f"{self.positions}) -> {kind}")

    def block(self):
        c, linears = self.c, linear_shapes(self.c)
        size = c["embed"] // c["heads"]
        kv, inner = (tensor(self.rows, self.seq, width)
                     for width in (c["kv_heads"] * size, c["inner"]))
        names = {name: f"%p{i}" for i, name in enumerate(block_shapes(c))}
        arguments = [f"%x: {self.hidden}", f"%positions: {self.positions}"]
        arguments += [f"{names[name]}: {self.stored(shape)}"
                      for name, shape in block_shapes(c).items()]

        def product(out, into, name):
            return self.linear(out, into, names[name + ".weight"], linears[name],
                               "h.*." + name)

        lse = tensor(self.rows, c["heads"], self.seq)
        lines = [
            self.norm("%n", "%x", names["norm_1.weight"]),
            product("%q", "%n", "q_proj"), product("%k", "%n", "k_proj"),
            product("%v", "%n", "v_proj"), self.rotary("%qr", "%q", c["heads"]),
            self.rotary("%kr", "%k", c["kv_heads"]),
            f"%a, %lse = nn.attention %qr, %kr, %v {{heads = #nn.heads<{c['heads']}, "
            f"kv = {c['kv_heads']}, scale = {size ** -0.5:e}>, mask = #nn.mask<causal>}} "
            f": ({self.hidden}, {kv}, {kv}) -> ({self.hidden}, {lse})",
            product("%o", "%a", "o_proj"), f"%y = nn.add %x, %o : {self.hidden}",
            self.norm("%m", "%y", names["norm_2.weight"]),
            product("%g", "%m", "gate_proj"), product("%u", "%m", "up_proj"),
            f"%s = nn.map silu(%g) : {inner}", f"%t = nn.mul %s, %u : {inner}",
            product("%d", "%t", "down_proj"), f"%z = nn.add %y, %d : {self.hidden}",
            f"nn.return %z : {self.hidden}"]
        return (f"    nn.func @block({', '.join(arguments)}) -> {self.hidden} {{\n"
                + "".join(f"      {line}\n" for line in lines) + "    }\n")

    def trunk(self):
        """From the ids to the logits."""
        c = self.c
        ids = self.positions
        table = tensor(c["vocab"], c["embed"])
        lines = [f"%e = nn.get @embed.weight : {table}",
                 f"%x0 = nn.embedding %e[%arg0] : ({table}, {ids}) -> {self.hidden}",
                 f"%positions = nn.positions : () -> {ids}"]
        kinds = [self.hidden, ids] + [self.stored(shape)
                                      for shape in block_shapes(c).values()]
        for layer in range(c["layers"]):
            operands = [f"%x{layer}", "%positions"]
            for i, (name, shape) in enumerate(block_shapes(c).items()):
                operands.append(f"%w{layer}_{i}")
                lines.append(f"{operands[-1]} = nn.get @h.{layer}.{name} : "
                             f"{self.stored(shape)}")
            lines.append(f"%x{layer + 1} = nn.call @block({', '.join(operands)}) path "
                         f'"h.{layer}" : ({", ".join(kinds)}) -> {self.hidden}')
        shape = (c["vocab"], c["embed"])
        lines += [f"%nw = nn.get @norm.weight : {tensor(c['embed'])}",
                  self.norm("%xn", f"%x{c['layers']}", "%nw"),
                  f"%hw = nn.get @lm_head.weight : {self.stored(shape)}",
                  self.linear("%logits", "%xn", "%hw", shape, "lm_head")]
        return "".join(f"      {line}\n" for line in lines)


def write(frame, directory, c, rows, seq, transposed=True):
    """The model as text: `frame` is a GPT-2's dump of the phase import, made with
    the flags that this one is to have; `directory` has the weights."""
    writer = Writer(c, rows, seq, transposed)
    frame = re.sub(r"^#loc.*\n", "", frame, flags=re.M)
    frame = re.sub(r" loc\((?:#loc\d*|\"[^\"]*\")\)", "", frame)
    frame = re.sub(r'directory = "[^"]*", hash = "[^"]*"',
                   f'directory = "{directory}", hash = ""', frame)
    states = re.findall(r"^ *nn\.state @.*\n", frame, flags=re.M)
    template = next(state for state in states if "@wte.weight" in state)
    made = ""
    for name, shape in shapes(c).items():
        state = template.replace("@wte.weight", "@" + name)
        state = state.replace("transformer.wte.weight", name)
        kind = tensor(*shape) if name == "embed.weight" else writer.stored(shape)
        made += re.sub(r"tensor<[^>]*>", kind, state)
    frame = frame.replace(states[0], made, 1)
    for state in states[1:]:
        frame = frame.replace(state, "", 1)
    # The programs for training and evaluation, from the logits on, are the same.
    programs = re.findall(r"^    nn\.func @.*?^    }\n", frame, flags=re.M | re.S)
    for program in programs:
        head = program[:program.index("\n") + 1]
        made = ""
        if "@forward(" in head or "@evaluate(" in head:
            logits = re.search(r"nn\.cross_entropy (%\w+)", program)[1]
            tail = program[program.rindex("\n", 0, program.index(
                "nn.cross_entropy")) + 1:]
            made = head + writer.trunk() + re.sub(logits + r"\b", "%logits", tail)
        elif "@block(" in head:
            made = writer.block()
        frame = frame.replace(program, made, 1)
    return frame


# --- the oracle -------------------------------------------------------------

class Llama(h.Parameters):
    """The model in PyTorch, in the interface of `oracle.Gpt2`."""

    def __init__(self, c, weights, transposed=True):
        super().__init__(weights)
        self.c, self.transposed = c, transposed

    def linear(self, x, name):
        weight = self.weights[name + ".weight"]
        return x @ (weight.T if self.transposed else weight)

    def norm(self, x, name):
        scale = (x.pow(2).mean(-1, keepdim=True) + self.c["eps"]).rsqrt()
        return x * scale * self.weights[name + ".weight"]

    def turn(self, x):
        """Rotary positions of x [rows, heads, tokens, size]."""
        torch, size = self.torch, x.shape[-1]
        rates = self.c["theta"] ** (-torch.arange(0, size, 2, dtype=x.dtype) / size)
        angles = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * rates
        angles = torch.cat([angles, angles], -1)
        turned = torch.cat([-x[..., size // 2:], x[..., :size // 2]], -1)
        return x * angles.cos() + turned * angles.sin()

    def attention(self, x, name):
        torch, c = self.torch, self.c
        size = c["embed"] // c["heads"]

        def heads(part):
            y = self.linear(x, f"{name}.{part}_proj")
            return y.view(*y.shape[:2], -1, size).transpose(1, 2)

        q, k, v = self.turn(heads("q")), self.turn(heads("k")), heads("v")
        k, v = (y.repeat_interleave(c["heads"] // c["kv_heads"], 1) for y in (k, v))
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2) / size ** 0.5).masked_fill(later, -np.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        return self.linear(mixed, name + ".o_proj")

    def loss(self, ids, labels):
        torch = self.torch
        x = self.weights["embed.weight"][torch.as_tensor(ids)]
        for layer in range(self.c["layers"]):
            name = f"h.{layer}"
            x = x + self.attention(self.norm(x, name + ".norm_1"), name)
            y = self.norm(x, name + ".norm_2")
            gate = torch.nn.functional.silu(self.linear(y, name + ".gate_proj"))
            x = x + self.linear(gate * self.linear(y, name + ".up_proj"),
                                name + ".down_proj")
        logits = self.linear(self.norm(x, "norm"), "lm_head")
        labels = torch.as_tensor(labels).reshape(-1)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels), logits

    def arrays(self):
        return {name: value.detach().numpy().copy()
                for name, value in self.weights.items()}
