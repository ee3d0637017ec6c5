//===- Windows.h - How long windows of states are ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_WINDOWS_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_WINDOWS_H

#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace heddle::spmd {

/// What requests of direct I/O are multiples of, in bytes.
constexpr int64_t pageBytes = 4096;
/// The same, in elements of f32.
constexpr int64_t windowUnit = pageBytes / 4;
/// A smaller window is not worth a request.
constexpr int64_t leastWindow = 256 * windowUnit;
/// Windows of all updates of a step, about: its commands stay few, and slots
/// are a small part of what they are windows of.
constexpr int64_t fewWindows = 64;
/// No more is gained by a larger window: in f32 it has four times the bytes
/// that are on their way to and from a disk at a time.
constexpr int64_t amplestWindow = int64_t(16) << 20;
/// Unless there were so many windows that a plan has too many commands.
constexpr int64_t mostWindows = 128;

/// The elements of a window of states with `total` elements that are updated:
/// such that there are not many windows, and they are not large; and no more
/// than `most` (`sub_group_size`), unless that is 0. DeepSpeed's default is
/// 1e9, with which one window would be all of many a model.
inline int64_t windowElements(int64_t most, int64_t total) {
  int64_t size =
      std::max({leastWindow, std::min(total / fewWindows, amplestWindow),
                total / mostWindows});
  if (most > 0)
    size = std::min(size, most);
  return llvm::alignTo(std::min(size, total), windowUnit);
}

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_WINDOWS_H
