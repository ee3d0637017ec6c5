//===- StateNames.h - States that the runtime looks up ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_STATENAMES_H
#define HEDDLE_PLANFORMAT_STATENAMES_H

namespace heddle::plan {

/// One F32 number: 1 once the loss or the gradient norm of a step was not
/// finite. While it is 1 no step updates anything. The runtime makes it 0.
inline constexpr char nonfiniteState[] = "nonfinite";

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_STATENAMES_H
