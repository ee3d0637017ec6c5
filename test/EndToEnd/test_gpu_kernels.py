# Every kernel of every family and plan has code for GPUs.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles models for GPUs, and reads what --verbose says of each kernel: it has
PTX, and where ptxas is found that assembles it without local memory, unless heads
have more than 128 features. Kernels that plans share are assembled once, as they are
kept in a cache. HEDDLE_TEST_LONG=1 takes the families that test_gpu.py runs, too, every
plan of test_parallel.py, with and without dropout, in fp32 and bf16, for sm_80 and sm_90,
and what test_shapes.py draws."""

import itertools
import json
import random
import re
import shutil
import unittest

import families
import heddle_test as h
import test_bert
import test_families
import test_parallel
import test_shapes
from test_parallel import flags_of
from test_recorded import models

HAS_PTXAS = bool(shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas"))
DRAWN_PLANS, DRAWN_SHAPES = 160, 60
# By test_gpu.py, in emulation.
RUN = ("bert", "gemma2", "gpt2", "gpt_neox", "llama", "opt")
VARIANTS = list(itertools.product(("sm_80", "sm_90"), ("bf16", "fp32"), (0.1, 0.0)))
# What the model of a family calls its dropouts; those that are missing have none.
DROPOUTS = {"gpt2": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
            "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
            "gemma2": ("attention_dropout",),
            "gpt_neo": ("resid_dropout", "embed_dropout", "attention_dropout"),
            "gpt_neox": ("attention_dropout", "hidden_dropout"),
            "opt": ("dropout", "attention_dropout")}


def config_of(family):
    """A small model, with layers for four stages."""
    if family == "gpt2":
        return h.gpt2_config(**test_parallel.MODEL)
    if family == "bert":
        return test_bert.CONFIG
    if family in ("llama", "mistral", "qwen2"):
        return families.config(family, num_hidden_layers=4)
    more = dict(num_hidden_layers=4, max_position_embeddings=64)
    if family == "gpt_neo":
        more = dict(num_layers=4, attention_types=[[["global", "local"], 2]],
                    max_position_embeddings=64)
    return dict(models.CONFIGS[family], **more)


def family_plans():
    """Those on which test_families.py tries some family, and one rank."""
    some = [plan for plans in test_families.MESHES.values() for plan in plans]
    return [dict(mesh={}), *some, *test_families.MORE_MESHES]


class GpuKernels(h.HeddleTest):
    takes_long = True

    def known_families(self):
        """As the compiler names them when it meets another one."""
        with open(self.path("none.json"), "w") as file:
            json.dump({"model_type": "none"}, file)
        said = h.run([h.HEDDLE, "compile", self.path("none.json"), "--init",
                      "random", "-o", self.path("none")], 3).stderr
        return re.search(r"families that are known: (.*)", said)[1].split(", ")

    def compile_for(self, config, plan, target, precision):
        """What the compiler says of each kernel."""
        with open(self.path("config.json"), "w") as file:
            json.dump(config, file)
        settings = dict(h.ds_config(), zero_optimization=plan.get("tuned", {}))
        with open(self.path("ds.json"), "w") as file:
            json.dump(settings, file)
        return h.run([h.HEDDLE, "compile", self.path("config.json"), "--init", "random",
                      *flags_of(**plan), "--config", self.path("ds.json"), "--target",
                      target, "--precision", precision, "--cache", self.path("cache"),
                      "--verbose", "-o", self.path("job")]).stderr

    def check(self, config, plan, target, precision, dropout=0.0, most=0):
        """A binary is refused when a kernel has no code (H0203). Gives what local
        memory there is, if it is no more than `most` bytes."""
        names = DROPOUTS.get(config["model_type"], ())
        config = dict(config, **dict.fromkeys(names, dropout))
        said = self.compile_for(config, plan, target, precision)
        self.assertNotIn("no GPU generator", said)
        kernels = re.findall(rf"PTX for {target}: @(\w+)(?:, .* (\d+) bytes of local)?",
                             said)
        self.assertGreater(len(kernels), 5)
        local = {name: int(size or 0) for name, size in kernels if size != "0"}
        if HAS_PTXAS:
            self.assertEqual({name: size for name, size in local.items()
                              if size > most}, {})
        return local

    def test_of_every_family(self):
        known = self.known_families()
        self.assertIn("gpt2", known)
        for number, family in enumerate(known):
            if family in RUN and not h.LONG:
                continue
            config, variants, plans = config_of(family), VARIANTS, family_plans()
            if family not in DROPOUTS:
                variants = [one for one in VARIANTS if not one[2]]
            every = list(itertools.product(plans, variants))
            if not h.LONG:
                every = random.Random(number).sample(every, 1)
            for plan, (target, precision, dropout) in every:
                with self.subTest(family, **plan, target=target, precision=precision,
                                  dropout=dropout):
                    self.check(config, plan, target, precision, dropout)

    def test_of_every_strategy(self):
        every = list(itertools.product(test_parallel.combinations(), VARIANTS))
        if h.LONG:
            every += [(test_parallel.draw(seed), VARIANTS[seed % len(VARIANTS)])
                      for seed in range(DRAWN_PLANS)]
        else:
            every = random.Random(7).sample(every, 2)
        for plan, (target, precision, dropout) in every:
            with self.subTest(**plan, target=target, precision=precision,
                              dropout=dropout):
                self.check(config_of("gpt2"), plan, target, precision, dropout)

    def test_of_odd_rows_that_are_sent(self):
        """Slots of saved values begin where no kernel may read: a message comes
        from there all the same, so that stages do not wait for each other."""
        config = h.gpt2_config(**dict(test_parallel.MODEL, embed=10, heads=2))
        self.check(config, dict(mesh={"pipe": 2}, schedule="interleaved",
                                virtual_stages=2, accumulate=2, batch=2, seq=1),
                   "sm_90", "fp32")

    def check_drawn(self, seed, size, model, plan):
        """None where the compiler refuses the plan, with a code and numbers."""
        target, precision, _ = VARIANTS[seed % len(VARIANTS)]
        try:
            return self.check(h.gpt2_config(**model), plan, target, precision,
                              model["dropout"], most=1 << 16 if size > 128 else 0)
        except h.Failed as failure:
            code = re.search(r"error\[(H0[12]\d\d)\]: .*\d", str(failure))
            if not code or code[1] == "H0203":
                raise
            return None

    @h.long_only
    def test_of_drawn_shapes(self):
        """What ptxas makes of heads of more than 128 features is listed."""
        listed, refused = {}, 0
        for seed in range(DRAWN_SHAPES):
            for model, plan, _, _ in test_shapes.draws(seed):
                size = model["embed"] // model["heads"]
                local = {}
                with self.subTest(seed=seed, model=model, **plan):
                    local = self.check_drawn(seed, size, model, plan)
                if local is None:
                    refused += 1
                    continue
                listed.update({f"{name}, heads of {size}": each
                               for name, each in local.items()})
                break
        print(f"refused and drawn again: {refused}; bytes of local memory: {listed}")


if __name__ == "__main__":
    unittest.main()
