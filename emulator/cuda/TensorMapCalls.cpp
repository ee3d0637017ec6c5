//===- TensorMapCalls.cpp - Driver calls: tensor maps ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Context.h"
#include "heddle/emulator/cuda/Calls.h"
#include "heddle/emulator/ptx/TensorMap.h"

#include <cstring>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

static_assert(sizeof(TensorMapData) == sizeof(emulator::TensorMap));

template <class T> static bool isIn(T value, T first, T last) {
  return value >= first && value <= last;
}

/// Writes a tensor map to `to`. Arguments that cuda.h documents as errors are
/// refused, and the reason is printed to stderr.
Result cuda::cuTensorMapEncodeTiled(
    TensorMapData *to, TensorMapType type, unsigned rank, void *address,
    const uint64_t *sizes, const uint64_t *strides, const unsigned *box,
    const unsigned *steps, TensorMapInterleave interleave,
    TensorMapSwizzle swizzle, TensorMapPromotion promotion,
    TensorMapFill fill) {
  auto refuse = [](const std::string &why, Result result = InvalidValue) {
    complain("cuTensorMapEncodeTiled refuses " + why);
    return result;
  };
  return inContext([&](ContextData &context) {
    if (context.settings.chip->major < 9)
      return refuse("a GPU older than sm_90", NotSupported);
    if (!to || reinterpret_cast<uintptr_t>(to) % alignof(TensorMapData))
      return refuse("to write a map that is not aligned to 64 bytes");
    if (!isIn(interleave, TensorMapInterleaveNone, TensorMapInterleave32) ||
        !isIn(swizzle, TensorMapSwizzleNone, TensorMapSwizzle128) ||
        !isIn(promotion, TensorMapPromotionNone, TensorMapPromotion256) ||
        !isIn(fill, TensorMapFillZero, TensorMapFillNaN))
      return refuse("an interleave, a swizzle, a promotion or a fill that "
                    "CUDA 12.0 does not have");
    if (interleave != TensorMapInterleaveNone)
      return refuse("interleaved tensors, which the machine does not know",
                    NotSupported);
    if (!isIn(type, TensorMapUint8, TensorMapTfloat32Ftz))
      return refuse("data type " + std::to_string(type));
    if (rank < 1 || rank > emulator::TensorMap::maxRank)
      return refuse("a tensor of rank " + std::to_string(rank));
    if (!sizes || !box || !steps || (rank > 1 && !strides))
      return refuse("a null pointer");
    emulator::TensorMap map;
    map.address = reinterpret_cast<uint64_t>(address);
    map.type = static_cast<uint8_t>(type);
    map.rank = static_cast<uint8_t>(rank);
    map.swizzle = static_cast<uint8_t>(swizzle);
    map.fillsNaN = fill == TensorMapFillNaN;
    for (unsigned i = 0; i < rank; ++i) {
      // If a value is too large for its field, store a value that check()
      // refuses.
      map.box[i] = static_cast<uint16_t>(std::min(box[i], 257u));
      map.steps[i] = static_cast<uint8_t>(std::min(steps[i], 9u));
      map.sizes[i] = sizes[i];
      if (i + 1 < rank)
        map.strides[i] = strides[i];
    }
    if (std::string wrong = map.check(); !wrong.empty())
      return refuse(wrong);
    std::memcpy(to, &map, sizeof map);
    return Success;
  });
}
