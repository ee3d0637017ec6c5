//===- ProductResults.h - Results computed from a product -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_PRODUCTRESULTS_H
#define HEDDLE_LIB_CODEGEN_GPU_PRODUCTRESULTS_H

#include "KernelFrame.h"
#include "ThreadCode.h"
#include "heddle/Codegen/Common/Product.h"

namespace heddle::gpu {

/// Returns the largest number of adjacent columns of a product's result, at
/// most `most`, that divides the length of a row. Vectors of so many columns
/// are aligned in every row.
int64_t widestChunk(const codegen::Product &product, int64_t most);

/// Returns as many columns as a 16-byte access holds elements of a result. If
/// the kernel's tensors of the shape of the product's result have different
/// element types, the narrowest type counts.
int64_t resultChunk(planir::KernelOp kernel, const codegen::Product &product);

/// The sums of a product in adjacent columns of a row.
struct ProductSums {
  const codegen::Product &product;
  llvm::SmallVector<mlir::Value> sums;
};

/// Computes and stores results of a kernel from the sums of its products: the
/// epilogue.
class ProductResults {
public:
  ProductResults(KernelFrame &frame, ThreadCode &code)
      : f(frame), c(code), outputs(frame.allOutputs()) {}
  /// Only for some of the kernel's results.
  ProductResults(KernelFrame &frame, ThreadCode &code,
                 llvm::ArrayRef<unsigned> outputs)
      : f(frame), c(code), outputs(outputs.begin(), outputs.end()) {}

  /// Computes and stores the results of adjacent columns of one row (a chunk).
  /// `products` are all products that the results are computed of. With
  /// `isShifted`, the chunk is aligned in memory, though its first column is no
  /// multiple of its width.
  mlir::LogicalResult store(mlir::Value row, mlir::Value column,
                            llvm::ArrayRef<ProductSums> products,
                            bool isShifted = false);

private:
  mlir::FailureOr<mlir::Value> finishSums(const ProductSums &of,
                                          llvm::ArrayRef<mlir::Value> leading);

  KernelFrame &f;
  ThreadCode &c;
  llvm::SmallVector<unsigned> outputs;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_PRODUCTRESULTS_H
