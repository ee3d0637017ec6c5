//===- Mesh.h - The axes along which ranks are arranged ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Defines the axes that a mesh can have. The role of an axis says what its
// ranks split: layers, the batch, the sequence, or features. Passes ask for
// axes by role, not by name. Mesh.cpp has the list of axes.
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

/// An axis and its size. A strategy (the settings of a compilation) determines
/// which axes the mesh has.
struct Axis {
  llvm::StringRef name;
  int64_t size;
  AxisRole role;
  llvm::StringRef factorOf; ///< The axis of which it is a factor; empty: none.
};

/// The axes of the strategy's mesh, from major to minor.
llvm::SmallVector<Axis> axesOf(const Strategy &strategy);

/// The strategy's mesh as a plan::Mesh, which can compute groups of ranks.
plan::Mesh meshOf(const Strategy &strategy);

/// The names of all axes that a mesh can have, from major to minor.
llvm::ArrayRef<llvm::StringRef> meshAxes();

/// The role of an axis, which says what its ranks split, such as layers or rows
/// of the batch. `expert` is a factor of the axis `data`; the other factor,
/// `data/expert`, has the role of `data`. Returns nullopt for an unknown name.
std::optional<AxisRole> roleOf(llvm::StringRef axis);
std::optional<AxisRole> roleOf(mlir::Attribute axis);

/// If `axis` is a factor of another axis, as `expert` is of `data`, returns
/// this other axis; otherwise "".
llvm::StringRef wholeOf(llvm::StringRef axis);

/// Whether ranks along axes of this role hold replicas of the parameters and
/// compute different tokens. ZeRO splits states over these axes.
bool holdsReplicas(AxisRole role);
/// Whether ranks along the axis with this name hold replicas of the parameters
/// and compute different tokens.
bool holdsReplicas(llvm::StringRef axis);
bool holdsReplicas(mlir::Attribute axis);

/// The axis of pipeline stages. Ranks send activations along it.
llvm::StringRef pipelineAxis();

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_MESH_H
