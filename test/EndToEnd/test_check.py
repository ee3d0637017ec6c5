# BINARY check: the kernels of GPU binaries beside plain ones, in emulation.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`check` runs each kernel of a plan on the GPU, and one that was made of the
same body as plainly as possible. A kernel that was damaged is found by name."""

import json
import os
import re
import shutil
import unittest

import families
import heddle_test as h

# As of test_gpu.py, with which kernels are shared.
ROWS, SEQ, VOCAB = 4, 19, 97


class Check(h.HeddleTest):
    def check(self, binary, *flags, status=0, emulate=()):
        return h.run([h.HEDDLE, "emulate", *emulate, "--", binary, "check", *flags],
                     status)

    def compile_for(self, target, model, *flags, output="job", **ds):
        return self.compile(model, "--batch", ROWS, "--seq", SEQ, "--target", target,
                            *flags, output=output, config=h.ds_config(**ds))

    def assert_agrees(self, binary, least=10):
        answer = json.loads(self.check(binary, "--json").stdout)
        self.assertTrue(answer["agree"])
        self.assertGreater(len(answer["kernels"]), least)
        for kernel in answer["kernels"]:
            self.assertLessEqual(kernel["error"], kernel["tolerance"], kernel)
            self.assertGreater(kernel["seconds"], 0)
        return answer

    def test_kernels_agree(self):
        model, _, _ = self.make_model(vocab=VOCAB, layers=1, dropout=0.1)
        for precision in ("fp32", "bf16"):
            binary = self.compile_for("sm_90", model, "--precision", precision,
                                      output=precision)
            answer = self.assert_agrees(binary)
            # Some kernels sum in another order, so that not all are equal.
            self.assertGreater(max(k["error"] for k in answer["kernels"]), 0)
            ops = " ".join(kernel["ops"] for kernel in answer["kernels"])
            for op in ("linear", "attention", "embedding", "cross_entropy"):
                self.assertIn(op, ops)


    def test_other_families_and_plans_agree(self):
        """Grouped heads and rotary positions; lengths; sums of segments; parts
        of a vocabulary and of a sequence."""
        config = families.config(num_hidden_layers=1)
        llama = self.path("llama")
        h.write_model(llama, config, families.random_weights(config), "")
        self.assert_agrees(self.compile_for("sm_90", llama, "--precision", "bf16"))
        model, _, _ = self.make_model(vocab=VOCAB, layers=1)
        lamb = {"type": "Lamb", "params": {"lr": 1e-3}}
        for number, (flags, ds) in enumerate([
                (["--mesh", "data=2", "--zero", "3"], {"optimizer": lamb}),
                (["--mesh", "tensor=2", "--sequence-parallel"], {}),
                (["--mesh", "seq=2", "--context", "ring"], {})]):
            with self.subTest(flags=flags):
                config = dict(h.ds_config(), **ds)
                binary = self.compile(model, "--batch", ROWS, "--seq", SEQ + 1,
                                      "--target", "sm_90", *flags,
                                      output="plan" + str(number), config=config)
                self.assert_agrees(binary)

    def damage(self, folder, kernels):
        """The dump with one instruction of the PTX of each kernel changed."""
        with open(os.path.join(folder, "kernels.mlir")) as file:
            text = file.read()
        for kernel, (old, new) in kernels.items():
            place = text.index("plan.object @" + kernel + "_ptx ")
            at = text.index(old, place)
            self.assertLess(at, text.index("plan.object", place + 1), kernel)
            text = text[:at] + new + text[at + len(old):]
        path = self.path("damaged.mlir")
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_finds_a_wrong_kernel_by_name(self):
        model, _, _ = self.make_model(vocab=VOCAB, layers=1)
        folder = self.path("phases")
        self.compile_for("sm_90", model, "--dump-phases", folder)
        wrong = {"layer_norm": ("mul.f32", "add.f32"),
                 "layer_norm_grad_input_layer_norm_grad_weight": ("add.f32", "sub.f32"),
                 "embedding_add": ("add.f32", "sub.f32")}
        damaged = self.damage(folder, wrong)
        binary = self.path("damaged")
        h.run([h.HEDDLE, "compile", damaged, "--start-from", "kernels", "-o", binary],
              env=h.without_ptxas())
        failed = self.check(binary, status=5)
        marked = [line for line in failed.stdout.splitlines() if "WRONG" in line]
        self.assertEqual(len(marked), len(wrong), failed.stdout)
        self.assertIn("error[H0456]", failed.stderr)
        for kernel in wrong:
            self.assertTrue(any(re.search(r" k?_?" + kernel, line)
                                for line in marked), kernel)
            self.assertIn(kernel, failed.stderr)

    def test_a_sample_of_elements(self):
        """The beginnings and ends of what would take long; sums of these are whole.
        A kernel that is wrong there is found."""
        model, _, _ = self.make_model(vocab=521, layers=1, positions=61, dropout=0.1)
        flags = ["--batch", 2, "--seq", 61, "--target", "sm_90", "--precision", "bf16"]
        folder = self.path("phases")
        binary = self.compile(model, *flags, "--dump-phases", folder,
                              config=h.ds_config())
        answer = json.loads(self.check(binary, "--json", "--sample", 20000).stdout)
        self.assertTrue(answer["agree"])
        parts = set()
        for kernel in answer["kernels"]:
            self.assertLessEqual(kernel["compared"], kernel["elements"])
            self.assertGreater(kernel["compared"], 0, kernel)
            if kernel["compared"] < kernel["elements"]:
                parts.update(kernel["ops"].split(" + "))
        self.assertLessEqual({"linear", "cross_entropy_grad"}, parts)
        whole = json.loads(self.check(binary, "--json").stdout)
        for kernel in whole["kernels"]:
            self.assertEqual(kernel["compared"], kernel["elements"])
        self.assertLess(sum(kernel["plain_seconds"] for kernel in answer["kernels"]),
                        sum(kernel["plain_seconds"] for kernel in whole["kernels"]))
        damaged = self.damage(folder, {"layer_norm": ("mul.f32", "add.f32")})
        wrong = self.path("damaged")
        h.run([h.HEDDLE, "compile", damaged, "--start-from", "kernels", "-o", wrong],
              env=h.without_ptxas())
        said = self.check(wrong, "--sample", 1, status=5)
        self.assertRegex(said.stdout, r"k_layer_norm.* WRONG")

    def test_plain_kernels_assemble(self):
        ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
        if not os.path.exists(ptxas):
            self.skipTest("there is no ptxas")
        model, _, _ = self.make_model(vocab=VOCAB, layers=1, dropout=0.1)
        binary = self.compile_for("sm_80", model, "--precision", "bf16")
        section = self.path("kernels")
        h.run(["objcopy", "--dump-section", ".heddle.kernels=" + section, binary,
               "/dev/null"])
        with open(section, "rb") as file:
            image = json.loads(file.read().split(b"\0")[0])  # Then come the cubins.
        self.assertEqual(len(image["plain"]), len(image["texts"]))
        for number, plain in enumerate(image["plain"][::5]):
            path = self.path(f"plain{number}.ptx")
            with open(path, "w") as file:
                file.write(plain["text"])
            h.run([ptxas, "-arch=sm_80", "-O1", path, "-o", self.path("plain.cubin")])

    def test_needs_a_gpu_and_its_code(self):
        model, _, _ = self.make_model(vocab=VOCAB, layers=1)
        failed = h.run([self.compile_for("x86-64", model), "check"], 2)
        self.assertIn("error[H0188]", failed.stderr)
        both = self.compile_for("x86-64,sm_90", model, output="both")
        self.assertIn("error[H0280]", h.run([both, "check"], 4).stderr)

    def counted_by_driver(self, binary):
        """What each kernel did in `check`, in all of its blocks. There it gets
        the numbers that explain gives it."""
        path = self.path("counts.json")
        h.run([h.HEDDLE, "emulate", "--", binary, "check"],
              env=dict(os.environ, HEDDLE_EMULATE_COUNTS=path,
                       HEDDLE_EMULATE_CHECK="light"))
        with open(path) as file:
            return json.load(file)["counted"]

    def test_counts_of_blocks_stand_for_all(self):
        """Sizes that divide nothing, ids at random, launches of few blocks and of
        more than explain runs."""
        model, _, _ = self.make_model(vocab=307, layers=1, positions=149)
        binary = self.compile(model, "--batch", 3, "--seq", 149, "--target", "sm_90",
                              "--gemm", "generated", config=h.ds_config())
        counted = self.counted_by_driver(binary)
        estimates = 0
        for kernel in self.explain(binary, "--kernels")["kernels"]:
            for launch in kernel["launches"]:
                some, all_blocks = launch["counted"], counted[launch["symbol"]]
                share = 0 if some["exact"] else 0.1
                estimates += not some["exact"]
                for key, number in all_blocks.items():
                    self.assertLessEqual(abs(some[key] - number), share * number,
                                         (kernel["name"], key, some, number))
        self.assertGreater(estimates, 0)

    def test_explains_launches(self):
        """Tensor cores do whole tiles of a product, and no kernel moves less than
        its operands."""
        model, _, _ = self.make_model(vocab=VOCAB, layers=1)
        binary = self.compile_for("sm_90", model, "--precision", "bf16")
        found = self.explain(binary, "--kernels")
        self.assertEqual(found["target"], "sm_90")
        kernels = {kernel["ops"]: kernel for kernel in found["kernels"]}
        for kernel in found["kernels"]:
            for launch in kernel["launches"]:
                self.assertNotIn("fault", launch["counted"], kernel["name"])
                self.assertTrue(launch["counted"]["exact"], launch)
                self.assertLessEqual(launch["dynamic_shared_bytes"],
                                     launch["shared_bytes"])
                if "registers" in launch:
                    self.assertGreater(launch["registers"], 0)
                    self.assertTrue(0 < launch["occupancy"] <= 1, launch)
        product = sum(launch["counted"]["tensor_operations"]
                      for launch in kernels["linear + gelu_tanh"]["launches"])
        # 76 rows, 48 by 192, in whole tiles.
        self.assertGreaterEqual(product, 2 * ROWS * SEQ * 48 * 192)
        self.assertEqual(product % (2 * 16 * 8 * 16), 0)
        for ops in ("layer_norm", "linear + gelu_tanh"):
            moved = kernels[ops]["launches"][0]["counted"]
            self.assertGreaterEqual(32 * moved["sectors"], moved["bytes"])
            self.assertGreaterEqual(moved["bytes"], kernels[ops]["bytes"])
        text = h.run([h.HEDDLE, "explain", binary, "--kernels"]).stdout
        self.assertIn("occupancy is computed", text)
        self.assertIn("k_layer_norm", text)
        cpu = self.compile_for("x86-64", model, output="cpu")
        self.assertIn("error[H0189]",
                      h.run([h.HEDDLE, "explain", cpu, "--kernels"], 2).stderr)
        both = self.compile_for("x86-64,sm_80,sm_90", model, output="both")
        for flags, target in (([], "x86-64"), (["--target", "sm_90"], "sm_90"),
                              (["--kernels"], "sm_80"),
                              (["--kernels", "--target", "sm_90"], "sm_90")):
            said = h.run([h.HEDDLE, "explain", both, "--json", *flags]).stdout
            self.assertEqual(json.loads(said)["target"], target)
        for flags in (["--target", "sm_70"], ["--kernels", "--target", "x86-64"],
                      ["--program", "train", "--trace", "t.json"]):
            self.assertIn("error[H0189]",
                          h.run([h.HEDDLE, "explain", both, *flags], 2).stderr)


if __name__ == "__main__":
    unittest.main()
