//===- SignLayout.h - The chunks of a bucket's tensors ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_SIGNLAYOUT_H
#define HEDDLE_DIALECTS_NN_SIGNLAYOUT_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace heddle::nn {

/// How the tensors of a bucket are divided into chunks, one for each replica;
/// see NNSignOps.td.
struct SignLayout {
  /// The number of elements of a unit. Chunks consist of whole units.
  static constexpr int64_t unit = 64;
  static constexpr int64_t bitsPerWord = 32;

  /// A tensor of the bucket. Numbers count elements.
  struct Tensor {
    int64_t count;  ///< The elements of the tensor.
    int64_t slot;   ///< The elements of the bucket that it takes, with padding.
    int64_t begin;  ///< Its first element in the flat tensor of the bucket.
    int64_t chunk;  ///< The elements of each of its chunks.
    int64_t offset; ///< Its first element in the chunks of a replica.

    /// How many elements chunk `number` has that are no padding.
    int64_t countIn(int64_t number) const;
  };

  SignLayout(llvm::ArrayRef<int64_t> counts, int64_t parts);

  llvm::SmallVector<Tensor> tensors;
  int64_t parts;    ///< The number of chunks of each tensor.
  int64_t elements; ///< The elements of one chunk of every tensor.

  int64_t words() const { return elements / bitsPerWord; }
  /// The elements of each tensor.
  llvm::SmallVector<int64_t> counts() const;
};

/// The layout of an operation of NNSignOps.td.
SignLayout signLayoutOf(mlir::Operation *op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_SIGNLAYOUT_H
