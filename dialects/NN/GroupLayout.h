//===- GroupLayout.h - The groups of a bucket's weights ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_GROUPLAYOUT_H
#define HEDDLE_DIALECTS_NN_GROUPLAYOUT_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace heddle::nn {

/// Which elements of a bucket's flat tensor share a scale; see NNGroupOps.td.
struct GroupLayout {
  /// Which dimension of a tensor ranks split.
  enum Split { None, Rows, Columns };

  /// A tensor of the bucket, or the rank's part of one.
  struct Tensor {
    int64_t begin;      ///< Its first element in the flat tensor.
    int64_t rows;       ///< Of the part in memory.
    int64_t columns;    ///< Of the part in memory.
    int64_t groups;     ///< How many groups the whole tensor has.
    int64_t firstGroup; ///< The number of its first group in the bucket.
    bool outputsLast;   ///< Whether its rows are inputs, its columns outputs.
    int64_t wholeRows, wholeColumns; ///< Of the whole tensor.
    Split split;

    int64_t count() const { return rows * columns; }
    /// The number of elements of a group.
    int64_t groupSize() const { return wholeRows * wholeColumns / groups; }
    /// Whether the last parts of the tensor have padding.
    bool isPadded() const {
      return wholeRows % rows != 0 || wholeColumns % columns != 0;
    }
    /// The group, counted in the bucket, of an element of the part with the
    /// number `part`; -1 for padding.
    int64_t groupOf(int64_t element, int64_t part) const {
      int64_t row = element / columns + (split == Rows ? part * rows : 0);
      int64_t column =
          element % columns + (split == Columns ? part * columns : 0);
      if (row >= wholeRows || column >= wholeColumns)
        return -1;
      int64_t inWeight =
          outputsLast ? column * wholeRows + row : row * wholeColumns + column;
      return firstGroup + inWeight / groupSize();
    }
  };

  /// A tensor as rows, in each of which every group has a run of elements. With
  /// r the number of the row in the whole tensor, group k begins in column
  /// ceil((k size - r rowElements) / columnElements) of the whole tensor. A
  /// tensor whose groups are consecutive in memory is one row.
  struct Runs {
    int64_t rows, columns, rowElements, columnElements;
    int64_t rowStep, columnStep; ///< What each part adds to rows and columns.
    int64_t wholeRows, wholeColumns;
  };
  static Runs runsOf(const Tensor &tensor);

  llvm::SmallVector<Tensor> tensors;
  int64_t groups = 0;   ///< The groups of all tensors.
  int64_t elements = 0; ///< The end of the last tensor with its padding.

  /// `numbers` are those of an operation's attribute `tensors`.
  static GroupLayout of(llvm::ArrayRef<int64_t> numbers);
};

/// The layout of an operation of NNGroupOps.td.
GroupLayout groupLayoutOf(mlir::Operation *op);

/// Sets the shapes of the results that have elements for groups, after the
/// bucket of `op` has changed. Returns false if `op` is no operation of
/// NNGroupOps.td that has such results.
bool setGroupShapes(mlir::Operation *op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_GROUPLAYOUT_H
