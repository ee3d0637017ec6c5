#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer dropping on emulated GPUs: losses and norms as on the CPU, whatever the mesh,
a resumed run has the bits of one that was not interrupted, and a step launches nothing
for a layer that it drops."""

import json
import unittest

import heddle_test as h
import test_gpu
from test_gpu import ROWS, VOCAB, emulated

SEQ = 16
STEPS = 20 if h.LONG else 6
PROGRESSIVE = ["--layer-drop", "theta=0.3,gamma=0.2"]
CONSTANT = ["--layer-drop-schedule", "0.5"]

# In each case: the number of ranks, and what is compiled.
CASES = [(1, [*PROGRESSIVE, "--accumulate", 2, "--recompute", "selective"]),
         (2, [*CONSTANT, "--mesh", "data=2", "--zero", 1]),
         (2, [*CONSTANT, "--mesh", "pipe=2", "--accumulate", 2, "--schedule", "zb-h1"])]
MORE_CASES = [(1, CONSTANT), (1, PROGRESSIVE),
              (2, [*PROGRESSIVE, "--mesh", "tensor=2"]),
              (2, [*PROGRESSIVE, "--mesh", "data=2"]),
              (2, [*CONSTANT, "--mesh", "data=2", "--collectives", "fixed"]),
              (2, [*CONSTANT, "--mesh", "tensor=2", "--sequence-parallel"]),
              (2, [*PROGRESSIVE, "--mesh", "seq=2", "--context", "ring"]),
              (2, [*PROGRESSIVE, "--mesh", "pipe=2", "--accumulate", 4])]

# Rates with which no run here computes what it could drop.
NEVER = 0.999999


class LayerDropGpu(test_gpu.GpuTest):
    def setUp(self):
        self.data_of(STEPS)
        self.model, _, _ = self.make_model(vocab=VOCAB, layers=4)

    @h.needs_mpi
    def test_as_on_the_cpu(self):
        for number, (ranks, flags) in enumerate(CASES + MORE_CASES * h.LONG):
            with self.subTest(flags=flags):
                chip = ("sm_90", "sm_80")[number % 2]
                products = ["generated", *["library"] * h.LONG]
                checks = {} if "--zero" in flags else h.LIGHT
                self.assert_alike(*self.pair(self.model, *flags, target=chip, seq=SEQ,
                                             clip=0.8), STEPS, 1e-5, ranks, products, **checks)
                cpu, gpu = ([step["kept_layers"] for step in
                             h.read_log(self.path(name + ".jsonl"))]
                            for name in ("cpu", "gpu"))
                self.assertEqual(gpu, cpu)
                self.assertGreater(len(set(map(tuple, gpu))), 3)

    def test_bf16(self):
        # The mean over fewer steps says more about the steps than about rounding.
        self.assert_rounds_alike(self.model, *CONSTANT, seq=SEQ, products=("generated",),
                                 steps=10)

    def gpu(self, *flags, chip="sm_90", name="gpu"):
        return self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--target", chip,
                            *flags, output=name, config=h.ds_config())

    def test_resumes_with_the_same_bits(self):
        """As without an interruption, and as with commands that are submitted one by
        one in place of graphs."""
        gpu = emulated(self.gpu(*CONSTANT))
        whole = self.train_on(gpu, 6, "--save", self.path("whole"))
        first = self.train_on(gpu, 2, "--save", self.path("first"), **h.LIGHT)
        rest = self.train_on(gpu, 6, "--resume", self.path("first"), "--save",
                             self.path("rest"), "--no-graph", **h.LIGHT)
        for key in ("loss", "grad_norm", "kept_layers"):
            self.assertEqual([step[key] for step in whole],
                             [step[key] for step in first + rest], key)
        self.assertEqual(h.bytes_saved(self.path("whole")), h.bytes_saved(self.path("rest")))

    def counted(self, binary, kept, ranks=1):
        """What the emulated GPU of a step that keeps these layers counts."""
        path, found = self.path("counts.json"), []
        for steps in (1, 2):
            log = self.train_on(emulated(binary), steps, ranks=ranks, **h.LIGHT,
                                HEDDLE_EMULATE_COUNTS=path)
            self.assertEqual([step["kept_layers"] for step in log], [list(kept)] * steps)
            with open(path) as file:
                found.append(json.load(file))
        one, two = found
        return {"kernels": two["kernels"] - one["kernels"],
                "graphs": two["calls"]["cuGraphLaunch"] - one["calls"]["cuGraphLaunch"],
                "sent": two["sent_bytes"] - one["sent_bytes"],
                "fetched": two["copied_in_bytes"] - one["copied_in_bytes"]}

    def keeping(self, kept, *flags):
        rates = ",".join("0" if layer in kept else str(NEVER) for layer in range(4))
        return self.gpu("--layer-drop-schedule", rates, *flags)

    def launched(self, kept, *flags):
        """What a step launches that keeps these layers: kernels and graphs of the
        emulated GPU, launches of the trace. And what explain says of all steps."""
        binary, trace = self.keeping(kept, *flags), self.path("trace.json")
        counted = self.counted(binary, kept)
        self.train_on(emulated(binary), 1, "--trace", trace, **h.LIGHT)
        with open(trace) as file:
            commands = [event["args"]["command"] for event in json.load(file)["traceEvents"]]
        return ((counted["kernels"], counted["graphs"], commands.count("launch")),
                self.explain(binary)["launches"])

    def test_launches_only_what_is_kept(self):
        for flags in [[], ["--accumulate", 2, "--recompute", "full"]][:1 + h.LONG]:
            with self.subTest(flags):
                every, said = self.launched(range(4), *flags)
                none, _ = self.launched([], *flags)
                second, _ = self.launched([0, 2], *flags)
                for name, (_, graphs, launches) in (("all_kept", every), ("all_dropped", none)):
                    self.assertEqual(said[name], {"kernels": launches, "graphs": graphs})
                # Half of the layers, and the rest of the step.
                for of_all, of_none, of_half in zip(every, none, second):
                    self.assertEqual(of_half - of_none, (of_all - of_none) / 2)
                # The copies that pass an input on are no kernels.
                self.assertLess(none[0], every[0] / 2)

    @h.needs_mpi
    def test_transfers_only_what_is_kept(self):
        """With ZeRO 3 no parameter of a dropped layer is gathered, and no gradient is
        scattered."""
        flags = ["--mesh", "data=2", "--zero", 3]
        every, none, second = (self.counted(self.keeping(kept, *flags), kept, ranks=2)
                               for kept in (range(4), [], [0, 2]))
        for key in ("kernels", "sent"):
            self.assertLess(none[key], every[key] / 2)
            self.assertEqual(second[key] - none[key], (every[key] - none[key]) / 2)

    @h.long_only
    def test_fetches_only_what_is_kept(self):
        """All layers but the last are fetched twice, also for their gradients."""
        every, none, even, odd = (
            self.counted(self.keeping(kept, "--place", "parameters=host"), kept)
            for kept in (range(4), [], [0, 2], [1, 3]))
        for key in ("kernels", "fetched"):
            self.assertLess(none[key], min(even[key], odd[key]))
            self.assertEqual(even[key] + odd[key], every[key] + none[key])


if __name__ == "__main__":
    unittest.main()
