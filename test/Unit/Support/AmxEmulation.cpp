//===- AmxEmulation.cpp - AMX tile instructions as functions ---------- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AmxEmulation.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int maxRows = 16, rowBytes = 64;

/// The eight tile registers, and whether they are configured.
struct Tiles {
  char bytes[8][maxRows][rowBytes];
  bool ready = false;
};
thread_local Tiles tiles;

void checkReady() {
  if (tiles.ready)
    return;
  std::fputs("tile instruction without a configuration\n", stderr);
  std::abort();
}

void loadConfig(const uint8_t *config) {
  bool good = config[0] == 1 && config[1] == 0;
  for (int tile = 0; tile < 8; ++tile) {
    uint16_t bytes;
    std::memcpy(&bytes, config + 16 + 2 * tile, 2);
    good = good && bytes == rowBytes && config[48 + tile] == maxRows;
  }
  tiles.ready = good;
  checkReady();
}

void release() { tiles.ready = false; }

void zero(int8_t tile) {
  checkReady();
  std::memset(tiles.bytes[tile], 0, sizeof tiles.bytes[tile]);
}

void load(int8_t tile, const char *from, int64_t stride) {
  checkReady();
  for (int row = 0; row < maxRows; ++row)
    std::memcpy(tiles.bytes[tile][row], from + row * stride, rowBytes);
}

void store(int8_t tile, char *to, int64_t stride) {
  checkReady();
  for (int row = 0; row < maxRows; ++row)
    std::memcpy(to + row * stride, tiles.bytes[tile][row], rowBytes);
}

float bf16At(int tile, int row, int index) {
  uint16_t bits;
  std::memcpy(&bits, tiles.bytes[tile][row] + 2 * index, 2);
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

void multiplyAdd(int8_t sum, int8_t left, int8_t right) {
  checkReady();
  for (int row = 0; row < maxRows; ++row)
    for (int column = 0; column < rowBytes / 4; ++column) {
      char *at = tiles.bytes[sum][row] + 4 * column;
      float value;
      std::memcpy(&value, at, 4);
      for (int pair = 0; pair < rowBytes / 4; ++pair)
        for (int i = 0; i < 2; ++i)
          value += bf16At(left, row, 2 * pair + i) *
                   bf16At(right, pair, 2 * column + i);
      std::memcpy(at, &value, 4);
    }
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
          entry("heddle_amx_tdpbf16ps", multiplyAdd)};
}
