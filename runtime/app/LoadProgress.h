//===- LoadProgress.h - How much of the weights is loaded -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reports on stderr how much of the weights of a binary that serves is loaded.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_LOADPROGRESS_H
#define HEDDLE_RUNTIME_APP_LOADPROGRESS_H

#include "heddle/runtime/app/Job.h"

#include <chrono>

namespace heddle::rt {

/// Reports the bytes of weights that the first rank has loaded, once a second
/// on a terminal and every ten seconds otherwise. Weights that are loaded in
/// less time are not reported.
class LoadProgress {
public:
  explicit LoadProgress(Job &job);
  /// Ends the line of a terminal.
  ~LoadProgress();
  LoadProgress(const LoadProgress &) = delete;
  LoadProgress &operator=(const LoadProgress &) = delete;

  /// Counts the state as loaded.
  void add(size_t state);

private:
  using Clock = std::chrono::steady_clock;

  Job &job;
  bool isShown, isTerminal;
  bool hasLine = false;
  int64_t total = 0, loaded = 0; ///< Bytes of this rank.
  Clock::time_point begin, last;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_LOADPROGRESS_H
