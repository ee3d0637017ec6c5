//===- WorkThread.h - A thread for slow work --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread for work that takes time, such as tokenizing a long prompt, beside a
// thread that must not wait.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_RUNTIME_SERVE_WORKTHREAD_H
#define HEDDLE_LIB_RUNTIME_SERVE_WORKTHREAD_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace heddle::rt {

/// Runs functions on a thread of its own, one after the other.
class WorkThread {
public:
  WorkThread() : thread([this] { run(); }) {}
  ~WorkThread() { finish(); }

  void add(std::function<void()> work) {
    std::lock_guard lock(mutex);
    waiting.push_back(std::move(work));
    hasCome.notify_one();
  }
  /// Ends the thread after the current function; waiting ones are not run.
  void finish() {
    {
      std::lock_guard lock(mutex);
      isEnding = true;
      hasCome.notify_one();
    }
    if (thread.joinable())
      thread.join();
  }

private:
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      hasCome.wait(lock, [this] { return isEnding || !waiting.empty(); });
      if (isEnding)
        return;
      std::function<void()> work = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable hasCome;
  std::deque<std::function<void()>> waiting; ///< Guarded by the mutex.
  bool isEnding = false;                     ///< Guarded by the mutex.
  std::thread thread; ///< Declared last, since it uses the other members.
};

} // namespace heddle::rt

#endif // HEDDLE_LIB_RUNTIME_SERVE_WORKTHREAD_H
