//===- LanePatterns.h - Common parts of adjacent lanes ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_LANEPATTERNS_H
#define HEDDLE_LIB_CODEGEN_GPU_LANEPATTERNS_H

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace heddle::gpu {

/// Adds patterns that simplify shifts and masks of vectors of adjacent indices,
/// the first of which is a multiple of a power of two.
void populateLanePatterns(mlir::RewritePatternSet &patterns);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_LANEPATTERNS_H
