#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drawn layouts of block-sparse attention: the results and gradients of one attention
are those of PyTorch with a dense mask in float64, and drawn models with layouts have the
numbers of one rank on drawn meshes. HEDDLE_TEST_LONG=1 draws many, HEDDLE_TEST_SEED=N or
N-M those alone."""

import os
import random
import unittest

import numpy as np

import heddle_test as h
import test_shapes

TOLERANCE = 1e-5
FLOOR = 1e-3  # Of the norm of all gradients.
WORDS = 5  # Tokens of the vocabulary.
# Seeds of an everyday run: bits with lengths, `fixed` with a causal mask, and `variable`
# with queries that share keys.
SHORT, LONG = (5, 6, 7), range(60)
SHORT_MESHES, LONG_MESHES = (1, 3), range(40)


def log_uniform(pick, low, high):
    return round(low * (high / low) ** pick.random())


# --- layouts ----------------------------------------------------------------

def draw_options(pick, mode, blocks):
    """Flags of `heddle layout` for one of its modes."""
    flags = []

    def add(name, value):
        flags.extend([f"--{name}", str(value)])

    if mode in ("fixed", "variable", "bigbird", "bslongformer"):
        if pick.random() < 0.4:
            add("attention", "unidirectional")
    if mode in ("bigbird", "bslongformer", "local"):
        add("num-sliding-window-blocks", pick.randint(1, max(1, blocks)))
    if mode in ("variable", "bigbird"):
        # The first row of a unidirectional layout has one block to draw from.
        most = 1 if mode == "bigbird" and "unidirectional" in flags else 3
        add("num-random-blocks", pick.randint(0, max(0, min(most, blocks - 1))))
        add("seed", pick.randint(0, 99))
    if mode == "fixed":
        local = pick.choice([size for size in (1, 2, 4) if size <= blocks])
        add("num-local-blocks", local)
        add("num-global-blocks", pick.choice([size for size in (1, 2) if local % size == 0]))
    if mode == "bigbird":
        add("num-global-blocks", pick.randint(1, max(1, min(2, blocks))))
    if mode == "variable":
        add("local-window-blocks", ",".join(
            str(pick.randint(1, 4)) for _ in range(pick.randint(1, 3))))
    if mode in ("variable", "bslongformer"):
        add("global-block-indices", pick.randint(0, blocks - 1))
    if mode != "local" and mode != "dense" and pick.random() < 0.5:
        flags.append("--different-layout-per-head")
    return flags


MODES = ["fixed", "variable", "bigbird", "bslongformer", "local", "bits"]


def draw_layout(pick, mode, heads, seq, block, path):
    """A layout [heads or 1, blocks, blocks], from `heddle layout` or drawn bit by bit."""
    blocks = -(-seq // block)
    if mode == "bits":
        rng = np.random.default_rng(pick.randint(0, 1 << 30))
        bits = rng.random((pick.choice([1, heads]), blocks, blocks)) < pick.choice(
            [0.05, 0.2, 0.5, 0.9])
        # Otherwise some queries see nothing.
        return bits | (np.eye(blocks, dtype=bool) & (pick.random() < 0.5))
    h.run([h.HEDDLE, "layout", mode, "--heads", heads, "--seq", blocks * block,
           "--block", block, "-o", path, *draw_options(pick, mode, blocks)])
    return h.read_safetensors(path)["layout"].astype(bool)


# --- one attention ----------------------------------------------------------

def draw_attention(seed):
    pick = random.Random(seed)
    most = 1 << (25 if h.LONG else 21)  # Scores of a row, in all heads.
    block = pick.choice([16, 32, 64, 128])
    seq = log_uniform(pick, max(100, 3 * block), 4096 if h.LONG else 700)
    kv = pick.choice([1, 1, 2, 3])
    heads = kv * pick.choice([1, 2, 4])
    while heads * seq * seq > most and heads > 1:
        kv, heads = 1, heads - 1
    return dict(pick=pick, mode=MODES[seed % len(MODES)], block=block, seq=seq, kv=kv,
                heads=heads, size=pick.choice([8, 16, 24, 32, 40, 64, 80]),
                causal=pick.random() < 0.5, rows=pick.choice([1, 1, 2]))


def packed(layout):
    """The bits of each row as words of 32."""
    blocks = layout.shape[2]
    words = -(-blocks // 32)
    bits = np.zeros((*layout.shape[:2], words * 32), np.uint8)
    bits[:, :, :blocks] = layout
    return np.packbits(bits, axis=2, bitorder="little").view("<i4")


def literal(values):
    if values.ndim == 0:
        return str(values)
    return "[" + ", ".join(map(literal, values)) + "]"


def tensor(*shape, kind="f32"):
    return "tensor<" + "".join(f"{size}x" for size in shape) + kind + ">"


def module(c, layout):
    """Queries, keys and values by position; the token is added to its query."""
    seq, q, kv = c["seq"], c["heads"] * c["size"], c["kv"] * c["size"]
    words = packed(layout)
    layout_type, ids = tensor(*words.shape, kind="i32"), tensor(1, seq, kind="i32")
    shapes = {"q": (seq, q), "k": (seq, kv), "v": (seq, kv), "tokens": (WORDS, q),
              "head": (q, WORDS)}
    lines = [f"%{name}s = nn.get @{name} : {tensor(*shape)}"
             for name, shape in shapes.items()]
    lines += [f"%layout = nn.get @layout : {layout_type}",
              f"%at = nn.positions : () -> {ids}"]
    for name, index in (("q", "at"), ("k", "at"), ("v", "at"), ("tokens", "ids")):
        made = tensor(1, seq, shapes[name][1])
        lines.append(f"%{name} = nn.embedding %{name}s[%{index}] : "
                     f"({tensor(*shapes[name])}, {ids}) -> {made}")
    mask = "causal" if c["causal"] else "full"
    wide, narrow = tensor(1, seq, q), tensor(1, seq, kv)
    lines += [
        f"%x = nn.add %q, %tokens : {wide}",
        f"%y, %lse = nn.attention %x, %k, %v lengths %n layout %layout {{heads = #nn.heads"
        f"<{c['heads']}, kv = {c['kv']}, scale = {c['size'] ** -0.5!r}>, mask = #nn.mask"
        f"<{mask}, block = {c['block']}, density = {float(layout.mean())!r}>}} : ({wide}, "
        f"{narrow}, {narrow}, {tensor(1, kind='i32')}, {layout_type}) -> ({wide}, "
        f"{tensor(1, c['heads'], seq)})",
        f"%logits = nn.linear %y, %heads : ({wide}, {tensor(q, WORDS)}) -> "
        f"{tensor(1, seq, WORDS)}",
        f"nn.return %logits : {tensor(1, seq, WORDS)}"]
    states = "".join(f"  nn.state @{name} role parameter : {tensor(*shape)}\n"
                     for name, shape in shapes.items())
    return shapes, (
        'nn.model @one family "one" phase "forward" attributes {\n'
        '    strategy = #dist.strategy<{}>, config = "{}",\n'
        f"    weights = {{max_positions = {seq} : i64}}}} {{\n"
        f"  nn.state @layout role constant : {layout_type} "
        f"{{value = dense<{literal(words)}> : {layout_type}}}\n{states}"
        f"  nn.func @forward(%ids: {ids}, %n: {tensor(1, kind='i32')}) -> "
        f"{tensor(1, seq, WORDS)}\n      attributes {{inputs = [#nn.port<ids>, "
        "#nn.port<lengths>], outputs = [#nn.port<logits>]} {\n"
        + "".join(f"    {line}\n" for line in lines) + "  }\n}\n")


def reference(c, layout, weights, inputs):
    """Logits, loss and gradients in PyTorch, in float64."""
    import oracle
    import torch
    w = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
         for name, value in weights.items()}
    ids, labels, lengths = (torch.as_tensor(inputs[name].astype(np.int64))
                            for name in ("ids", "labels", "lengths"))
    seq = c["seq"]

    def heads(x):
        return x.unflatten(-1, (-1, c["size"])).transpose(-3, -2)

    q = heads(w["q"] + w["tokens"][ids])
    k, v = (heads(w[name]).repeat_interleave(c["heads"] // c["kv"], 0) for name in "kv")
    wide = layout.repeat(c["block"], 1).repeat(c["block"], 2)[:, :seq, :seq]
    seen = torch.from_numpy(np.broadcast_to(wide, (c["heads"], seq, seq)).copy())
    if c["causal"]:
        seen = seen.tril()
    seen = seen & (torch.arange(seq) < lengths[:, None])[:, None, None]
    scores = q @ k.transpose(-1, -2) * c["size"] ** -0.5
    mixed = oracle.softmax_of_seen(scores, ~seen) @ v
    logits = mixed.transpose(1, 2).flatten(2) @ w["head"]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    return logits.detach().numpy(), loss.item(), {
        name: value.grad.numpy() for name, value in w.items()}


@h.needs_torch
class DrawnLayouts(h.HeddleTest):
    takes_long = True

    def seeds(self, short, long):
        if "HEDDLE_TEST_SEED" in os.environ:
            first, _, last = os.environ["HEDDLE_TEST_SEED"].partition("-")
            return range(int(first), int(last or first) + 1)
        return long if h.LONG else short

    def draw_inputs(self, c, rng):
        rows, seq = c["rows"], c["seq"]
        full = c["pick"].random() < 0.5
        return {"ids": rng.integers(0, WORDS, (rows, seq)).astype(np.int32),
                "labels": rng.integers(0, WORDS, (rows, seq)).astype(np.int32),
                "lengths": (np.full(rows, seq) if full else
                            rng.integers(1, seq + 1, rows)).astype(np.int32)}

    def check(self, seed):
        c = draw_attention(seed)
        rng = np.random.default_rng(seed)
        layout = draw_layout(c["pick"], c["mode"], c["heads"], c["seq"], c["block"],
                             self.path("layout.safetensors"))
        if c["causal"]:
            layout = np.tril(layout)
        shapes, text = module(c, layout)
        weights = {name: (rng.standard_normal(shape) * (c["heads"] * c["size"]) ** -0.5
                          if name == "head" else rng.standard_normal(shape)
                          ).astype(np.float32) for name, shape in shapes.items()}
        h.write_model(self.path("weights"), {"vocab_size": WORDS}, weights, prefix="")
        with open(self.path("one.mlir"), "w") as file:
            file.write(text)
        binary = self.compile(self.path("one.mlir"), "--weights", self.path("weights"),
                              "--batch", c["rows"], "--seq", c["seq"], "--threads", 2,
                              "--keep", "logits,grads", config=h.ds_config())
        inputs, dump = self.draw_inputs(c, rng), self.path("dump.safetensors")
        h.write_safetensors(self.path("inputs.safetensors"), inputs)
        self.train(binary, self.path("inputs.safetensors"), 1, "--dump", dump)
        ours = h.read_safetensors(dump)
        logits, loss, grads = reference(c, layout, weights, inputs)
        self.assert_close(ours["logits"], logits, TOLERANCE, "logits")
        self.assertLessEqual(abs(float(ours["loss"]) / loss - 1), TOLERANCE)
        total = np.sqrt(sum((grad ** 2).sum() for grad in grads.values()))
        for name, grad in grads.items():
            error = h.relative(ours["grad." + name], grad, FLOOR * total)
            self.assertLessEqual(error, TOLERANCE, name)

    def test_one_attention(self):
        for seed in self.seeds(SHORT, LONG):
            with self.subTest(seed=seed, drawn=draw_attention(seed)):
                self.check(seed)


# --- meshes -----------------------------------------------------------------

PLACES = ["optimizer=host", "optimizer=file", "parameters=file", "gradients=host",
          "activations=host", "optimizer=file,parameters=file"]


def draws(seed):
    """What test_shapes.py draws, with longer sequences, of which more are split. Adds the
    flag of the layout, whose value is what draws it, and flags of the mesh alone."""
    pick = random.Random(seed)
    for options, plan, _, divided in test_shapes.draws(seed):
        mesh = plan["mesh"]
        if pick.random() < 0.4 and not {"seq", "pipe"} & mesh.keys():
            plan["batch"] //= mesh.get("data", 1)
            plan["mesh"] = mesh = {"seq": 2}
        block = pick.choice([16, 16, 32])
        # Rings need shards of whole blocks.
        unit = mesh.get("seq", 1) * (block if pick.random() < 0.8 else 1)
        plan["seq"] = -(-log_uniform(pick, 20, 200) // unit) * unit
        options["positions"] = plan["seq"]
        if test_shapes.work_of(options, plan) > (2e9 if h.LONG else 3e8):
            continue
        layout = pick.choice(MODES), block, pick.randint(0, 1 << 30)
        own = ["--place", pick.choice(PLACES)] if pick.random() < 0.4 else []
        yield options, plan, "fp32", divided, ["--attention-layout", layout], own


@h.needs_mpi
class DrawnMeshes(test_shapes.ShapesTest):
    draws = staticmethod(draws)

    def check(self, seed, options, plan, precision, divided, shared=(), own=()):
        mode, block, drawn = shared[1]
        path = self.path(f"{seed}.safetensors")
        pick, heads, seq = random.Random(drawn), options["heads"], plan["seq"]
        layout = np.tril(draw_layout(pick, mode, heads, seq, block, path))
        if (layout == np.tril(np.ones_like(layout))).all():  # It would compile as dense.
            layout = np.tril(draw_layout(pick, "bits", heads, seq, block, path))
            layout = np.repeat(layout, heads // len(layout), 0)
        h.write_safetensors(path, {"layout": layout.astype(np.uint8)},
                            metadata={"block": str(block)})
        super().check(seed, options, plan, precision, divided, [shared[0], path], own)

    def test_have_the_numbers_of_one_rank(self):
        self.check_seeds(LONG_MESHES if h.LONG else SHORT_MESHES)


if __name__ == "__main__":
    unittest.main()
