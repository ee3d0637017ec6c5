//===- HeadNorms.h - Norms of heads -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_HEADNORMS_H
#define HEDDLE_LIB_CODEGEN_GPU_HEADNORMS_H

#include "KernelFrame.h"
#include "heddle/Codegen/Common/RowsForm.h"

namespace heddle::gpu {

/// The reductions over the features of a head on which the elements of a tensor
/// of heads depend, such as the sum of squares of a norm. A warp computes those
/// of one head, in the order in which a kernel over rows (MapRows.cpp) does. So
/// a norm has the same bits in both kernels.
class HeadNorms {
public:
  using Value = mlir::Value;

  HeadNorms(KernelFrame &f, planir::KernelOp kernel, Value tensor);

  int64_t count() const { return static_cast<int64_t>(reductions.size()); }
  /// Emits the results of the reductions for a head of a token of a row. All
  /// lanes of the warp get them. Fails if the kernel cannot compute them.
  mlir::FailureOr<llvm::SmallVector<Value>> reduce(Value row, Value token,
                                                   Value head);
  /// Elements that are computed from now on are of a head with these results.
  void bind(mlir::ValueRange results);

private:
  mlir::FailureOr<Value> reduce(const codegen::RowReduction &reduction,
                                llvm::ArrayRef<Value> head);

  KernelFrame &f;
  llvm::SmallVector<codegen::RowReduction> reductions;
  bool isKnown = true; ///< Whether all reductions could be described.
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_HEADNORMS_H
