//===- Mesh.h - The axes along which ranks are arranged ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kinds of mesh axes, in one list (Mesh.cpp). Passes ask for axes by role,
// not by name.
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

/// An axis of a mesh, with its size in a strategy.
struct Axis {
  llvm::StringRef name;
  int64_t size;
  AxisRole role;
  llvm::StringRef factorOf; ///< The axis that it is a factor of, or empty.
};

/// The axes of the strategy's mesh, the most major first.
llvm::SmallVector<Axis> axesOf(const Strategy &strategy);

/// The same as a plan::Mesh, which computes groups of ranks.
plan::Mesh meshOf(const Strategy &strategy);

/// The names of the axes that a mesh may have, the most major first.
llvm::ArrayRef<llvm::StringRef> meshAxes();

/// The role of an axis: what ranks along it split. `data/expert` names the rest
/// of `data` beside its factor `expert`, and has the role of `data`. Nothing
/// for an unknown name.
std::optional<AxisRole> roleOf(llvm::StringRef axis);
std::optional<AxisRole> roleOf(mlir::Attribute axis);

/// The axis that `axis` is a factor of; empty if it is no factor.
llvm::StringRef wholeOf(llvm::StringRef axis);

/// Whether ranks along axes of this role hold replicas of the parameters and
/// compute different tokens. ZeRO splits states over these axes.
bool holdsReplicas(AxisRole role);
/// The same for an axis by name.
bool holdsReplicas(llvm::StringRef axis);
bool holdsReplicas(mlir::Attribute axis);

/// The axis of pipeline stages. Ranks send activations along it.
llvm::StringRef pipelineAxis();

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_MESH_H
