//===- Mesh.h - The mesh of ranks -------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mesh of ranks as the runtime sees it. The axes come from the compiler's
// list (dialects/Dist/Mesh.cpp). The runtime decides by an axis' role, never by
// its name.
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

/// Names of axes, from major to minor.
using AxisNames = std::vector<std::string>;

/// The ranks as an array. With the axes pipe, data, seq and tensor, rank =
/// ((pipe * D + data) * S + seq) * T + tensor, where D, S and T are the sizes
/// of data, seq and tensor.
///
/// An axis can be a factor of another axis: both then divide the same ranks. If
/// `data` = 8 has the factor `expert` = 4, then a rank's coordinate along
/// `expert` is its coordinate along `data` modulo 4, and the remaining axis
/// `data/expert` has size 2. An axis has at most one factor.
struct Mesh {
  struct Axis {
    std::string name;
    int64_t size = 1;
    AxisRole role = AxisRole::Data;
    /// The axis of which this axis is a factor; empty: none.
    std::string factorOf;
  };
  std::vector<Axis> axes; ///< The axes, from major to minor.

  /// Describes what is wrong with the list of axes; empty if nothing is wrong.
  std::string problem() const;

  int64_t ranks() const;
  /// The size of an axis; 1 for an unknown name.
  int64_t size(const std::string &axis) const;
  /// The product of the sizes of all axes with this role.
  int64_t size(AxisRole role) const;
  /// The axes whose coordinates together identify a rank. An axis that has a
  /// factor is replaced by its two parts: `data` with the factor `expert` is
  /// replaced by `data/expert` (the remaining axis) and `expert`.
  AxisNames atoms() const;
  /// Whether `axes` contain the axis `atom` (one of `atoms()`), or the larger
  /// axis of which `atom` is a part. For example, `data` covers its parts
  /// `expert` and `data/expert`.
  bool covers(const AxisNames &axes, const std::string &atom) const;
  /// The role of an axis. A remaining axis such as `data/expert` has the role
  /// of `data`. Returns nullopt for an unknown name.
  std::optional<AxisRole> roleOf(const std::string &axis) const;
  /// The mesh in which the axes with this role keep their sizes; all other axes
  /// have size 1.
  Mesh along(AxisRole role) const;

  // The number of ranks along the axes: the product of their sizes. If `axes`
  // contain `data`, its parts (`expert` and `data/expert`) do not count,
  // because the size of `data` includes theirs.
  int64_t groupSize(const AxisNames &axes) const;
  /// The index of `rank` among the ranks that differ from it along `axes` only,
  /// counted from major to minor.
  int64_t coordinate(int64_t rank, const AxisNames &axes) const;
  /// The ranks that differ from `rank` along `axes` only, in the order of their
  /// indices.
  std::vector<int64_t> group(int64_t rank, const AxisNames &axes) const;
  /// The rank with index `index` in `group(rank, axes)`.
  int64_t member(int64_t rank, const AxisNames &axes, int64_t index) const;

  int64_t stages() const { return size(AxisRole::Pipeline); }
  /// The pipeline stage to which a rank belongs: its coordinate along `pipe`.
  int64_t stageOf(int64_t rank) const;

private:
  /// The size of an axis, and its stride: the difference of the rank numbers of
  /// two neighbours along the axis.
  struct Extent {
    int64_t size = 1;
    int64_t stride = 1; ///< Difference between the ranks of two neighbours.
  };
  const Axis *find(const std::string &name) const;
  const Axis *factorOf(const Axis &whole) const;
  /// The larger axis of which the axis `name` is a part: `data` for its factor
  /// `expert` and for the remaining axis `data/expert`. Null if there is none.
  const Axis *wholeOf(const std::string &name) const;
  Extent extentOf(const std::string &name) const;
  bool isCounted(const AxisNames &axes, const std::string &axis) const;
};

void to_json(nlohmann::json &json, const Mesh &mesh);
void from_json(const nlohmann::json &json, Mesh &mesh);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_MESH_H
