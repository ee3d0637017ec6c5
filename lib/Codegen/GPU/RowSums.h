//===- RowSums.h - Sums over the rows that blocks have ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWSUMS_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWSUMS_H

#include "ColumnSums.h"
#include "RowChunks.h"
#include "heddle/Codegen/Common/RowsForm.h"

namespace heddle::gpu {

/// Sums over rows in a kernel that has the rows at hand anyway, as the gradient
/// of a norm's weight beside that of its input. A thread sums its columns in
/// registers while its block, or its team, goes from row to row. Each block
/// writes a part of the sums, in f32, to the kernel's scratch memory; a second
/// launch adds the parts in order.
class RowSums {
public:
  /// `width` columns of a thread stand together; `parts` blocks have the rows,
  /// and each so many `teams`.
  RowSums(const codegen::RowsForm &form, int64_t width, int64_t parts,
          int64_t teams)
      : form(form), width(width),
        teams(teams), parts{parts, form.columnSums().extent,
                            static_cast<int64_t>(
                                form.columnSums().reductions.size())} {}

  /// Blocks that rows are given to at most: three for each multiprocessor of a
  /// large chip.
  static constexpr int64_t mostParts = 384;
  int64_t scratchBytes() const { return parts.scratchBytes(); }

  /// Emits what the sums of a thread begin with.
  llvm::SmallVector<mlir::Value> zeros(KernelFrame &f, int64_t threads) const;
  /// Emits what `running` becomes with the row at `leading`.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  add(KernelFrame &f, RowChunks &chunks, llvm::ArrayRef<mlir::Value> leading,
      mlir::ValueRange running) const;
  /// Writes the block's part; what teams have summed is added before.
  mlir::LogicalResult store(KernelFrame &f, RowChunks &chunks,
                            mlir::ValueRange sums) const;
  /// Adds the launch that makes the results of the parts.
  mlir::LogicalResult addLaunch(MappedKernel &mapped, planir::KernelOp kernel,
                                mlir::gpu::GPUModuleOp module) const;

private:
  mlir::LogicalResult storeOfTeams(KernelFrame &f, mlir::ValueRange sums) const;
  int64_t strips() const;
  int64_t stripSize() const { return parts.columns / strips(); }
  mlir::Value columnAt(KernelFrame &f, mlir::Value place) const;

  const codegen::RowsForm &form;
  int64_t width, teams;
  SumParts parts;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ROWSUMS_H
