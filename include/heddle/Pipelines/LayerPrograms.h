//===- LayerPrograms.h - Programs of single layers --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `heddle quantize` asks of a compilation. It includes nothing of MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_LAYERPROGRAMS_H
#define HEDDLE_PIPELINES_LAYERPROGRAMS_H

namespace heddle {

/// Programs of single layers, in place of those that train.
enum class LayerPrograms {
  None,
  AtOnce,     ///< One gives what all products of a layer read.
  Sequential, ///< One for the products that read one value, in their order.
};

} // namespace heddle

#endif // HEDDLE_PIPELINES_LAYERPROGRAMS_H
