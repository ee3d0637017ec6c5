//===- GemmEpilogue.h - Operations fused after products ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The element-wise operations that a kernel applies to the result of a matrix
// product before it is stored (PyTorch and CUTLASS: epilogue).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_GEMMEPILOGUE_H
#define HEDDLE_LIB_CODEGEN_CPU_GEMMEPILOGUE_H

#include "KernelEmitter.h"
#include "heddle/Codegen/Common/Product.h"

namespace heddle::cpu {

/// A product, and the addend that the epilogue must add to it. The addend is
/// null if the product has none, or if the sums of the product already contain
/// it.
struct Addition {
  const codegen::Product *product;
  mlir::Value addend;
};

/// A value of the kernel's body, and the address to which it is written.
struct Output {
  mlir::Value value, pointer;
};

/// Emits the operations of a kernel that follow its matrix products. From one
/// vector of elements of each product it computes the same elements of the
/// kernel's results.
class Epilogue {
public:
  Epilogue(KernelEmitter &k, llvm::ArrayRef<Addition> additions,
           llvm::ArrayRef<Output> outputs)
      : k(k), additions(additions), outputs(outputs) {}

  /// Whether there is nothing to compute: the only output is the sums of the
  /// only product.
  bool isEmpty() const {
    return additions.size() == 1 && !additions[0].addend &&
           outputs.size() == 1 &&
           outputs[0].value == additions[0].product->result();
  }
  /// Computes the outputs for one vector at (`row`, `column`). Stores all
  /// outputs but the first. Returns the first output in f32, because the code
  /// that calls the epilogue stores it.
  mlir::Value finish(mlir::ValueRange sums, mlir::Value row, mlir::Value column,
                     mlir::Value mask);

private:
  KernelEmitter &k;
  llvm::SmallVector<Addition, 2> additions;
  llvm::SmallVector<Output, 2> outputs;
};

/// Emits a kernel that multiplies one matrix A by weights that are packed into
/// panels (nn.packed_linear). The kernel may also compute the rows of A
/// (prologue), and apply operations to the attention heads in the results.
mlir::LogicalResult
emitPackedProducts(KernelEmitter &k, llvm::ArrayRef<codegen::Product> products);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_GEMMEPILOGUE_H
