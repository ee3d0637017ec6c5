//===- AxisRole.h - What an axis of the mesh splits -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_AXISROLE_H
#define HEDDLE_PLANFORMAT_AXISROLE_H

namespace heddle::plan {

/// What is split among the ranks along an axis of the mesh. The header Mesh.h
/// has the names of the axes.
enum class AxisRole {
  Pipeline, ///< Layers (pipeline parallelism).
  Data,     ///< Rows of the batch (data parallelism).
  Sequence, ///< Tokens of a row (sequence parallelism).
  Tensor,   ///< Features, heads and the vocabulary (tensor parallelism).
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_AXISROLE_H
