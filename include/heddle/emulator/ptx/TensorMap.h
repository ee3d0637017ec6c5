//===- TensorMap.h - Descriptors of tensors for bulk copies -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulated driver creates tensor maps (cuTensorMapEncodeTiled); the machine
// reads them when it executes cp.async.bulk.tensor.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_TENSORMAP_H
#define HEDDLE_EMULATOR_PTX_TENSORMAP_H

#include <cstdint>
#include <string>

namespace heddle::emulator {

/// What the emulator stores in a CUtensorMap. NVIDIA's layout is different.
/// `type` and `swizzle` have the values of the driver's enumerations.
struct alignas(64) TensorMap {
  static constexpr int maxRank = 5;
  static constexpr uint64_t isMap = 0x70614d7265676e69;

  uint64_t tag = isMap;
  uint64_t address = 0;
  uint64_t strides[maxRank - 1] = {}; ///< In bytes, from dimension 1 on.
  uint64_t sizes[maxRank] = {}; ///< In elements; dimension 0 is contiguous.
  uint16_t box[maxRank] = {};
  /// Element strides: the box takes every steps[i]-th element along dimension i
  /// of the tensor. The stride of dimension 0 is ignored.
  uint8_t steps[maxRank] = {};
  uint8_t type = 0; ///< CUtensorMapDataType
  uint8_t rank = 0;
  uint8_t swizzle = 0; ///< 0: none; 1, 2, 3: 32, 64, 128 bytes.
  bool fillsNaN = false;

  /// Bytes of an element; 0 if the type is unknown.
  int typeBytes() const;
  /// Number of bytes that one copy moves.
  int64_t boxBytes() const;
  /// Why cuTensorMapEncodeTiled would refuse the map, or "".
  std::string check() const;
};
static_assert(sizeof(TensorMap) == 128, "as large as a CUtensorMap");

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_TENSORMAP_H
