//===- PackedPanels.h - Loops over panels of packed weights -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PACKEDPANELS_H
#define HEDDLE_LIB_CODEGEN_CPU_PACKEDPANELS_H

#include "heddle/Codegen/CPU/LoopBuilder.h"

namespace heddle::cpu {

/// Emits a loop over panels `begin` to `end` of a packed weight that reads
/// several streams of memory at the same time. The panels are split into
/// `streams` streams, a power of two, and `body` gets one panel of each. The
/// panels of a stream are adjacent in memory, so that prefetches beyond a panel
/// read the next one. Panels that are left over are read with fewer streams.
inline void
forPanels(LoopBuilder &b, mlir::Value begin, mlir::Value end, int64_t streams,
          llvm::function_ref<void(llvm::ArrayRef<mlir::Value>)> body) {
  for (; streams > 0; streams /= 2) {
    mlir::Value each = b.div(b.sub(end, begin), streams);
    b.forLoop(b.constant(0), each, 1, [&](mlir::Value index) {
      llvm::SmallVector<mlir::Value> panels;
      for (int64_t stream = 0; stream < streams; ++stream)
        panels.push_back(b.add(b.add(begin, b.mul(each, stream)), index));
      body(panels);
    });
    begin = b.add(begin, b.mul(each, streams));
  }
}

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PACKEDPANELS_H
