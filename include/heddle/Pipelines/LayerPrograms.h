//===- LayerPrograms.h - Programs of single layers --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler option that makes programs of single layers instead of training
// programs. `heddle quantize` uses them to compute the inputs of the matrix
// products. This header includes no MLIR header, so that the driver can use it
// without including MLIR headers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_LAYERPROGRAMS_H
#define HEDDLE_PIPELINES_LAYERPROGRAMS_H

namespace heddle {

/// Whether a compilation makes programs of single layers instead of training
/// programs, for calibrated quantization.
enum class LayerPrograms {
  None,
  AtOnce, ///< One program returns the inputs of all products of a layer.
  /// One program for each group of products with the same input, in the order
  /// of computation. The weights of one group can then be quantized before the
  /// inputs of the next group are computed.
  Sequential,
};

} // namespace heddle

#endif // HEDDLE_PIPELINES_LAYERPROGRAMS_H
