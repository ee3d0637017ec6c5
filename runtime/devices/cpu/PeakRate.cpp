//===- PeakRate.cpp - Measures this machine's peak FLOP rate --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures the peak rate of multiplications with loops that repeat a single
// instruction. Each loop has enough independent accumulators to hide the
// latency of the instruction, and touches no memory.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/PeakRate.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <immintrin.h>

using namespace heddle::rt;

namespace {
/// A multiplying instruction to measure. `loop` is a loop of this instruction
/// with `rounds` iterations. Each iteration does `flopsPerRound` floating-point
/// operations.
struct MultiplyUnit {
  const char *name;
  void (*loop)(int64_t rounds);
  double flopsPerRound;
};
} // namespace

static constexpr int accumulators = 12;

__attribute__((target("avx2,fma"))) static void loopAvx2(int64_t rounds) {
  __m256 sums[accumulators];
#pragma GCC unroll 12
  for (__m256 &sum : sums)
    sum = _mm256_set1_ps(0.5f);
  __m256 factor = _mm256_set1_ps(0.25f);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (__m256 &sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, factor);
      __asm__ volatile("" : "+x"(sum));
    }
}

__attribute__((target("avx512f"))) static void loopAvx512(int64_t rounds) {
  __m512 sums[accumulators];
#pragma GCC unroll 12
  for (__m512 &sum : sums)
    sum = _mm512_set1_ps(0.5f);
  __m512 factor = _mm512_set1_ps(0.25f);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (__m512 &sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, factor);
      __asm__ volatile("" : "+v"(sum));
    }
}

__attribute__((target("avx512f,avx512bf16"))) static void
loopBf16(int64_t rounds) {
  __m512 sums[accumulators];
#pragma GCC unroll 12
  for (__m512 &sum : sums)
    sum = _mm512_setzero_ps();
  __m512bh factor =
      _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.25f), _mm512_set1_ps(0.25f));
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (__m512 &sum : sums) {
      sum = _mm512_dpbf16_ps(sum, factor, factor);
      __asm__ volatile("" : "+v"(sum));
    }
}

/// The tile configuration as LDTILECFG reads it.
struct alignas(64) TileConfig {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t columnBytes[16] = {};
  uint8_t rows[16] = {};
};

__attribute__((target("amx-tile,amx-bf16"))) static void
loopAmx(int64_t rounds) {
  TileConfig config;
  std::fill_n(config.columnBytes, 8, 64);
  std::fill_n(config.rows, 8, 16);
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

/// The loop of SSE instructions, which every x86-64 processor can execute.
static void loopSse(int64_t rounds) {
  __m128 sums[accumulators];
#pragma GCC unroll 12
  for (__m128 &sum : sums)
    sum = _mm_set1_ps(0.5f);
  __m128 factor = _mm_set1_ps(0.25f);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (__m128 &sum : sums) {
      sum = _mm_add_ps(_mm_mul_ps(sum, factor), factor);
      __asm__ volatile("" : "+x"(sum));
    }
}

static bool canUseTiles() {
  if (!hasCpuFeature("amx-bf16"))
    return false;
  try {
    requireCpuFeatures({"amx-tile"}, "native");
    return true;
  } catch (const std::exception &) {
    return false; // The system does not grant tile registers, so the next unit
                  // is measured.
  }
}

static MultiplyUnit chooseUnit(const std::string &precision) {
  bool bf16 = precision == "bf16";
  // Tiles of fp16 have the rate of tiles of bf16.
  bool fp16Tiles = precision == "fp16" && hasCpuFeature("amx-fp16");
  if ((bf16 || fp16Tiles) && canUseTiles())
    return {"amx-bf16", loopAmx, 4 * 16 * 16 * 32 * 2};
  if (bf16 && hasCpuFeature("avx512bf16"))
    return {"avx512bf16", loopBf16, accumulators * 32 * 2};
  if (hasCpuFeature("avx512f"))
    return {"avx512f", loopAvx512, accumulators * 16 * 2};
  if (hasCpuFeature("avx2") && hasCpuFeature("fma"))
    return {"avx2", loopAvx2, accumulators * 8 * 2};
  return {"sse2", loopSse, accumulators * 4 * 2};
}

/// The number of iterations in one call of a measured loop. A call takes some
/// microseconds.
static constexpr int64_t roundsPerCall = 1000;
/// The length of an interval, over which a rate is measured. It is shorter than
/// a time slice of the scheduler. Therefore some intervals are free of other
/// processes even on a busy machine.
static constexpr std::chrono::milliseconds sampleTime(2);
static constexpr int64_t numSamples = 50;

static int64_t currentSample() {
  return std::chrono::steady_clock::now().time_since_epoch() / sampleTime;
}

/// Data that the threads share.
namespace {
struct Measurement {
  MultiplyUnit unit;
  int64_t first;
  std::array<std::atomic<int64_t>, numSamples> rounds = {};
};
} // namespace

/// Runs on each thread of the pool: calls the measured loop again and again.
/// The iterations of a call count for the time interval in which the call ends.
static void measureOnThread(const void *context, int64_t, int64_t) {
  auto &shared = *static_cast<Measurement *>(const_cast<void *>(context));
  for (;;) {
    shared.unit.loop(roundsPerCall);
    int64_t sample = currentSample() - shared.first;
    if (sample >= numSamples)
      return;
    if (sample >= 0)
      shared.rounds[sample].fetch_add(roundsPerCall, std::memory_order_relaxed);
  }
}

PeakSamples heddle::rt::measurePeak(ThreadPool &pool,
                                    const std::string &precision) {
  Measurement shared;
  shared.unit = chooseUnit(precision);
  shared.first = currentSample() + 1;
  pool.run(measureOnThread, &shared);
  PeakSamples peak;
  peak.first = shared.first;
  peak.unit = shared.unit.name;
  double seconds = std::chrono::duration<double>(sampleTime).count();
  for (const std::atomic<int64_t> &rounds : shared.rounds)
    peak.flopsPerSecond.push_back(shared.unit.flopsPerRound *
                                  double(rounds.load()) / seconds);
  return peak;
}
