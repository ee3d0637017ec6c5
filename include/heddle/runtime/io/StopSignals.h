//===- StopSignals.h - Tell a first stop signal from a second ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides whether a signal is a first request to stop, a repetition of that
// request, or a second request, which asks to stop at once.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_STOPSIGNALS_H
#define HEDDLE_RUNTIME_IO_STOPSIGNALS_H

#include <atomic>
#include <csignal>
#include <cstdint>
#include <sys/types.h>

namespace heddle::io {

/// The sender of a signal.
struct SignalSender {
  /// The kernel sent the signal, as for Ctrl-C at a terminal.
  bool isSystem = false;
  pid_t process = 0;
};

/// Distinguishes a first signal that asks a process to stop from a second one
/// that asks it to stop at once. One request often arrives as several signals:
/// a supervisor (systemd, scancel) signals every process of a job, a launcher
/// passes its own signal on to the ranks, and GNU timeout signals its child and
/// then its group.
///
/// - Signals with the same number (SIGINT, SIGTERM or SIGHUP) within two
///   seconds of the first are the same request.
/// - Ctrl-C at a terminal is typed by a person: it is a second request as soon
///   as 0.3 seconds after the first.
/// - The first signal that a parent passes on is never a second request.
///   `heddle run` is a parent that applies these rules itself. If it sends a
///   signal again, that is a second request.
///
/// All functions are safe in a signal handler.
class StopRequests {
public:
  enum class Kind {
    First,
    Repeated, ///< The signal is part of a request that was seen before.
    Urgent,   ///< The signal is a second request: stop at once.
  };

  /// Sets the id of the parent process that passes signals on to this process.
  /// If `decides`, the parent itself decides which signals are requests to
  /// stop: a signal that it sends a second time is a request to stop at once.
  void setParent(pid_t process, bool decides);
  /// Calls `setParent` with the process that the environment variable
  /// `launcherVariable` names, or else with the parent of this process.
  void setParent();

  /// Classifies a SIGINT, SIGTERM or SIGHUP that arrived at `nanoseconds` of
  /// CLOCK_MONOTONIC: the first request to stop, its repetition, or a request
  /// to stop at once.
  Kind judge(int signal, SignalSender sender, int64_t nanoseconds);
  /// Classifies a SIGINT, SIGTERM or SIGHUP that arrives now.
  Kind judge(int signal, SignalSender sender);

private:
  /// When and from whom a signal was received so far. There is one record for
  /// each of SIGINT, SIGTERM and SIGHUP.
  struct Seen {
    std::atomic<int64_t> first = 0; ///< Time of the first signal; 0: none yet.
    std::atomic<int> fromParent = 0;
  };
  bool hasParentEnded() const;

  Seen seen[3];
  pid_t parent = 0, begunBy = 0;
  bool parentDecides = false;
};

/// Environment variable in which `heddle run` tells a rank the id of the
/// process that signals it.
inline constexpr const char *launcherVariable = "HEDDLE_LAUNCHER";

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_STOPSIGNALS_H
