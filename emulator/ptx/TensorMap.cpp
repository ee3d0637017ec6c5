//===- TensorMap.cpp - Descriptors of tensors for bulk copies -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/ptx/TensorMap.h"

namespace heddle::emulator {

int TensorMap::typeBytes() const {
  // The bytes of each type, in this order: u8 u16 u32 i32 u64 i64 f16 f32 f64
  // bf16 f32.ftz tf32 tf32.ftz
  constexpr int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return type < sizeof(bytes) / sizeof(bytes[0]) ? bytes[type] : 0;
}

int64_t TensorMap::boxBytes() const {
  int64_t count = box[0];
  for (int i = 1; i < rank; ++i)
    count *= (box[i] + steps[i] - 1) / steps[i];
  return count * typeBytes();
}

std::string TensorMap::check() const {
  auto number = [](uint64_t value) { return std::to_string(value); };
  int bytes = typeBytes();
  if (!bytes)
    return "data type " + number(type);
  if (rank < 1 || rank > maxRank)
    return "a tensor of rank " + number(rank);
  if (address % 16)
    return "an address that is no multiple of 16";
  for (int i = 0; i < rank; ++i) {
    std::string at = " of dimension " + number(i);
    if (sizes[i] < 1 || sizes[i] > uint64_t(1) << 32)
      return "a size of " + number(sizes[i]) + at;
    if (box[i] < 1 || box[i] > 256)
      return "a box of " + number(box[i]) + at;
    if (steps[i] < 1 || steps[i] > 8)
      return "an element stride of " + number(steps[i]) + at;
    if (i && (strides[i - 1] % 16 || strides[i - 1] >= uint64_t(1) << 40))
      return "a stride of " + number(strides[i - 1]) + " bytes" + at;
  }
  int inner = box[0] * bytes;
  if (inner % 16)
    return "a box of " + number(inner) +
           " bytes in dimension 0, no multiple "
           "of 16";
  if (swizzle > 3)
    return "swizzle " + number(swizzle);
  if (swizzle && inner > 16 << swizzle)
    return "a box of " + number(inner) + " bytes in dimension 0, more than " +
           number(16 << swizzle) + " of the swizzle";
  bool isFloat = type >= 6;
  if (fillsNaN && !isFloat)
    return "integers are not filled with NaN";
  return {};
}

} // namespace heddle::emulator
