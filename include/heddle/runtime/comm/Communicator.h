//===- Communicator.h - Ranks that talk with each other ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_COMMUNICATOR_H
#define HEDDLE_RUNTIME_COMM_COMMUNICATOR_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::rt {

/// Communicator::id is less: a mesh has up to 6 atoms.
inline constexpr int numGroupIds = 64;

/// The ranks that differ from one rank along some axes only.
struct Communicator {
  int id = 0; ///< A bit for each of the mesh's atoms, the most minor first.
  std::string name;       ///< As "data,seq".
  std::vector<int> ranks; ///< World ranks, the first axis major.
  int position = 0;       ///< Of the own rank in `ranks`.
  int libraryGroup = -1;  ///< Set by Collectives::prepare.

  int size() const { return static_cast<int>(ranks.size()); }
};

/// `axes`: names of different axes, major to minor; H0922 for others.
Communicator makeCommunicator(const plan::Mesh &mesh,
                              const std::vector<std::string> &axes, int rank);

/// As "data=2,tensor=2,pipe=2"; axes of size 1 are left out.
std::string formatMesh(const plan::Mesh &mesh);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_COMMUNICATOR_H
