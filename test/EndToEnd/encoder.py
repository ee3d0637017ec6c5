# Encoders as text, and in PyTorch.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model whose attention is told the lengths of rows, as a user would write it
(docs/own-architecture.md), and what PyTorch computes for it."""

import numpy as np

import heddle_test as h

# Written for one row of so many tokens.
WRITTEN = 8


def model(heads=4, kv=4, size=8, packed=True, causal=False, dropout=0.0, vocab=61,
          layers=2, positions=64):
    return dict(heads=heads, kv=kv, size=size, packed=packed, causal=causal,
                dropout=dropout, vocab=vocab, layers=layers, positions=positions,
                embed=heads * size, inner=2 * heads * size)


def block_shapes(c):
    q, kv = c["heads"] * c["size"], c["kv"] * c["size"]
    if c["packed"]:
        parts = {"qkv": (c["embed"], q + 2 * kv)}
    else:
        parts = {"q": (c["embed"], q), "k": (c["embed"], kv), "v": (c["embed"], kv)}
    return {**parts, "out": (q, c["embed"]), "norm": (c["embed"],),
            "up": (c["embed"], c["inner"]), "down": (c["inner"], c["embed"])}


def shapes(c):
    found = {"tokens": (c["vocab"], c["embed"]), "places": (c["positions"], c["embed"])}
    for layer in range(c["layers"]):
        found.update({f"h.{layer}.{name}": shape
                      for name, shape in block_shapes(c).items()})
    return found


def random_weights(c, seed=1):
    generator = np.random.default_rng(seed)
    size = 0.7 * c["embed"] ** -0.5
    return {name: (generator.standard_normal(shape) * size
                   + name.endswith("norm")).astype(np.float32)
            for name, shape in shapes(c).items()}


def tensor(*shape, kind="f32"):
    return "tensor<" + "".join(f"{size}x" for size in shape) + kind + ">"


# --- the text ---------------------------------------------------------------

def linear(out, into, weight, shape):
    given, made = (tensor(1, WRITTEN, width) for width in shape)
    return f"{out} = nn.linear {into}, {weight} : ({given}, {tensor(*shape)}) -> {made}"


def block(c):
    shape = block_shapes(c)
    hidden, inner = (tensor(1, WRITTEN, c[name]) for name in ("embed", "inner"))
    parts = ["qkv"] if c["packed"] else ["q", "k", "v"]
    kinds = [tensor(1, WRITTEN, shape[part][1]) for part in parts]
    mask = "causal" if c["causal"] else "full"
    attributes = (f"heads = #nn.heads<{c['heads']}, kv = {c['kv']}, scale = "
                  f"{c['size'] ** -0.5!r}>, mask = #nn.mask<{mask}>")
    operands, kinds = " lengths %n", kinds + [tensor(1, kind="i32")]
    arguments = [f"%x: {hidden}", f"%n: {tensor(1, kind='i32')}"]
    if c["dropout"]:
        operands += " rng %rng layer %layer micro_batch %m"
        kinds += ["tensor<4xi32>", "index", "index"]
        arguments += ["%rng: tensor<4xi32>", "%layer: index", "%m: index"]
        attributes += f", dropout = #nn.dropout<{c['dropout']}, site = 5>"
    arguments += [f"%{name}: {tensor(*size)}" for name, size in shape.items()]
    queries = tensor(1, WRITTEN, c["heads"] * c["size"])
    lines = [linear(f"%y{part}", "%x", f"%{part}", shape[part]) for part in parts]
    lines += [
        f"%a, %lse = nn.attention {', '.join('%y' + part for part in parts)}{operands} "
        f"{{{attributes}}} : ({', '.join(kinds)}) -> ({queries}, "
        f"{tensor(1, c['heads'], WRITTEN)})",
        linear("%o", "%a", "%out", shape["out"]), f"%s = nn.add %x, %o : {hidden}",
        f"%z, %r = nn.rms_norm %s, %norm {{eps = 1.0e-5 : f64}} : ({hidden}, "
        f"{tensor(c['embed'])}) -> ({hidden}, {tensor(1, WRITTEN)})",
        linear("%u", "%z", "%up", shape["up"]), f"%g = nn.map gelu(%u) : {inner}",
        linear("%d", "%g", "%down", shape["down"]), f"%e = nn.add %z, %d : {hidden}",
        f"nn.return %e : {hidden}"]
    return (f"  nn.func @block({', '.join(arguments)}) -> {hidden} {{\n"
            + "".join(f"    {line}\n" for line in lines) + "  }\n")


def forward(c):
    hidden, ids = tensor(1, WRITTEN, c["embed"]), tensor(1, WRITTEN, kind="i32")
    table, places = (tensor(c[name], c["embed"]) for name in ("vocab", "positions"))
    logits = tensor(1, WRITTEN, c["vocab"])
    arguments = [("%ids", ids, "ids"), ("%n", tensor(1, kind="i32"), "lengths")]
    if c["dropout"]:
        arguments += [("%rng", "tensor<4xi32>", "rng"), ("%m", "index", "micro_batch")]
    lines = [f"%tokens = nn.get @tokens : {table}",
             f"%t = nn.embedding %tokens[%ids] : ({table}, {ids}) -> {hidden}",
             f"%at = nn.positions : () -> {ids}", f"%places = nn.get @places : {places}",
             f"%p = nn.embedding %places[%at] : ({places}, {ids}) -> {hidden}",
             f"%x0 = nn.add %t, %p : {hidden}"]
    for layer in range(c["layers"]):
        operands, kinds = [f"%x{layer}", "%n"], [hidden, tensor(1, kind="i32")]
        if c["dropout"]:
            lines.append(f"%layer{layer} = arith.constant {layer} : index")
            operands += ["%rng", f"%layer{layer}", "%m"]
            kinds += ["tensor<4xi32>", "index", "index"]
        for i, (name, shape) in enumerate(block_shapes(c).items()):
            operands.append(f"%w{layer}_{i}")
            kinds.append(tensor(*shape))
            lines.append(f"{operands[-1]} = nn.get @h.{layer}.{name} : {kinds[-1]}")
        lines.append(f"%x{layer + 1} = nn.call @block({', '.join(operands)}) path "
                     f'"h.{layer}" : ({", ".join(kinds)}) -> {hidden}')
    lines += [f"%logits = nn.linear %x{c['layers']}, %tokens {{transposed}} : ({hidden}, "
              f"{table}) -> {logits}", f"nn.return %logits : {logits}"]
    ports = ", ".join(f"#nn.port<{role}>" for _, _, role in arguments)
    arguments = ", ".join(f"{name}: {kind}" for name, kind, _ in arguments)
    return (f"  nn.func @forward({arguments}) -> {logits}\n      attributes "
            f"{{inputs = [{ports}], outputs = [#nn.port<logits>]}} {{\n"
            + "".join(f"    {line}\n" for line in lines) + "  }\n")


def text(c):
    q, kv = c["heads"] * c["size"], c["kv"] * c["size"]
    states = ""
    for name, shape in shapes(c).items():
        segments = ""
        if name.endswith("qkv"):
            segments = f" {{segments = array<i64: {q}, {kv}, {kv}>}}"
        states += f'  nn.state @{name} role parameter : {tensor(*shape)}{segments}\n'
    return ('nn.model @encoder family "encoder" phase "forward" attributes {\n'
            '    strategy = #dist.strategy<{}>, config = "{}",\n'
            f"    weights = {{max_positions = {c['positions']} : i64}}}} {{\n"
            + states + block(c) + forward(c) + "}\n")


# --- the oracle -------------------------------------------------------------

class Encoder(h.Parameters):
    """The model in PyTorch, in the interface of `oracle.Gpt2`."""

    def __init__(self, c, weights):
        super().__init__(weights)
        self.c = c

    def attention(self, x, path, lengths):
        torch, c, w = self.torch, self.c, self.weights
        if c["packed"]:
            widths = [heads * c["size"] for heads in (c["heads"], c["kv"], c["kv"])]
            parts = (x @ w[path + "qkv"]).split(widths, -1)
        else:
            parts = [x @ w[path + name] for name in "qkv"]
        q, k, v = (part.unflatten(-1, (-1, c["size"])).transpose(1, 2) for part in parts)
        k, v = (part.repeat_interleave(c["heads"] // c["kv"], 1) for part in (k, v))
        tokens = torch.arange(x.shape[1])
        seen = (tokens < torch.as_tensor(lengths)[:, None])[:, None, None, :]
        if c["causal"]:
            seen = seen & (tokens <= tokens[:, None])
        scores = (q @ k.transpose(-1, -2) * c["size"] ** -0.5).masked_fill(~seen, -1e30)
        mixed = scores.softmax(-1) @ v
        # Of no keys at all this is the mean over those that do not exist.
        mixed = mixed * seen.any(-1, keepdim=True)
        return mixed.transpose(1, 2).flatten(2) @ w[path + "out"]

    def loss(self, ids, labels, lengths):
        torch, w = self.torch, self.weights
        x = w["tokens"][torch.as_tensor(ids)] + w["places"][:ids.shape[1]]
        for layer in range(self.c["layers"]):
            path = f"h.{layer}."
            x = x + self.attention(x, path, lengths)
            x = x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * w[path + "norm"]
            x = x + torch.nn.functional.gelu(x @ w[path + "up"]) @ w[path + "down"]
        logits = x @ w["tokens"].T
        labels = torch.as_tensor(labels).reshape(-1)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels), logits

    def arrays(self):
        return {name: value.detach().numpy().copy()
                for name, value in self.weights.items()}
