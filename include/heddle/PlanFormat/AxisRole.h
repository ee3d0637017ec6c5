//===- AxisRole.h - What ranks along an axis share out ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_AXISROLE_H
#define HEDDLE_PLANFORMAT_AXISROLE_H

namespace heddle::plan {

/// What the ranks along an axis of a mesh share out. Mesh.h has the names.
enum class AxisRole {
  Pipeline, ///< Layers.
  Data,     ///< Rows.
  Sequence, ///< Tokens of a row.
  Tensor,   ///< Features, heads and the vocabulary.
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_AXISROLE_H
