#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module with two train programs that change places at step 5 or update 5. The losses are those
of PyTorch, of one rank on every mesh, and, bit for bit, of two binaries with one
program each that run one after the other. Resumed runs go on bit for bit."""

import os
import re
import sys
import unittest

import numpy as np

import heddle_test as h
from test_architecture import EXAMPLE, TEXT, Oracle

ROWS, SEQ, STEPS, BORDER, RATE, CLIP = 4, 16, 8, 5, 3e-3, 0.5

MESHES = [(2, "--mesh data=2 --zero 1"),
          (2, "--mesh tensor=2"),
          (2, "--mesh pipe=2 --accumulate 2"),
          (2, "--mesh data=2 --zero 3 --accumulate 2 --recompute selective")]
MORE_MESHES = [(2, "--mesh data=2"), (2, "--mesh data=2 --zero 2 --accumulate 2"),
               (2, "--mesh pipe=2 --accumulate 4 --schedule zb-h1"),
               (2, "--mesh seq=2 --context ring"),
               (2, "--mesh tensor=2 --sequence-parallel"),
               (1, "--place optimizer=file,parameters=file"),
               (1, "--place optimizer=host,activations=file"),
               (8, "--mesh data=2,tensor=2,pipe=2 --zero 1 --accumulate 2")]


def function_of(text, name):
    """The text of a function of the module."""
    begin = text.index(f"  nn.func @{name}(")
    return text[begin:text.index("\n  }\n", begin) + len("\n  }\n")]


def forward_of(text, name, phase=None):
    """The text of the forward function under another name, in a phase."""
    forward = function_of(text, "forward").replace("@forward", "@" + name)
    if phase:
        forward = forward.replace("attributes {", f"attributes {{phase = #nn.phase<{phase}>, ")
    return forward


class Phases(Oracle):
    """In the phase "near", a token sees itself and the two tokens before it."""

    step = 0

    def unseen(self, tokens):
        self.step += 1
        later = super().unseen(tokens)
        ones = self.torch.ones_like(later)
        return later | ones.tril(-3) if self.step < BORDER else later


class TrainPrograms(h.HeddleTest):
    def setUp(self):
        self.weights = self.path("weights")
        h.run([sys.executable, os.path.join(EXAMPLE, "make_weights.py"), self.weights])
        with open(TEXT) as file:
            self.text = file.read()
        # The module without its forward function, and with a second kind of layer.
        block = function_of(self.text, "block")
        self.rest = self.text.replace(function_of(self.text, "forward"), "").replace(
            block, block + block.replace("@block", "@near").replace(
                "#nn.mask<causal>", "#nn.mask<causal, window = 3>"))
        self.data, self.tokens = self.make_tokens(STEPS * ROWS * SEQ + 1, 256)

    def module(self, name, *forwards):
        """A file with these forward functions."""
        path = self.path(name + ".mlir")
        with open(path, "w") as file:
            file.write(self.rest.rstrip().removesuffix("}") + "".join(forwards) + "}\n")
        return path

    def near(self, phase=None):
        return forward_of(self.text, "near_forward", phase).replace("@block(", "@near(")

    def both(self, border=f"from_step = {BORDER}"):
        counted = border.split()[0]
        return self.module("both", self.near(f'"near", {counted} = 1'),
                           forward_of(self.text, "far_forward", f'"far", {border}'))

    def skipping(self, *skipped):
        """A file of batches; the updates of these steps are skipped, since none of
        their labels counts."""
        inputs = [[part.copy() for part in h.batch(self.tokens, step, ROWS, SEQ)]
                  for step in range(STEPS)]
        for step in skipped:
            inputs[step - 1][1][:] = -100
        path = self.path("skipping.safetensors")
        h.write_safetensors(path, {name: np.concatenate(parts).astype(np.int32)
                                   for name, parts in zip(("ids", "labels"), zip(*inputs))})
        return path

    def build(self, module, *flags, output="job"):
        return self.compile(module, "--weights", self.weights, "--batch", ROWS, "--seq",
                            SEQ, "--threads", 1, *flags, output=output,
                            config=h.ds_config(lr=RATE, clip=CLIP, eps=1e-5))

    def check_equal(self, steps, others):
        for key in ("loss", "grad_norm", "lr"):
            self.assertEqual([step[key] for step in steps],
                             [step[key] for step in others], key)

    @h.needs_torch
    def test_the_numbers_of_pytorch(self):
        import oracle
        steps = self.train(self.build(self.both()), self.data, STEPS)
        model = Phases(h.read_safetensors(os.path.join(self.weights, "model.safetensors")))
        batches = [h.batch(self.tokens, step, ROWS, SEQ) for step in range(STEPS)]
        losses, norms = oracle.train(model, batches, [RATE] * STEPS, clip=CLIP, eps=1e-5)
        for key, wanted in (("loss", losses), ("grad_norm", norms)):
            np.testing.assert_allclose([step[key] for step in steps], wanted, rtol=1e-5)

    def test_two_binaries_and_resumed_runs(self):
        binary = self.build(self.both())
        whole = self.train(binary, self.data, STEPS, "--save", self.path("whole"),
                           "--save-every", 1)
        self.assertEqual([step["phase"] for step in whole],
                         ["near"] * (BORDER - 1) + ["far"] * (STEPS - BORDER + 1))
        saved = h.bytes_saved(self.path("whole"))
        for step in (4, 5, 6):
            with self.subTest(resumed=step):
                rest = self.train(binary, self.data, STEPS, "--resume",
                                  self.path(f"whole/step-{step:06}"), "--save",
                                  self.path(f"rest{step}"))
                self.check_equal(whole[step:], rest)
                self.assertEqual(saved, h.bytes_saved(self.path(f"rest{step}")))
        # Each program alone, one after the other.
        near = self.build(self.module("near", self.near()), output="near")
        first = self.train(near, self.data, BORDER - 1, "--save", self.path("first"))
        self.assertNotIn("phase", first[0])
        far = self.build(TEXT, output="far")
        last = self.train(far, self.data, STEPS, "--resume", self.path("first"), "--save",
                          self.path("last"))
        self.check_equal(whole, first + last)
        self.assertEqual(saved, h.bytes_saved(self.path("last")))
        # A checkpoint of one phase's binary loads in the binary of both, and back.
        rest = self.train(binary, self.data, STEPS, "--resume", self.path("first"))
        self.check_equal(whole[BORDER - 1:], rest)

    @h.needs_mpi
    def test_meshes_have_the_numbers_of_one_rank(self):
        module = self.both()
        one = self.train(self.build(module), self.data, STEPS)
        for ranks, flags in MESHES + MORE_MESHES * h.LONG:
            with self.subTest(flags):
                steps = self.train(self.build(module, *flags.split()), self.data, STEPS,
                                   ranks=ranks)
                self.assertEqual([step["phase"] for step in steps],
                                 [step["phase"] for step in one])
                for key in ("loss", "grad_norm"):
                    np.testing.assert_allclose([step[key] for step in steps],
                                               [step[key] for step in one], rtol=1e-5)


    def evaluate(self, dump, *flags, status=0):
        """What the interpreter computes in the first steps of the border."""
        h.write_inputs(self.path("inputs.safetensors"), self.tokens, BORDER + 1, ROWS, SEQ)
        output = self.path("eval.safetensors")
        h.run([h.HEDDLE, "eval", dump, "--ranks", "--inputs",
               self.path("inputs.safetensors"), "--steps", BORDER + 1, "--output", output,
               "--weights", self.weights, *flags], status)
        return h.read_safetensors(output)

    def train_inputs(self, binary, data, *flags, steps=STEPS, ranks=1, gpu=False):
        log = self.path("inputs.jsonl")
        if os.path.exists(log):
            os.remove(log)
        first = [h.HEDDLE, "emulate", "--"] if gpu else []
        h.run_ranks(ranks, [*first, binary, "train", "--inputs", data, "--steps", steps,
                            "--log", log, "--progress", "none", *flags])
        return h.read_log(log)

    def test_a_border_that_counts_updates(self):
        """Two skipped steps delay the second phase by two steps. Everything is as if
        the border were that step, also in runs that are resumed."""
        data = self.skipping(2, 3)
        counted = self.build(self.both(f"from_update = {BORDER}"), "--dump-phases",
                             self.path("dumps"), output="counted")
        steps = self.build(self.both(f"from_step = {BORDER + 2}"), output="steps")
        whole = self.train_inputs(counted, data, "--save", self.path("whole"),
                                  "--save-every", 1)
        self.assertEqual([step["phase"] for step in whole],
                         ["near"] * (BORDER + 1) + ["far"] * (STEPS - BORDER - 1))
        self.check_equal(whole, self.train_inputs(steps, data, "--save", self.path("same")))
        saved = h.bytes_saved(self.path("whole"))
        self.assertEqual(saved, h.bytes_saved(self.path("same")))
        for step in range(1, STEPS):
            rest = self.train_inputs(counted, data, "--resume",
                                     self.path(f"whole/step-{step:06}"), "--save",
                                     self.path(f"rest{step}"))
            self.check_equal(whole[step:], rest)
            self.assertEqual([step["phase"] for step in whole[step:]],
                             [step["phase"] for step in rest])
            self.assertEqual(saved, h.bytes_saved(self.path(f"rest{step}")))
        # The interpreter changes the program in the same step.
        inputs = h.read_safetensors(data)
        h.write_safetensors(self.path("steps"), {
            f"{name}@{step + 1}": value[step * ROWS:(step + 1) * ROWS]
            for name, value in inputs.items() for step in range(STEPS)})
        h.run([h.HEDDLE, "eval", self.path("dumps/train.mlir"), "--inputs",
               self.path("steps"), "--steps", STEPS, "--output", self.path("found"),
               "--weights", self.weights])
        found = h.read_safetensors(self.path("found"))
        for step in whole:
            self.assertLess(h.relative(found[f"loss@{step['step']}"], step["loss"]), 1e-5)
        program = self.explain(counted)["programs"]
        self.assertEqual([one["from_update"] for one in program if one["kind"] == "train"],
                         [1, BORDER])

    def test_a_skip_just_before_the_border(self):
        """The host launches a step while the step before it may still run, and expects
        its update. So the phase does not depend on the device, on the mesh, or on where
        a run is resumed."""
        data = self.skipping(BORDER - 1)
        module = self.both(f"from_update = {BORDER}")
        wanted = ["near"] * (BORDER - 1) + ["far"] * (STEPS - BORDER + 1)
        one = self.train_inputs(self.build(module), data, "--save", self.path("one"),
                                "--save-every", 1)
        self.assertEqual([step["phase"] for step in one], wanted)
        rest = self.train_inputs(self.path("job"), data, "--resume",
                                 self.path(f"one/step-{BORDER - 1:06}"))
        self.check_equal(one[BORDER - 1:], rest)
        cases = [(2, "--mesh data=2 --zero 1"), (2, "--mesh pipe=2 --accumulate 2")]
        for ranks, flags in cases * bool(h.MPIRUN) + [(1, "--target sm_90")]:
            with self.subTest(flags):
                binary = self.build(module, *flags.split(), output="other")
                steps = self.train_inputs(binary, data, steps=BORDER + 2, ranks=ranks,
                                          gpu="sm_90" in flags)
                self.assertEqual([step["phase"] for step in steps], wanted[:BORDER + 2])
                for key in ("loss", "grad_norm"):
                    np.testing.assert_allclose([step[key] for step in steps],
                                               [step[key] for step in one[:BORDER + 2]],
                                               rtol=1e-5)

    @h.needs_mpi
    def test_the_interpreter(self):
        """The interpreter changes the program as the binary does."""
        binary = self.build(self.both(), "--mesh", "data=2", "--zero", 1, "--dump-phases",
                            self.path("dumps"))
        steps = self.train(binary, self.data, BORDER + 1, ranks=2)
        for phase in ("train", "spmd", "memory"):
            with self.subTest(phase):
                found = self.evaluate(self.path(f"dumps/{phase}.mlir"))
                for step in steps:
                    for key in ("loss", "grad_norm"):
                        self.assertLess(h.relative(found[f"{key}@{step['step']}"],
                                                   step[key]), 1e-5)

    def test_wrong_phases_in_a_dump(self):
        self.build(self.both(), "--mesh", "pipe=2", "--accumulate", 2, "--dump-phases",
                   self.path("dumps"))

        def compiled(phase, before, after, count=-1):
            """Edits the dump from its end: of the last stage first."""
            with open(self.path(f"dumps/{phase}.mlir")) as file:
                text = file.read()
            self.assertIn(before, text)
            edited = self.path("edited.mlir")
            with open(edited, "w") as file:
                file.write(after.join(text.rsplit(before, count)))
            job = self.path("edited.bin")
            result = h.subprocess.run([h.HEDDLE, "compile", edited, "--start-from", phase,
                                       "-o", job], text=True, capture_output=True)
            self.assertEqual(os.path.exists(job), result.returncode == 0)
            return result.stderr
        far = '#nn.phase<"far", from_step = 5>'
        other = "so ranks would run different programs in a step"
        for phase, said, after, count in (
                # One stage begins a phase at another step, or has another phase.
                ("memory", other, '#nn.phase<"far", from_step = 6>', 1),
                ("memory", other, '#nn.phase<"off", from_step = 5>', 1),
                ("memory", "let all phases count steps, or all count updates",
                 '#nn.phase<"far", from_update = 5>', 1),
                ("prove", other, '#nn.phase<"far", from_step = 9>', 1),
                # The phases of all stages are wrong.
                ("train", "begins there, too", '#nn.phase<"far", from_step = 1>', -1),
                ("train", "has one of this name", '#nn.phase<"near", from_step = 5>', -1),
                ("memory", "steps are counted from 1", '#nn.phase<"far", from_step = 0>', -1),
                ("memory", "a name has letters", '#nn.phase<"", from_step = 5>', -1)):
            with self.subTest(phase=phase, after=after):
                self.assertRegex(compiled(phase, far, after, count),
                                 r"error\[H03(54|96)\].*" + said)
        # Another border is another plan, which is right.
        self.assertNotIn("error", compiled("memory", far, '#nn.phase<"far", from_step = 6>'))

    @h.needs_mpi
    def test_a_phase_without_a_layer(self):
        """What only the second phase trains keeps its bytes in the first one."""
        short = re.sub(r"    %x2 = nn.call .*\n.*\n", "", self.near('"short", from_step = 1'))
        module = self.module("short", short.replace("%x2", "%x1"),
                             forward_of(self.text, "whole", '"whole", from_step = 5'))
        given = h.read_safetensors(os.path.join(self.weights, "model.safetensors"))
        one = None
        for ranks, flags in ((1, ""), (2, "--mesh data=2 --zero 3 --accumulate 2"),
                             (2, "--mesh data=2 --zero 1 --precision bf16")):
            with self.subTest(flags):
                folder = self.path(f"saved{ranks}{len(flags)}")
                steps = self.train(self.build(module, *flags.split()), self.data, STEPS,
                                   "--save", folder, "--save-every", 4, ranks=ranks)
                one = one or steps
                if "bf16" not in flags:
                    np.testing.assert_allclose([step["loss"] for step in steps],
                                               [step["loss"] for step in one], rtol=1e-5)
                for step, is_trained in ((4, False), (STEPS, True)):
                    saved = h.read_safetensors(f"{folder}/step-{step:06}/model.safetensors")
                    moments = h.read_safetensors(
                        f"{folder}/step-{step:06}/heddle/optimizer.safetensors")
                    for name, value in given.items():
                        same = np.array_equal(saved[name], value)
                        self.assertEqual(same, "blocks.1" in name and not is_trained, name)
                        self.assertEqual(moments["exp_avg." + name].any(), not same, name)

    def test_emulated_gpu(self):
        cpu = self.train(self.build(self.both()), self.data, BORDER + 1)
        gpu = self.build(self.both(), "--target", "sm_80", output="gpu")
        log = self.path("gpu.jsonl")
        h.run([h.HEDDLE, "emulate", "--", gpu, "train", "--data", self.data, "--steps",
               BORDER + 1, "--log", log, "--progress", "none"],
              env=dict(os.environ, **h.LIGHT))
        steps = h.read_log(log)
        self.assertEqual([step["phase"] for step in steps], [step["phase"] for step in cpu])
        for key in ("loss", "grad_norm"):
            np.testing.assert_allclose([step[key] for step in steps],
                                       [step[key] for step in cpu], rtol=1e-5)

    def test_explain(self):
        binary = self.build(self.both(), "--mesh", "data=2")
        programs = [program for program in self.explain(binary)["programs"]
                    if program["kind"] == "train"]
        self.assertEqual([(program["name"], program["phase"], program["from_step"])
                          for program in programs],
                         [("train/near", "near", 1), ("train/far", "far", BORDER)])
        for program in programs:
            self.assertGreater(program["memory"], 0)
            self.assertEqual([line["kind"] for line in program["communication"]],
                             ["all_reduce"])
        said = h.run([h.HEDDLE, "explain", binary]).stdout
        self.assertRegex(said, r"\n  far +5 +train/far ")

    def test_two_forward_functions_need_phases(self):
        module = self.module("wrong", self.near('"near", from_step = 1'),
                             forward_of(self.text, "far_forward"))
        result = h.run([h.HEDDLE, "compile", module, "--weights", self.weights, "-o",
                        self.path("job")], status=3)
        self.assertIn("H0358]: a second forward function", result.stderr)


if __name__ == "__main__":
    unittest.main()
