//===- StopSignals.h - What a signal asks for -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_STOPSIGNALS_H
#define HEDDLE_RUNTIME_IO_STOPSIGNALS_H

#include <atomic>
#include <csignal>
#include <cstdint>
#include <sys/types.h>

namespace heddle::io {

/// Who sent a signal.
struct SignalSender {
  bool isSystem = false; ///< The system itself, as for Ctrl-C at a terminal.
  pid_t process = 0;
};

/// Tells a first signal that asks a process to stop from one that asks it to
/// stop at once. One request often arrives as several signals: a supervisor
/// (systemd, scancel) signals every process of a job, and a launcher passes its
/// own on to the ranks; GNU timeout signals its child, and then its group.
///
///   - Signals of one kind within two seconds of the first are the first.
///   - Ctrl-C at a terminal is a person's: 0.3 seconds after the first one it
///     is the second.
///   - What a parent passes on is never the second. `heddle run` is a parent
///     that has decided itself: what it sends again is the second.
///
/// All functions may be called in the handler of a signal.
class StopRequests {
public:
  enum class Kind {
    First,
    Repeated, ///< The same request, or one that was seen before.
    Urgent,   ///< Stop at once.
  };

  /// Says who passes signals on. `decides`: that process sends one again only
  /// where it was asked to stop at once.
  void setParent(pid_t process, bool decides);
  /// The same of this process's parent, or of the process that the variable of
  /// `launcherVariable` names.
  void setParent();

  /// Judges SIGINT, SIGTERM or SIGHUP that arrived at a time of
  /// CLOCK_MONOTONIC.
  Kind judge(int signal, SignalSender sender, int64_t nanoseconds);
  /// The same for one that arrives now.
  Kind judge(int signal, SignalSender sender);

private:
  /// What is known of one kind of signal.
  struct Seen {
    std::atomic<int64_t> first = 0; ///< Its time; 0: none came.
    std::atomic<int> fromParent = 0;
  };
  bool hasParentEnded() const;

  Seen seen[3];
  pid_t parent = 0, begunBy = 0;
  bool parentDecides = false;
};

/// The environment variable with which `heddle run` tells a rank the process
/// that signals it.
inline constexpr const char *launcherVariable = "HEDDLE_LAUNCHER";

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_STOPSIGNALS_H
