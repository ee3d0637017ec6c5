// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of clusters that test_ptx.py compiles with nvcc for sm_90, where that
// is installed.

#include <cooperative_groups.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;

// Bins of a histogram are spread over the blocks of a cluster.
extern "C" __global__ void __cluster_dims__(4, 1, 1)
histogram(const int *values, int *bins, int n, int ofBlock) {
  extern __shared__ int own[];
  cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < ofBlock; i += blockDim.x)
    own[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x) {
    int bin = values[i];
    int *there = cluster.map_shared_rank(own, bin / ofBlock);
    atomicAdd(there + bin % ofBlock, 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < ofBlock; i += blockDim.x)
    atomicAdd(bins + cluster.block_rank() * ofBlock + i, own[i]);
}

// The sum of a row by a cluster: each block has a part, and adds up all.
extern "C" __global__ void __cluster_dims__(3, 1, 1)
softmax(const float *x, float *y, int n) {
  __shared__ float partial[32], sums[2];
  cg::cluster_group cluster = cg::this_cluster();
  unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
  const float *row = x + (blockIdx.x / blocks) * n;
  float *to = y + (blockIdx.x / blocks) * n;
  float total = 0;
  for (int i = rank * blockDim.x + threadIdx.x; i < n; i += blocks * blockDim.x)
    total += expf(row[i]);
  for (int delta = 16; delta; delta /= 2)
    total += __shfl_xor_sync(~0u, total, delta);
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i)
      sum += partial[i];
    sums[0] = sum;
  }
  cluster.sync();
  float all = 0;
  for (unsigned i = 0; i < blocks; ++i)
    all += *cluster.map_shared_rank(sums, i);
  auto token = cluster.barrier_arrive();
  for (int i = rank * blockDim.x + threadIdx.x; i < n; i += blocks * blockDim.x)
    to[i] = expf(row[i]) / all;
  cluster.barrier_wait(cuda::std::move(token));
}

// Copies that a barrier tells of.
extern "C" __global__ void staged(const float *x, float *y, int n) {
  __shared__ alignas(16) float tile[2][256];
  __shared__ cuda::barrier<cuda::thread_scope_block> full[2];
  if (threadIdx.x < 2)
    init(&full[threadIdx.x], blockDim.x);
  __syncthreads();
  auto fetch = [&](int stage, int at) {
    if (at + threadIdx.x < n)
      cuda::memcpy_async(&tile[stage][threadIdx.x], x + at + threadIdx.x, cuda::aligned_size_t<4>(4), full[stage]);
    return full[stage].arrive();
  };
  float sum = 0;
  auto token = fetch(0, 0);
  for (int at = 0, stage = 0; at < n; at += 256, stage ^= 1) {
    auto next = fetch(stage ^ 1, at + 256);
    full[stage].wait(cuda::std::move(token));
    if (at + threadIdx.x < n)
      sum += tile[stage][(threadIdx.x)];
    __syncthreads();
    token = cuda::std::move(next);
  }
  y[threadIdx.x] = sum;
}
