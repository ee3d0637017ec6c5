# What is in a compiled binary, and how long it took to compile.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions, symbols and processors of compiled binaries; time to compile."""

import base64
import functools
import json
import os
import re
import shutil
import time
import unittest

import heddle_test as h

LLVM = os.environ.get("HEDDLE_LLVM", "/usr/lib/llvm-19")
OBJDUMP = shutil.which("llvm-objdump-19") or os.path.join(LLVM, "bin/llvm-objdump")
# What Debian 12, Ubuntu 22.04 and RHEL 9 all have.
NEWEST_GLIBC = (2, 34)


class Binaries(h.HeddleTest):
    def kernels(self, *flags):
        """The text of a small model behind the phase `kernels`, and its objects by
        the names of their kernels."""
        model, _, _ = self.make_model(embed=64, heads=2)
        folder = self.path("dumps")
        h.run([h.HEDDLE, "compile", model, "--dump-phases", folder, "--stop-after",
               "kernels", "--cache", "off", *flags])
        with open(os.path.join(folder, "kernels.mlir")) as file:
            text = file.read()
        objects = dict(re.findall(r'plan\.object @(\S+)\.o "([A-Za-z0-9+/=]+)"', text))
        self.assertTrue(objects)
        return text, objects

    def instructions(self, *flags):
        """The names of all instructions in the objects of a small training."""
        _, objects = self.kernels("--batch", 4, "--seq", 32, *flags)
        return self.disassembled(objects.values())

    def disassembled(self, objects):
        found = set()
        for index, data in enumerate(objects):
            name = self.path(f"{index}.o")
            with open(name, "wb") as file:
                file.write(base64.b64decode(data))
            text = h.run([OBJDUMP, "-d", "--no-show-raw-insn", name]).stdout
            found.update(re.findall(r"^\s*[0-9a-f]+:\s+(\w+)", text, re.MULTILINE))
        return found

    def test_training_on_tiles(self):
        for precision, march, instruction in (("bf16", "amx", "tdpbf16ps"),
                                              ("fp16", "amx-fp16", "tdpfp16ps")):
            found = self.instructions("--precision", precision, "--march", march)
            self.assertIn(instruction, found)

    def test_served_products_on_tiles(self):
        # Pairs of bf16 are summed in the order of tiles in every program. Whole
        # numbers have one sum in any order, so a few rows of them stay on vectors.
        for flags, instruction in (([], "tdpbf16ps"),
                                   (["--quantize", "int8"], "tdpbssd"),
                                   (["--quantize", "int4"], "tdpbsud")):
            text, objects = self.kernels(
                "--mode", "serve", "--max-batch", 8, "--max-context", 32, "--march",
                "amx", "--precision", "bf16", "--kv-type", "int8", *flags)
            for program, on_tiles in (("prefill.16", True), ("prefill.32", True),
                                      ("decode.8", True), ("decode.1", not flags)):
                layer = re.search(rf"nn\.func @block\.{program}\(.*?nn\.return", text,
                                  re.DOTALL).group()
                found = self.disassembled(
                    objects[name] for name in re.findall(r"plan\.launch @(\w+)", layer))
                self.assertEqual(instruction in found, on_tiles, (flags, program))

    def test_attention_over_a_cache_on_tiles(self):
        for kind, on_tiles in (("bf16", True), ("int8", False)):
            text, objects = self.kernels(
                "--mode", "serve", "--max-context", 32, "--march", "amx", "--precision",
                "bf16", "--kv-type", kind)
            for program in ("prefill.16", "decode.1"):
                layer = re.search(rf"nn\.func @block\.{program}\(.*?nn\.return", text,
                                  re.DOTALL).group()
                names = re.findall(r"plan\.launch @(\w*paged_attention\w*)", layer)
                self.assertEqual(len(names), 1)
                self.assertEqual("tdpbf16ps" in self.disassembled([objects[names[0]]]),
                                 on_tiles, (kind, program))

    def test_fp32_is_vectorized(self):
        for march in ("x86-64-v3", *["x86-64-v4"] * h.LONG):
            found = self.instructions("--march", march)
            self.assertTrue(any(re.match(r"vfmadd\d+ps", name) for name in found))
            self.assertNotIn("tdpbf16ps", found)

    def test_needs_no_new_library(self):
        model, _, _ = self.make_model()
        for target in ("x86-64", "sm_90"):
            binary = self.compile(model, "--batch", 2, "--seq", 8, "--target", target)
            needed = h.run(["readelf", "-d", binary]).stdout
            libraries = set(re.findall(r"NEEDED.*\[(.*)\]", needed))
            self.assertLessEqual(libraries, {"libc.so.6", "libm.so.6",
                                             "libpthread.so.0", "libdl.so.2",
                                             "ld-linux-x86-64.so.2"})
            symbols = h.run(["readelf", "-W", "--dyn-syms", binary]).stdout
            versions = [tuple(map(int, version.split(".")))
                        for version in re.findall(r"GLIBC_([\d.]+)", symbols)]
            self.assertLessEqual(max(versions), NEWEST_GLIBC)

    def test_holds_no_weights(self):
        model, _, weights = self.make_model(vocab=3000, embed=64)
        binary = self.compile(model, "--batch", 2, "--seq", 8)
        with open(binary, "rb") as file:
            self.assertNotIn(weights["wte.weight"].tobytes()[:256], file.read())

    def test_same_input_same_plan(self):
        model, _, _ = self.make_model()
        contents = []
        for name in ("one", "two"):
            binary = self.compile(model, "--batch", 2, "--seq", 8, output=name,
                                  cache="off")
            plan = self.explain(binary)
            contents.append(plan["plan"])
        self.assertEqual(contents[0], contents[1])


class CompileTime(h.HeddleTest):
    runs_alone = True

    def compile_cold(self, config, *flags):
        name = self.path("config.json")
        with open(name, "w") as file:
            json.dump(config, file)
        h.run([h.HEDDLE, "compile", name, "--init", "random", "--seed", 1, "-o",
               self.path("job"), "--cache", "off", *flags])

    def test_depth_costs_little(self):
        few, many = (functools.partial(
            self.compile_cold, h.gpt2_config(layers=layers, embed=32, heads=2),
            "--batch", 2, "--seq", 8) for layers in (4, 64))
        self.assert_costs(1.5, few, many)

    @h.long_only
    def test_gpt2_compiles_in_three_seconds(self):
        config = h.gpt2_config(vocab=50257, positions=1024, embed=768, layers=12,
                               heads=12)
        best = float("inf")
        for _ in range(3):
            start = time.monotonic()
            self.compile_cold(config, "--batch", 4, "--seq", 64)
            best = min(best, time.monotonic() - start)
        self.assertLessEqual(best, 3.0)


if __name__ == "__main__":
    unittest.main()
