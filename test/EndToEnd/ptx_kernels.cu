// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that test_ptx.py compiles with nvcc, where that is installed.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__constant__ float weights[4] = {1.f, 2.f, 3.f, 4.f};
__device__ int launches = 7;

struct Scale {
  int count;
  float factor;
};

/// The sum of weighted numbers, over warps, blocks and the grid.
extern "C" __global__ void reduce(const float *x, float *out, int *seen, int n,
                                  int count, float factor) {
  __shared__ float ofWarps[8];
  Scale scale = {count, factor};
  float sum = 0;
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n;
       i += gridDim.x * blockDim.x)
    sum += x[i] * weights[i & 3] * scale.factor;
  for (int step = 16; step; step >>= 1)
    sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0)
    ofWarps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 8)
    return;
  sum = ofWarps[threadIdx.x];
  for (int step = 4; step; step >>= 1)
    sum += __shfl_down_sync(0xff, sum, step);
  if (threadIdx.x)
    return;
  atomicAdd(out, sum);
  int before = atomicAdd(&launches, scale.count);
  if (blockIdx.x == 1)
    *seen = before;
}

struct Pair {
  float x, y;
};

__device__ __noinline__ float grow(float a, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    if (a > 10)
      return sum;
    sum += a * i;
    a += sum;
  }
  return sum;
}

__device__ __noinline__ Pair both(Pair p, int k) {
  p.x = grow(p.x, k) + p.y;
  p.y = grow(p.y, k + 1);
  return p;
}

/// Calls of functions, and votes of a block.
extern "C" __global__ void calls(const float *x, float *y, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  int count = __syncthreads_count(i < n);
  int all = __syncthreads_and(i < n), any = __syncthreads_or(i == 3);
  if (i >= n)
    return;
  Pair p = {x[i], x[(i + 1) % n]};
  if (i % 3)
    p = both(p, i % 5);
  y[i] = p.x - p.y + count + 2 * all + 3 * any;
}

extern "C" __global__ void functions(const float *x, float *y, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n)
    return;
  float v = x[i];
  y[i] = expf(v) + sinf(v) * logf(fabsf(v) + 1) + tanhf(v) + erff(v) +
         powf(fabsf(v), 1.5f) + rsqrtf(v * v + 1);
}

extern "C" __global__ void halves(const __half2 *x, const __nv_bfloat162 *b,
                                  __half2 *y, __nv_bfloat162 *z, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n)
    return;
  y[i] = __hfma2(x[i], x[i], __hmax2(x[i], __float2half2_rn(0.25f)));
  z[i] = __hfma2(b[i], b[i], b[i]);
}

extern "C" __global__ void integers(const unsigned long long *x,
                                    unsigned long long *y, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n)
    return;
  unsigned long long v = x[i];
  unsigned low = v, high = v >> 32;
  y[i] = v / (low | 1) + v % 97 + __umul64hi(v, v) + __popcll(v) + __clz(low) +
         __brev(low) + __funnelshift_l(low, high, 5) +
         __byte_perm(low, high, 0x5140) + __ffs(low);
}

/// What Heddle has kernels for: their results are recorded.
extern "C" __global__ void activations(const float *x, float *gelu,
                                       float *geluTanh, float *silu, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n)
    return;
  float v = x[i];
  gelu[i] = 0.5f * v * (1 + erff(v * 0.70710678f));
  geluTanh[i] =
      0.5f * v * (1 + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
  silu[i] = v / (1 + expf(-v));
}
