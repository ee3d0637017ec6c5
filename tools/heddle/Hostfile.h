//===- Hostfile.h - Where the ranks of a job run ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
  std::vector<int64_t> slots; ///< Those that may be used, ascending.
};

/// Where one rank runs; its number is its place in the list.
struct Placement {
  std::string host;
  int64_t localRank = 0, localSize = 1; ///< Among the ranks of its host.
  std::vector<int64_t> slots;           ///< Of all ranks of its host.
};

/// Reads lines `HOST slots=N`, as DeepSpeed's; `#` begins a comment. Throws
/// H0101 or H0122.
std::vector<Host> readHostfile(const std::string &path);

/// Keeps what `include` names and drops what `exclude` names, each as
/// `h1@h2:0,2`: all slots of h1, two of h2; "" for no filter. The hosts' order
/// stays. Throws H0122 for hosts and slots that are not there, or when none is
/// left.
void filterHosts(const std::string &include, const std::string &exclude,
                 std::vector<Host> &hosts);

/// Fills the hosts with `ranks` ranks in order; 0: one for each slot. Throws
/// H0220 when there are fewer slots.
std::vector<Placement> placeRanks(const std::vector<Host> &hosts,
                                  int64_t ranks);

/// Whether a hostfile's name means this machine.
bool isThisMachine(const std::string &name);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_HOSTFILE_H
