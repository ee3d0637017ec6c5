//===- Mesh.cpp - The axes along which ranks are arranged -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Mesh.h"
#include "heddle/PlanFormat/Mesh.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace heddle::dist;

namespace {

/// A kind of mesh axis, and the setting that gives its size.
struct KnownAxis {
  StringRef name;
  AxisRole role;
  int64_t Strategy::*size;
  StringRef factorOf = {};
};

/// All axes that a mesh can have, major to minor.
constexpr KnownAxis knownAxes[] = {
    {"pipe", AxisRole::Pipeline, &Strategy::pipe},
    {"data", AxisRole::Data, &Strategy::data},
    {"seq", AxisRole::Sequence, &Strategy::sequence},
    {"tensor", AxisRole::Tensor, &Strategy::tensor}};

} // namespace

SmallVector<Axis> heddle::dist::axesOf(const Strategy &strategy) {
  SmallVector<Axis> axes;
  for (const KnownAxis &axis : knownAxes)
    axes.push_back({axis.name, strategy.*axis.size, axis.role, axis.factorOf});
  return axes;
}

heddle::plan::Mesh heddle::dist::meshOf(const Strategy &strategy) {
  plan::Mesh mesh;
  for (const Axis &axis : axesOf(strategy))
    mesh.axes.push_back(
        {axis.name.str(), axis.size, axis.role, axis.factorOf.str()});
  return mesh;
}

ArrayRef<StringRef> heddle::dist::meshAxes() {
  static const SmallVector<StringRef> names = llvm::map_to_vector(
      knownAxes, [](const KnownAxis &axis) { return axis.name; });
  return names;
}

std::optional<AxisRole> heddle::dist::roleOf(StringRef name) {
  auto [whole, factor] = name.split('/');
  if (!factor.empty() && wholeOf(factor) != whole)
    return std::nullopt;
  for (const KnownAxis &axis : knownAxes)
    if (axis.name == whole)
      return axis.role;
  return std::nullopt;
}

std::optional<AxisRole> heddle::dist::roleOf(Attribute axis) {
  return roleOf(cast<StringAttr>(axis).getValue());
}

StringRef heddle::dist::wholeOf(StringRef name) {
  for (const KnownAxis &axis : knownAxes)
    if (axis.name == name)
      return axis.factorOf;
  return "";
}

bool heddle::dist::holdsReplicas(AxisRole role) {
  return role == AxisRole::Data || role == AxisRole::Sequence;
}

bool heddle::dist::holdsReplicas(StringRef axis) {
  std::optional<AxisRole> role = roleOf(axis);
  return role && holdsReplicas(*role);
}

bool heddle::dist::holdsReplicas(Attribute axis) {
  return holdsReplicas(cast<StringAttr>(axis).getValue());
}

StringRef heddle::dist::pipelineAxis() {
  return llvm::find_if(knownAxes,
                       [](const KnownAxis &axis) {
                         return axis.role == AxisRole::Pipeline;
                       })
      ->name;
}
