//===- RequestInbox.h - Requests from other threads -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes requests from the HTTP thread to the thread of the model;
// CompletionLoop and EmbeddingLoop share it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_REQUESTINBOX_H
#define HEDDLE_RUNTIME_SERVE_REQUESTINBOX_H

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

namespace heddle::rt {

/// Passes requests of other threads to the thread that computes, and runs that
/// thread's loop until a signal ends it.
template <class Submission> class RequestInbox {
public:
  /// `submit` and `cancel` are thread-safe.
  void submit(std::vector<Submission> more) {
    std::lock_guard lock(mutex);
    std::move(more.begin(), more.end(), std::back_inserter(asked));
    hasCome.notify_one();
  }
  void cancel(const std::vector<uint64_t> &ids) {
    std::lock_guard lock(mutex);
    cancelled.insert(cancelled.end(), ids.begin(), ids.end());
    hasCome.notify_one();
  }
  /// Whether a stop signal has come: submissions may be ignored.
  bool isDraining() const { return draining; }

  /// Returns the requests that were submitted, and the ids of requests that
  /// were cancelled, since the last call. If `waits` and there are none, waits
  /// for one, but at most 50 ms, so that the caller can check for signals.
  std::pair<std::vector<Submission>, std::vector<uint64_t>> take(bool waits) {
    std::unique_lock lock(mutex);
    if (waits)
      // Wake up regularly to check for signals.
      hasCome.wait_for(lock, std::chrono::milliseconds(50),
                       [&] { return !asked.empty() || !cancelled.empty(); });
    return {std::exchange(asked, {}), std::exchange(cancelled, {})};
  }

  /// Calls `takeRequests` and `turn` in a loop, until a signal has come
  /// (`stopSignal` is not 0) and no work is left (`isIdle`). Returns the
  /// signal. `takeRequests` must call `take` and begin the requests; `turn`
  /// runs the model once, for example for one token of each sequence.
  int run(const std::function<int()> &stopSignal,
          const std::function<void()> &takeRequests,
          const std::function<bool()> &isIdle,
          const std::function<void()> &turn) {
    int signal = 0;
    for (;;) {
      if (signal == 0)
        signal = stopSignal();
      // Take requests once more after `draining` was set. Other threads may
      // have submitted requests before they noticed that `draining` is set.
      bool isLast = draining;
      draining = signal != 0;
      takeRequests();
      if (isLast && isIdle())
        return signal;
      turn();
    }
  }

private:
  std::mutex mutex;
  std::condition_variable hasCome;
  std::vector<Submission> asked;   ///< Guarded by the mutex.
  std::vector<uint64_t> cancelled; ///< Guarded by the mutex.
  std::atomic<bool> draining = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_REQUESTINBOX_H
