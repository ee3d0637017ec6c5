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

static constexpr const char *axisNames[] = {"tensor", "seq", "data", "pipe"};

std::string rt::formatMesh(const plan::Mesh &mesh) {
  std::string text;
  for (const char *axis : {"data", "seq", "tensor", "pipe"})
    if (int64_t size = mesh.size(axis); size > 1)
      text += (text.empty() ? "" : ",") + std::string(axis) + "=" +
              std::to_string(size);
  return text.empty() ? "one rank" : text;
}

Communicator rt::makeCommunicator(const plan::Mesh &mesh,
                                  const std::vector<std::string> &axes,
                                  int rank) {
  Communicator result;
  for (const std::string &axis : axes) {
    int bit = 0;
    while (bit < 4 && axis != axisNames[bit])
      ++bit;
    if (bit == 4 || (result.id >> bit & 1))
      fail("H0922", "a plan's collective runs along \"" + axis + "\"");
    result.id |= 1 << bit;
    result.name += (result.name.empty() ? "" : ",") + axis;
  }
  for (int64_t each : mesh.group(rank, axes))
    result.ranks.push_back(static_cast<int>(each));
  result.position = static_cast<int>(mesh.coordinate(rank, axes));
  return result;
}
