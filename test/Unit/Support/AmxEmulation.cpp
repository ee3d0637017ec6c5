//===- AmxEmulation.cpp - AMX tile instructions as functions ---------- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AmxEmulation.h"
#include "heddle/runtime/io/Float.h"
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int maxRows = 16, rowBytes = 64;

/// The eight tile registers, their shapes, and whether they are configured.
struct Tiles {
  char bytes[8][maxRows][rowBytes];
  int rows[8], columns[8]; ///< Columns are bytes.
  bool ready = false;
};
thread_local Tiles tiles;

void check(bool good, const char *what) {
  if (good)
    return;
  std::fprintf(stderr, "tile instruction %s\n", what);
  std::abort();
}

void checkReady() { check(tiles.ready, "without a configuration"); }

void loadConfig(const uint8_t *config) {
  bool good = config[0] == 1 && config[1] == 0;
  for (int tile = 0; tile < 8; ++tile) {
    uint16_t bytes;
    std::memcpy(&bytes, config + 16 + 2 * tile, 2);
    tiles.columns[tile] = bytes;
    tiles.rows[tile] = config[48 + tile];
    good = good && bytes > 0 && bytes <= rowBytes && bytes % 4 == 0 &&
           tiles.rows[tile] > 0 && tiles.rows[tile] <= maxRows;
  }
  tiles.ready = good;
  checkReady();
}

void release() { tiles.ready = false; }

void zero(int8_t tile) {
  checkReady();
  std::memset(tiles.bytes[tile], 0, sizeof tiles.bytes[tile]);
}

/// What lies outside a tile's shape becomes zero.
void load(int8_t tile, const char *from, int64_t stride) {
  zero(tile);
  for (int row = 0; row < tiles.rows[tile]; ++row)
    std::memcpy(tiles.bytes[tile][row], from + row * stride,
                tiles.columns[tile]);
}

void store(int8_t tile, char *to, int64_t stride) {
  checkReady();
  for (int row = 0; row < tiles.rows[tile]; ++row)
    std::memcpy(to + row * stride, tiles.bytes[tile][row], tiles.columns[tile]);
}

/// Results smaller than the least normal number are zero, and so are operands.
float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? 0 : value;
}

/// The elements of pairs as numbers. Small ones are zero in bf16, but not in
/// fp16: in f32 they are normal numbers.
float bf16Element(uint16_t bits) {
  return flushed(heddle::io::bf16ToFloat(bits));
}
float fp16Element(uint16_t bits) { return heddle::io::f16ToFloat(bits); }

/// The pairs of a tile.
struct Pairs {
  Pairs(int tile, float (*element)(uint16_t)) {
    for (int row = 0; row < tiles.rows[tile]; ++row)
      for (int index = 0; index < tiles.columns[tile] / 2; ++index) {
        uint16_t bits;
        std::memcpy(&bits, tiles.bytes[tile][row] + 2 * index, 2);
        at[row][index] = element(bits);
      }
  }
  float at[maxRows][rowBytes / 2];
};

/// Rounded once: f32 has all bits of a product of two bf16 or fp16, unless it
/// is small or large.
float multiplied(float a, float b, float sum) {
  float product = a * b;
  return flushed(std::isnormal(product) ? product + sum : std::fma(a, b, sum));
}

/// Calls `add` for the places of a sum, with its bytes.
template <typename Add> void forSums(int sum, int left, int right, Add add) {
  checkReady();
  check(tiles.columns[left] == 4 * tiles.rows[right] &&
            tiles.rows[sum] == tiles.rows[left] &&
            tiles.columns[sum] == tiles.columns[right],
        "on tiles that do not fit");
  for (int row = 0; row < tiles.rows[sum]; ++row)
    for (int column = 0; column < tiles.columns[sum] / 4; ++column)
      add(row, column, tiles.bytes[sum][row] + 4 * column);
}

/// As Intel's manual says: the first and the second elements of pairs have sums
/// of their own, which begin with zero.
template <float (*element)(uint16_t)>
void multiplyAdd(int8_t sum, int8_t left, int8_t right) {
  Pairs a(left, element), b(right, element);
  forSums(sum, left, right, [&](int row, int column, char *at) {
    float value, sums[2] = {0, 0};
    for (int pair = 0; pair < tiles.rows[right]; ++pair)
      for (int i = 0; i < 2; ++i)
        sums[i] = multiplied(a.at[row][2 * pair + i],
                             b.at[pair][2 * column + i], sums[i]);
    std::memcpy(&value, at, 4);
    value = flushed(flushed(value) + flushed(sums[0] + sums[1]));
    std::memcpy(at, &value, 4);
  });
}

/// Of signed bytes, by bytes of type `Right`.
template <typename Right>
void multiplyAddBytes(int8_t sum, int8_t left, int8_t right) {
  forSums(sum, left, right, [&](int row, int column, char *at) {
    int32_t value;
    std::memcpy(&value, at, 4);
    for (int quad = 0; quad < tiles.rows[right]; ++quad)
      for (int i = 0; i < 4; ++i)
        value += static_cast<int8_t>(tiles.bytes[left][row][4 * quad + i]) *
                 static_cast<Right>(tiles.bytes[right][quad][4 * column + i]);
    std::memcpy(at, &value, 4);
  });
}

template <typename Function>
std::pair<const char *, void *> entry(const char *name, Function *function) {
  return {name, reinterpret_cast<void *>(function)};
}

} // namespace

std::vector<std::pair<const char *, void *>> heddle::test::amxEmulation() {
  return {entry("heddle_amx_ldtilecfg", loadConfig),
          entry("heddle_amx_tilerelease", release),
          entry("heddle_amx_tilezero", zero),
          entry("heddle_amx_tileloadd64", load),
          entry("heddle_amx_tilestored64", store),
          entry("heddle_amx_tdpbf16ps", multiplyAdd<bf16Element>),
          entry("heddle_amx_tdpfp16ps", multiplyAdd<fp16Element>),
          entry("heddle_amx_tdpbssd", multiplyAddBytes<int8_t>),
          entry("heddle_amx_tdpbsud", multiplyAddBytes<uint8_t>)};
}

std::optional<heddle::cpu::CpuTarget>
heddle::test::emulatedAmxTarget(bool hasFp16) {
  std::optional<cpu::CpuTarget> target = cpu::CpuTarget::parse("native");
  if (!target || !target->hasBf16Dot || !target->hasVnni)
    return std::nullopt;
  target->hasAmx = target->emulatesAmx = true;
  target->hasAmxFp16 = hasFp16;
  return target;
}
