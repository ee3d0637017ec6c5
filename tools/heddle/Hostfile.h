//===- Hostfile.h - Places the ranks of a job on hosts ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads DeepSpeed's hostfiles and filters, for `heddle run`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_HOSTFILE_H
#define HEDDLE_TOOLS_HEDDLE_HOSTFILE_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::driver {

/// A host that a line of a hostfile names, and its slots.
struct Host {
  std::string name;
  std::vector<int64_t> slots; ///< Usable slots, ascending.
};

/// Where a rank runs: its host, and its index among the ranks of the host. The
/// index in the list of placements is the rank.
struct Placement {
  std::string host;
  int64_t localRank = 0, localSize = 1; ///< Among the host's ranks.
  std::vector<int64_t> slots;           ///< Slots of all ranks of the host.
};

/// Reads lines `HOST slots=N`, as DeepSpeed does. The character `#` begins a
/// comment. Throws H0101 if the file cannot be read, and H0122 for an invalid
/// line.
std::vector<Host> readHostfile(const std::string &path);

/// Keeps the slots that `include` names, and removes those that `exclude`
/// names. Each is a filter such as `h1@h2:0,2`, which names all slots of h1 and
/// the slots 0 and 2 of h2, or "" for no filter. Hosts keep their order. Throws
/// H0122 for an unknown host or slot, or if no slot is left.
void filterHosts(const std::string &include, const std::string &exclude,
                 std::vector<Host> &hosts);

/// Assigns `ranks` ranks to the slots of the hosts, in order. If `ranks` is 0,
/// each slot gets a rank. Throws H0220 if there are too few slots.
std::vector<Placement> placeRanks(const std::vector<Host> &hosts,
                                  int64_t ranks);

/// Whether a name in a hostfile means this machine.
bool isThisMachine(const std::string &name);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_HOSTFILE_H
