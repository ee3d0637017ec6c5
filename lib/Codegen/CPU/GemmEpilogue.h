//===- GemmEpilogue.h - What is fused behind products -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_GEMMEPILOGUE_H
#define HEDDLE_LIB_CODEGEN_CPU_GEMMEPILOGUE_H

#include "KernelEmitter.h"
#include "heddle/Codegen/Common/Product.h"

namespace heddle::cpu {

/// A product, and what its generator leaves to be added to it; or null.
struct Addition {
  const codegen::Product *product;
  mlir::Value addend;
};

/// A value of the kernel, and where it is written.
struct Output {
  mlir::Value value, pointer;
};

/// What is computed of one vector of each product.
class Epilogue {
public:
  Epilogue(KernelEmitter &k, llvm::ArrayRef<Addition> additions,
           llvm::ArrayRef<Output> outputs)
      : k(k), additions(additions), outputs(outputs) {}

  /// Whether the outputs are the sums as they are.
  bool isEmpty() const {
    return additions.size() == 1 && !additions[0].addend &&
           outputs.size() == 1 &&
           outputs[0].value == additions[0].product->result();
  }
  /// Stores all outputs but the first, and returns that, in f32.
  mlir::Value finish(mlir::ValueRange sums, mlir::Value row, mlir::Value column,
                     mlir::Value mask);

private:
  KernelEmitter &k;
  llvm::SmallVector<Addition, 2> additions;
  llvm::SmallVector<Output, 2> outputs;
};

/// A kernel of products with packed weights, what makes their rows, and what is
/// made of their heads.
mlir::LogicalResult
emitPackedProducts(KernelEmitter &k, llvm::ArrayRef<codegen::Product> products);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_GEMMEPILOGUE_H
