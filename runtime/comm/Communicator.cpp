//===- Communicator.cpp - Ranks that talk with each other -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Communicator.h"

#include "heddle/runtime/io/Diagnostic.h"

using namespace heddle;
using namespace heddle::rt;

int64_t Mesh::ranks() const {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

std::array<int64_t, 4> Mesh::coordinates(int64_t rank) const {
  std::array<int64_t, 4> result = {};
  for (int axis = 3; axis >= 0; --axis) {
    result[axis] = rank % sizes[axis];
    rank /= sizes[axis];
  }
  return result;
}

int64_t Mesh::rankAt(const std::array<int64_t, 4> &coordinates) const {
  int64_t rank = 0;
  for (int axis = 0; axis < 4; ++axis)
    rank = rank * sizes[axis] + coordinates[axis];
  return rank;
}

std::string Mesh::format() const {
  std::string text;
  for (int axis : {1, 2, 3, 0})
    if (sizes[axis] > 1)
      text += (text.empty() ? "" : ",") + std::string(axes[axis]) + "=" +
              std::to_string(sizes[axis]);
  return text.empty() ? "one rank" : text;
}

int Mesh::findAxis(const std::string &name) {
  for (int axis = 0; axis < 4; ++axis)
    if (name == axes[axis])
      return axis;
  return -1;
}

Communicator rt::makeCommunicator(const Mesh &mesh,
                                  const std::vector<std::string> &axes,
                                  int rank) {
  Communicator result;
  std::array<int64_t, 4> own = mesh.coordinates(rank);
  std::vector<int> numbers;
  int64_t size = 1;
  for (const std::string &name : axes) {
    int axis = Mesh::findAxis(name);
    if (axis < 0 || (result.id >> (3 - axis) & 1))
      fail("H0922", "a plan's collective runs along \"" + name + "\"");
    result.id |= 1 << (3 - axis);
    result.name += (result.name.empty() ? "" : ",") + name;
    numbers.push_back(axis);
    size *= mesh.sizes[axis];
  }
  for (int64_t index = 0; index < size; ++index) {
    std::array<int64_t, 4> there = own;
    int64_t rest = index;
    for (auto axis = numbers.rbegin(); axis != numbers.rend(); ++axis) {
      there[*axis] = rest % mesh.sizes[*axis];
      rest /= mesh.sizes[*axis];
    }
    if (there == own)
      result.position = static_cast<int>(index);
    result.ranks.push_back(static_cast<int>(mesh.rankAt(there)));
  }
  return result;
}
