//===- BlockLayout.h - Layouts of attention ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_BLOCKLAYOUT_H
#define HEDDLE_LIB_EVAL_BLOCKLAYOUT_H

#include "heddle/Eval/ReferenceOps.h"

namespace heddle::eval {

/// The operand `layout` of an attention: bits that say which blocks of keys a
/// block of queries sees.
class BlockLayout {
public:
  /// `heads` is the number of the rank's heads.
  template <typename OpT>
  BlockLayout(OpT op, const Inputs &in, int64_t heads)
      : layout(op.getLayout() ? &in[op.getLayout()] : nullptr),
        block(op.getMask().getBlock()),
        firstHead(layout ? in.integerOr(op.getPart(), 0) * heads : 0) {}

  /// Whether the layout lets a query see a key in one of the rank's heads. Both
  /// are given by their positions in the whole sequence. True without a layout.
  bool has(int64_t head, int64_t query, int64_t key) const {
    if (!layout)
      return true;
    llvm::ArrayRef<int64_t> shape = layout->shape();
    int64_t layoutHead = shape[0] == 1 ? 0 : firstHead + head;
    int64_t row = layoutHead * shape[1] + query / block;
    int64_t word = layout->ints()[row * shape[2] + key / block / 32];
    return static_cast<uint64_t>(word) >> (key / block % 32) & 1;
  }

private:
  const Tensor *layout;
  int64_t block;
  int64_t firstHead; ///< Which head of the layout the first head has.
};

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_BLOCKLAYOUT_H
