# Drawn models on drawn meshes give the numbers of one rank.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shapes that nobody would choose, each on a mesh drawn with it: losses, gradient
norms, the loss of an evaluation and final weights are one rank's. A plan that the
compiler refuses, with a code and what to change, is counted and drawn again. The
first seeds are small models; HEDDLE_TEST_LONG=1 draws 1,000, HEDDLE_TEST_SEED=N or
N-M those alone."""

import contextlib
import math
import os
import random
import re
import shutil
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import heddle_test as h
from test_parallel import flags_of, ranks_of

STEPS = 4
# Seeds of an everyday run: four tensor ranks, four stages, three replicas in bf16,
# and stages with replicas.
SHORT, LONG = (0, 2, 3, 4), range(1000)
SMALL = 60  # So many seeds draw small models.
# Seeds that once failed.
KEPT = [200, 541]
PRIMES = [n for n in range(11, 1200) if all(n % d for d in range(2, int(n**0.5) + 1))]
# How far a mesh may be from one rank, relatively.
BOUNDS = {"fp32": dict(loss=1e-5, eval=1e-5, grad_norm=1e-5, weights=1e-5),
          "bf16": dict(loss=1e-2, eval=1e-2, grad_norm=5e-2, weights=5e-2)}


def log_uniform(pick, low, high):
    return round(math.exp(pick.uniform(math.log(low), math.log(high))))


def draw_model(pick):
    heads = pick.randint(1, 12)
    head_size = log_uniform(pick, math.ceil(5 / heads), 400 // heads)
    return dict(heads=heads, embed=heads * head_size, layers=pick.randint(1, 9),
                vocab=pick.choice(PRIMES),
                n_inner=pick.choice([None, log_uniform(pick, 1, 700)]),
                tie_word_embeddings=pick.random() < 0.5,
                # Not relu: its derivative jumps where rounding makes a sign.
                activation_function=pick.choice(["gelu_new", "gelu", "silu"]),
                dropout=pick.choice([0, 0, 0.1]))


def draw_mesh(pick, model, seq):
    """Two to eight ranks, mostly few, mostly such as divide what they split."""
    most = pick.choice([2, 2, 2, 4, 4, 8])
    careless = pick.random() < 0.15
    while True:
        mesh = {axis: pick.choice([1, 1, 2, 3, 4]) for axis in
                ("data", "tensor", "seq", "pipe")}
        heads = mesh["tensor"] * mesh["seq"]
        divides = (model["heads"] % heads == 0 and seq % mesh["seq"] == 0 and
                   mesh["pipe"] <= model["layers"])
        mesh = {axis: size for axis, size in mesh.items() if size > 1}
        if 2 <= ranks_of(mesh) <= most and (divides or careless):
            return mesh


def draw_stages(pick, pipe, layers):
    """Schedule and stages."""
    if pick.random() < 0.3:
        drawn = dict(schedule="interleaved", virtual_stages=pick.choice([2, 2, 3]))
    else:
        drawn = dict(schedule=pick.choice(["1f1b", "gpipe", "zb-h1"]))
    stages = pipe * drawn.get("virtual_stages", 1)
    if stages <= layers and pick.random() < 0.3:
        cuts = sorted(pick.sample(range(1, layers), stages - 1))
        drawn["layout"] = [b - a for a, b in zip([0, *cuts], [*cuts, layers])]
    return drawn


def draw_plan(pick, model):
    """A combination as flags_of takes it, with its batch."""
    seq = pick.choice([1, 2, pick.randint(1, 100), pick.randint(1, 50) * 2])
    mesh = draw_mesh(pick, model, seq)
    plan = dict(mesh=mesh, seq=seq, zero=pick.randint(0, 3),
                recompute=pick.choice(["none", "selective", "full"]),
                accumulate=pick.choice([1, 2, 3, 4]),
                sequence_parallel="tensor" in mesh and pick.random() < 0.4,
                context=pick.choice(["ulysses", "ring"]),
                threads=pick.choice([1, 1, 2]),
                collectives=pick.choice(["fixed"] * 5 + ["library"]))
    if "pipe" in mesh:
        plan.update(draw_stages(pick, mesh["pipe"], model["layers"]))
        plan["accumulate"] *= pick.choice([1, 2])
    micro = pick.choice([1, 1, 2, 3])
    plan["batch"] = micro * plan["accumulate"] * mesh.get("data", 1)
    if plan["zero"] == 3 and pick.random() < 0.5:
        plan["tuned"] = h.draw_zero3_limits(pick)
    return plan


def work_of(model, plan):
    """Multiplications of one forward pass, about."""
    inner = model["n_inner"] or 4 * model["embed"]
    block = 4 * model["embed"]**2 + 2 * model["embed"] * inner
    head = model["vocab"] * model["embed"]
    return (model["layers"] * block + head) * plan["batch"] * plan["seq"]


def draws(seed):
    """Model, plan and precision, and what is drawn in their place after a
    refusal. What an everyday run may draw is done quickly."""
    pick = random.Random(seed)
    while True:
        model = draw_model(pick)
        plan = draw_plan(pick, model)
        model["positions"] = plan["seq"] + pick.choice([0, 0, 5])
        precision = pick.choice(["fp32", "fp32", "fp32", "bf16"])
        # One rank computes micro-batches of the same size, often with the same
        # kernels, or all rows at once.
        divided = pick.random() < 0.5 or seed < SMALL
        if seed >= SMALL or work_of(model, plan) <= 2e8:
            yield model, plan, precision, divided


def distance(actual, expected):
    """Of lists over the steps: the largest relative difference."""
    if isinstance(expected, list):
        return max(abs(a / b - 1) for a, b in zip(actual, expected, strict=True))
    return h.relative(actual, expected)


def far_from(actual, expected, bounds):
    """The names of what is not within its bound, and how far it is."""
    if actual.keys() != expected.keys():
        return {name: math.inf for name in actual.keys() ^ expected.keys()}
    errors = {name: distance(actual[name], expected[name]) for name in expected}
    return {name: error for name, error in errors.items()
            if not error <= bounds.get(name, bounds["weights"])}


class Refused(Exception):
    """The compiler says that a plan is not possible, with this code."""


@contextlib.contextmanager
def refusals():
    """Raises Refused where a user is told what to change."""
    try:
        yield
    except h.Failed as failure:
        code = re.search(r"error\[(H0[12]\d\d)\]: .*\d", str(failure))
        if not code or not re.search(r"exited with [24],", str(failure)):
            raise
        raise Refused(code[1]) from failure


class ShapesTest(h.HeddleTest):
    takes_long = True
    draws = staticmethod(draws)

    def check(self, seed, options, plan, precision, divided, shared=(), own=()):
        """Both binaries have the flags `shared`, and the one for the mesh also `own`."""
        folder = str(seed)
        os.makedirs(self.path(folder), exist_ok=True)
        model, config, _ = self.make_model(folder + "/model", seed + 1, **options)
        data, tokens = self.make_tokens(plan["batch"] * plan["seq"] * STEPS + 1,
                                        config["vocab_size"], folder + "/tokens.bin")
        # A larger eps keeps Adam from making updates of gradients that are zero
        # in theory.
        settings = h.ds_config(lr=3e-3, clip=0.5, eps=1e-5)
        settings["zero_optimization"] = plan.get("tuned", {})
        flags = ["--precision", precision, *shared]
        with refusals():
            job = self.compile(model, *flags_of(**plan), *flags, *own, config=settings,
                               output=folder + "/job")
        accumulate = plan["accumulate"] * plan["mesh"].get("data", 1) if divided else 1
        alone = flags_of({}, accumulate=accumulate, batch=plan["batch"],
                         seq=plan["seq"])
        one = self.compile(model, *alone, *flags, config=settings,
                           output=folder + "/one")
        expected = self.figures_of(one, data, 1)
        actual = self.figures_of(job, data, ranks_of(plan["mesh"]))
        far = far_from(actual, expected, BOUNDS[precision])
        if far and precision == "fp32":
            # Rounding may grow to more: the mesh must be about as near to float64
            # as one rank is.
            h.write_inputs(self.path(folder, "inputs.safetensors"), tokens, STEPS,
                           plan["batch"], plan["seq"])
            exact = self.in_float64(model, [*alone, *shared], settings, folder)
            far = {name: error for name, error in far.items() if name not in exact or
                   distance(actual[name], exact[name]) >
                   4 * distance(expected[name], exact[name])}
        self.assertEqual(far, {})
        shutil.rmtree(self.path(folder))

    def figures_of(self, binary, data, ranks):
        """What training gives: lists over the steps, and weights, by name."""
        log = os.path.basename(os.path.dirname(binary)) + "/log"
        steps = self.train(binary, data, STEPS, "--save", binary + "-saved", "--val",
                           data, "--val-every", STEPS, ranks=ranks, name=log)
        evaluations = h.read_log(self.path(log + ".jsonl"), "eval")
        return {"loss": [step["loss"] for step in steps],
                "grad_norm": [step["grad_norm"] for step in steps],
                "eval": [line["loss"] for line in evaluations],
                **h.read_saved(binary + "-saved")}

    def in_float64(self, model, flags, settings, folder):
        """The same figures, but for the evaluation, from the interpreter."""
        dump = self.path(folder, "dump")
        self.compile(model, *flags, "--dump-phases", dump, "--stop-after", "train",
                     config=settings, output=folder + "/none")
        output = dump + "/values.safetensors"
        h.run([h.HEDDLE, "eval", dump + "/train.mlir", "--inputs",
               self.path(folder, "inputs.safetensors"), "--steps", STEPS,
               "--precision", "f64", "-o", output])
        values = h.read_safetensors(output)
        exact = {name: [float(values[f"{name}@{step + 1}"]) for step in range(STEPS)]
                 for name in ("loss", "grad_norm")}
        for name, value in values.items():
            name = name.removeprefix("state.")
            exact[name if name.startswith("lm_head") else "transformer." + name] = value
        return exact

    def check_seed(self, seed):
        """Checks what the seed draws first that is not refused; gives that, the
        codes of what was refused before, and what went wrong."""
        refused = []
        for drawn in self.draws(seed):
            try:
                self.check(seed, *drawn)
            except Refused as refusal:
                refused.append(refusal.args[0])
                continue
            except Exception as error:  # Raised where the seed is named.
                return drawn, refused, error
            return drawn, refused, None

    def check_seeds(self, seeds):
        """Checks each seed, or those of HEDDLE_TEST_SEED in their place."""
        if "HEDDLE_TEST_SEED" in os.environ:
            first, _, last = os.environ["HEDDLE_TEST_SEED"].partition("-")
            seeds = range(int(first), int(last or first) + 1)
        refusals = Counter()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for seed, result in zip(seeds, pool.map(self.check_seed, seeds)):
                drawn, refused, error = result
                refusals.update(refused)
                with self.subTest(seed=seed, drawn=drawn):
                    if error:
                        raise error
        said = ", ".join(f"{code} {count}" for code, count in sorted(refusals.items()))
        print(f"drawn {len(seeds)}; refused and drawn again: {said or 'none'}")


@h.needs_mpi
class Shapes(ShapesTest):
    def test_give_the_numbers_of_one_rank(self):
        self.check_seeds([*KEPT, *(LONG if h.LONG else SHORT)])


if __name__ == "__main__":
    unittest.main()
