# Training and inference in fp16.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models compute in fp16 as they do in bf16: with sums and masters in fp32, the same
bytes in memory and between ranks, and errors that are an eighth of those of bf16.
HEDDLE_TEST_LONG=1 takes all cases, and GPT-2's kernels."""

import json
import os
import unittest

import numpy as np

import families
import heddle_test as h
import serving

ROWS, SEQ, STEPS = 8, 16, 6
FP16 = ["--precision", "fp16"]
# A scale with which no step overflows: test_loss_scale.py has steps that do.
SCALE = ["--loss-scale", 256]


class TrainFp16(h.HeddleTest):
    def setUp(self):
        self.gpt2, config, _ = self.make_model("gpt2", vocab=97, positions=SEQ, embed=48,
                                               layers=2, heads=4)
        llama = families.config(vocab_size=97)
        h.write_model(self.path("llama"), llama, families.random_weights(llama),
                      prefix="")
        self.models = {"gpt2": self.gpt2, "llama": self.path("llama")}
        self.data, _ = self.make_tokens(ROWS * SEQ * (STEPS + 1) + 1, 97)

    def build(self, model, *flags, output="job", clip=1.0):
        return self.compile(self.models[model], "--batch", ROWS, "--seq", SEQ,
                            "--threads", 2, *SCALE, *flags, output=output,
                            config=h.ds_config(lr=3e-3, clip=clip))

    def losses(self, binary, *flags, ranks=1):
        steps = self.train(binary, self.data, STEPS, *flags, ranks=ranks)
        return np.array([step["loss"] for step in steps])

    def test_losses_are_near_those_of_fp32(self):
        """On this machine's instructions, and on those of older ones."""
        for model, march in (("gpt2", "native"), ("gpt2", "x86-64-v3"),
                             ("llama", "native")):
            with self.subTest(model, march=march):
                exact, bf16, fp16 = (
                    self.losses(self.build(model, "--march", march, "--precision", each))
                    for each in ("fp32", "bf16", "fp16"))
                np.testing.assert_allclose(fp16, exact, rtol=1e-2)
                errors = [np.linalg.norm(each - exact) for each in (fp16, bf16)]
                self.assertGreater(errors[0], 0)
                self.assertLess(errors[0], errors[1] / 2)

    @h.needs_mpi
    def test_meshes(self):
        """Have the losses of one rank, and send and keep as much as in bf16: here
        without instructions for products of bf16, which need less scratch memory."""
        cases = [("gpt2", 2, ["--mesh", "data=2", "--zero", 2]),
                 ("llama", 2, ["--mesh", "tensor=2", "--sequence-parallel"]),
                 ("gpt2", 2, ["--mesh", "pipe=2", "--accumulate", 2]),
                 ("gpt2", 4, ["--mesh", "data=2,tensor=2", "--zero", 3,
                              "--communication-data-type", "fp32"])]
        if h.LONG:
            cases += [("gpt2", 2, ["--mesh", "data=2", "--zero", zero]) for zero in (1, 3)]
            cases += [("llama", 2, ["--mesh", "seq=2", "--context", "ring"])]
        one = {model: self.losses(self.build(model, *FP16)) for model in self.models}
        for model, ranks, flags in cases:
            with self.subTest(model, flags=flags):
                flags = [*flags, "--march", "x86-64-v3"]
                binary = self.build(model, *flags, *FP16)
                found = self.losses(binary, ranks=ranks)
                np.testing.assert_allclose(found, one[model], rtol=5e-3)
                fp16, bf16 = map(self.explain, (binary, self.build(
                    model, *flags, "--precision", "bf16", output="bf16")))
                self.assertEqual(fp16["memory"], bf16["memory"])
                self.assertEqual([[line["kind"], line["bytes_sent"]]
                                  for line in fp16["communication"]],
                                 [[line["kind"], line["bytes_sent"]]
                                  for line in bf16["communication"]])

    def test_offloaded_states(self):
        """Change no bit."""
        for clip in (0, 1.0):
            plain = self.losses(self.build("gpt2", *FP16, clip=clip))
            for flags in (["--place", "optimizer=file"],
                          ["--place", "optimizer=file,parameters=file,gradients=file",
                           "--sub-group-size", 4096],
                          ["--place", "activations=file", "--recompute", "selective"]):
                with self.subTest(flags=flags, clip=clip):
                    binary = self.build("gpt2", *FP16, *flags, clip=clip)
                    np.testing.assert_array_equal(
                        self.losses(binary, "--swap-dir", self.path("swap")), plain)

    def test_saved_and_resumed(self):
        """Files of F16 stay that; the fp32 masters are beside them."""
        config = h.gpt2_config(vocab=97, positions=SEQ, embed=48, layers=2, heads=4)
        narrow = {name: value.astype(np.float16)
                  for name, value in h.random_weights(config).items()}
        h.write_model(self.gpt2, dict(config, torch_dtype="float16"), narrow)
        binary, out = self.build("gpt2", *FP16), self.path("out")
        whole = self.losses(binary)
        self.train(binary, self.data, 3, "--save", out)
        saved, folder = h.read_saved(out), h.latest_of(out)
        masters = h.read_safetensors(os.path.join(folder, "heddle",
                                                  "masters.safetensors"))
        for name, value in saved.items():
            self.assertEqual(value.dtype, np.float16)
            self.assertEqual(masters[name].dtype, np.float32)
            np.testing.assert_array_equal(masters[name].astype(np.float16), value)
        rest = self.train(binary, self.data, STEPS, "--resume", out, name="rest")
        np.testing.assert_array_equal([step["loss"] for step in rest], whole[3:])

    def test_on_gpus(self):
        """Emulated ones compute what CPUs do, alone and in two."""
        cpu = {model: self.losses(self.build(model, *FP16)) for model in self.models}
        mesh = ["--mesh", "data=2", "--zero", 2]
        for chip, model, gemm, flags in (("sm_80", "gpt2", "generated", []),
                                         ("sm_90", "llama", "generated", []),
                                         ("sm_90", "gpt2", "library", mesh)):
            ranks = 2 if flags else 1
            if ranks > 1 and not h.MPIRUN:
                continue
            with self.subTest(chip, model=model, gemm=gemm):
                gpu = self.build(model, *FP16, "--target", chip, *flags)
                log = self.path("gpu.jsonl")
                h.run_ranks(ranks, [h.HEDDLE, "emulate", "--", gpu, "train", "--data",
                                    self.data, "--steps", STEPS, "--log", log,
                                    "--progress", "none", "--gemm", gemm])
                found = [step["loss"] for step in h.read_log(log)]
                os.remove(log)
                np.testing.assert_allclose(found, cpu[model], rtol=1e-2)


class GpuCounts(h.HeddleTest):
    """Kernels of GPUs do no more in fp16 than in bf16, as the emulator counts: they ask for
    the same bytes and sectors, and of each class of instructions they execute at most 2 %
    of the kernel's more. Kernels of numbers alone, which change the loss scale, are left
    out; they have a few bytes each."""

    SCALARS = 200  # Bytes of a kernel.

    def kernels(self, model, chip, precision, *flags):
        binary = self.compile(model, "--target", chip, "--precision", precision, *flags,
                              config=h.ds_config(clip=1.0), output=precision)
        kernels = self.explain(binary, "--kernels")["kernels"]
        return [kernel for kernel in kernels if kernel["bytes"] >= self.SCALARS], {
            kernel["ops"] for kernel in kernels if kernel["bytes"] < self.SCALARS}, \
            self.explain(binary)["memory"]["owners"]

    def check_counts(self, ours, theirs):
        for one, other in zip(ours["launches"], theirs["launches"], strict=True):
            for key in ("grid", "block", "shared_bytes"):
                self.assertEqual(one[key], other[key])
            one, other = one["counted"], other["counted"]
            # Where instructions are fewer, more blocks of a long launch are executed. The
            # counts of all blocks are estimated from these.
            spare = 0 if one["blocks"] == other["blocks"] else 0.02
            for key in ("bytes", "sectors", "tensor_operations"):
                self.assertLessEqual(abs(one[key] - other[key]), spare * other[key], key)
            for kind, count in other["instructions_by_class"].items():
                self.assertLessEqual(one["instructions_by_class"][kind],
                                     count + 0.02 * other["instructions"], kind)

    def check(self, chip, model, *flags):
        fp16, numbers, memory = self.kernels(model, chip, "fp16", *flags)
        bf16, _, expected = self.kernels(model, chip, "bf16", *flags)
        self.assertEqual([kernel["ops"] for kernel in fp16],
                         [kernel["ops"] for kernel in bf16])
        self.assertGreater(len(bf16), 20)
        for ours, theirs in zip(fp16, bf16):
            with self.subTest(chip, kernel=ours["name"]):
                self.check_counts(ours, theirs)
        # The states of the loss scale.
        self.assertTrue(any("advance_loss_scale" in ops for ops in numbers), numbers)
        for owner, size in expected.items():
            self.assertLessEqual(abs(memory[owner] - size), 1024 if owner in (
                "accumulators", "optimizer", "padding to pages") else 0, owner)

    def test_small_model(self):
        """Loops of products over 64 elements are unrolled, those over 256 are not."""
        model = self.make_model(vocab=97, positions=32, embed=64, heads=4, layers=1)[0]
        for chip in ("sm_80", "sm_90") if h.LONG else ("sm_80",):
            self.check(chip, model, "--batch", 4, "--seq", 32)

    @h.long_only
    def test_gpt2(self):
        model = os.path.join(h.ROOT, "examples", "gpt2", "config.json")
        for chip in ("sm_80", "sm_90"):
            self.check(chip, model, "--init", "random", "--batch", 4, "--seq", 1024)


class ServeFp16(serving.ServingTest):
    def test_errors_are_an_eighth_of_those_of_bf16(self):
        """Also of packed weights, of codes, and of caches in fp16 alone."""
        model, *_ = self.make_model(vocab=103, positions=90, embed=64, heads=4)
        tokens = h.random_tokens(90, 103, 3)
        exact = self.logits(self.serve(model), tokens)

        def error(*flags):
            binary = self.serve(model, *flags)
            found = self.logits(binary, tokens)
            np.testing.assert_array_equal(self.logits(binary, tokens, "--decode"), found)
            return np.linalg.norm(found - exact) / np.linalg.norm(exact)

        for march in ("native", "x86-64-v3") if h.LONG else ("native",):
            fp16, bf16 = (error("--precision", each, "--march", march)
                          for each in ("fp16", "bf16"))
            self.assertLess(fp16, bf16 / 5)
        fp16, bf16 = (error("--kv-type", each) for each in ("fp16", "bf16"))
        self.assertLess(fp16, bf16 / 5)
        for codes in ("int8", "int4") if h.LONG else ("int4",):
            narrow = error("--precision", "fp16", "--quantize", codes)
            self.assertLess(narrow, 1.05 * error("--quantize", codes))

    def test_scales_of_gptq(self):
        """They are fp16 in the files, and so in the binary: codes give what they give in
        fp32, but for the rounding of activations."""
        model = self.make_model(vocab=103, positions=90, embed=64, heads=4)[0]
        tokens = h.random_tokens(40, 103, 3)
        cases = [["--bits", 4, "--group", 16, "--zeros"], ["--bits", 8, "--group", 0]]
        for number, flags in enumerate(cases[:None if h.LONG else 1]):
            with self.subTest(flags=flags):
                codes = self.path(f"codes{number}")
                h.run([h.HEDDLE, "quantize", model, "-o", codes, *flags])
                exact = self.logits(self.serve(codes), tokens)
                errors = []
                for precision in ("fp16", "bf16"):
                    binary = self.serve(codes, "--precision", precision)
                    found = self.logits(binary, tokens)
                    np.testing.assert_array_equal(
                        self.logits(binary, tokens, "--decode"), found)
                    errors.append(np.linalg.norm(found - exact) / np.linalg.norm(exact))
                self.assertLess(errors[0], errors[1] / 5)

    def test_files_of_fp16(self):
        """Are served in fp32 unless --precision says otherwise: activations of models
        that were trained in other types may be too large."""
        model, config, weights = self.make_model(vocab=103, positions=90, embed=64)
        h.write_model(model, config, {name: value.astype(np.float16)
                                      for name, value in weights.items()})
        for flags, precision in (([], "fp32"), (FP16, "fp16")):
            binary = self.serve(model, *flags)
            info = json.loads(h.run([binary, "info", "--json"]).stdout)
            self.assertEqual(info["precision"], precision)


if __name__ == "__main__":
    unittest.main()
