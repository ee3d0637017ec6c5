//===- PackedPanels.h - Panels side by side ---------------------*- C++ -*-===//
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

/// Shares panels `begin` to `end` out among `streams`, a power of two, and
/// calls `body` with a panel of each. Those of a stream follow each other, so
/// that fetching ahead is in vain at the end alone. What is left over has fewer
/// streams.
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
