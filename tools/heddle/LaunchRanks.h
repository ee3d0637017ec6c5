//===- LaunchRanks.h - Starts the ranks of a job ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_LAUNCHRANKS_H
#define HEDDLE_TOOLS_HEDDLE_LAUNCHRANKS_H

#include "Hostfile.h"

namespace heddle::driver {

/// A job that is to be started.
struct LaunchRequest {
  std::vector<std::string> command; ///< A path, and its arguments.
  std::vector<Placement> ranks;
  std::vector<std::string> ssh = {"ssh"}; ///< Takes a host and a command line.
  std::string masterAddress;              ///< "": rank 0's host.
  int64_t masterPort = 0; ///< 0: a free one here; 29500 on several hosts.
};

/// Starts every rank with torchrun's variables in its environment and waits
/// for all of them. Output goes through as it comes, with the rank before each
/// line of stderr except rank 0's. SIGINT, SIGTERM and SIGHUP are passed on,
/// and passed on again where they ask for an end at once (io::StopRequests).
/// When a rank fails, the others have a while to end, and are then ended.
/// Returns the exit status of the first that failed, 128 + the signal that
/// ended it, or 0. Throws H0425 when a program cannot be started.
int launchRanks(const LaunchRequest &request);

/// The command line that sets `variables` and becomes `command` in `directory`
/// on another machine. It reads names of signals from its input and sends them
/// to the command, and SIGTERM where its input ends without any.
std::string
remoteCommand(const std::string &directory,
              const std::vector<std::pair<std::string, std::string>> &variables,
              const std::vector<std::string> &command);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_LAUNCHRANKS_H
