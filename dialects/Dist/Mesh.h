//===- Mesh.h - The axes along which ranks are arranged ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One list of axes (Mesh.cpp): a pass asks for what an axis does, not for its
// name.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_MESH_H
#define HEDDLE_DIALECTS_DIST_MESH_H

#include "dialects/Dist/Strategy.h"
#include "heddle/PlanFormat/AxisRole.h"
#include "mlir/IR/Attributes.h"
#include "llvm/ADT/SmallVector.h"

namespace heddle::plan {
struct Mesh;
} // namespace heddle::plan

namespace heddle::dist {

using plan::AxisRole;

/// An axis of a mesh.
struct Axis {
  llvm::StringRef name;
  int64_t size;
  AxisRole role;
  llvm::StringRef factorOf; ///< As plan::Mesh has it; empty: it is none.
};

/// The axes of the strategy's mesh, the most major first.
llvm::SmallVector<Axis> axesOf(const Strategy &strategy);

/// The same as a plan has them, with the arithmetic of groups.
plan::Mesh meshOf(const Strategy &strategy);

/// The names of the axes that a mesh may have, the most major first.
llvm::ArrayRef<llvm::StringRef> meshAxes();

/// What ranks along the axis of that name share out, or along what is left of
/// an axis beside its factor, as `data/expert`; nothing where a mesh has no
/// such axis.
std::optional<AxisRole> roleOf(llvm::StringRef axis);
std::optional<AxisRole> roleOf(mlir::Attribute axis);

/// The axis that the one of that name is a factor of; empty when it is none.
llvm::StringRef wholeOf(llvm::StringRef axis);

/// Whether ranks that share this out hold replicas of the parameters and see
/// different tokens: ZeRO splits states over such axes.
bool holdsReplicas(AxisRole role);
/// The same of an axis of that name.
bool holdsReplicas(llvm::StringRef axis);
bool holdsReplicas(mlir::Attribute axis);

/// The one axis that shares out layers: ranks send to each other along it.
llvm::StringRef pipelineAxis();

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_MESH_H
