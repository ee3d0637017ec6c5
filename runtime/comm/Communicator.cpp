//===- Communicator.cpp - Groups of ranks along mesh axes -----------------===//
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

std::string rt::formatMesh(const plan::Mesh &mesh) {
  std::string text;
  auto add = [&](bool stages) {
    for (const plan::Mesh::Axis &axis : mesh.axes)
      if (axis.size > 1 && (axis.role == plan::AxisRole::Pipeline) == stages)
        text += (text.empty() ? "" : ",") + axis.name + "=" +
                std::to_string(axis.size);
  };
  add(/*stages=*/false);
  add(/*stages=*/true);
  return text.empty() ? "one rank" : text;
}

Communicator rt::makeCommunicator(const plan::Mesh &mesh,
                                  const std::vector<std::string> &axes,
                                  int rank) {
  Communicator result;
  const plan::AxisNames atoms = mesh.atoms();
  for (const std::string &axis : axes) {
    int own = 0;
    for (size_t i = 0; i < atoms.size(); ++i)
      if (mesh.covers({axis}, atoms[i]))
        own |= 1 << (atoms.size() - 1 - i);
    if (own == 0 || (result.id & own) || (result.id | own) >= numGroupIds)
      fail("H0922", "a plan's collective runs along \"" + axis + "\"");
    result.id |= own;
    result.name += (result.name.empty() ? "" : ",") + axis;
  }
  for (int64_t each : mesh.group(rank, axes))
    result.ranks.push_back(static_cast<int>(each));
  result.position = static_cast<int>(mesh.coordinate(rank, axes));
  return result;
}
