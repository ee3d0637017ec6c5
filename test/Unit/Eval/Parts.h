//===- Parts.h - Parts of an operation's inputs -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_EVAL_PARTS_H
#define HEDDLE_TEST_UNIT_EVAL_PARTS_H

#include "OpCases.h"

namespace heddle::test {

/// Elements [first, first + count) of dimension `dim`; zeros beyond its end.
eval::Tensor cut(const eval::Tensor &whole, int64_t dim, int64_t first,
                 int64_t count);

/// Part `index` of `parts` of the last dimension, which is made of segments of
/// these sizes.
eval::Tensor cutSegments(const eval::Tensor &whole,
                         llvm::ArrayRef<int64_t> segments, int64_t parts,
                         int64_t index);

void expectEqual(const eval::Tensor &actual, const eval::Tensor &expected,
                 const std::string &what, double tolerance = 0);

/// The results of one operation as r0, r1, ... without rounding.
eval::TensorMap run(const std::string &arguments, const std::string &body,
                    const eval::TensorMap &inputs);

/// Random numbers for the arguments.
eval::TensorMap inputsFor(const std::string &arguments, const std::string &body,
                          int64_t limit);

std::string shapeText(llvm::ArrayRef<int64_t> shape, const std::string &type);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_EVAL_PARTS_H
