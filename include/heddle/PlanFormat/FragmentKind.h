//===- FragmentKind.h - What a pipeline fragment computes -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kinds of fragments of a pipeline stage, for the pipe dialect and for
// plans. This file includes no LLVM header, because the runtime includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_FRAGMENTKIND_H
#define HEDDLE_PLANFORMAT_FRAGMENTKIND_H

namespace heddle::plan {

/// What a fragment of a pipeline stage computes. Command.h has the letters for
/// the kinds, in this order.
enum class FragmentKind {
  Forward,
  Backward,       ///< The gradients of the input and of the weights.
  BackwardInput,  ///< The gradient of the input only (zb-h1).
  BackwardWeight, ///< The gradients of the weights only (zb-h1).
  Optimizer,
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_FRAGMENTKIND_H
