# What ranks send and hold is what the plan says, and what the formulas say.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole training runs under a preloaded library that counts what MPI is asked to
send (test/Runtime/Comm/Interposer.c). For every rank, kind of collective and
axes the bytes of a step are those of `heddle explain`, and these are made from
the model's shapes by the formulas below: in elements, for a step of M
micro-batches, n replicas of Ψ parameters, and parts of b rows, s tokens and h
features on t tensor ranks.

  --zero 0, 1        2 Ψ (n-1)/n
  --zero 2           (M+1) Ψ (n-1)/n
  --zero 3           3 M Ψ (n-1)/n, less M Ψ' (n-1)/n for the Ψ' of embeddings,
                     positions and the last norm, which are gathered once
  tensor             8 bsh (t-1)/t of each layer and micro-batch; 2 more with
                     --recompute full, which forms one of the forward sums again;
                     2 more with --sequence-parallel for the products' inputs, of
                     which the 1 that recomputation gathers again is a part
  seq (Ulysses)      8 bsh (S-1)/S of each layer and micro-batch, s a rank's part;
                     12 with --recompute full
  seq (ring)         (6S-4) bsh of each layer and micro-batch; 2 (S-1) more with
                     --recompute full
  pipe               bsh of each boundary, micro-batch and direction

Where parts do not divide, what is padded is counted apart. The memory of every
rank is the plan's, and the bytes of states fall as ZeRO says.
HEDDLE_TEST_LONG=1 takes all cases."""

import math
import os
import shutil
import unittest
from collections import Counter

import heddle_test as h
from test_parallel import BATCH, SEQ, flags_of, ranks_of

INTERPOSER = os.path.join(h.BUILD, "test", "Runtime", "Comm", "Interposer.so")
MODEL = dict(vocab=96, positions=SEQ, embed=128, layers=4, heads=4)
KINDS = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "rotate"]
AXES = {8: "pipe", 4: "data", 2: "seq", 1: "tensor"}
COLLECTIVES, CHANNELS = 0x1000, 0x2000  # As in Tags.h.
BLOCK = 65536  # Elements whose squares are added up at once for the norm.


def up_to(value, step):
    return (value + step - 1) // step * step


class Prediction:
    """What one rank sends in a step and which states it holds, from the model's
    shapes alone. `sent` maps (axes, kind, reason) to bytes; without `padded` these
    are those of the formulas."""

    def __init__(self, config, mesh, rank, zero=0, accumulate=1, recompute="none",
                 sequence_parallel=False, schedule="1f1b", virtual_stages=1,
                 precision="fp32", context="ulysses", padded=True):
        self.padded, self.precision = padded, precision
        self.config, self.zero, self.micro_batches = config, zero, accumulate
        self.mesh = {axis: mesh.get(axis, 1) for axis in AXES.values()}
        self.place, rest = {}, rank
        for axis in ("tensor", "seq", "data", "pipe"):
            self.place[axis] = rest % self.mesh[axis]
            rest //= self.mesh[axis]
        self.stage, self.stages = self.place["pipe"], self.mesh["pipe"]
        self.tensor = self.mesh["tensor"]
        self.recompute, self.virtual = recompute, virtual_stages
        self.shares_tokens, self.context = sequence_parallel, context
        self.width = {"fp32": 4, "bf16": 2}[precision]
        self.replica_axes = [axis for axis in ("data", "seq") if self.mesh[axis] > 1]
        self.replicas = self.mesh["data"] * self.mesh["seq"]
        if self.replicas == 1:
            self.zero = 0
        rows = BATCH // accumulate // self.mesh["data"]
        self.tokens = rows * SEQ // self.mesh["seq"]
        self.layers = config["n_layer"] // self.stages
        self.sent = Counter()
        self.buckets = self.buckets_of_stage()
        self.add_replicas()
        self.add_tensor()
        self.add_attention()
        self.add_pipe()
        self.add_scalars()

    # --- what there is --------------------------------------------------------

    def buckets_of_stage(self):
        """Elements on this rank of every bucket, whole over the replicas: {(name, in
        a layer, split over tensor): elements}."""
        buckets = Counter()
        last = self.stage == self.stages - 1
        chunk = self.layers // self.virtual
        for name, shape in h.gpt2_shapes(self.config).items():
            module = name.rsplit(".", 1)[0]
            layer = name.startswith("h.")
            if layer:
                module = ".".join(name.split(".")[:2])
                number = int(name.split(".")[1]) // chunk
                if number % self.stages != self.stage:
                    continue
            elif module in ("wte", "wpe") and self.stage != 0:
                if module == "wpe" or not last:
                    continue
            elif module == "ln_f" and not last:
                continue
            split = self.tensor > 1 and (module == "wte" or name.split(".", 2)[-1] in (
                "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
                "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight"))
            if self.zero < 2:
                module, layer = "", True
            # What is split has a dimension that divides, or is the vocabulary.
            parts = self.tensor if split else 1
            rows = up_to(shape[0], parts) if module == "wte" else shape[0]
            count = rows * math.prod(shape[1:]) // parts
            if not self.padded:
                count = math.prod(shape) / parts
            buckets[module + (".tensor" if split else ""), layer, split] += self.pad(
                count, 64)
        return {key: self.pad(count, 64 * self.replicas)
                for key, count in buckets.items()}

    def pad(self, elements, step):
        return up_to(elements, step) if self.padded else elements

    def states(self):
        """Bytes by owner: a flat run of each bucket, and of its part of it."""
        whole = sum(self.buckets.values())
        part = whole // self.replicas
        z, copies = self.zero, self.precision == "bf16"
        # Gradients that nothing is added to are kept as they are sent.
        alone = self.micro_batches == 1 and self.stages == 1
        gradient = self.width if alone and self.replicas > 1 else 4
        master = part if z >= (1 if copies else 3) else whole
        copy = part if z == 3 else whole
        states = {"parameters": 4 * master,
                  "gradients": gradient * (part if z >= 2 else whole),
                  # And two powers and the count of updates in f64, and the number of bad
                  # steps in f32, each as a state of 64 numbers.
                  "optimizer": 8 * (part if z >= 1 else whole) + 3 * 64 * 8 + 64 * 4}
        if copies:
            states["parameters in compute precision"] = 2 * copy
        return states

    # --- collectives ----------------------------------------------------------

    def add(self, axes, kind, reason, elements, width, times=1):
        """A collective of so many elements: of the whole for an all_reduce, a
        reduce_scatter and an all_gather, of a rank's part for an all_to_all and a
        rotate."""
        axes = [axis for axis in axes if self.mesh[axis] > 1]
        ranks, place = 1, 0
        for axis in axes:
            ranks *= self.mesh[axis]
            place = place * self.mesh[axis] + self.place[axis]
        if ranks == 1:
            return
        if kind == "all_reduce":
            piece = -(-elements // ranks)
            own = max(0, min(piece, elements - place * piece))
            elements = elements - own + own * (ranks - 1)
        elif kind != "rotate":
            elements = elements * (ranks - 1) / ranks
        self.sent[",".join(sorted(axes)), kind, reason] += elements * width * times

    def add_replicas(self):
        axes, m = self.replica_axes, self.micro_batches
        for (name, layer, split), elements in self.buckets.items():
            # Of what tensor ranks share tokens for, they have parts of the sum.
            over = ["tensor"] if self.shares_tokens and not split else []
            if self.zero == 0:
                self.add(axes + over, "all_reduce", "nn.update", elements, self.width)
            elif self.zero == 1:
                self.add(axes, "reduce_scatter", "nn.update", elements, self.width)
                self.add(over, "all_reduce", "nn.update", elements // self.replicas,
                         self.width)
            else:
                self.add(axes, "reduce_scatter", name, elements, self.width, m)
            if self.zero in (1, 2):
                self.add(axes, "all_gather", "nn.set", elements, self.width)
            if self.zero == 3:
                # Forward and backward; what is outside of layers stays between.
                self.add(axes, "all_gather", name, elements, self.width,
                         m * (2 if layer else 1))

    def add_tensor(self):
        """A sum over the tensor ranks is an all_reduce, or a reduce_scatter and
        an all_gather where they share the tokens out."""
        layers, m = self.layers, self.micro_batches
        first, last = self.stage == 0, self.stage == self.stages - 1
        hidden = self.tokens * self.config["n_embd"]
        again = 1 if self.recompute == "full" else 0

        def add(kind, reason, times, elements=hidden, width=self.width):
            self.add(["tensor"], kind, reason, elements, width, times * m)

        whole = "reduce_scatter" if self.shares_tokens else "all_reduce"
        add(whole, "nn.add", 1 if first else 0)
        add(whole, "nn.add_bias", (2 + again) * layers)
        add(whole, "nn.layer_norm_grad_weight", 2 * layers + (1 if last else 0))
        if self.shares_tokens:
            # Inputs of products: forward, and again for the weights' gradients;
            # gradients of outputs. The head has its input once.
            add("all_gather", "nn.linear",
                (4 + 2 * again) * layers + (1 if last else 0))
            add("all_gather", "nn.linear_grad_weight", 2 * (1 - again) * layers)
            add("all_gather", "nn.embedding_grad", 1 if first else 0)
            if self.zero >= 2:
                self.add_whole_gradients()
        if last:  # The statistics of the logits, a float each.
            add("all_gather", "nn.cross_entropy", 1, self.tokens * self.tensor, 4)
            add("all_reduce", "nn.cross_entropy", 1, self.tokens, 4)

    def add_whole_gradients(self):
        """Of parameters that are not split each tensor rank has a part of the sum:
        over its tokens."""
        for (name, _, split), elements in self.buckets.items():
            if not split:
                self.add(["tensor"], "all_reduce", name, elements // self.replicas,
                         self.width, self.micro_batches)

    def add_attention(self):
        # q, k, v and the output, also where they are made again; backward its
        # gradient, and those of q, k and v.
        part = self.tokens * self.config["n_embd"] // self.tensor
        calls = self.layers * self.micro_batches
        again = self.recompute == "full"
        if self.context == "ring":
            # Keys and values to all others; backward their gradients, and home.
            turns = self.mesh["seq"] - 1
            self.add(["seq"], "rotate", "nn.attention", part, self.width,
                     2 * turns * (1 + again) * calls)
            self.add(["seq"], "rotate", "nn.attention_grad", part, self.width,
                     2 * (2 * turns + 1) * calls)
            return
        self.add(["seq"], "all_to_all", "nn.attention", part, self.width,
                 (8 if again else 4) * calls)
        self.add(["seq"], "all_to_all", "nn.attention_grad", part, self.width,
                 4 * calls)

    def add_pipe(self):
        if self.stages == 1:
            return
        hidden = self.tokens * self.config["n_embd"] * self.width
        if self.shares_tokens:
            hidden //= self.tensor
        first, last = self.stage == 0, self.stage == self.stages - 1
        forward = self.virtual - (1 if last else 0)
        backward = self.virtual - (1 if first else 0)
        self.sent["pipe", "send", "hidden"] = (
            (forward + backward) * hidden * self.micro_batches)
        if first or last:  # Their parts of the tied embedding's gradient.
            table = self.config["vocab_size"] * self.config["n_embd"] // self.tensor
            if self.zero >= 2:
                table //= self.replicas
            self.sent["pipe", "send", "wte"] = table * 4

    def add_scalars(self):
        """The labels that count, the loss, and the sums of squares of which the
        norm is made."""
        stages = ["pipe"] if self.stages > 1 else []
        self.add(self.replica_axes, "all_reduce", "nn.loss_scale", 1, 4)
        # The loss, which the update looks at where replicas have a share of it.
        reason = "nn.update" if self.replica_axes else "nn.return"
        without = self.sent.total()
        self.add(stages + self.replica_axes, "all_reduce", reason, 1, 4)
        self.loss = self.sent.total() - without
        for split in (False, True):
            blocks = sum(up_to(-(-elements // BLOCK), 64)
                         for (_, _, over), elements in self.buckets.items()
                         if over == split)
            axes = self.replica_axes if self.zero > 0 else []
            if split:
                axes = ["tensor"] + axes
            if blocks and not stages:
                self.add(axes, "all_reduce", "nn.global_norm", blocks, 4)
            elif blocks:
                self.add(stages + axes, "all_reduce", "nn.global_norm", 1, 4)


# What the formulas leave out: sums of scalars, statistics of logits, gradients of
# norms and biases.
SMALL = {"nn.loss_scale", "nn.global_norm", "nn.cross_entropy"}


def closed_form(config, mesh, zero=0, accumulate=1, recompute="none",
                sequence_parallel=False, context="ulysses", **_):
    """Bytes that a rank sends in a step, on a mesh of one axis, in fp32."""
    (axis, n), = mesh.items()
    sizes = {name: math.prod(shape) for name, shape in h.gpt2_shapes(config).items()}
    once = sum(size for name, size in sizes.items()
               if not name.startswith("h."))
    psi, m, layers = sum(sizes.values()), accumulate, config["n_layer"]
    bsh = BATCH // m // mesh.get("data", 1) * SEQ * config["n_embd"]
    full = recompute == "full"
    if axis == "data":
        sent = [2 * psi, 2 * psi, (m + 1) * psi, 3 * m * psi - m * once][zero]
    elif axis == "tensor":
        each = 8 + 2 * full + 2 * sequence_parallel - (full and sequence_parallel)
        sent = (each * layers + 4) * bsh * m  # 2 of the embedding, 2 of the head.
    elif axis == "seq":
        sent = (12 if full else 8) * bsh // n * layers * m
        if context == "ring":
            sent = (6 * n - 4 + 2 * (n - 1) * full) * bsh // n * layers * m * n / (n - 1)
        sent += [2 * psi, 2 * psi, (m + 1) * psi, 3 * m * psi - m * once][zero]
    return 4 * sent * (n - 1) / n


def cases():
    """Plans, the first ones for every day: most of them with parts of two rows,
    and so with kernels in common."""
    found = [dict(mesh={"data": 2}, zero=3, accumulate=2),
             dict(mesh={"tensor": 2}, sequence_parallel=True, accumulate=4),
             dict(mesh={"seq": 2}, zero=1), dict(mesh={"seq": 2}, context="ring"),
             dict(mesh={"data": 2, "tensor": 2}, sequence_parallel=True, zero=2,
                  accumulate=2, precision="bf16"),
             dict(mesh={"pipe": 2}, accumulate=4, schedule="interleaved",
                  virtual_stages=2),
             dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, zero=1, accumulate=2)]
    short = len(found)
    found += [dict(mesh={"tensor": 2}, recompute="full", accumulate=4),
              dict(mesh={"seq": 2, "tensor": 2}, sequence_parallel=True, zero=1)]
    for precision in ("fp32", "bf16"):
        for zero in range(4):
            found += [dict(mesh=mesh, zero=zero, accumulate=a, precision=precision)
                      for mesh in ({"data": 2}, {"data": 4}, {"data": 2, "tensor": 2},
                                   {"data": 2, "seq": 2}, {"data": 2, "pipe": 2})
                      for a in (1, 2) if "pipe" not in mesh or a > 1]
        for tensor in (2, 4):
            found += [dict(mesh={"tensor": tensor}, recompute=recompute,
                           sequence_parallel=shares, accumulate=2,
                           precision=precision)
                      for recompute in ("none", "full") for shares in (False, True)]
    for schedule in ("gpipe", "1f1b", "zb-h1"):
        found += [dict(mesh={"pipe": pipe}, accumulate=4, schedule=schedule)
                  for pipe in (2, 4)]
    for recompute in ("none", "full"):
        found += [dict(mesh={"seq": 4}, zero=3, recompute=recompute),
                  dict(mesh={"seq": 4}, zero=1, recompute=recompute, context="ring"),
                  dict(mesh={"seq": 2, "tensor": 2}, recompute=recompute),
                  dict(mesh={"seq": 2, "tensor": 2}, recompute=recompute,
                       sequence_parallel=True, accumulate=2),
                  dict(mesh={"seq": 2, "tensor": 2}, recompute=recompute,
                       sequence_parallel=True, context="ring")]
    found += [dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, zero=3, accumulate=2,
                   sequence_parallel=True, schedule="gpipe"),
              dict(mesh={"data": 2, "pipe": 2}, zero=3, accumulate=4,
                   schedule="interleaved", virtual_stages=2),
              dict(mesh={"data": 2, "seq": 2, "tensor": 2}, zero=2, accumulate=2)]
    return found if h.LONG else found[:short]


@h.needs_mpi
@unittest.skipUnless(os.path.exists(INTERPOSER), "the interposer is not built")
class Traffic(h.HeddleTest):
    def count(self, ranks, binary, data, steps):
        """Trains; gives what each rank sent, by (axes, kind), its control bytes,
        and the end of the log."""
        folder, log = self.path("sent"), self.path("count.jsonl")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        if os.path.exists(log):
            os.remove(log)
        h.run_ranks(ranks, [binary, "train", "--data", data, "--steps", steps, "--log",
                            log, "--progress", "none"],
                    LD_PRELOAD=INTERPOSER, HEDDLE_TRAFFIC=folder)
        sent, control = [Counter() for _ in range(ranks)], [0] * ranks
        for rank in range(ranks):
            with open(os.path.join(folder, str(rank))) as file:
                for line in file:
                    _, tag, _, size = map(int, line.split())
                    if tag >= CHANNELS:
                        sent[rank]["pipe", "send"] += size
                    elif tag >= COLLECTIVES:
                        group, kind = divmod(tag - COLLECTIVES, len(KINDS))
                        axes = sorted(name for bit, name in AXES.items()
                                      if group & bit)
                        sent[rank][",".join(axes), KINDS[kind]] += size
                    else:
                        control[rank] += size
        return sent, control, h.read_log(log, "end")[0]

    def planned(self, explained, case):
        """The plan's bytes by (axes, kind), and by (axes, kind, reason) as a
        Prediction names them."""
        by_kind, by_reason = Counter(), Counter()
        for line in explained["communication"]:
            if line["bytes_sent"] == 0:
                continue
            key = ",".join(sorted(line["axis"].split(","))), line["kind"]
            by_kind[key] += line["bytes_sent"]
            self.assertEqual(sum(r["bytes_sent"] for r in line["reasons"]),
                             line["bytes_sent"])
            for reason in line["reasons"]:
                name = reason["reason"]
                if key[1] == "send":
                    name = "wte" if "wte" in name else "hidden"
                by_reason[(*key, name)] += reason["bytes_sent"]
        return by_kind, by_reason

    def check(self, model, config, data, case):
        flags = {key: value for key, value in case.items() if key != "precision"}
        binary = self.compile(model, *flags_of(**flags), "--precision",
                              case.get("precision", "fp32"))
        ranks = ranks_of(case["mesh"])
        one, _, _ = self.count(ranks, binary, data, 1)
        three, control, end = self.count(ranks, binary, data, 3)
        padding = 0
        for rank in range(ranks):
            explained = self.explain(binary, "--rank", rank)
            by_kind, by_reason = self.planned(explained, case)
            predicted = Prediction(config, rank=rank, **case)
            self.assertEqual(by_reason, +predicted.sent)
            self.assertEqual(one[rank], by_kind)
            self.assertEqual(three[rank] - one[rank],
                             Counter({key: 2 * size for key, size in by_kind.items()}))
            memory = explained["memory"]
            self.assertEqual(end["peak_bytes"]["ranks"][rank], memory["peak"])
            for owner, size in predicted.states().items():
                self.assertEqual(memory["owners"][owner], size, owner)
            exact = Prediction(config, rank=rank, padded=False, **case)
            padding += sum(predicted.sent.values()) - sum(exact.sent.values())
        return padding

    def test_predictions_are_the_formulas(self):
        config = h.gpt2_config(**MODEL)
        shared = dict(sequence_parallel=True)
        every = [dict(mesh={axis: n}, zero=zero, accumulate=m)
                 for axis in ("data", "seq") for n in (2, 4) for zero in range(4)
                 for m in (1, 2)]
        every += [dict(mesh={axis: n}, accumulate=2, recompute=recompute, **options)
                  for axis in ("tensor", "seq") for n in (2, 4)
                  for recompute in ("none", "full")
                  for options in (({}, shared) if axis == "tensor" else
                                  ({}, dict(context="ring")))]
        for case in every:
            with self.subTest(**case):
                predicted = Prediction(config, rank=0, padded=False, **case)
                sent = sum(size for (axes, _, reason), size in predicted.sent.items()
                           if reason not in SMALL and
                           (axes, reason) != ("tensor", "nn.update"))
                self.assertEqual(sent - predicted.loss, closed_form(config, **case))

    def test_ranks_send_what_the_formulas_say(self):
        model, config, _ = self.make_model(**MODEL)
        data, _ = self.make_tokens(BATCH * SEQ * 3 + 1, config["vocab_size"])
        for case in cases():
            with self.subTest(**case):
                padding = self.check(model, config, data, case)
                if list(case["mesh"].values()) == [2]:
                    self.assertEqual(padding, 0)

    def test_what_is_padded_is_counted(self):
        model, config, _ = self.make_model(vocab=101, positions=SEQ, embed=36,
                                           layers=2, heads=2)
        data, _ = self.make_tokens(BATCH * SEQ * 3 + 1, config["vocab_size"])
        for zero in range(4) if h.LONG else [2]:
            case = dict(mesh={"data": 2, "tensor": 2}, zero=zero, accumulate=2)
            with self.subTest(**case):
                self.assertGreater(self.check(model, config, data, case), 0)


if __name__ == "__main__":
    unittest.main()
