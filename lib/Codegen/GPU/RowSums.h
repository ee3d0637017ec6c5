//===- RowSums.h - Sums over the rows that blocks have ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over rows inside of a row-wise kernel (MapRows.cpp), for example the
// gradient of a norm's weight.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWSUMS_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWSUMS_H

#include "ColumnSums.h"
#include "RowChunks.h"
#include "heddle/Codegen/Common/RowsForm.h"

namespace heddle::gpu {

/// Sums over rows in a kernel that reads these rows anyway: for example the
/// gradient of a norm's weight, beside the gradient of its input. A thread sums
/// its columns in registers while its block, or its team (a warp that works on
/// other rows than the other warps), goes from row to row. Each block writes
/// its partial sums, in f32, to scratch memory. A second launch adds the
/// partial sums in order.
class RowSums {
public:
  /// `width` is the number of adjacent columns of a thread. `parts` is the
  /// number of the grid's blocks, each of which has a partial sum of every
  /// column. `teams` is the number of warps of a block that sum different rows,
  /// or 1 if all threads of the block work on the same row.
  RowSums(const codegen::RowsForm &form, int64_t width, int64_t parts,
          int64_t teams)
      : form(form), width(width),
        teams(teams), parts{parts, form.columnSums().extent,
                            static_cast<int64_t>(
                                form.columnSums().reductions.size())} {}

  /// The most blocks among which rows are divided: three for each
  /// multiprocessor of a large chip. The limit bounds the number of partial
  /// sums.
  static constexpr int64_t mostParts = 384;
  int64_t scratchBytes() const { return parts.scratchBytes(); }

  /// Emits the initial values of a thread's sums.
  llvm::SmallVector<mlir::Value> zeros(KernelFrame &f, int64_t threads) const;
  /// Emits a thread's sums after one more row: adds the row's terms to
  /// `running`, the sums so far. `leading` are the indices of the row.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  add(KernelFrame &f, RowChunks &chunks, llvm::ArrayRef<mlir::Value> leading,
      mlir::ValueRange running) const;
  /// Writes the block's partial sums to scratch memory. If the warps of the
  /// block have summed different rows, adds the sums of all warps first.
  mlir::LogicalResult store(KernelFrame &f, RowChunks &chunks,
                            mlir::ValueRange sums) const;
  /// Adds the second launch, which computes the results from the partial sums.
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
