# Kernels in Triton's language, compiled to PTX for test_ptx.py.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: ptx_kernels.py FOLDER

Writes NAME.ptx for every kernel, and launches.json: threads and shared bytes of
each. Needs triton, and no GPU."""

import json
import os
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import AttrsDescriptor


@triton.jit
def product(a, b, c, m, n, k, stride_a, stride_b, stride_c,
            M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    left = a + rows[:, None] * stride_a + inner[None, :]
    right = b + inner[:, None] * stride_b + columns[None, :]
    sums = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(left, mask=(rows[:, None] < m) & (inner[None, :] < k - start), other=0.)
        y = tl.load(right, mask=(columns[None, :] < n) & (inner[:, None] < k - start), other=0.)
        sums = tl.dot(x, y, sums)
        left += K
        right += K * stride_b
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * stride_c + columns[None, :],
             sums.to(c.dtype.element_ty), mask=mask)


@triton.jit
def softmax(x, y, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    v = tl.load(x + row * stride + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * stride + at, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=at < n)


@triton.jit
def layer_norm(x, w, b, y, n, stride, eps, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    mask = at < n
    v = tl.load(x + row * stride + at, mask=mask, other=0.).to(tl.float32)
    d = tl.where(mask, v - tl.sum(v, 0) / n, 0.)
    rstd = tl.rsqrt(tl.sum(d * d, 0) / n + eps)
    result = d * rstd * tl.load(w + at, mask=mask) + tl.load(b + at, mask=mask)
    tl.store(y + row * stride + at, result.to(y.dtype.element_ty), mask=mask)


@triton.jit
def attention(q, k, v, out, n, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    head = tl.program_id(1) * n * D
    rows = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.)
    most = tl.full((M,), -float("inf"), tl.float32)
    norm = tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * M, N):
        at = start + tl.arange(0, N)
        key = tl.load(k + head + at[None, :] * D + d[:, None], mask=at[None, :] < n, other=0.)
        score = tl.dot(query, key) * scale
        score = tl.where(rows[:, None] >= at[None, :], score, -float("inf"))
        larger = tl.maximum(most, tl.max(score, 1))
        weight = tl.exp2((score - larger[:, None]) * 1.44269504)
        old = tl.exp2((most - larger) * 1.44269504)
        norm = norm * old + tl.sum(weight, 1)
        value = tl.load(v + head + at[:, None] * D + d[None, :], mask=at[:, None] < n, other=0.)
        result = tl.dot(weight.to(value.dtype), value, result * old[:, None])
        most = larger
    result = result / norm[:, None]
    tl.store(out + head + rows[:, None] * D + d[None, :], result.to(out.dtype.element_ty),
             mask=rows[:, None] < n)


@triton.jit
def functions(x, y, total, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    mask = at < n
    v = tl.load(x + at, mask=mask, other=0.)
    r = v * tl.sigmoid(v) + tl.sin(v) * tl.cos(v) + tl.log(tl.abs(v) + 1.)
    tl.store(y + at, r, mask=mask)
    tl.atomic_add(total, tl.sum(tl.where(mask, r, 0.), 0))


@triton.jit
def product_tma(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M
    column = tl.program_id(1) * N
    sums = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl._experimental_descriptor_load(a, [row, start], [M, K], tl.bfloat16)
        y = tl._experimental_descriptor_load(b, [start, column], [K, N], tl.bfloat16)
        sums = tl.dot(x, y, sums)
    tl._experimental_descriptor_store(c, sums.to(tl.bfloat16), [row, column])


LAUNCHES = {}


def emit(folder, function, name, types, constants, aligned, chip=80, warps=4):
    names = function.arg_names
    attributes = AttrsDescriptor.from_hints({names.index(a): 16 for a in aligned})
    source = ASTSource(fn=function, signature=types, constants=constants, attrs=attributes)
    kernel = triton.compile(source, target=GPUTarget("cuda", chip, 32),
                            options={"num_warps": warps, "num_stages": 3})
    with open(os.path.join(folder, name + ".ptx"), "w") as file:
        file.write(kernel.asm["ptx"])
    LAUNCHES[name] = {"kernel": kernel.metadata.name, "threads": 32 * kernel.metadata.num_warps,
                      "shared": kernel.metadata.shared}


def main():
    folder = sys.argv[1]
    sizes = ["m", "n", "k", "stride_a", "stride_b", "stride_c"]
    for t in ("bf16", "fp16", "fp32"):
        types = {"a": "*" + t, "b": "*" + t, "c": "*" + t, **{s: "i32" for s in sizes}}
        for chip, depth in ((80, 32), (90, 64)):
            emit(folder, product, f"product_{t}_{chip}", types, {"M": 128, "N": 128, "K": depth},
                 ["a", "b", "c", "stride_a", "stride_b", "stride_c"], chip)
    emit(folder, product_tma, "product_tma",
         {"a": "nvTmaDesc", "b": "nvTmaDesc", "c": "nvTmaDesc", "k": "i32"},
         {"M": 128, "N": 128, "K": 64}, [], 90, warps=8)
    for t in ("bf16", "fp32"):
        emit(folder, softmax, "softmax_" + t,
             {"x": "*" + t, "y": "*" + t, "n": "i32", "stride": "i32"}, {"B": 1024}, ["x", "y"])
        emit(folder, layer_norm, "layer_norm_" + t,
             {**{a: "*" + t for a in "xwby"}, "n": "i32", "stride": "i32", "eps": "fp32"},
             {"B": 1024}, ["x", "w", "b", "y", "stride"])
    for t in ("bf16", "fp16"):
        for chip, keys in ((80, 32), (90, 64)):
            emit(folder, attention, f"attention_{t}_{chip}",
                 {**{a: "*" + t for a in ("q", "k", "v", "out")}, "n": "i32", "scale": "fp32"},
                 {"D": 64, "M": 64, "N": keys}, ["q", "k", "v", "out"], chip)
    emit(folder, functions, "functions", {"x": "*fp32", "y": "*fp32", "total": "*fp32", "n": "i32"},
         {"B": 512}, ["x", "y"])
    with open(os.path.join(folder, "launches.json"), "w") as file:
        json.dump(LAUNCHES, file)


main()
