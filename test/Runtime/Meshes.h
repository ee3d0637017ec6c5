//===- Meshes.h - Meshes written by hand ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_MESHES_H
#define HEDDLE_TEST_RUNTIME_MESHES_H

#include "heddle/PlanFormat/Mesh.h"

namespace heddle::test {

inline plan::Mesh meshOf(int64_t pipe, int64_t data, int64_t seq = 1,
                         int64_t tensor = 1) {
  using plan::AxisRole;
  return {{{"pipe", pipe, AxisRole::Pipeline, ""},
           {"data", data, AxisRole::Data, ""},
           {"seq", seq, AxisRole::Sequence, ""},
           {"tensor", tensor, AxisRole::Tensor, ""}}};
}

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_MESHES_H
