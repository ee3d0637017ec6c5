# What other compilers write, in the machine for PTX.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts of compilers that are proven on GPUs judge the machine: if it computes
what numpy computes, and finds no fault, then instructions mean in it what they
mean on a GPU. HEDDLE_TEST_LONG=1 installs Triton and nvcc; else Triton's kernels
are left out, and CUDA's need an nvcc that is here. What they computed is recorded (HEDDLE_TEST_RECORD=1 does it
again): Heddle's own kernels of the same functions have to compute it too."""

import ctypes
import itertools
import json
import os
import re
import shutil
import unittest

import numpy as np

import heddle_test as h

RUNNER = os.path.join(h.BUILD, "bin", "HeddleRunPtx")
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
OPT = os.path.join(h.BUILD, "bin", "heddle-opt")
HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "..", "Oracles", "triton.json")
NVCC_RECORD = os.path.join(HERE, "..", "Oracles", "nvcc.json")


def to_bf16(values):
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


# How numbers of a type are made and read, and the error of a rounding to it.
TYPES = {"bf16": (to_bf16, from_bf16, 4e-3),
         "fp16": (lambda v: np.asarray(v, np.float16), lambda v: v.astype(np.float32), 1e-3),
         "fp32": (lambda v: np.asarray(v, np.float32), lambda v: v, 1e-6)}


class Map:
    """A map of an array; `box` begins with the last dimension. Of CUDA's numbers, type 9 is bf16
    and swizzle 3 that of 128 bytes."""

    def __init__(self, array, box, type=9, swizzle=3):
        self.array, self.box, self.type, self.swizzle = array, box, type, swizzle


def find_nvcc():
    """With HEDDLE_TEST_LONG=1 that of the pinned packages."""
    if not h.LONG:
        return NVCC
    packages = h.run([h.oracle_python(), "-c", "import nvidia; print(*nvidia.__path__)"])
    return os.path.join(packages.stdout.strip(), "cu13", "bin", "nvcc")


class PtxTest(h.HeddleTest):
    def launch(self, text, kernel, grid, threads, arguments, shared=0):
        """Runs a kernel; arrays are read and written, ints are i32, floats f32."""
        words, arrays = [], []
        for i, value in enumerate(arguments):
            if isinstance(value, np.ndarray):
                path = self.path(f"buffer{i}")
                value.tofile(path)
                words.append("buffer:" + path)
                arrays.append((path, value))
            elif isinstance(value, Map):
                path = self.path(f"buffer{i}")
                value.array.tofile(path)
                form = [value.swizzle, value.type] + list(value.box)
                words += ["memory:" + path, "map:" + ":".join(
                    [",".join(map(str, form)), ",".join(map(str, value.array.shape[::-1])), path])]
                arrays.append((path, value.array))
            else:
                words.append(("i32:" if isinstance(value, int) else "f32:") + str(value))
        grid = ",".join(str(size) for size in (tuple(grid) + (1, 1))[:3])
        h.run([RUNNER, text, kernel, grid, f"{threads},1,1", str(shared)] + words)
        for path, value in arrays:
            value[...] = np.fromfile(path, value.dtype).reshape(value.shape)

    def record(self, actual, record):
        if os.environ.get("HEDDLE_TEST_RECORD"):
            with open(record, "w") as file:
                json.dump(actual, file)
                file.write("\n")

    def near(self, actual, expected, bound):
        self.assertLess(h.relative(actual, expected), bound)

    def compare(self, name, values, bound, record=RECORD):
        with open(record) as file:
            expected = json.load(file)[name]
        actual = summary(values)
        self.assertEqual(actual["shape"], expected["shape"])
        self.near(np.array(actual["values"]), np.array(expected["values"]), bound)
        self.assertLess(abs(actual["norm"] / expected["norm"] - 1), bound)


class OwnTest(PtxTest):
    def test_every_text_is_known(self):
        """The machine knows all that kernels of a training step consist of."""
        model, _, _ = self.make_model(dropout=0.1)
        cases = [("fp32", "sm_80"), ("bf16", "sm_90")]
        if h.LONG:
            cases += [("fp32", "sm_90"), ("bf16", "sm_80")]
        for precision, chip in cases:
            dumps = self.path(precision + chip)
            h.run([h.HEDDLE, "compile", model, "--batch", "2", "--seq", "16", "--precision",
                   precision, "--target", chip, "--stop-after", "kernels", "--dump-phases", dumps],
                  env=h.without_ptxas())
            with open(os.path.join(dumps, "kernels.mlir")) as file:
                found = re.findall(r'plan\.object @(\S+_ptx) "((?:[^"\\]|\\.)*)"', file.read())
            self.assertGreater(len(found), 15)
            for name, text in found:
                path = self.path(name + ".ptx")
                with open(path, "w") as file:
                    # MLIR writes a byte as two digits of base 16.
                    file.write(re.sub(r"\\([0-9A-F]{2})",
                                      lambda byte: chr(int(byte[1], 16)), text))
                self.assertTrue(h.run([RUNNER, path]).stdout, name)


# The sizes that are recorded divide nothing.
ROWS, WIDTH, STRIDE = 5, 1003, 1008
M, N, K = 200, 144, 112
HEADS, LENGTH, HEAD = 3, 200, 64
RECORDED = [f"product_bf16_{chip}" for chip in (80, 90)]
RECORDED += [f"attention_bf16_{chip}" for chip in (80, 90)]
RECORDED += ["layer_norm_bf16", "layer_norm_fp32"]
ACTIVATIONS = ["gelu", "gelu_tanh", "silu"]


def recorded_inputs(name):
    """Arrays that the name fixes, whatever the version of numpy."""
    kind = name.split("_")[-1 if name.startswith("layer") else -2]
    random = np.random.RandomState(sum(name.encode()))
    shapes = ([(M, K), (K, N)] if name.startswith("product") else
              [(HEADS, LENGTH, HEAD)] * 3 if name.startswith("attention") else
              [(ROWS, WIDTH), (WIDTH,), (WIDTH,)])
    return kind, [TYPES[kind][0](random.standard_normal(shape)) for shape in shapes]


def activation_inputs():
    return (np.random.RandomState(5).standard_normal(WIDTH) * 3).astype(np.float32)


def summary(values):
    """The norm and some of the values."""
    values = np.asarray(values, float)
    at = np.random.RandomState(1).randint(0, values.size, 200)
    return {"shape": list(values.shape), "norm": float(np.linalg.norm(values)),
            "values": [float(f"{v:.9g}") for v in values.flat[at]]}


class RecordedTest(PtxTest):
    """Heddle's kernels against what Triton's and CUDA's gave."""

    def own(self, name, text, arguments, results):
        """Compiles a plan.kernel and runs it on arrays."""
        chip = "sm_90" if name.endswith("90") else "sm_80"
        path = self.path(name + ".mlir")
        with open(path, "w") as file:
            file.write(text)
        made = h.run([OPT, path, f"--gpu-compile-kernels=chip={chip}"]).stdout
        ptx = re.search(r'plan\.object @(?!\S+_(?:plain|cubin) )\S+ "((?:[^"\\]|\\.)*)"', made)[1]
        path = self.path(name + ".ptx")
        with open(path, "w") as file:
            file.write(re.sub(r"\\([0-9A-F]{2})", lambda byte: chr(int(byte[1], 16)), ptx))
        launches = re.findall(r'grid_launch<"(\w+)", grid = \[([\d, ]+)\], '
                              r'block = \[([\d, ]+)\](?:, shared = (\d+))?', made)
        scratch = int((re.search(r"scratch_bytes = (\d+)", made) or [0, 0])[1])
        buffers = [*arguments, *results]
        if scratch:
            buffers.append(np.zeros(scratch, np.uint8))
        self.assertTrue(launches)
        for kernel, grid, block, shared in launches:
            self.launch(path, kernel, [int(size) for size in grid.split(",")],
                        int(block.split(",")[0]), buffers, int(shared or 0))

    def test_products(self):
        for name in ("product_bf16_80", "product_bf16_90"):
            _, (a, b) = recorded_inputs(name)
            c = np.zeros((M, N), a.dtype)
            x, w, y = (f"tensor<{m}x{n}xbf16>" for m, n in ((M, K), (K, N), (M, N)))
            self.own(name, f"""plan.kernel @k(%x: {x}, %w: {w}) -> {y}
                attributes {{generator = #plan.generator<gemm>, ties = array<i64: -1>}} {{
                  %y = nn.linear %x, %w : ({x}, {w}) -> {y}
                  plan.yield %y : {y}
                }}""", [a, b], [c])
            self.compare(name, from_bf16(c), 2e-3)

    def test_layer_norm(self):
        for kind, element, bound in (("bf16", "bf16", 2e-3), ("fp32", "f32", 1e-6)):
            name = "layer_norm_" + kind
            _, (x, w, b) = recorded_inputs(name)
            y, mean, rstd = np.zeros_like(x), np.zeros(ROWS, "f4"), np.zeros(ROWS, "f4")
            rows, row = f"tensor<{ROWS}x{WIDTH}x{element}>", f"tensor<{WIDTH}x{element}>"
            results = f"{rows}, tensor<{ROWS}xf32>, tensor<{ROWS}xf32>"
            self.own(name, f"""plan.kernel @k(%x: {rows}, %w: {row}, %b: {row}) -> ({results})
                attributes {{generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1>}} {{
                  %y, %m, %s = nn.layer_norm %x, %w, %b {{eps = 1.0e-5 : f64}}
                      : ({rows}, {row}, {row}) -> ({results})
                  plan.yield %y, %m, %s : {results}
                }}""", [x, w, b], [y, mean, rstd])
            self.compare(name, TYPES[kind][1](y), bound)

    def test_attention(self):
        for name in ("attention_bf16_80", "attention_bf16_90"):
            _, heads = recorded_inputs(name)
            # Ours has the heads of a token beside each other, and q, k, v too.
            x = np.concatenate([part.transpose(1, 0, 2).reshape(LENGTH, HEADS * HEAD)
                                for part in heads], 1).copy()
            y = np.zeros((LENGTH, HEADS * HEAD), x.dtype)
            sums = np.zeros((HEADS, LENGTH), "f4")
            packed = f"tensor<1x{LENGTH}x{3 * HEADS * HEAD}xbf16>"
            results = f"tensor<1x{LENGTH}x{HEADS * HEAD}xbf16>, tensor<1x{HEADS}x{LENGTH}xf32>"
            self.own(name, f"""plan.kernel @k(%x: {packed}) -> ({results})
                attributes {{generator = #plan.generator<attention>, ties = array<i64: -1, -1>}} {{
                  %y, %l = nn.attention %x
                      {{heads = #nn.heads<{HEADS}, scale = 0.125>, mask = #nn.mask<causal>}}
                      : ({packed}) -> ({results})
                  plan.yield %y, %l : {results}
                }}""", [x], [y, sums])
            out = y.reshape(LENGTH, HEADS, HEAD).transpose(1, 0, 2)
            self.compare(name, from_bf16(out), 2e-3)


    def test_activations(self):
        x = activation_inputs()
        for name in ACTIVATIONS:
            y, row = np.zeros_like(x), f"tensor<{x.size}xf32>"
            self.own(name, f"""plan.kernel @k(%x: {row}) -> {row}
                attributes {{generator = #plan.generator<rows>, ties = array<i64: -1>}} {{
                  %y = nn.map {name}(%x) : {row}
                  plan.yield %y : {row}
                }}""", [x], [y])
            self.compare(name, y, 1e-6, NVCC_RECORD)


@h.long_only
class TritonTest(PtxTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.texts = os.path.join(cls.folder, "texts")
        os.mkdir(cls.texts)
        h.run([h.oracle_python(), os.path.join(HERE, "ptx_kernels.py"), cls.texts])
        with open(os.path.join(cls.texts, "launches.json")) as file:
            cls.launches = json.load(file)
        cls.random = np.random.default_rng(1)

    def triton(self, name, grid, arguments):
        launch = self.launches[name]
        self.launch(os.path.join(self.texts, name + ".ptx"), launch["kernel"], grid,
                    launch["threads"], arguments, launch["shared"])

    def draw(self, kind, *shape):
        return TYPES[kind][0](self.random.standard_normal(shape))

    def test_product(self):
        m, n, k = 200, 144, 112
        for (kind, (_, read, bound)), chip in itertools.product(TYPES.items(), (80, 90)):
            a, b = self.draw(kind, m, k), self.draw(kind, k, n)
            c = np.zeros((m, n), a.dtype)
            self.triton(f"product_{kind}_{chip}", (2, 2), [a, b, c, m, n, k, k, n, n])
            # f32 is multiplied as tf32.
            self.near(read(c), read(a).astype(float) @ read(b), max(bound, 1e-3))

    def run_recorded(self, name):
        kind, arrays = recorded_inputs(name)
        out = np.zeros((M, N) if name.startswith("product") else arrays[0].shape,
                       arrays[0].dtype)
        if name.startswith("product"):
            self.triton(name, (2, 2), [*arrays, out, M, N, K, K, N, N])
        elif name.startswith("attention"):
            self.triton(name, (4, HEADS), [*arrays, out, LENGTH, 0.125])
        else:  # Its rows begin at multiples of 16 bytes.
            padded = [np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, STRIDE - WIDTH)]) for a in arrays]
            wide = np.zeros((ROWS, STRIDE), out.dtype)
            self.triton(name, (ROWS,), [*padded, wide, WIDTH, STRIDE, 1e-5])
            out = wide[:, :WIDTH].copy()
        return summary(TYPES[kind][1](out))

    def test_recorded(self):
        """What is recorded is what Triton's kernels give."""
        actual = {name: self.run_recorded(name) for name in RECORDED}
        self.record(actual, RECORD)
        with open(RECORD) as file:
            self.assertEqual(actual, json.load(file))

    def test_product_tma(self):
        m, n, k = 200, 136, 328
        a, b = self.draw("bf16", m, k), self.draw("bf16", k, n)
        c = np.zeros((m, n), a.dtype)
        self.triton("product_tma", (2, 2),
                    [Map(a, (64, 128)), Map(b, (64, 64)), Map(c, (64, 128)), k])
        self.near(from_bf16(c), from_bf16(a).astype(float) @ from_bf16(b), 4e-3)

    def test_through_the_driver(self):
        """The emulated driver loads every text, and makes the maps of a product."""
        cuda = ctypes.CDLL(os.path.join(h.BUILD, "lib", "heddle", "emulated", "libcuda.so.1"))
        pointer, wide = ctypes.c_void_p, ctypes.c_uint64

        def call(name, *arguments):
            self.assertEqual(getattr(cuda, name)(*arguments), 0, name)

        def made(name, *arguments):
            handle = pointer()
            call(name, ctypes.byref(handle), *arguments)
            return handle

        os.environ["HEDDLE_EMULATE_DRIVER"] = "12.8"
        self.addCleanup(os.environ.pop, "HEDDLE_EMULATE_DRIVER")
        call("cuInit", 0)
        call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
        self.addCleanup(call, "cuDevicePrimaryCtxRelease_v2", 0)
        modules = {}
        for name in self.launches:
            with open(os.path.join(self.texts, name + ".ptx"), "rb") as file:
                modules[name] = made("cuModuleLoadData", file.read())
        launch = self.launches["product_tma"]
        function = made("cuModuleGetFunction", modules["product_tma"],
                        launch["kernel"].encode())
        call("cuFuncSetAttribute", function, 8, launch["shared"])

        m, n, k = 130, 72, 136
        a, b = self.draw("bf16", m, k), self.draw("bf16", k, n)
        c = np.zeros((m, n), a.dtype)
        places, maps = [], []
        for array, box in ((a, (64, 128)), (b, (64, 64)), (c, (64, 128))):
            places.append(made("cuMemAlloc_v2", ctypes.c_size_t(array.nbytes)))
            call("cuMemcpyHtoDAsync_v2", places[-1], pointer(array.ctypes.data),
                 ctypes.c_size_t(array.nbytes), None)
            room = ctypes.create_string_buffer(192)
            maps.append((room, pointer(-(-ctypes.addressof(room) // 64) * 64)))
            call("cuTensorMapEncodeTiled", maps[-1][1], 9, 2, places[-1],
                 (wide * 2)(*array.shape[::-1]), (wide * 1)(array.strides[0]),
                 (ctypes.c_uint * 2)(*box), (ctypes.c_uint * 2)(1, 1), 0, 3, 0, 0)
        depth = ctypes.c_int(k)
        values = (pointer * 4)(*(at for _, at in maps), ctypes.addressof(depth))
        call("cuLaunchKernel", function, -(-m // 128), -(-n // 128), 1, launch["threads"], 1, 1,
             launch["shared"], None, values, None)
        call("cuMemcpyDtoHAsync_v2", pointer(c.ctypes.data), places[2],
             ctypes.c_size_t(c.nbytes), None)
        call("cuCtxSynchronize")
        self.near(from_bf16(c), from_bf16(a).astype(float) @ from_bf16(b), 4e-3)

    def test_softmax(self):
        for kind in ("bf16", "fp32"):
            _, read, bound = TYPES[kind]
            x = self.draw(kind, 7, 1000)
            y = np.zeros_like(x)
            self.triton("softmax_" + kind, (7,), [x, y, 1000, 1000])
            e = np.exp(read(x).astype(float))
            self.near(read(y), e / e.sum(1, keepdims=True), bound)

    def test_layer_norm(self):
        n, stride = 1003, 1008
        for kind in ("bf16", "fp32"):
            _, read, bound = TYPES[kind]
            x, w, b = (self.draw(kind, *shape) for shape in [(5, stride), (stride,), (stride,)])
            y = np.zeros_like(x)
            self.triton("layer_norm_" + kind, (5,), [x, w, b, y, n, stride, 1e-5])
            v = read(x)[:, :n].astype(float)
            v = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5)
            self.near(read(y)[:, :n], v * read(w)[:n] + read(b)[:n], bound)

    def test_attention(self):
        heads, n, d = 3, 200, 64
        for kind, chip in itertools.product(("bf16", "fp16"), (80, 90)):
            _, read, bound = TYPES[kind]
            q, k, v = (self.draw(kind, heads, n, d) for _ in range(3))
            out = np.zeros_like(q)
            self.triton(f"attention_{kind}_{chip}", (4, heads), [q, k, v, out, n, 0.125])
            score = np.einsum("hid,hjd->hij", read(q).astype(float), read(k)) / 8
            weight = np.exp(np.where(np.tril(np.ones((n, n), bool)), score, -np.inf))
            self.near(read(out), weight / weight.sum(-1, keepdims=True) @ read(v), bound)

    def test_functions(self):
        n = 3001
        x = (self.random.standard_normal(n) * 4000).astype(np.float32)
        x[:1500] /= 1000
        y, total = np.zeros(n, np.float32), np.zeros(1, np.float32)
        self.triton("functions", (6,), [x, y, total, n])
        v = x.astype(float)
        expected = v / (1 + np.exp(-np.clip(v, -700, None))) + np.sin(v) * np.cos(v)
        expected += np.log(np.abs(v) + 1)
        self.near(y, expected, 1e-6)
        self.near(total, expected.sum(), 1e-5)


@unittest.skipUnless(NVCC or h.LONG, "nvcc is not installed")
class CudaTest(PtxTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = os.path.join(cls.folder, "kernels.ptx")
        h.run([find_nvcc(), "-arch=sm_80", "-ptx", os.path.join(HERE, "ptx_kernels.cu"), "-o", cls.text])
        cls.random = np.random.default_rng(2)

    def cuda(self, kernel, blocks, arguments):
        self.launch(self.text, kernel, (blocks,), 256, arguments)

    def test_reduce(self):
        x = self.random.standard_normal(5000).astype(np.float32)
        out, seen = np.zeros(1, np.float32), np.zeros(1, np.int32)
        self.cuda("reduce", 3, [x, out, seen, 5000, 2, 0.5])
        weights = np.arange(5000) % 4 + 1
        self.near(out, (x.astype(float) * weights / 2).sum(), 1e-5)
        self.assertIn(seen[0], (7, 9, 11))

    def test_calls(self):
        n = 701
        x = (self.random.standard_normal(n) * 2).astype(np.float32)
        y = np.zeros_like(x)
        self.cuda("calls", 3, [x, y, n])

        def grow(a, n):
            total = 0.0
            for i in range(n):
                if a > 10:
                    break
                total += a * i
                a += total
            return total

        expected = []
        for i in range(n):
            p, q = float(x[i]), float(x[(i + 1) % n])
            if i % 3:
                p, q = grow(p, i % 5) + q, grow(q, i % 5 + 1)
            here = min(n - i // 256 * 256, 256)
            expected.append(p - q + here + 2 * (here == 256) + 3 * (i < 256))
        self.near(y, expected, 1e-6)

    def test_functions(self):
        import math
        x = (self.random.standard_normal(777) * 3).astype(np.float32)
        y = np.zeros_like(x)
        self.cuda("functions", 4, [x, y, 777])
        self.near(y, [math.exp(v) + math.sin(v) * math.log(abs(v) + 1) + math.tanh(v) + math.erf(v)
                      + abs(v) ** 1.5 + 1 / math.sqrt(v * v + 1) for v in x.astype(float)], 1e-6)

    def test_activations(self):
        """What is recorded is what nvcc's kernel gives, whichever nvcc it is."""
        x = activation_inputs()
        made = [np.zeros_like(x) for _ in ACTIVATIONS]
        self.cuda("activations", 4, [x, *made, x.size])
        self.record(dict(zip(ACTIVATIONS, map(summary, made))), NVCC_RECORD)
        for name, values in zip(ACTIVATIONS, made):
            self.compare(name, values, 1e-6, NVCC_RECORD)

    def test_halves(self):
        x = self.random.standard_normal(2 * 300).astype(np.float16)
        b = to_bf16(self.random.standard_normal(2 * 300))
        y, z = np.zeros_like(x), np.zeros_like(b)
        self.cuda("halves", 2, [x, b, y, z, 300])
        v, w = x.astype(float), from_bf16(b).astype(float)
        np.testing.assert_array_equal(y, (v * v + np.maximum(v, 0.25)).astype(np.float16))
        self.near(from_bf16(z), w * w + w, 4e-3)

    def test_integers(self):
        x = self.random.integers(0, 2 ** 64, 500, dtype=np.uint64)
        y = np.zeros_like(x)
        self.cuda("integers", 2, [x, y, 500])

        def model(v):
            low, high = v % 2 ** 32, v >> 32
            byte = lambda at: v >> 8 * at & 255
            bits = f"{low:032b}"
            shuffled = byte(0) | byte(4) << 8 | byte(1) << 16 | byte(5) << 24
            return (v // (low | 1) + v % 97 + (v * v >> 64) + bin(v).count("1")
                    + (32 - low.bit_length()) + int(bits[::-1], 2)
                    + ((v << 5) >> 32) % 2 ** 32 + shuffled
                    + (bits[::-1].find("1") + 1)) % 2 ** 64

        self.assertEqual([int(v) for v in y], [model(int(v)) for v in x])


@unittest.skipUnless(NVCC or h.LONG, "nvcc is not installed")
class ClusterTest(PtxTest):
    """Blocks that reach each other's shared memory, and copies that barriers tell of."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = os.path.join(cls.folder, "clusters.ptx")
        nvcc = find_nvcc()
        includes = os.path.join(os.path.dirname(nvcc), "..", "include", "cccl")
        h.run([nvcc, "-arch=sm_90", "-ptx", "-I", includes, os.path.join(HERE, "ptx_clusters.cu"),
               "-o", cls.text])
        cls.random = np.random.default_rng(3)

    def test_histogram(self):
        n, of_block = 3001, 37
        values = self.random.integers(0, 4 * of_block, n, dtype=np.int32)
        bins = np.zeros(4 * of_block, np.int32)
        self.launch(self.text, "histogram", (8,), 96, [values, bins, n, of_block], 4 * of_block)
        np.testing.assert_array_equal(bins, np.bincount(values, minlength=4 * of_block))

    def test_softmax(self):
        rows, n = 5, 1003
        x = self.random.standard_normal((rows, n)).astype(np.float32)
        y = np.zeros_like(x)
        self.launch(self.text, "softmax", (3 * rows,), 128, [x, y, n])
        e = np.exp(x.astype(float))
        self.near(y, e / e.sum(1, keepdims=True), 1e-6)

    def test_staged(self):
        n = 1499
        x, y = self.random.standard_normal(n).astype(np.float32), np.zeros(256, np.float32)
        self.launch(self.text, "staged", (1,), 256, [x, y, n])
        self.near(y, np.pad(x, (0, -n % 256)).reshape(-1, 256).sum(0), 1e-6)

    def test_without_a_barrier(self):
        """The machine sees what each barrier of a cluster is for."""
        with open(self.text) as file:
            text = file.read()
        places = [m.start() for m in re.finditer("barrier.cluster.wait;", text)]
        self.assertEqual(len(places), 4)
        x, y = np.zeros((1, 301), np.float32), np.zeros((1, 301), np.float32)
        values, bins = np.zeros(301, np.int32), np.zeros(148, np.int32)
        for at in places:
            path = self.path(f"mutant{at}.ptx")
            with open(path, "w") as file:
                file.write(text[:at] + text[at:].replace("barrier.cluster.wait;", "", 1))
            with self.assertRaisesRegex(h.Failed, "cluster"):
                self.launch(path, "histogram", (4,), 96, [values, bins, 301, 37], 148)
                self.launch(path, "softmax", (3,), 128, [x, y, 301])


if __name__ == "__main__":
    unittest.main()
