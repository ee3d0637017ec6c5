//===- Heartbeat.h - Detect ranks that died or hang -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Detects ranks that died or hang. Each rank has a connection to rank 0, and a
// thread that sends the rank's activity on it about every half second. If the
// connection closes without a goodbye, the rank has died. After six seconds of
// silence a rank counts as hanging; only time in which the observer itself ran
// on schedule counts, so that a slow or suspended machine raises no alarm. Rank
// 0 watches all other ranks and tells them, and each of them watches rank 0.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_HEARTBEAT_H
#define HEDDLE_RUNTIME_COMM_HEARTBEAT_H

#include "heddle/runtime/comm/Transport.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <array>
#include <atomic>
#include <functional>
#include <string_view>

namespace heddle::rt {

/// The current activity of a rank, as a text and a step number, which one
/// thread writes and another one reads without a lock (a seqlock).
class ActivitySlot {
public:
  static constexpr size_t maxText = 119;
  /// Sets step and text; truncates a text longer than maxText.
  void set(int64_t step, std::string_view text);
  /// A number that changes with every `set`.
  uint64_t version() const { return sequence.load(std::memory_order_relaxed); }
  /// Copies the current step and text. `text` must have room for maxText + 1
  /// chars and is zero-terminated.
  void get(int64_t &step, char *text) const;

private:
  static constexpr size_t numWords = 16;
  std::atomic<uint64_t> sequence = 0;
  std::atomic<uint64_t> words[numWords] = {};
};

class Heartbeat {
public:
  /// The function that is called when another rank is lost: once, on the
  /// heartbeat's thread, with that rank and an error. The error is H0421 if the
  /// rank died, H0422 if it hangs, or H0423 if it ended with an error.
  using Handler = std::function<void(const Diagnostic &, int rank)>;

  /// Connects to rank 0. All ranks call the constructor at the same time.
  /// Throws H0225 when rank 0 cannot be reached.
  Heartbeat(Transport &transport, Handler onAlarm);
  /// Closes the connections. If `goodbye` was not called before, the other
  /// ranks conclude that this rank has died.
  ~Heartbeat();

  /// Sets what this rank does, such as "all_reduce #12 over data", so that
  /// other ranks can report it if this rank is lost. Only one thread may call
  /// it.
  void setActivity(int64_t step, std::string_view text) {
    activity.set(step, text);
  }
  /// Announces the orderly end of this rank.
  void goodbye();
  /// Announces that this rank ends with an error of its own.
  void failed(const std::string &message);

private:
  class Star;
  ActivitySlot activity;
  std::unique_ptr<Star> star; ///< Null in a world of one rank.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_HEARTBEAT_H
