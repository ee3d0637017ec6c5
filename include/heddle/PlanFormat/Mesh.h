//===- Mesh.h - How ranks are arranged --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The axes come from the compiler's list (dialects/Dist/Mesh.cpp): the runtime
// knows what an axis is for, and no axis by its name.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_MESH_H
#define HEDDLE_PLANFORMAT_MESH_H

#include "heddle/PlanFormat/AxisRole.h"
#include "heddle/PlanFormat/Names.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::plan {

template <>
inline constexpr std::array enumNames<AxisRole> = {"pipeline", "data",
                                                   "sequence", "tensor"};

/// Names of axes, major to minor.
using AxisNames = std::vector<std::string>;

/// How the ranks are arranged. With the axes pipe, data, seq and tensor,
/// rank = ((pipe D + data) S + seq) T + tensor.
///
/// An axis can be a factor of another: then it numbers the same ranks anew. Of
/// `data` = 8 with the factor `expert` = 4, the number along `expert` is that
/// along `data` modulo 4, and what is left is the axis `data/expert` of 2. Both
/// together are `data`. An axis has one factor at most.
struct Mesh {
  struct Axis {
    std::string name;
    int64_t size = 1;
    AxisRole role = AxisRole::Data;
    std::string factorOf; ///< Empty: its ranks are those of no other axis.
  };
  std::vector<Axis> axes; ///< The most major first.

  /// What is wrong with the list; empty when nothing is.
  std::string problem() const;

  int64_t ranks() const;
  /// The size of the axis of that name; 1 for a name that is none.
  int64_t size(const std::string &axis) const;
  /// Ranks along all axes that share this out.
  int64_t size(AxisRole role) const;
  /// The axes that each rank has a number of its own along: those that have no
  /// factor, and of the others the factor and what is left.
  AxisNames atoms() const;
  /// Whether one of the axes is `atom`, or the axis that it is a part of.
  bool covers(const AxisNames &axes, const std::string &atom) const;
  /// What ranks along an axis, or along the axis that it is a part of, share
  /// out; nothing for a name that is none.
  std::optional<AxisRole> roleOf(const std::string &axis) const;
  /// As many ranks along the axes of that role, one along all others.
  Mesh along(AxisRole role) const;

  // An axis with its factor, or what is left, is the axis: nothing is counted
  // twice.
  int64_t groupSize(const AxisNames &axes) const;
  /// The number of `rank` among those that differ from it along `axes` alone,
  /// counted major to minor.
  int64_t coordinate(int64_t rank, const AxisNames &axes) const;
  /// Those ranks, in that order.
  std::vector<int64_t> group(int64_t rank, const AxisNames &axes) const;
  /// The rank that has number `index` in that group.
  int64_t member(int64_t rank, const AxisNames &axes, int64_t index) const;

  int64_t stages() const { return size(AxisRole::Pipeline); }
  /// The pipeline stage of a rank.
  int64_t stageOf(int64_t rank) const;

private:
  /// Where an axis stands in the numbers of ranks.
  struct Extent {
    int64_t size = 1;
    int64_t stride = 1; ///< Between neighbours along it.
  };
  const Axis *find(const std::string &name) const;
  const Axis *factorOf(const Axis &whole) const;
  /// The axis that the one of that name is a part of, or null.
  const Axis *wholeOf(const std::string &name) const;
  Extent extentOf(const std::string &name) const;
  bool isCounted(const AxisNames &axes, const std::string &axis) const;
};

void to_json(nlohmann::json &json, const Mesh &mesh);
void from_json(const nlohmann::json &json, Mesh &mesh);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_MESH_H
