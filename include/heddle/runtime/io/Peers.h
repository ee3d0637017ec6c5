//===- Peers.h - The ranks that share files ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_PEERS_H
#define HEDDLE_RUNTIME_IO_PEERS_H

#include "heddle/runtime/io/Diagnostic.h"
#include <exception>
#include <functional>

namespace heddle::io {

/// What is said of an exception that is no UserError: H0292 when the system
/// gave no memory or thread, else H0901.
Diagnostic describeUnexpected(const std::exception &error);

/// What tells hosts apart: of two containers of one host it is the same.
std::string hostIdentity();

/// All ranks of a job, seen from one of them; by itself, a job of one rank.
class Peers {
public:
  virtual ~Peers() = default;
  virtual int64_t rank() const { return 0; }
  virtual int64_t size() const { return 1; }
  /// Every rank's text, in the order of the ranks. Every rank calls it, and
  /// none returns before all have called it.
  virtual std::vector<std::string> exchange(const std::string &text) {
    return {text};
  }

  /// The largest of the values that the ranks give. As `exchange`, but cheap.
  virtual int64_t maximum(int64_t value) { return value; }

  /// Runs `work`; every rank calls it. When it throws on some of them, the
  /// first one's error is thrown on all, as a UserError, so that none waits for
  /// another that has given up.
  void together(const std::function<void()> &work);
  /// Whether the last call of `together` has thrown: then every rank knows.
  bool failedTogether() const { return failed; }

private:
  bool failed = false;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_PEERS_H
