//===- FragmentKind.h - What a pipeline fragment computes -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kinds of fragments, for the pipe dialect and for plans. A fragment is one
// kind of computation, such as the forward pass, for one chunk of layers of a
// pipeline stage. This file includes no LLVM header, because the runtime
// includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_FRAGMENTKIND_H
#define HEDDLE_PLANFORMAT_FRAGMENTKIND_H

namespace heddle::plan {

/// The kinds of computation that the schedule of a pipeline stage consists of.
/// Command.h has the letters that schedules use for these kinds, in this order.
enum class FragmentKind {
  Forward,
  Backward,       ///< The gradients of the input and of the weights.
  BackwardInput,  ///< The gradient of the input only (zb-h1).
  BackwardWeight, ///< The gradients of the weights only (zb-h1).
  Optimizer,
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_FRAGMENTKIND_H
