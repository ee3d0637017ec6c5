# Models whose files hold codes: heddle quantize, GPTQ's and AWQ's directories.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Directories are written here from the layouts that their tools document, and read
back by numpy; logits are those of the same values without codes."""

import json
import os
import re
import shlex
import shutil
import unittest
import zlib

import numpy

import families
import heddle_test as h
from test_gpu import emulated

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def pack(codes, bits, order=None):
    """Words of the codes along the last dimension."""
    per_word = 32 // bits
    codes = codes.reshape(*codes.shape[:-1], -1, per_word).astype(numpy.uint32)
    if order:
        codes = codes[..., order]
    places = numpy.arange(per_word, dtype=numpy.uint32) * bits
    return (codes << places).sum(axis=-1, dtype=numpy.uint32).view(numpy.int32)


def unpack(words, bits):
    """Codes of the words, along the last dimension."""
    places = numpy.arange(32 // bits, dtype=numpy.uint32) * bits
    codes = words.view(numpy.uint32)[..., None] >> places & (1 << bits) - 1
    return codes.reshape(*words.shape[:-1], -1).astype(numpy.int64)


def code(weight, bits, group, zeros, seed):
    """Codes [in, out], zeros [groups, out] and scales of a weight [in, out]: not
    those that Heddle would choose."""
    random = numpy.random.default_rng(seed)
    count = len(weight)
    weight = numpy.pad(weight, ((0, -count % (group or count)), (0, 0)))
    groups = weight.reshape(-1, group or count, weight.shape[1])
    scales = (numpy.abs(groups).max(axis=1) / 2 ** (bits - 1) *
              random.uniform(1.0, 1.3, groups.shape[::2])).astype(numpy.float16)
    middle = 2 ** (bits - 1)
    zero = (random.integers(middle - 3, middle + 3, scales.shape) if zeros else
            numpy.full(scales.shape, middle))
    codes = numpy.round(groups / scales[:, None].astype(numpy.float32)) + zero[:, None]
    codes = numpy.clip(codes, 0, 2 ** bits - 1).astype(numpy.int64)
    values = scales[:, None].astype(numpy.float32) * (codes - zero[:, None])
    values = values.reshape(weight.shape).astype(numpy.float32)
    return codes.reshape(weight.shape)[:count], zero, scales, values[:count]


class Quantize(h.HeddleTest):
    def model(self, **keys):
        config = families.config(**{"intermediate_size": 48, **keys})
        weights = families.random_weights(config)
        h.write_model(self.path("plain"), config, weights, "")
        return config, weights

    def coded(self, config, weights, method, bits, group, zeros=True, **more):
        """A directory of codes, and one of their values."""
        files, values = {}, {}
        for number, (name, tensor) in enumerate(sorted(weights.items())):
            if "layers." not in name or tensor.ndim != 2:
                files[name] = values[name] = tensor
                continue
            product = name.rsplit(".", 1)[0]
            codes, zero, scales, made = code(tensor.T, bits, group, zeros, number)
            values[name] = numpy.ascontiguousarray(made.T)
            if method == "awq":
                files[product + ".qweight"] = pack(codes, bits, AWQ_ORDER)
                files[product + ".qzeros"] = pack(zero, bits, AWQ_ORDER)
            else:
                less = 0 if more.get("checkpoint_format") == "gptq_v2" else 1
                files[product + ".qweight"] = pack(codes.T.copy(), bits).T.copy()
                files[product + ".qzeros"] = pack(zero - less, bits)
                files[product + ".g_idx"] = (numpy.arange(len(codes)) //
                                             (group or len(codes))).astype(numpy.int32)
            files[product + ".scales"] = scales
        said = {"quant_method": method, "bits": bits, "group_size": group or -1,
                **more}
        if method == "gptq":
            said["sym"] = not zeros
        h.write_model(self.path("coded"), dict(config, quantization_config=said), {}, "")
        h.write_safetensors(self.path("coded", "model.safetensors"), files)
        h.write_model(self.path("values"), config, values, "")
        return self.path("coded"), self.path("values")

    def serving(self, folder, *flags, output="serving"):
        h.run([h.HEDDLE, "compile", folder, "--mode", "serve", "--max-context", 32,
               "--max-batch", 1, "--march", "x86-64-v3", "-o", self.path(output), *flags])
        return self.path(output)

    def logits(self, binary, *flags, ranks=1, **variables):
        """`binary` may be a command that runs it."""
        command = binary if isinstance(binary, list) else [binary]
        h.run_ranks(ranks, [*command, "logits", "--prompt-ids", "1,2,3,5,8,13,21", "-o",
                            self.path("logits.safetensors"), *flags], **variables)
        return h.read_safetensors(self.path("logits.safetensors"))["logits"]

    def test_codes_of_files_stay(self):
        """Bit for bit: the codes are multiplied, not values rounded once more."""
        config, weights = self.model()
        cases = [("gptq", 4, 8, True, {"checkpoint_format": "gptq_v2"}),
                 ("gptq", 8, 16, False, {}), ("awq", 4, 16, True, {"version": "gemm"})]
        for method, bits, group, zeros, more in cases:
            with self.subTest(method, bits=bits, group=group):
                coded, values = self.coded(config, weights, method, bits, group, zeros,
                                           **more)
                binary = self.serving(coded)
                info = json.loads(h.run([binary, "info", "--json"]).stdout)
                actual = self.logits(binary)
                expected = self.logits(self.serving(values, output="of-values"))
                self.assertLess(numpy.abs(actual - expected).max(), 1e-5)
                self.assertTrue((actual == self.logits(binary, "--decode")).all())
                # Less memory than their values take.
                whole = self.serving(coded, "--quantize", "none", output="whole")
                self.assertLess(
                    info["memory"]["peak"],
                    json.loads(h.run([whole, "info", "--json"]).stdout)["memory"]["peak"])
                self.assertLess(numpy.abs(self.logits(whole) - expected).max(), 1e-5)

    def as_written(self, coded, name, file_name=None):
        """The directory as older tools wrote it: codes, what they are in a file of
        its own, a name that says it, a bias of zeros for each product."""
        with open(os.path.join(coded, "config.json")) as stream:
            config = json.load(stream)
        said = config.pop("quantization_config")
        with open(os.path.join(coded, "config.json"), "w") as stream:
            json.dump(config, stream)
        if file_name:
            with open(os.path.join(coded, file_name), "w") as stream:
                json.dump(said, stream)
        path = os.path.join(coded, "model.safetensors")
        files = h.read_safetensors(path)
        for product in [key[:-8] for key in files if key.endswith(".qweight")]:
            outputs = files[product + ".scales"].shape[1]
            files[product + ".bias"] = numpy.zeros(outputs, numpy.float16)
        os.remove(path)
        h.write_safetensors(os.path.join(coded, name), files)
        return files

    def test_files_as_autogptq_wrote_them(self):
        config, weights = self.model()
        coded, values = self.coded(config, weights, "gptq", 4, 8)
        files = self.as_written(coded, "gptq_model-4bit-8g.safetensors",
                                "quantize_config.json")
        expected = self.logits(self.serving(values, output="of-values"))
        self.assertLess(numpy.abs(self.logits(self.serving(coded)) - expected).max(), 1e-5)
        said = h.run([h.HEDDLE, "compile", coded, "--mode", "serve", "--explain-config"]).stdout
        self.assertIn("a bias of zeros", " ".join(said.split()))

        def refused(code, *words):
            found = h.run([h.HEDDLE, "compile", coded, "--mode", "serve",
                           "--explain-config"], 3).stderr
            self.assertIn(f"error[{code}]", found)
            for word in words:
                self.assertIn(word, found)

        # A bias that is not zero is none that may be left out.
        bias = "model.layers.0.mlp.down_proj.bias"
        changed = dict(files, **{bias: files[bias] + numpy.float16(1)})
        h.write_safetensors(os.path.join(coded, "gptq_model-4bit-8g.safetensors"), changed)
        refused("H0395", bias, "a bias that is not zero")
        h.write_safetensors(os.path.join(coded, "gptq_model-4bit-8g.safetensors"), files)
        with open(os.path.join(coded, "quantize_config.json"), "r+") as stream:
            said = json.load(stream)
            stream.seek(0)
            json.dump(dict(said, checkpoint_format="marlin"), stream)
        refused("H0376", "marlin")
        os.remove(os.path.join(coded, "quantize_config.json"))
        refused("H0399", "quantize_config.json")

    def test_files_as_autoawq_wrote_them(self):
        config, weights = self.model()
        coded, values = self.coded(config, weights, "awq", 4, 16)
        self.as_written(coded, "model.safetensors")
        with open(os.path.join(coded, "quant_config.json"), "w") as stream:
            json.dump({"zero_point": True, "q_group_size": 16, "w_bit": 4,
                       "version": "GEMM"}, stream)
        expected = self.logits(self.serving(values, output="of-values"))
        self.assertLess(numpy.abs(self.logits(self.serving(coded)) - expected).max(), 1e-5)

    def test_says_that_codes_cannot_stay(self):
        config, weights = self.model()
        coded, _ = self.coded(config, weights, "gptq", 4, 0)
        compile_ = [h.HEDDLE, "compile", coded, "--mode", "serve", "--max-batch", 1, "-o",
                    self.path("serving")]
        said = h.run(compile_).stderr
        self.assertIn("warning: the codes of", said)
        self.assertIn("become fp32 numbers", said)
        self.assertIn("one group for all inputs", said)
        for flags in (["--quantize", "int4", "--group", 8], ["--quantize", "none"]):
            self.assertNotIn("warning", h.run([*compile_, *flags]).stderr)

    @h.needs_mpi
    def test_tensor_ranks(self):
        """Each reads its part of the codes: groups of its inputs, or the scale that
        all inputs share."""
        config, weights = self.model(num_key_value_heads=4)
        cases = [("gptq", 4, 8, 2, {}), ("gptq", 8, 0, 2, {}),
                 ("awq", 4, 8, 2, {"version": "gemm"})]
        for method, bits, group, ranks, more in cases:
            with self.subTest(method, bits=bits, group=group):
                coded, values = self.coded(config, weights, method, bits, group, **more)
                binary = self.serving(coded, "--mesh", f"tensor={ranks}")
                actual = self.logits(binary, ranks=ranks)
                expected = self.logits(self.serving(values, output="of-values"))
                self.assertLess(numpy.abs(actual - expected).max(), 1e-5)
                owners = self.explain(binary)["memory"]["owners"]
                self.assertIn("packed weights", owners)
        # 24 inputs of down_proj on each of two ranks: values are computed with.
        coded, values = self.coded(config, weights, "gptq", 4, 16)
        found = h.run([h.HEDDLE, "compile", coded, "--mode", "serve", "--mesh", "tensor=2",
                       "-o", self.path("x")], 2)
        self.assertIn("error[H0144]", found.stderr)
        self.assertIn("--quantize none", found.stderr)
        binary = self.serving(coded, "--mesh", "tensor=2", "--quantize", "none")
        expected = self.logits(self.serving(values, output="of-values"))
        self.assertLess(numpy.abs(self.logits(binary, ranks=2) - expected).max(), 1e-5)

    def test_names_of_what_is_kept(self):
        """Those of the files, and Heddle's without the prefix."""
        self.model()
        logits = [self.logits(self.serving(self.path("plain"), "--quantize", "int8", *kept))
                  for kept in ([], ["--keep-16bit", "layers.*.down_proj.weight"],
                               ["--keep-16bit", "model.layers.*.mlp.down_proj.weight"])]
        self.assertTrue((logits[1] == logits[2]).all())
        self.assertFalse((logits[0] == logits[1]).all())

    def test_a_last_group_that_is_short(self):
        """Values are computed with where groups do not divide the inputs."""
        config, weights = self.model(intermediate_size=40)
        for method, zeros in (("gptq", False), ("awq", True)):
            coded, values = self.coded(config, weights, method, 4, 16, zeros)
            binary = self.serving(coded)
            actual = self.logits(binary)
            plain = self.serving(values, output="of-values")
            self.assertLess(numpy.abs(actual - self.logits(plain)).max(), 1e-5)
            # The others stay codes.
            sizes = [json.loads(h.run([each, "info", "--json"]).stdout)["memory"]
                     ["persistent"] for each in (binary, plain)]
            self.assertLess(sizes[0], 0.8 * sizes[1])

    def reordered(self, group):
        """Codes with desc_act, and their values: the inputs of q, k and v in one
        order, those of other products each in its own."""
        config, weights = self.model(num_key_value_heads=4)
        coded, values = self.coded(config, weights, "gptq", 4, group, desc_act=True)
        file, plain = (os.path.join(folder, "model.safetensors")
                       for folder in (coded, values))
        files, made = h.read_safetensors(file), h.read_safetensors(plain)
        for name in [name for name in files if name.endswith("g_idx")]:
            product = name[:-len(".g_idx")]
            seed = zlib.crc32(re.sub("[qkv]_proj", "qkv", product).encode())
            order = numpy.random.default_rng(seed).permutation(len(files[name]))
            codes = unpack(files[product + ".qweight"].T.copy(), 4).T[order]
            files[product + ".qweight"] = pack(codes.T.copy(), 4).T.copy()
            files[name] = files[name][order].copy()
            made[product + ".weight"] = made[product + ".weight"][:, order].copy()
        h.write_safetensors(file, files)
        h.write_safetensors(plain, made)
        return coded, values

    def test_inputs_in_another_order(self):
        """desc_act: codes stay, and what they are multiplied with is reordered."""
        coded, values = self.reordered(8)
        binary = self.serving(coded)
        actual = self.logits(binary)
        expected = self.logits(self.serving(values, output="of-values"))
        self.assertLess(numpy.abs(actual - expected).max(), 1e-5)
        self.assertTrue((actual == self.logits(binary, "--decode")).all())
        whole = self.serving(coded, "--quantize", "none", output="whole")
        self.assertLess(numpy.abs(self.logits(whole) - expected).max(), 1e-5)
        packed = [self.explain(each)["memory"]["owners"]["packed weights"]
                  for each in (binary, whole)]
        self.assertLess(packed[0], 0.5 * packed[1])
        text = h.run([h.HEDDLE, "explain", binary, "--program", "decode/1"]).stdout
        self.assertIn("reorder", text)
        # q, k and v share an order, which gate and up do not.
        ir = h.run([h.HEDDLE, "compile", coded, "--mode", "serve", "--stop-after",
                    "import", "--dump-phases", "-"]).stdout
        layer = ir.split("nn.func @block.decode")[1].split("nn.func")[0]
        self.assertEqual(layer.count("nn.reorder"), 5)

    def test_inputs_in_another_order_on_gpus(self):
        """The same binary on a CPU, and on emulated GPUs token by token."""
        coded, _ = self.reordered(8)
        binary = self.serving(coded, "--target", "x86-64,sm_90")
        expected = self.logits(binary)
        actual = self.logits(emulated(binary), **h.LIGHT)
        self.assertTrue(
            (actual == self.logits(emulated(binary), "--decode", **h.LIGHT)).all())
        self.assertLess(numpy.abs(actual - expected).max(), 1e-3)

    def test_codes_of_awq_on_gpus(self):
        """The same binary on a CPU, and on emulated GPUs token by token; and the values
        of the codes on a CPU."""
        config, weights = self.model(num_key_value_heads=4)
        coded, values = self.coded(config, weights, "awq", 4, 16, version="gemm")
        binary = self.serving(coded, "--target", "x86-64,sm_90")
        actual = self.logits(emulated(binary), **h.LIGHT)
        self.assertTrue(
            (actual == self.logits(emulated(binary), "--decode", **h.LIGHT)).all())
        for expected in self.logits(binary), self.logits(
                self.serving(values, output="of-values")):
            self.assertLess(numpy.abs(actual - expected).max(), 1e-3)

    @h.needs_mpi
    def test_inputs_in_another_order_of_ranks(self):
        coded, values = self.reordered(8)
        one, two = self.serving(coded), self.serving(coded, "--mesh", "tensor=2",
                                                     output="two")
        expected = self.logits(self.serving(values, output="of-values"))
        actual = self.logits(two, ranks=2)
        self.assertLess(numpy.abs(actual - expected).max(), 1e-5)
        self.assertTrue((actual == self.logits(two, "--decode", ranks=2)).all())
        owners = [self.explain(each)["memory"]["owners"] for each in (one, two)]
        self.assertEqual(owners[0]["cache"], 2 * owners[1]["cache"])
        self.assertLess(owners[1]["packed weights"], 0.8 * owners[0]["packed weights"])

    def test_the_interpreter_has_the_codes_of_files(self):
        """Before weights are packed it has their values, then the same codes."""
        coded, _ = self.reordered(8)
        tokens = numpy.arange(1, 33, dtype=numpy.int32)
        binary = self.serving(coded)
        h.run([binary, "logits", "--prompt-ids", ",".join(map(str, tokens)), "-o",
               self.path("logits.safetensors")])
        expected = h.read_safetensors(self.path("logits.safetensors"))["logits"]
        h.write_safetensors(self.path("in.safetensors"), {
            "ids": tokens[None], "positions": tokens[None] - 1,
            "lengths": numpy.array([32], numpy.int32),
            "pages": numpy.array([[0, 1]], numpy.int32)})
        h.run([h.HEDDLE, "compile", coded, "--mode", "serve", "--max-context", 32,
               "--max-batch", 2, "--march", "x86-64-v3", "--dump-phases",
               self.path("phases"), "-o", self.path("x")])
        for phase in ("import", "fuse", "memory"):
            out = self.path(phase + ".safetensors")
            dump, = (os.path.join(self.path("phases"), name)
                     for name in os.listdir(self.path("phases")) if phase in name)
            h.run([h.HEDDLE, "eval", dump, "--program", "score/32", "--inputs",
                   self.path("in.safetensors"), "-o", out])
            found = h.read_safetensors(out)["logits"][0]
            self.assertLess(numpy.abs(found - expected).max(), 1e-5, phase)

    def test_other_weights_in_other_orders(self):
        """What was found of orders at compile time holds of the weights at the start,
        or is an error; codes of another kind are rounded once more, which is said."""
        coded, _ = self.reordered(8)
        binary = self.serving(coded)
        logits = self.logits(binary)
        file = os.path.join(coded, "model.safetensors")
        files = h.read_safetensors(file)
        attention = "model.layers.0.self_attn."
        other = dict(files)
        for name in ("q_proj.g_idx", "k_proj.g_idx", "v_proj.g_idx"):
            other[attention + name] = files[attention + name][::-1].copy()
        h.write_safetensors(file, other)
        given = ["--weights", coded]
        self.assertTrue((self.logits(binary, *given) != logits).any())
        other[attention + "k_proj.g_idx"] = files[attention + "k_proj.g_idx"]
        h.write_safetensors(file, other)
        start = ["logits", "--prompt-ids", "1,2", "-o", self.path("x"), *given]
        found = h.run([binary, *start], 3).stderr
        self.assertIn("error[H0389]", found)
        self.assertIn("compile again", found)
        # Compiled in order, and started in another one.
        plain, _ = self.coded(*self.model(num_key_value_heads=4), "gptq", 4, 8,
                              desc_act=True)
        binary = self.serving(plain)
        h.write_safetensors(file, other)
        found = h.run([binary, *start], 3).stderr
        self.assertIn("error[H0389]", found)
        self.assertIn("that of the groups", found)
        # Whose inputs have no order.
        plain, _ = self.coded(*self.model(num_key_value_heads=4), "gptq", 4, 8)
        found = h.run([binary, *start], 3).stderr
        self.assertIn("error[H0389]", found)

    def test_other_weights_with_other_codes(self):
        config, weights = self.model()
        coded, _ = self.coded(config, weights, "gptq", 4, 8)
        binary = self.serving(coded)
        logits = ["logits", "--prompt-ids", "1,2", "-o", self.path("x")]
        self.assertNotIn("warning", h.run([binary, *logits]).stderr)
        self.coded(config, weights, "gptq", 4, 16)
        said = h.run([binary, *logits, "--weights", coded]).stderr
        self.assertIn("warning[H0464]: the codes of 14 weights", said)
        self.assertIn("rounded once more", said)
        asked = self.serving(coded, "--quantize", "int4", "--group", 8)
        self.assertNotIn("warning", h.run([asked, *logits]).stderr)

    def test_an_order_that_is_that_of_groups(self):
        """desc_act with static groups, or one group for all inputs: codes stay."""
        config, weights = self.model()
        for bits, group in ((4, 8), (8, 0)):
            with self.subTest(bits=bits, group=group):
                coded, values = self.coded(config, weights, "gptq", bits, group,
                                           desc_act=True)
                binary = self.serving(coded)
                expected = self.logits(self.serving(values, output="of-values"))
                self.assertLess(numpy.abs(self.logits(binary) - expected).max(), 1e-5)
                text = h.run([h.HEDDLE, "explain", binary, "--program", "decode/1"])
                self.assertNotIn("reorder", text.stdout)

    def test_names_of_weights_in_another_order(self):
        """As without: those of the files, and Heddle's without the prefix."""
        coded, _ = self.reordered(8)
        logits = [self.logits(self.serving(coded, "--quantize", "int4", "--group", 16,
                                           *kept))
                  for kept in ([], ["--keep-16bit", "layers.*.down_proj.weight"],
                               ["--keep-16bit", "model.layers.*.mlp.down_proj.weight"])]
        self.assertTrue((logits[1] == logits[2]).all())
        self.assertFalse((logits[0] == logits[1]).all())

    def test_flags_beside_codes_that_stay(self):
        config, weights = self.model()
        coded, values = self.coded(config, weights, "gptq", 4, 8)
        kept = self.serving(coded, "--keep-16bit", "layers.*.down_proj.weight")
        expected = self.logits(self.serving(values, output="of-values"))
        self.assertLess(numpy.abs(self.logits(kept) - expected).max(), 1e-5)
        sizes = [self.explain(each)["memory"]["owners"]["packed weights"]
                 for each in (kept, self.serving(coded, output="all"))]
        self.assertGreater(sizes[0], sizes[1])
        for flag in (["--group", 16], ["--quantize-zeros"]):
            found = h.run([h.HEDDLE, "compile", coded, "--mode", "serve", *flag, "-o",
                           self.path("x")], 2).stderr
            self.assertIn("error[H0134]", found)
            self.assertIn("rounds them once more", found)

    def test_groups_that_are_not_alike(self):
        """desc_act whose groups do not have as many inputs each: values are computed
        with, which compile says, and the other codes stay."""
        coded, values = self.reordered(8)
        file, plain = (os.path.join(folder, "model.safetensors")
                       for folder in (coded, values))
        files, made = h.read_safetensors(file), h.read_safetensors(plain)
        product = "model.layers.1.mlp.down_proj"
        groups, scales = files[product + ".g_idx"].copy(), files[product + ".scales"]
        moved = int(numpy.flatnonzero(groups == 0)[0])
        groups[moved] = 1
        files[product + ".g_idx"] = groups
        weight = made[product + ".weight"] = made[product + ".weight"].copy()
        codes = unpack(files[product + ".qweight"].T.copy(), 4)[:, moved]
        zeros = unpack(files[product + ".qzeros"], 4)[1] + 1
        weight[:, moved] = scales[1].astype(numpy.float32) * (codes - zeros)
        h.write_safetensors(file, files)
        h.write_safetensors(plain, made)
        expected = self.logits(self.serving(values, output="of-values"))
        compile_ = [h.HEDDLE, "compile", coded, "--mode", "serve", "--max-batch", 1, "-o",
                    self.path("x")]
        said = h.run(compile_).stderr
        self.assertIn("warning: codes of 2 weights", said)
        self.assertIn("layers.0.mlp.down_proj.weight, become fp32 numbers", said)
        for flags in ([], ["--quantize", "none"]):
            binary = self.serving(coded, *flags)
            self.assertLess(numpy.abs(self.logits(binary) - expected).max(), 1e-5)
        self.assertNotIn("warning", h.run([*compile_, "--quantize", "none"]).stderr)

    def test_layers_with_codes_and_without(self):
        """Of a product that has codes in one layer only, values are computed with."""
        coded, values = self.reordered(8)
        file, plain = (os.path.join(folder, "model.safetensors")
                       for folder in (coded, values))
        files, made = h.read_safetensors(file), h.read_safetensors(plain)
        product = "model.layers.0.mlp.down_proj."
        files = {name: tensor for name, tensor in files.items()
                 if not name.startswith(product)}
        files[product + "weight"] = made[product + "weight"]
        h.write_safetensors(file, files)
        expected = self.logits(self.serving(values, output="of-values"))
        actual = self.logits(self.serving(coded))
        self.assertLess(numpy.abs(actual - expected).max(), 1e-5)

    def test_quantize(self):
        """What it writes is what its report says, and what numpy reads."""
        config, weights = self.model()
        for bits, group, zeros in ((4, 16, True), (8, 0, False), (4, 8, False)):
            with self.subTest(bits=bits, group=group, zeros=zeros):
                made, report = self.path(f"made{bits}{group}"), self.path("report.json")
                flags = ["--zeros"] if zeros else []
                h.run([h.HEDDLE, "quantize", self.path("plain"), "--bits", bits, "--group",
                       group, *flags, "--keep-16bit", "*.down_proj.weight", "--report",
                       report, "-o", made])
                files = h.read_safetensors(os.path.join(made, "model.safetensors"))
                with open(report) as file:
                    said = json.load(file)
                self.assertEqual(said["bytes_after"],
                                 sum(tensor.nbytes for tensor in files.values()))
                self.assertEqual(len(said["weights"]), 6 * config["num_hidden_layers"])
                values = dict(weights)
                for each in said["weights"]:
                    name = each["name"]
                    product = name[:-len(".weight")]
                    codes = unpack(files[product + ".qweight"].T.copy(), bits).T
                    zero = (unpack(files[product + ".qzeros"], bits) + 1) % 2 ** bits
                    groups = files[product + ".g_idx"]
                    scales = files[product + ".scales"].astype(numpy.float32)
                    made_values = (scales[groups] * (codes - zero[groups])).T
                    off = numpy.linalg.norm(made_values - weights[name])
                    self.assert_close(each["error"],
                                      off / numpy.linalg.norm(weights[name]), 1e-5, name)
                    self.assertLess(each["error"], {4: 0.15, 8: 0.012}[bits])
                    values[name] = made_values.astype(numpy.float32)
                h.write_model(self.path("values"), config, values, "")
                expected = self.logits(self.serving(self.path("values"), output="of-values"))
                actual = self.logits(self.serving(made))
                self.assertLess(numpy.abs(actual - expected).max(), 1e-5)

    def check_codes_of(self, binary, group):
        said = h.run([binary, "info"]).stdout
        self.assertRegex(said, rf"\ncodes +[0-9]+ weights with 4 bits, groups of {group} inputs\n")
        codes, = json.loads(h.run([binary, "info", "--json"]).stdout)["codes"]
        self.assertEqual((codes["bits"], codes["group"], codes["zeros"]), (4, group, False))

    def test_what_the_help_names_passes(self):
        """A group that divides all weights, or those that this group does not."""
        # Inputs of 32 and of 48; of 32 and of 36, which words of 8 do not divide.
        for features, group, edit in ((48, 64, "--quantize-group 16"),
                                      (36, 48, "--quantize-group 32 --keep-16bit"),
                                      (36, 32, ".*.mlp.down_proj.weight'")):
            self.model(intermediate_size=features)
            for output, verb in (("made", ["quantize", self.path("plain"), "--bits", "4"]),
                                 ("x", ["compile", self.path("plain"), "--mode", "serve",
                                        "--max-batch", 1, "--quantize", "int4"])):
                with self.subTest(verb[0], features=features):
                    command = [h.HEDDLE, *verb, "-o", self.path(output)]
                    said = h.run([*command, "--group", group], 2).stderr
                    found = re.search("use ((?: ?--quantize-group [0-9]+| ?--keep-16bit '[^']*')+)", said)[1]
                    self.assertIn(edit, found)
                    same = [] if "--quantize-group" in found else ["--group", group]
                    h.run([*command, *same, *shlex.split(found)])
            self.check_codes_of(self.path("x"), 16 if features == 48 else 32)
            shutil.rmtree(self.path("made"))

    def test_bad_input(self):
        config, weights = self.model()
        quantize = [h.HEDDLE, "quantize", self.path("plain"), "-o", self.path("made")]
        found = h.run([*quantize, "--group", 24], 2)
        self.assertIn("error[H0152]", found.stderr)
        self.assertFalse(os.path.exists(self.path("made", "model.safetensors")))
        coded, _ = self.coded(config, weights, "gptq", 4, 8)
        found = h.run([h.HEDDLE, "quantize", coded, "-o", self.path("made")], 2)
        self.assertIn("error[H0152]", found.stderr)
        found = h.run([h.HEDDLE, "compile", coded, "-o", self.path("x")], 2)
        self.assertIn("error[H0151]", found.stderr)
        file = os.path.join(coded, "config.json")
        with open(file) as stream:
            good = stream.read()
        for old, new, code in (('"bits": 4', '"bits": 3', "H0376"),
                               ('"gptq"', '"hqq"', "H0376"),
                               ('"group_size": 8', '"group_size": 16', "H0377")):
            with open(file, "w") as stream:
                stream.write(good.replace(old, new))
            found = h.run([h.HEDDLE, "compile", coded, "--mode", "serve", "-o",
                           self.path("x")], 3)
            self.assertIn(f"error[{code}]", found.stderr)


if __name__ == "__main__":
    unittest.main()
