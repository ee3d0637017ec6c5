//===- LaunchRanks.h - Starts the ranks of a job ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts local ranks by fork and remote ranks by ssh, for `heddle run`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_LAUNCHRANKS_H
#define HEDDLE_TOOLS_HEDDLE_LAUNCHRANKS_H

#include "Hostfile.h"

namespace heddle::driver {

/// What to start: the command of a job, and the hosts of its ranks.
struct LaunchRequest {
  std::vector<std::string> command; ///< A path and its arguments.
  std::vector<Placement> ranks;
  /// The command that starts a remote rank; the host and the rank's command
  /// line are appended.
  std::vector<std::string> ssh = {"ssh"};
  std::string masterAddress; ///< "": rank 0's host.
  int64_t masterPort = 0;    ///< 0: a free one; 29500 with several hosts.
};

/// Starts all ranks with the environment variables of torchrun, and waits for
/// them. Their output is passed through. Each line that a rank other than 0
/// writes to stderr gets the rank as a prefix. SIGINT, SIGTERM and SIGHUP are
/// passed on to the ranks, and a second time if they ask for an immediate end
/// (io::StopRequests). When a rank fails, the others get some time to end, and
/// are then killed. Returns 0, or the status of the first rank that failed: its
/// exit status, or 128 plus the signal that ended it. Throws H0425 if a program
/// cannot be started.
int launchRanks(const LaunchRequest &request);

/// Returns a shell command line that sets `variables` and execs `command` in
/// `directory` on another machine. The shell reads names of signals from its
/// standard input, and sends these signals to the command. At the end of the
/// input it sends SIGTERM, unless it has sent a signal before.
std::string
remoteCommand(const std::string &directory,
              const std::vector<std::pair<std::string, std::string>> &variables,
              const std::vector<std::string> &command);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_LAUNCHRANKS_H
