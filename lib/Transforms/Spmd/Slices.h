//===- Slices.h - Slices and concatenations of values -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_SLICES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_SLICES_H

#include "dialects/NN/NNDialect.h"

namespace heddle::spmd {

/// Slices elements [first, first + length) of one dimension. `first` becomes an
/// operand rather than an attribute, so that all slices of one length can share
/// a kernel.
inline mlir::Value sliceOf(mlir::OpBuilder &builder, mlir::Value value,
                           unsigned dim, mlir::Value first, int64_t length) {
  auto type = llvm::cast<mlir::RankedTensorType>(value.getType());
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[dim] = length;
  return builder.create<nn::SliceOp>(value.getLoc(), type.clone(shape), value,
                                     first, dim, /*offset=*/0,
                                     mlir::ArrayAttr());
}

/// Splits a flat value into adjacent parts of the given sizes. If a part is the
/// whole value, the value itself is returned for it. If a part has the size 0,
/// null is returned for it.
inline llvm::SmallVector<mlir::Value> cutFlat(mlir::OpBuilder &builder,
                                              mlir::Location loc,
                                              mlir::Value flat,
                                              llvm::ArrayRef<int64_t> sizes) {
  auto type = llvm::cast<mlir::RankedTensorType>(flat.getType());
  llvm::SmallVector<mlir::Type> types;
  for (int64_t size : sizes)
    if (size > 0)
      types.push_back(type.clone({size}));
  mlir::ValueRange parts = flat;
  if (types.front() != type)
    parts =
        builder.create<nn::UnpackOp>(loc, types, flat, nullptr).getMembers();
  llvm::SmallVector<mlir::Value> values;
  for (int64_t size : sizes) {
    values.push_back(size > 0 ? parts.front() : mlir::Value());
    parts = parts.drop_front(size > 0);
  }
  return values;
}

/// Concatenates values along a dimension. A kernel can take only few operands,
/// so this is done in several steps, with at most `most` operands each.
inline mlir::Value concatOf(mlir::OpBuilder &builder,
                            llvm::SmallVector<mlir::Value> values, unsigned dim,
                            size_t most = 4) {
  while (values.size() > 1) {
    llvm::SmallVector<mlir::Value> longer;
    for (llvm::ArrayRef<mlir::Value> rest = values; !rest.empty();
         rest = rest.drop_front(std::min(most, rest.size()))) {
      llvm::ArrayRef<mlir::Value> some = rest.take_front(most);
      auto type = llvm::cast<mlir::RankedTensorType>(some.front().getType());
      llvm::SmallVector<int64_t> shape(type.getShape());
      shape[dim] = 0;
      for (mlir::Value value : some)
        shape[dim] +=
            llvm::cast<mlir::RankedTensorType>(value.getType()).getDimSize(dim);
      longer.push_back(some.size() == 1
                           ? some.front()
                           : builder.create<nn::ConcatOp>(
                                 some.front().getLoc(), type.clone(shape), some,
                                 dim, mlir::ArrayAttr()));
    }
    values = std::move(longer);
  }
  return values.front();
}

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_SLICES_H
