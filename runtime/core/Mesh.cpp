//===- Mesh.cpp - The mesh of ranks ---------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Mesh.h"

#include <algorithm>

using nlohmann::json;

namespace heddle::plan {

const Mesh::Axis *Mesh::find(const std::string &name) const {
  auto axis = std::find_if(axes.begin(), axes.end(),
                           [&](const Axis &axis) { return axis.name == name; });
  return axis == axes.end() ? nullptr : &*axis;
}

const Mesh::Axis *Mesh::factorOf(const Axis &whole) const {
  auto axis = std::find_if(axes.begin(), axes.end(), [&](const Axis &axis) {
    return axis.factorOf == whole.name;
  });
  return axis == axes.end() ? nullptr : &*axis;
}

/// A mesh axis such as `data` can be factored into a smaller axis, such as
/// `expert`, and the remaining ranks. Returns the name of the axis of the
/// remaining ranks: `data/expert`.
static std::string restName(const Mesh::Axis &whole, const Mesh::Axis &factor) {
  return whole.name + "/" + factor.name;
}

const Mesh::Axis *Mesh::wholeOf(const std::string &name) const {
  if (const Axis *axis = find(name))
    return axis->factorOf.empty() ? nullptr : find(axis->factorOf);
  const Axis *whole = find(name.substr(0, name.find('/')));
  const Axis *factor = whole ? factorOf(*whole) : nullptr;
  return factor && restName(*whole, *factor) == name ? whole : nullptr;
}

std::string Mesh::problem() const {
  for (const Axis &axis : axes) {
    if (axis.size < 1)
      return "its axis " + axis.name + " has " + std::to_string(axis.size) +
             " ranks";
    if (find(axis.name) != &axis)
      return "its axis " + axis.name + " is there twice";
    if (axis.factorOf.empty())
      continue;
    const Axis *whole = find(axis.factorOf);
    if (!whole || !whole->factorOf.empty() || whole->size % axis.size != 0)
      return "its axis " + axis.name + " is no factor of " + axis.factorOf;
    if (factorOf(*whole) != &axis)
      return "its axis " + axis.factorOf + " has two factors";
  }
  return "";
}

int64_t Mesh::ranks() const {
  int64_t ranks = 1;
  for (const Axis &axis : axes)
    ranks *= axis.factorOf.empty() ? axis.size : 1;
  return ranks;
}

Mesh::Extent Mesh::extentOf(const std::string &name) const {
  const Axis *axis = find(name);
  const Axis *whole = wholeOf(name);
  if (!axis && !whole)
    return {};
  Extent extent;
  for (auto minor = axes.rbegin(); minor != axes.rend(); ++minor) {
    if (&*minor == (whole ? whole : axis))
      break;
    extent.stride *= minor->factorOf.empty() ? minor->size : 1;
  }
  if (axis) {
    extent.size = axis->size;
  } else {
    int64_t factor = factorOf(*whole)->size;
    extent.size = whole->size / factor;
    extent.stride *= factor;
  }
  return extent;
}

int64_t Mesh::size(const std::string &axis) const {
  return extentOf(axis).size;
}

int64_t Mesh::size(AxisRole role) const {
  int64_t ranks = 1;
  for (const Axis &axis : axes) {
    const Axis *whole = wholeOf(axis.name);
    bool isCounted = axis.role == role && (!whole || whole->role != role);
    ranks *= isCounted ? axis.size : 1;
  }
  return ranks;
}

AxisNames Mesh::atoms() const {
  AxisNames names;
  for (const Axis &axis : axes) {
    if (!axis.factorOf.empty())
      continue;
    if (const Axis *factor = factorOf(axis))
      names.insert(names.end(), {restName(axis, *factor), factor->name});
    else
      names.push_back(axis.name);
  }
  return names;
}

static bool contains(const AxisNames &axes, const std::string &name) {
  return std::find(axes.begin(), axes.end(), name) != axes.end();
}

bool Mesh::covers(const AxisNames &axes, const std::string &atom) const {
  const Axis *whole = wholeOf(atom);
  return contains(axes, atom) || (whole && contains(axes, whole->name));
}

std::optional<AxisRole> Mesh::roleOf(const std::string &axis) const {
  const Axis *known = find(axis);
  if (!known)
    known = wholeOf(axis);
  return known ? std::optional(known->role) : std::nullopt;
}

Mesh Mesh::along(AxisRole role) const {
  Mesh mesh = *this;
  for (Axis &axis : mesh.axes)
    if (axis.role != role)
      axis.size = 1;
  return mesh;
}

/// Whether `axis`, one of `axes`, counts in the size of the group of ranks
/// along `axes`. If it is a factor or the remainder of another axis in `axes`,
/// it does not count, because the size of that other axis already includes it.
bool Mesh::isCounted(const AxisNames &axes, const std::string &axis) const {
  const Axis *whole = axes.size() > 1 ? wholeOf(axis) : nullptr;
  return !whole || !contains(axes, whole->name);
}

int64_t Mesh::groupSize(const AxisNames &axes) const {
  int64_t ranks = 1;
  for (const std::string &axis : axes)
    ranks *= isCounted(axes, axis) ? size(axis) : 1;
  return ranks;
}

int64_t Mesh::coordinate(int64_t rank, const AxisNames &axes) const {
  int64_t number = 0;
  for (const std::string &axis : axes)
    if (isCounted(axes, axis)) {
      Extent extent = extentOf(axis);
      number = number * extent.size + rank / extent.stride % extent.size;
    }
  return number;
}

int64_t Mesh::member(int64_t rank, const AxisNames &axes, int64_t index) const {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis)
    if (isCounted(axes, *axis)) {
      Extent extent = extentOf(*axis);
      int64_t own = rank / extent.stride % extent.size;
      rank += (index % extent.size - own) * extent.stride;
      index /= extent.size;
    }
  return rank;
}

std::vector<int64_t> Mesh::group(int64_t rank, const AxisNames &axes) const {
  std::vector<int64_t> ranks;
  for (int64_t index = 0; index < groupSize(axes); ++index)
    ranks.push_back(member(rank, axes, index));
  return ranks;
}

int64_t Mesh::stageOf(int64_t rank) const {
  for (const Axis &axis : axes)
    if (axis.role == AxisRole::Pipeline)
      return coordinate(rank, {axis.name});
  return 0;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Mesh::Axis, name, size, role, factorOf)

void to_json(json &target, const Mesh &mesh) { target = mesh.axes; }
void from_json(const json &source, Mesh &mesh) { source.get_to(mesh.axes); }

} // namespace heddle::plan
