# The loss scale of training steps.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step multiplies the gradient of the loss by a scale, and divides the gradients of the
parameters by it: with a power of two every bit remains, in fp32 and in bf16. A dynamic
scale changes by DeepSpeed's rule, and a step whose gradients overflow updates nothing.
Batches of test_nonfinite.py overflow with every scale.
HEDDLE_TEST_LONG=1 takes all cases of the tables and all recorded patterns."""

import json
import os
import shutil
import subprocess
import sys
import unittest

import numpy as np

import heddle_test as h
import loss_scales
import test_nonfinite

# Flags of the compiler, ranks, and whether the case is one of the default tests.
CASES = [(["--accumulate", 2, "--micro-batch", 1], 1, True),
         (["--precision", "bf16", "--optimizer", "Lamb"], 1, True),
         (["--optimizer", "Lion", "--chunk-tokens", 4], 1, False),
         (["--recompute", "full", "--place", "optimizer=file", "--sub-group-size", 1024],
          1, False),
         (["--mesh", "tensor=2"], 2, False),
         (["--mesh", "pipe=2", "--micro-batch", 1, "--accumulate", 2], 2, True),
         (["--mesh", "data=2", "--zero", 0], 2, False),
         (["--mesh", "data=2", "--optimizer", "OneBitAdam", "--freeze-step", 2], 2, True),
         (["--mesh", "data=2", "--zero", 1, "--precision", "bf16"], 2, False),
         (["--mesh", "data=2", "--zero", 2, "--place", "optimizer=file"], 2, False),
         (["--mesh", "data=2", "--zero", 3], 2, True),
         (["--mesh", "data=2,pipe=2", "--zero", 1, "--micro-batch", 1], 4, False)]
SMALL = {"initial": 256, "window": 2, "hysteresis": 2, "min": 1}


class LossScale(test_nonfinite.NonFiniteTest):
    def saved_steps(self, binary, name, steps, *flags, folder, **more):
        """Trains and saves; gives the steps of the log."""
        self.run_train(binary, name, steps, "--save", self.path(folder), *flags, **more)
        return self.steps()

    def pattern(self, name, overflows):
        """Batches of which those at a 1 overflow."""
        self.batches(name, [number + 100 * (overflow == "1")
                            for number, overflow in enumerate(overflows)])

    def for_each_case(self, check):
        for flags, ranks, is_short in CASES:
            if (is_short or h.LONG) and (ranks == 1 or h.MPIRUN):
                with self.subTest(flags=flags):
                    check(flags, ranks)
                for name in ("a", "b"):
                    shutil.rmtree(self.path(name), ignore_errors=True)

    def test_a_power_of_two_changes_no_bit(self):
        self.batches("data", range(4))

        def check(flags, ranks):
            plain = self.build(*flags, output="plain")
            found = self.saved_steps(plain, "data", 4, folder="a", ranks=ranks)
            scaled = self.build(*flags, "--loss-scale", 2 ** 20, output="scaled")
            steps = self.saved_steps(scaled, "data", 4, folder="b", ranks=ranks)
            for key in ("loss", "grad_norm", "lr"):
                self.assertEqual([s[key] for s in steps], [s[key] for s in found], key)
            self.assertTrue(all((s["loss_scale"], s["skipped"]) == (2 ** 20, False)
                                for s in steps))
            self.assertEqual(h.bytes_saved(self.path("a")), h.bytes_saved(self.path("b")))

        self.for_each_case(check)

    def test_dropped_layers(self):
        """A layer that is dropped has gradients of zero, with every scale."""
        self.batches("data", range(4))
        drop = ["--layer-drop-schedule", 0.5]
        plain, scaled = self.build(*drop, output="plain"), self.build(
            *drop, "--loss-scale", 2 ** 20, output="scaled")
        found = self.saved_steps(plain, "data", 4, folder="a")
        steps = self.saved_steps(scaled, "data", 4, folder="b")
        for key in ("loss", "grad_norm", "kept_layers"):
            self.assertEqual([s[key] for s in steps], [s[key] for s in found], key)
        self.assertEqual(h.bytes_saved(self.path("a")), h.bytes_saved(self.path("b")))

    def test_skipped_steps_leave_no_trace(self):
        """What comes after an overflow has the bits of a run that never saw its batch, and
        the learning rate of its count of updates."""
        overflows = "0010110"
        self.pattern("bad", overflows)
        self.batches("good", [0, 1, 3, 6])

        def check(flags, ranks):
            binary = self.build(*flags, *loss_scales.flags_of(SMALL))
            good = self.saved_steps(binary, "good", 4, folder="a", ranks=ranks)
            bad = self.saved_steps(binary, "bad", 7, folder="b", ranks=ranks)
            self.assertEqual([s["skipped"] for s in bad], [o == "1" for o in overflows])
            self.assertEqual([s["loss_scale"] for s in bad], loss_scales.scales_of(
                256, 2, 2, 1, [o == "1" for o in overflows]))
            self.assertEqual([[s[key] for key in ("loss", "grad_norm", "lr")]
                              for s in bad if not s["skipped"]],
                             [[s[key] for key in ("loss", "grad_norm", "lr")]
                              for s in good])
            self.assertEqual(h.bytes_saved(self.path("a"))[0],
                             h.bytes_saved(self.path("b"))[0])

        self.for_each_case(check)

    def test_scales_are_those_of_deepspeeds_class(self):
        patterns = loss_scales.recorded()
        if not h.LONG:
            patterns = [patterns[0], patterns[1], *patterns[10:60:10]]
        for pattern in patterns:
            with self.subTest(pattern=pattern):
                self.check_pattern(pattern)

    def check_pattern(self, pattern):
        overflows = pattern["overflows"]
        with open(self.path("strategy.json"), "w") as file:
            json.dump({"loss_scale_consecutive_hysteresis": pattern["consecutive"]}, file)
        flags = [*loss_scales.flags_of(pattern), "--strategy", self.path("strategy.json")]
        self.pattern("data", overflows)
        binary = self.build(*flags)
        ended = pattern["ended"]
        said = self.run_train(binary, "data", len(overflows),
                              status=0 if ended is None else 5).stderr
        # The log has the digits of a float.
        scales = [np.float32(step["loss_scale"]) for step in self.steps()]
        self.assertEqual(scales, pattern["scales"][:ended])
        self.assertEqual([step["skipped"] for step in self.steps()],
                         [o == "1" for o in overflows[:ended]])
        # The rule of the tests is that of the class, too.
        self.assertEqual(pattern["scales"], loss_scales.scales_of(
            pattern["initial"], pattern["window"], pattern["hysteresis"], pattern["min"],
            [o == "1" for o in overflows], pattern["consecutive"]))
        if ended is not None:
            self.assertIn(f"error[H0419]: step {ended + 1} overflows with the loss scale "
                          f"{pattern['min']:g}, which is the least one", said)
            self.assertEqual(self.lines[-1]["code"], "H0419")

    def test_the_record_is_what_the_class_gives(self):
        """The class's sources may be here, as HEDDLE_DEEPSPEED names them."""
        script = os.path.join(h.ROOT, "test", "Oracles", "record_loss_scales.py")
        for package in os.environ.get("HEDDLE_DEEPSPEED", "").split(":"):
            if package:
                subprocess.run([sys.executable, script, package, "--check"], check=True)

    def test_a_run_that_ends_saves_the_states_before_the_step(self):
        self.pattern("data", "00111110")
        settings = dict(SMALL, initial=4)
        binary = self.build(*loss_scales.flags_of(settings))
        self.saved_steps(binary, "data", 5, folder="good")
        self.saved_steps(binary, "data", 8, folder="saved", status=5)
        # 4, 4, 4 (hysteresis), 4, 2; then 1 with nothing left.
        self.assertTrue(h.latest_of(self.path("saved")).endswith("step-000005"))
        self.assertEqual(h.bytes_saved(self.path("saved")), h.bytes_saved(self.path("good")))

    def test_a_static_scale_ends_after_ten_overflows(self):
        self.pattern("data", "1" * 11 + "0")
        binary = self.build("--loss-scale", 1024)
        said = self.run_train(binary, "data", 12, "--save", self.path("saved"),
                              status=5).stderr
        self.assertEqual([s["skipped"] for s in self.steps()], [True] * 10)
        self.assertIn("error[H0420]: step 11 overflows with the loss scale 1024", said)
        self.assertIn("compile with a smaller --loss-scale", said)
        self.assertNotIn("-nan", said)
        self.assertTrue(h.latest_of(self.path("saved")).endswith("step-000010"))
        # Ten in a row, and not ten in all.
        self.pattern("data", "1" * 6 + "0" + "1" * 6 + "0")
        self.run_train(binary, "data", 14)
        self.assertEqual(len(self.steps()), 14)

    def test_resumes_in_the_middle_of_a_window(self):
        overflows = "0100001000"
        self.pattern("data", overflows)
        settings = dict(SMALL, window=3)
        binary = self.build(*loss_scales.flags_of(settings))
        whole = self.saved_steps(binary, "data", 10, folder="whole")
        for first in range(1, 10, 1 if h.LONG else 4):
            shutil.rmtree(self.path("part"), ignore_errors=True)
            begin = self.saved_steps(binary, "data", first, folder="part")
            rest = self.saved_steps(binary, "data", 10, "--resume", self.path("part"),
                                    folder="part")
            for key in ("loss", "grad_norm", "lr", "loss_scale", "skipped"):
                self.assertEqual([s[key] for s in whole], [s[key] for s in begin + rest])
            self.assertEqual(h.bytes_saved(self.path("part")),
                             h.bytes_saved(self.path("whole")))

    def test_batches_without_labels(self):
        """They are no overflow, and make no update."""
        self.batches("data", [0, 1, 102, 3])
        data = h.read_safetensors(self.path("data"))
        rows = test_nonfinite.ROWS
        labels = data["labels"].copy()
        labels[rows:2 * rows] = -100
        h.write_safetensors(self.path("data"), dict(data, labels=labels))
        self.run_train(self.build(*loss_scales.flags_of(dict(SMALL, hysteresis=1))), "data", 4)
        self.assertEqual([s["skipped"] for s in self.steps()], [False, True, True, False])
        self.assertEqual([s["loss_scale"] for s in self.steps()], [256, 256, 256, 128])

    def test_the_log_names_the_module(self):
        """The backward pass of the bad token's row reaches the norms of both embeddings'
        products, whose gradients overflow."""
        self.batches("data", [0, 101])
        self.run_train(self.build(*loss_scales.flags_of(SMALL)), "data", 2)
        good, bad = self.steps()
        self.assertNotIn("overflow_module", good)
        self.assertRegex(bad["overflow_module"], "^(model|layers|embed|norm)")

    def test_checkpoints_of_other_scales(self):
        """A run without a scale goes on with one, and back; a static scale is the
        binary's, and a dynamic one the checkpoint's."""
        self.pattern("data", "0010")
        plain = self.build(output="plain")
        dynamic = self.build(*loss_scales.flags_of(SMALL), output="dynamic")
        static = self.build("--loss-scale", 8, output="static")
        folder, resume = self.path("saved"), ["--resume", self.path("saved")]
        self.saved_steps(plain, "data", 1, folder="saved")
        self.saved_steps(dynamic, "data", 3, *resume, folder="saved")
        self.assertEqual([s["loss_scale"] for s in self.steps()], [256, 256])
        optimizer = h.read_safetensors(os.path.join(h.latest_of(folder), "heddle",
                                                    "optimizer.safetensors"))
        self.assertEqual(optimizer["loss_scale_hysteresis"], 1)
        other = self.build(*loss_scales.flags_of(dict(SMALL, initial=4096)), output="other")
        self.run_train(other, "data", 4, *resume)
        self.assertEqual([s["loss_scale"] for s in self.steps()], [256])
        self.run_train(static, "data", 4, *resume)
        self.assertEqual([s["loss_scale"] for s in self.steps()], [8])
        self.run_train(plain, "data", 4, *resume)
        self.assertNotIn("loss_scale", self.steps()[0])

    def test_interpreted(self):
        """`heddle eval` skips the same steps, and has the same scale at the end."""
        overflows = "01100"
        self.pattern("data", overflows)
        binary = self.build(*loss_scales.flags_of(SMALL), "--dump-phases", self.path("dumps"))
        self.saved_steps(binary, "data", 5, folder="saved")
        inputs = h.read_safetensors(self.path("data"))
        rows = test_nonfinite.ROWS
        h.write_safetensors(self.path("steps"), {
            f"{name}@{step + 1}": value[step * rows:(step + 1) * rows]
            for name, value in inputs.items() for step in range(5)})
        for phase in ("train", "spmd", "memory"):
            with self.subTest(phase):
                h.run([h.HEDDLE, "eval", self.path("dumps", phase + ".mlir"), "--program",
                       "train", "--steps", 5, "--inputs", self.path("steps"), "--output",
                       self.path("states")])
                states = h.read_safetensors(self.path("states"))
                self.assertEqual(states["state.updates"], 3)
                self.assertEqual(states["state.loss_scale"], 128)


@h.needs_mpi
class OneOverflow(test_nonfinite.NonFiniteTest):
    """One row of one micro-batch of one rank overflows, and all ranks skip the step."""

    def test_on_one_of_four_ranks(self):
        rows = 8
        self.batches("data", range(rows * 3 // test_nonfinite.ROWS))
        data = h.read_safetensors(self.path("data"))
        for mesh, more in (("data=4", ["--zero", 2]), ("data=2,pipe=2", ["--zero", 1])):
            for row in (0, 5):
                ids = data["ids"].copy()
                ids[rows + row, 3] = test_nonfinite.BAD
                h.write_safetensors(self.path("bad"), dict(data, ids=ids))
                with self.subTest(mesh=mesh, row=row):
                    binary = self.compile(
                        self.model, "--seq", test_nonfinite.SEQ, "--batch", rows,
                        "--micro-batch", 1, "--mesh", mesh, *more,
                        *loss_scales.flags_of(dict(SMALL, hysteresis=1)),
                        config=h.ds_config(warmup=4, clip=0.5))
                    self.run_train(binary, "bad", 3, ranks=4)
                    self.assertEqual([s["skipped"] for s in self.steps()],
                                     [False, True, False])
                    self.assertEqual([s["loss_scale"] for s in self.steps()],
                                     [256, 256, 128])


class Gpu(test_nonfinite.NonFiniteTest):
    """A GPU that is a step ahead of the host."""

    def setUp(self):
        super().setUp()
        self.binary = self.build("--target", "sm_90", *loss_scales.flags_of(SMALL))

    def emulate(self, name, steps, *flags, binary=None, **variables):
        self.run_train(binary or self.binary, name, steps, *flags,
                       first=[h.HEDDLE, "emulate", "--"], **variables)
        return self.steps()

    def test_skips_what_the_cpu_skips(self):
        self.batches("data", [0, 101, 2, 103, 104, 5])
        found = self.emulate("data", 6, "--save", self.path("gpu"))
        self.run_train(self.build(*loss_scales.flags_of(SMALL), output="cpu"), "data", 6,
                       "--save", self.path("cpu-saved"))
        for key in ("loss_scale", "skipped", "lr", "overflow_module"):
            self.assertEqual([s.get(key) for s in found],
                             [s.get(key) for s in self.steps()])
        self.assertEqual(["overflow_module" in s for s in found],
                         [s["skipped"] for s in found])
        for name, value in h.read_saved(self.path("cpu-saved")).items():
            self.assert_close(h.read_saved(self.path("gpu"))[name], value, 1e-2, name)

    @h.needs_mpi
    def test_ranks_name_the_module_that_cpus_name(self):
        """The first one in the order of the backward pass, on whichever rank it is."""
        self.batches("data", [0, 101, 102, 3])
        meshes = [["--mesh", "pipe=2", "--micro-batch", 1], ["--mesh", "data=2", "--zero", 3],
                  ["--mesh", "data=2", "--zero", 1], ["--mesh", "tensor=2"]]
        for mesh in meshes if h.LONG else meshes[:2]:
            with self.subTest(mesh=mesh):
                modules = []
                for target, first in (["--target", "sm_90"], [h.HEDDLE, "emulate", "--"]), (
                        [], None):
                    binary = self.build(*mesh, *target, *loss_scales.flags_of(SMALL),
                                        output="mesh")
                    self.run_train(binary, "data", 4, ranks=2, first=first)
                    modules.append([s.get("overflow_module") for s in self.steps()])
                self.assertEqual(modules[0], modules[1])
                self.assertEqual([module is None for module in modules[0]],
                                 [True, False, False, True])

    def test_the_host_does_not_wait(self):
        """A skipped step costs no more waits of the host than another. A step with a scale
        costs none, but for the scale, which is read after the last step with the loss.
        When the run ends, the memory of the search for overflows is freed, and the host
        waits for each of the five streams."""
        self.batches("data", [0, 101, 2, 103, 4])
        plain = self.build("--target", "sm_90", output="plain")
        waits = []
        for binary, steps in ((plain, 1), (self.binary, 1), (self.binary, 3),
                              (self.binary, 5)):
            counts = self.path("counts.json")
            self.emulate("data", steps, binary=binary, HEDDLE_EMULATE_COUNTS=counts)
            with open(counts) as file:
                waits.append(json.load(file)["last_waits"])
        self.assertEqual(waits[1:], waits[1:2] * 3)
        self.assertLessEqual(waits[1] - waits[0], 1 + 5)


@h.needs_torch
class AgainstPyTorch(h.HeddleTest):
    """Losses of PyTorch's training with a scaled loss, as torch.amp.GradScaler's loop has
    it: scale, backward, unscale, clip, and step unless a gradient overflowed. The scale is
    so high that the norm overflows in fp32 now and then."""

    ROWS, SEQ, STEPS, CLIP = 2, 8, 16, 0.5

    def train_in_pytorch(self, model, batches, settings):
        import torch
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999),
                                      eps=1e-5, weight_decay=0.01)
        losses, overflows = [], []
        for batch in batches:
            scale = loss_scales.scales_of(*settings.values(), [*overflows, False])[-1]
            optimizer.zero_grad()
            loss, _ = model.loss(*batch)
            (loss * scale).backward()
            squares = sum((p.grad * p.grad).sum() for p in model.parameters())
            overflows.append(not bool(torch.isfinite(squares.sqrt().float())))
            losses.append(loss.item())
            if overflows[-1]:
                continue
            for parameter in model.parameters():
                parameter.grad /= scale
            torch.nn.utils.clip_grad_norm_(model.parameters(), self.CLIP)
            optimizer.step()
        return losses, overflows

    def test_losses_and_skips(self):
        import oracle
        model, config, weights = self.make_model(vocab=97, positions=self.SEQ, embed=32)
        data, tokens = self.make_tokens(self.STEPS * self.ROWS * self.SEQ + 1, 97)
        batches = [h.batch(tokens, step, self.ROWS, self.SEQ) for step in range(self.STEPS)]
        settings = {"initial": 2.0 ** 126, "window": 2, "hysteresis": 2, "min": 1}
        losses, overflows = self.train_in_pytorch(oracle.Gpt2(config, weights), batches,
                                                  settings)
        self.assertGreater(sum(overflows), 3)
        self.assertLess(sum(overflows), self.STEPS - 5)
        binary = self.compile(model, "--batch", self.ROWS, "--seq", self.SEQ,
                              *loss_scales.flags_of(settings),
                              config=h.ds_config(clip=self.CLIP, eps=1e-5))
        steps = self.train(binary, data, self.STEPS)
        self.assertEqual([step["skipped"] for step in steps], overflows)
        np.testing.assert_allclose([step["loss"] for step in steps], losses, rtol=1e-5)


class Fp16(h.HeddleTest):
    """The section fp16 of ds_config.json. The scale begins so high that gradients overflow
    in fp16."""

    def test_losses_of_updates_are_near_those_of_fp32(self):
        model = self.make_model(vocab=97, positions=16, embed=48)[0]
        # The same batch in every step, so that a skipped step changes no later batch.
        tokens = np.resize(h.random_tokens(4 * 16, 97), 4 * 16 + 1)
        h.write_tokens(self.path("tokens.bin"), tokens)
        settings = {"initial": 2.0 ** 28, "window": 4, "hysteresis": 1, "min": 1}
        section = {"enabled": True, "initial_scale_power": 28, "loss_scale_window": 4,
                   "hysteresis": 1}

        def train(name, steps, **more):
            binary = self.compile(model, "--batch", 4, "--seq", 16, "--threads", 1,
                                  output=name, config=h.ds_config(**more))
            return self.train(binary, self.path("tokens.bin"), steps)

        steps = train("half", 20, fp16=section)
        skipped = [step["skipped"] for step in steps]
        updates = [step["loss"] for step in steps if not step["skipped"]]
        self.assertTrue(skipped[0] and 6 <= len(updates) < 20, skipped)
        self.assertIn("overflow_module", steps[0])
        self.assertEqual([step["loss_scale"] for step in steps],
                         loss_scales.scales_of(*settings.values(), skipped))
        exact = [step["loss"] for step in train("whole", len(updates))]
        np.testing.assert_allclose(updates, exact, rtol=5e-3)


class Settings(h.HeddleTest):
    def refused(self, *flags):
        return h.run([h.HEDDLE, "compile", self.make_model()[0], *flags, "-o",
                      self.path("job")], status=2).stderr

    def test_bad_input(self):
        said = self.refused("--loss-scale", "dynamic", "--loss-scale-initial", 2,
                            "--loss-scale-min", 4)
        self.assertIn("error[H0169]: the least loss scale 4 is above the first one, 2", said)
        for value in ("0", "-1", "nan", "static", "1e39"):
            self.assertIn("dynamic, none, or a number", self.refused("--loss-scale", value))
        self.assertIn("--loss-scale-window", self.refused("--loss-scale-widow", 3))

    def test_a_scale_that_is_no_power_of_two(self):
        model = self.make_model(vocab=97, positions=8)[0]
        said = h.run([h.HEDDLE, "compile", model, "--loss-scale", 1000, "--seq", 8, "-o",
                      self.path("job")]).stderr
        self.assertIn("note: the loss scale 1000 is no power of two", said)
        said = h.run([self.path("job"), "info"]).stdout
        self.assertIn("loss scale   1000\n", said)

    def test_flags_without_effect(self):
        model = self.make_model(vocab=97, positions=8)[0]
        said = h.run([h.HEDDLE, "compile", model, "--loss-scale-window", 5, "--seq", 8, "-o",
                      self.path("job")]).stderr
        self.assertIn("--loss-scale-window without effect: no dynamic loss scale", said)


if __name__ == "__main__":
    unittest.main()
