//===- Communicator.h - Groups of ranks along mesh axes ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The group of ranks that take part in a collective: ranks that differ only
// along some axes of the mesh.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_COMMUNICATOR_H
#define HEDDLE_RUNTIME_COMM_COMMUNICATOR_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::rt {

/// Number of values that Communicator::id may have. The id is a bit mask of
/// atoms, the factors into which the sizes of the mesh axes are divided; a mesh
/// has at most 6 atoms.
inline constexpr int numGroupIds = 64;

/// The ranks that differ from this rank only along some axes.
struct Communicator {
  int id = 0; ///< A bit mask of the mesh's atoms, the minor-most in bit 0.
  std::string name; ///< For example "data,seq".
  /// The group's world ranks, the last axis changing fastest.
  std::vector<int> ranks;
  int position = 0; ///< Index of this rank in `ranks`.
  int libraryGroup =
      -1; ///< Index in the MPI library, from Collectives::prepare.

  int size() const { return static_cast<int>(ranks.size()); }
};

/// Returns the group of `rank` whose ranks differ only along `axes`. These must
/// be different axes of the mesh, the major one first; throws H0922 for others.
Communicator makeCommunicator(const plan::Mesh &mesh,
                              const std::vector<std::string> &axes, int rank);

/// Formats a mesh as "data=2,tensor=2,pipe=2", without axes of size 1.
std::string formatMesh(const plan::Mesh &mesh);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_COMMUNICATOR_H
