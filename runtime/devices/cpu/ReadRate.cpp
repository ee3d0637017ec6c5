//===- ReadRate.cpp - Measures this machine's memory bandwidth ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures how long all threads of a pool take to read memory.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/ReadRate.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"

#include <atomic>
#include <chrono>
#include <cstring>

using namespace heddle::rt;

static constexpr int64_t totalBytes = int64_t(256) << 20;
static constexpr int64_t streams = 8;

using Narrow = long long __attribute__((vector_size(16)));
using Wide = long long __attribute__((vector_size(32)));

/// Reads a range of memory. Returns the sum of the values, since the compiler
/// would remove reads whose values are not used.
template <typename Vector>
__attribute__((always_inline)) static inline int64_t
readStreams(const char *from, int64_t bytes) {
  int64_t each = bytes / streams / int64_t(sizeof(Vector));
  const auto *source = reinterpret_cast<const Vector *>(from);
  Vector sums[streams] = {};
  for (int64_t i = 0; i < each; ++i)
#pragma GCC unroll 8
    for (int64_t stream = 0; stream < streams; ++stream)
      sums[stream] += source[stream * each + i];
  for (int64_t stream = 1; stream < streams; ++stream)
    sums[0] += sums[stream];
  return sums[0][0] + sums[0][1];
}

static int64_t readNarrow(const char *from, int64_t bytes) {
  return readStreams<Narrow>(from, bytes);
}

__attribute__((target("avx2"))) static int64_t readWide(const char *from,
                                                        int64_t bytes) {
  return readStreams<Wide>(from, bytes);
}

namespace {
struct Reading {
  const char *memory;
  int64_t (*read)(const char *from, int64_t bytes);
  std::atomic<int64_t> sum{0};
};
} // namespace

static void readOnThread(const void *context, int64_t thread, int64_t threads) {
  auto &reading = *static_cast<Reading *>(const_cast<void *>(context));
  int64_t part = totalBytes / threads / 4096 * 4096;
  reading.sum += reading.read(reading.memory + thread * part, part);
}

ReadRate::ReadRate(ThreadPool &pool)
    : pool(pool), memory(totalBytes, "the measurement of reading") {
  memset(memory.data(), 1, totalBytes);
}

double ReadRate::measure() {
  Reading reading;
  reading.memory = memory.data();
  reading.read = hasCpuFeature("avx2") ? readWide : readNarrow;
  auto begin = std::chrono::steady_clock::now();
  pool.run(readOnThread, &reading);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  int64_t part = totalBytes / pool.threads() / 4096 * 4096;
  return double(part * pool.threads()) / time.count();
}
