//===- Heartbeat.h - Finds ranks that died or stopped -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every rank keeps a connection to rank 0 and a thread that sends on it, about
// every half second, what the rank does. A connection that closes without a
// goodbye means that the rank died. A rank is taken to be stopped after six
// seconds of silence, where only time counts in which the observer itself ran
// on schedule: on a slow or suspended machine no alarm is raised. Rank 0 tells
// the others whom it misses; rank 0 is missed by each of them.
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

/// A text and a number that one thread writes and another reads, without a
/// lock: a sequence lock over words.
class ActivitySlot {
public:
  static constexpr size_t maxText = 119;
  /// A longer text is cut.
  void set(int64_t step, std::string_view text);
  /// Changes with every `set`.
  uint64_t version() const { return sequence.load(std::memory_order_relaxed); }
  /// `text` has room for maxText + 1 chars; it is ended by a zero.
  void get(int64_t &step, char *text) const;

private:
  static constexpr size_t numWords = 16;
  std::atomic<uint64_t> sequence = 0;
  std::atomic<uint64_t> words[numWords] = {};
};

class Heartbeat {
public:
  /// Called once, from the heartbeat's thread, with H0421 (a rank died), H0422
  /// (it stopped) or H0423 (it ended with an error), and that rank.
  using Handler = std::function<void(const Diagnostic &, int rank)>;

  /// All ranks construct theirs at the same time. Throws H0225 when rank 0
  /// cannot be reached.
  Heartbeat(Transport &transport, Handler onAlarm);
  /// Without a goodbye before, the others take it that this rank died.
  ~Heartbeat();

  /// What this rank does, as "all_reduce #12 over data"; from one thread.
  void setActivity(int64_t step, std::string_view text) {
    activity.set(step, text);
  }
  /// This rank ends, and the others know.
  void goodbye();
  /// This rank ends with an error that the others do not see.
  void failed(const std::string &message);

private:
  class Star;
  ActivitySlot activity;
  std::unique_ptr<Star> star; ///< None in a world of one.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_HEARTBEAT_H
