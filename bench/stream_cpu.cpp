//===- stream_cpu.cpp - How fast memory goes through the cores ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   heddle-bench-stream ELEMENTS THREADS [ROUNDS]
//
// Prints a line for each round: GB/s of a loop over four arrays of f32, of
// which it reads one and changes three, as AdamW does with a gradient, a
// parameter and two moments; and GB/s of STREAM's triad, a[i] = b[i] + s c[i].
// Each array is counted as often as the loop names it.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;

static constexpr int64_t numArrays = 4;

using Narrow = float __attribute__((vector_size(16)));
using Wide = float __attribute__((vector_size(32)));

namespace {
/// Some elements of each array; a multiple of the widest vector.
struct Part {
  float *arrays[numArrays];
  int64_t elements;
};
using Loop = void (*)(const Part &part);

struct Launch {
  char *memory;
  int64_t arrayBytes, elements;
  Loop loop;
};
} // namespace

template <typename Vector>
__attribute__((always_inline)) static inline void updateWith(const Part &part) {
  Vector *at[numArrays];
  for (int64_t i = 0; i < numArrays; ++i)
    at[i] = reinterpret_cast<Vector *>(part.arrays[i]);
  int64_t count = part.elements * int64_t(sizeof(float)) / sizeof(Vector);
  for (int64_t i = 0; i < count; ++i) {
    Vector gradient = at[0][i];
    at[1][i] += gradient;
    at[2][i] += gradient;
    at[3][i] += gradient;
  }
}

template <typename Vector>
__attribute__((always_inline)) static inline void triadWith(const Part &part) {
  auto *a = reinterpret_cast<Vector *>(part.arrays[0]);
  const auto *b = reinterpret_cast<const Vector *>(part.arrays[1]);
  const auto *c = reinterpret_cast<const Vector *>(part.arrays[2]);
  int64_t count = part.elements * int64_t(sizeof(float)) / sizeof(Vector);
  for (int64_t i = 0; i < count; ++i)
    a[i] = b[i] + 3.0f * c[i];
}

static void updateNarrow(const Part &part) { updateWith<Narrow>(part); }
static void triadNarrow(const Part &part) { triadWith<Narrow>(part); }
__attribute__((target("avx2"))) static void updateWide(const Part &part) {
  updateWith<Wide>(part);
}
__attribute__((target("avx2"))) static void triadWide(const Part &part) {
  triadWith<Wide>(part);
}

static void runPart(const void *context, int64_t thread, int64_t threads) {
  const auto &launch = *static_cast<const Launch *>(context);
  int64_t elements = launch.elements / threads / 64 * 64;
  Part part;
  part.elements = elements;
  for (int64_t i = 0; i < numArrays; ++i)
    part.arrays[i] =
        reinterpret_cast<float *>(launch.memory + i * launch.arrayBytes) +
        thread * elements;
  launch.loop(part);
}

/// Bytes per second of one run, of which an element takes `bytes`.
static double measure(ThreadPool &pool, const Launch &launch, int64_t bytes) {
  auto begin = std::chrono::steady_clock::now();
  pool.run(runPart, &launch);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  int64_t done = launch.elements / pool.threads() / 64 * 64 * pool.threads();
  return double(done * bytes) / time.count();
}

static void measureAll(int64_t elements, int64_t threads, int64_t rounds) {
  // A line more between arrays, so that not all begin in the same cache sets.
  constexpr int64_t page = 4096, line = 64;
  int64_t arrayBytes =
      (elements * int64_t(sizeof(float)) + page) / line * line + line;
  Arena memory((numArrays * arrayBytes / page + 1) * page, "the benchmark");
  memset(memory.data(), 0, memory.size());
  ThreadPool pool(threads);
  bool isWide = hasCpuFeature("avx2");
  Launch update = {memory.data(), arrayBytes, elements,
                   isWide ? updateWide : updateNarrow};
  Launch triad = update;
  triad.loop = isWide ? triadWide : triadNarrow;
  for (int64_t round = 0; round < rounds; ++round) {
    double updated = measure(pool, update, 7 * sizeof(float));
    double added = measure(pool, triad, 3 * sizeof(float));
    printf("%.3f %.3f\n", updated / 1e9, added / 1e9);
  }
}

int main(int argc, char **argv) {
  int64_t elements = argc > 1 ? atoll(argv[1]) : 0;
  int64_t threads = argc > 2 ? atoll(argv[2]) : 0;
  int64_t rounds = argc > 3 ? atoll(argv[3]) : 5;
  if (argc > 4 || elements < 1 || threads < 1 || rounds < 1) {
    fprintf(stderr, "usage: heddle-bench-stream ELEMENTS THREADS [ROUNDS]\n");
    return 2;
  }
  try {
    measureAll(elements, threads, rounds);
  } catch (const UserError &error) {
    fprintf(stderr, "%s", error.diagnostic.format().c_str());
    return error.diagnostic.exitCode();
  }
  return 0;
}
