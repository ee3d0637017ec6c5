# Every mesh gives the numbers of one rank.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One model on many meshes, with every ZeRO stage, schedule, accumulation and
recomputation: losses, gradient norms and final weights are one rank's.
HEDDLE_TEST_LONG=1 takes all combinations and draws many more at random;
HEDDLE_TEST_SEED=N draws one."""

import os
import random
import shutil
import unittest

import numpy as np

import heddle_test as h

STEPS, BATCH, SEQ = 20, 8, 16
MODEL = dict(vocab=97, positions=SEQ, embed=32, layers=4, heads=4)


def flags_of(mesh, zero=0, schedule="1f1b", accumulate=1, recompute="none",
             sequence_parallel=False, virtual_stages=1, context="ulysses",
             tuned=None, batch=BATCH, seq=SEQ, threads=1, layout=None,
             collectives="fixed"):
    """The flags of compile for a plan of `batch` rows. `tuned` goes into the
    section zero_optimization of the configuration instead."""
    micro = batch // accumulate // mesh.get("data", 1)
    flags = ["--batch", batch, "--micro-batch", micro, "--seq", seq, "--threads",
             threads, "--zero", zero, "--accumulate", accumulate, "--recompute",
             recompute, "--collectives", collectives]
    if mesh:
        flags += ["--mesh", ",".join(f"{axis}={size}" for axis, size in mesh.items())]
    if mesh.get("pipe", 1) > 1:
        flags += ["--schedule", schedule]
    if virtual_stages > 1:
        flags += ["--virtual-stages", virtual_stages]
    if layout:
        flags += ["--pipeline-layout", ",".join(map(str, layout))]
    if sequence_parallel:
        flags += ["--sequence-parallel"]
    if context != "ulysses":
        flags += ["--context", context]
    return flags


def ranks_of(mesh):
    return int(np.prod(list(mesh.values()) or [1]))


def combinations():
    """Meshes of up to 8 ranks and what goes with them."""
    found = []
    for zero in range(4):
        found += [dict(mesh={"data": 2}, zero=zero, accumulate=a) for a in (1, 2)]
        found += [dict(mesh={"data": 4}, zero=zero, accumulate=2, recompute="full"),
                  dict(mesh={"data": 2, "tensor": 2}, zero=zero, accumulate=2),
                  dict(mesh={"data": 2, "seq": 2}, zero=zero, accumulate=2),
                  dict(mesh={"seq": 2}, zero=zero),
                  dict(mesh={"data": 2, "pipe": 2}, zero=zero, accumulate=4),
                  dict(mesh={"data": 2, "pipe": 2}, zero=zero, accumulate=2,
                       schedule="gpipe", recompute="selective"),
                  dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, zero=zero,
                       accumulate=2),
                  dict(mesh={"seq": 2, "tensor": 2, "pipe": 2}, zero=zero,
                       accumulate=4)]
    for tensor in (2, 4):
        found += [dict(mesh={"tensor": tensor}),
                  dict(mesh={"tensor": tensor}, accumulate=2, recompute="full"),
                  dict(mesh={"tensor": tensor}, sequence_parallel=True),
                  dict(mesh={"tensor": tensor}, sequence_parallel=True,
                       recompute="full", accumulate=2)]
    for schedule in ("gpipe", "1f1b"):
        for accumulate in (2, 8):
            found += [dict(mesh={"pipe": 2}, schedule=schedule, accumulate=accumulate),
                      dict(mesh={"pipe": 4}, schedule=schedule, accumulate=accumulate)]
        found += [dict(mesh={"pipe": 4, "tensor": 2}, schedule=schedule, accumulate=4),
                  dict(mesh={"pipe": 2}, schedule=schedule, accumulate=4,
                       recompute="full")]
    found += [dict(mesh={"pipe": 2}, schedule="interleaved", accumulate=4,
                   virtual_stages=2),
              dict(mesh={"pipe": 2, "data": 2}, schedule="interleaved", accumulate=4,
                   virtual_stages=2, zero=2),
              dict(mesh={"data": 2, "tensor": 2}, sequence_parallel=True, zero=3),
              dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, sequence_parallel=True,
                   zero=1, accumulate=4),
              dict(mesh={"data": 2, "tensor": 2, "seq": 2}, zero=2),
              dict(mesh={"pipe": 2, "data": 2}, schedule="zb-h1", accumulate=4, zero=2),
              dict(mesh={"pipe": 4}, schedule="zb-h1", accumulate=4,
                   recompute="full")]
    found += [dict(context="ring", **each) for each in
              (dict(mesh={"seq": 2}), dict(mesh={"seq": 8}, recompute="full"),
               dict(mesh={"seq": 4}, zero=2, accumulate=2),
               dict(mesh={"seq": 4, "tensor": 2}, recompute="selective"),
               dict(mesh={"seq": 2, "tensor": 2}, sequence_parallel=True, zero=3),
               dict(mesh={"seq": 2, "data": 2, "pipe": 2}, zero=3, accumulate=2),
               dict(mesh={"seq": 2, "pipe": 2, "tensor": 2}, zero=1, accumulate=4))]
    # Parameters that stay whole, or gathered; nothing gathered ahead.
    found += [dict(zero=3, **each) for each in
              (dict(mesh={"data": 2}, accumulate=2,
                    tuned={"stage3_param_persistence_threshold": 1000}),
               dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, accumulate=2,
                    tuned={"stage3_param_persistence_threshold": 3000,
                           "stage3_model_persistence_threshold": 5000}),
               dict(mesh={"data": 2, "seq": 2}, accumulate=2,
                    tuned={"stage3_max_reuse_distance": 0,
                           "stage3_prefetch_bucket_size": 0}))]
    # The halves of a backward pass keep sums over tensor in slots.
    found += [dict(mesh={"tensor": 2, "pipe": 2}, schedule="zb-h1", accumulate=4)]
    return found


# A part of the combinations that meets every kind of collective.
SHORT = [0, 7, 3, 24, 36, 28, 42, 46, 50, 65, 69, 72, 75, 77]


def draw(seed):
    """A combination at random."""
    pick = random.Random(seed)
    while True:
        mesh = {axis: pick.choice([1, 1, 2, 4]) for axis in
                ("data", "tensor", "seq", "pipe")}
        mesh = {axis: size for axis, size in mesh.items() if size > 1}
        accumulate = pick.choice([1, 2, 4, 8])
        rows = BATCH // accumulate // mesh.get("data", 1)
        heads = mesh.get("tensor", 1) * mesh.get("seq", 1)
        if 2 <= ranks_of(mesh) <= 8 and rows >= 1 and heads <= MODEL["heads"]:
            break
    drawn = dict(mesh=mesh, zero=pick.choice([0, 1, 2, 3]), accumulate=accumulate,
                 schedule=pick.choice(["1f1b", "gpipe", "zb-h1"]),
                 recompute=pick.choice(["none", "selective", "full"]),
                 sequence_parallel="tensor" in mesh and pick.random() < 0.5,
                 context=pick.choice(["ulysses", "ring"]))
    if mesh.get("pipe") == 2 and accumulate > 1 and pick.random() < 0.4:
        drawn.update(schedule="interleaved", virtual_stages=2)
    if drawn["zero"] == 3 and pick.random() < 0.6:
        drawn["tuned"] = h.draw_zero3_limits(pick)
    return drawn


@h.needs_mpi
class Parallel(h.HeddleTest):
    def reference(self, **options):
        """One rank's model, data, steps and weights."""
        model, config, _ = self.make_model(**MODEL, **options)
        data, _ = self.make_tokens(BATCH * SEQ * STEPS + 1, config["vocab_size"])
        # Gradients that are zero in theory (the keys' biases) are noise: a larger
        # eps keeps Adam from making updates of it.
        settings = h.ds_config(lr=3e-3, clip=0.5, eps=1e-5)
        # Parts of two rows, as on most meshes, and so with kernels in common.
        binary = self.compile(model, *flags_of({}, accumulate=4), config=settings,
                              output="one")
        steps = self.train(binary, data, STEPS, "--save", self.path("one-saved"))
        losses = [step["loss"] for step in steps]
        self.assertLess(losses[-1], losses[0])
        self.assertGreater(steps[0]["grad_norm"], 0.5, "clipping is not active")
        return model, data, settings, steps, h.read_saved(self.path("one-saved"))

    def check(self, reference, combination):
        model, data, settings, expected, weights = reference
        settings = dict(settings,
                        zero_optimization=combination.get("tuned", {}))
        binary = self.compile(model, *flags_of(**combination), config=settings)
        saved = self.path("saved")
        shutil.rmtree(saved, ignore_errors=True)
        steps = self.train(binary, data, STEPS, "--save", saved,
                           ranks=ranks_of(combination["mesh"]))
        for key in ("loss", "grad_norm"):
            np.testing.assert_allclose([step[key] for step in steps],
                                       [step[key] for step in expected], rtol=1e-5,
                                       err_msg=key)
        mine = h.read_saved(saved)
        self.assertEqual(mine.keys(), weights.keys())
        for name in weights:
            self.assertLessEqual(h.relative(mine[name], weights[name]), 1e-5, name)

    def test_every_mesh_gives_the_numbers_of_one_rank(self):
        every = combinations()
        reference = self.reference()
        for index in range(len(every)) if h.LONG else SHORT:
            with self.subTest(index=index, **every[index]):
                self.check(reference, every[index])

    def test_masks_of_dropout_are_the_same_bits(self):
        every = [dict(mesh={"data": 2}, zero=2, accumulate=2),
                 dict(mesh={"tensor": 2}, accumulate=4), dict(mesh={"seq": 2}, accumulate=4),
                 dict(mesh={"tensor": 2}, sequence_parallel=True, accumulate=4),
                 dict(mesh={"pipe": 2}, accumulate=4),
                 dict(mesh={"data": 2, "tensor": 2, "pipe": 2}, accumulate=2),
                 dict(mesh={"seq": 2, "tensor": 2}, context="ring", accumulate=4)]
        reference = self.reference(dropout=0.1, name="dropping")
        for combination in every if h.LONG else every[1:4] + every[5:]:
            with self.subTest(**combination):
                self.check(reference, combination)

    def test_gradients_travel_in_their_type(self):
        model, data, settings, expected, _ = self.reference()
        sums = ["all_reduce", "reduce_scatter"]
        for zero in range(4) if h.LONG else (1, 2):
            bytes_sent = {}
            for wire in ("fp32", "bf16", "fp16"):
                binary = self.compile(model, *flags_of({"data": 2}, zero, accumulate=2),
                                      "--precision", "bf16",
                                      "--communication-data-type", wire,
                                      config=settings)
                bytes_sent[wire] = sum(each["bytes_sent"] for each in
                                       self.explain(binary)["communication"]
                                       if each["kind"] in sums)
                steps = self.train(binary, data, STEPS, ranks=2)
                np.testing.assert_allclose([step["loss"] for step in steps],
                                           [step["loss"] for step in expected],
                                           rtol=1e-2, err_msg=f"{zero} {wire}")
            # The loss and the norm travel in fp32.
            self.assertAlmostEqual(bytes_sent["bf16"] / bytes_sent["fp32"], 0.5,
                                   delta=0.01)
            self.assertEqual(bytes_sent["bf16"], bytes_sent["fp16"])

    def test_the_budget_bounds_what_is_gathered_ahead(self):
        model, config, _ = self.make_model("budget", **MODEL)
        data, _ = self.make_tokens(BATCH * SEQ * 3 + 1, config["vocab_size"])
        flags = flags_of({"data": 2}, zero=3, accumulate=2)
        binary = self.compile(model, *flags)
        peak = self.explain(binary)["memory"]["peak"]
        steps = self.train(binary, data, 3, ranks=2)
        binary = self.compile(model, *flags, "--memory-budget", peak - 1)
        self.assertLess(self.explain(binary)["memory"]["peak"], peak)
        later = self.train(binary, data, 3, ranks=2)
        for key in ("loss", "grad_norm"):
            self.assertEqual([step[key] for step in steps],
                             [step[key] for step in later])

    def test_a_vocabulary_and_rows_that_do_not_divide(self):
        options = dict(MODEL, vocab=101, embed=36, heads=2)
        model, config, _ = self.make_model("odd", **options,
                                           tie_word_embeddings=False)
        data, _ = self.make_tokens(BATCH * SEQ * 3 + 1, config["vocab_size"])
        one = self.train(self.compile(model, *flags_of({}, accumulate=4)), data, 3)
        for mesh, accumulate in (({"tensor": 2}, 4), ({"data": 4, "tensor": 2}, 1)):
            binary = self.compile(model, *flags_of(mesh, zero=3, accumulate=accumulate))
            steps = self.train(binary, data, 3, ranks=ranks_of(mesh))
            np.testing.assert_allclose([step["grad_norm"] for step in steps],
                                       [step["grad_norm"] for step in one], rtol=1e-5)

    def test_drawn_at_random(self):
        seeds = range(160 if h.LONG else 1)
        if "HEDDLE_TEST_SEED" in os.environ:
            seeds = [int(os.environ["HEDDLE_TEST_SEED"])]
        reference = self.reference(tie_word_embeddings=False, name="untied")
        for seed in seeds:
            with self.subTest(seed=seed, **draw(seed)):
                self.check(reference, draw(seed))


if __name__ == "__main__":
    unittest.main()
