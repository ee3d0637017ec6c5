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

/// A line of a hostfile.
struct Host {
  std::string name;
  std::vector<int64_t> slots; ///< Usable slots, ascending.
};

/// The host of a rank. Its index in the list is the rank.
struct Placement {
  std::string host;
  int64_t localRank = 0, localSize = 1; ///< Among the host's ranks.
  std::vector<int64_t> slots;           ///< Slots of all ranks of the host.
};

/// Reads lines `HOST slots=N`, as DeepSpeed does; `#` begins a comment. Throws
/// H0101 or H0122.
std::vector<Host> readHostfile(const std::string &path);

/// Keeps the slots in `include` and removes those in `exclude`. Both have the
/// form `h1@h2:0,2`, which is all slots of h1 and two of h2, or "" for no
/// filter. The order of hosts stays. Throws H0122 for an unknown host or slot,
/// or if no slot is left.
void filterHosts(const std::string &include, const std::string &exclude,
                 std::vector<Host> &hosts);

/// Assigns `ranks` ranks (0: one for each slot) to the hosts in order. Throws
/// H0220 if there are too few slots.
std::vector<Placement> placeRanks(const std::vector<Host> &hosts,
                                  int64_t ranks);

/// Whether a name in a hostfile means this machine.
bool isThisMachine(const std::string &name);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_HOSTFILE_H
