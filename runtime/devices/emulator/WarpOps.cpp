//===- WarpOps.cpp - What the lanes of a warp do together -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layouts of fragments are those of the PTX ISA: ldmatrix .m8n8.b16 and
// mma.sync .m16n8k16 with bf16 operands.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/Block.h"

#include <cstring>

namespace heddle::rt::emulator {

namespace {
enum ShuffleMode { ShuffleXor, ShuffleUp, ShuffleDown, ShuffleIndex };

void shuffle(Fiber *warp) {
  uint64_t values[warpSize];
  for (int64_t lane = 0; lane < warpSize; ++lane)
    values[lane] = warp[lane].op.value & 0xffffffffu;
  for (int64_t lane = 0; lane < warpSize; ++lane) {
    WarpOp &op = warp[lane].op;
    int64_t segment = lane / op.count * op.count;
    int64_t from = lane;
    switch (op.mode) {
    case ShuffleXor:
      from = lane ^ op.offset;
      break;
    case ShuffleUp:
      from = lane - op.offset;
      break;
    case ShuffleDown:
      from = lane + op.offset;
      break;
    case ShuffleIndex:
      from = segment + op.offset;
      break;
    }
    bool valid = from >= segment && from < segment + op.count;
    op.value = values[valid ? from : lane] | (uint64_t(valid) << 32);
  }
}

std::string loadMatrix(Fiber *warp, WorkgroupMemory &memory) {
  uint16_t tiles[4][8][8];
  int64_t count = warp[0].op.count;
  for (int64_t lane = 0; lane < count * 8; ++lane) {
    const void *row = warp[lane].op.inputs[0];
    if (reinterpret_cast<uintptr_t>(row) % 16)
      return "ldmatrix row of lane " + std::to_string(lane) +
             " is not aligned to 16 bytes";
    std::string wrong =
        memory.access(row, 16, /*write=*/false, warp[lane].index);
    if (!wrong.empty())
      return wrong;
    std::memcpy(tiles[lane / 8][lane % 8], row, 16);
  }
  for (int64_t lane = 0; lane < warpSize; ++lane) {
    auto *result = static_cast<uint16_t *>(warp[lane].op.result);
    int64_t major = lane / 4, minor = lane % 4 * 2;
    for (int64_t tile = 0; tile < count; ++tile)
      for (int64_t i = 0; i < 2; ++i)
        result[tile * 2 + i] = warp[lane].op.mode
                                   ? tiles[tile][minor + i][major]
                                   : tiles[tile][major][minor + i];
  }
  return {};
}

double widen(uint16_t value) {
  uint32_t bits = uint32_t(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

/// Products of bf16 are exact in f32 and their sum of sixteen is taken in
/// double: one rounding per element of the result.
void multiplyAccumulate(Fiber *warp) {
  double a[16][16], b[16][8];
  for (int64_t lane = 0; lane < warpSize; ++lane) {
    auto *left = static_cast<const uint16_t *>(warp[lane].op.inputs[0]);
    auto *right = static_cast<const uint16_t *>(warp[lane].op.inputs[1]);
    int64_t group = lane / 4, pair = lane % 4 * 2;
    for (int64_t reg = 0; reg < 4; ++reg)
      for (int64_t i = 0; i < 2; ++i)
        a[group + reg % 2 * 8][pair + i + reg / 2 * 8] =
            widen(left[reg * 2 + i]);
    for (int64_t reg = 0; reg < 2; ++reg)
      for (int64_t i = 0; i < 2; ++i)
        b[pair + i + reg * 8][group] = widen(right[reg * 2 + i]);
  }
  for (int64_t lane = 0; lane < warpSize; ++lane) {
    auto *addend = static_cast<const float *>(warp[lane].op.inputs[2]);
    auto *result = static_cast<float *>(warp[lane].op.result);
    for (int64_t reg = 0; reg < 4; ++reg) {
      int64_t row = lane / 4 + reg / 2 * 8, column = lane % 4 * 2 + reg % 2;
      double sum = addend[reg];
      for (int64_t k = 0; k < 16; ++k)
        sum += a[row][k] * b[k][column];
      result[reg] = static_cast<float>(sum);
    }
  }
}
} // namespace

std::string executeWarpOp(Fiber *warp, WorkgroupMemory &memory) {
  switch (warp[0].op.kind) {
  case WarpOp::Shuffle:
    shuffle(warp);
    return {};
  case WarpOp::LoadMatrix:
    return loadMatrix(warp, memory);
  case WarpOp::MultiplyAccumulate:
    multiplyAccumulate(warp);
    return {};
  }
  return "unknown operation of a warp";
}

} // namespace heddle::rt::emulator
