//===- StateNames.h - Names of special states -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of states that the compiler adds and the runtime looks for.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_STATENAMES_H
#define HEDDLE_PLANFORMAT_STATENAMES_H

namespace heddle::plan {

/// A state with one F32: 1 after a step's loss or gradient norm was not finite.
/// While it is 1, steps update nothing. The runtime resets it to 0.
inline constexpr char nonfiniteState[] = "nonfinite";

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_STATENAMES_H
