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

/// The command of a job, and how to start its ranks.
struct LaunchRequest {
  std::vector<std::string> command; ///< A path and its arguments.
  std::vector<Placement> ranks;
  /// The command that starts a remote rank; the host and the rank's command
  /// line are appended.
  std::vector<std::string> ssh = {"ssh"};
  std::string masterAddress; ///< "": rank 0's host.
  int64_t masterPort = 0;    ///< 0: a free one; 29500 with several hosts.
};

/// Starts every rank with torchrun's environment variables, and waits for all
/// of them. Output is passed through; each line of stderr, except rank 0's, is
/// prefixed with the rank. SIGINT, SIGTERM and SIGHUP are passed on, and again
/// if they request an immediate end (io::StopRequests). When a rank fails, the
/// others get some time to end, and are then killed. Returns the exit status of
/// the first rank that failed, 128 + the signal that ended it, or 0. Throws
/// H0425 if a program cannot be started.
int launchRanks(const LaunchRequest &request);

/// A shell command line that sets `variables` and execs `command` in
/// `directory` on another machine. The shell reads names of signals from its
/// standard input, and sends these signals to the command. At the end of the
/// input it sends SIGTERM, unless it has sent a signal before.
std::string
remoteCommand(const std::string &directory,
              const std::vector<std::pair<std::string, std::string>> &variables,
              const std::vector<std::string> &command);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_LAUNCHRANKS_H
