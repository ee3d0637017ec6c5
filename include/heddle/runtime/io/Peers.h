//===- Peers.h - The ranks of a job, for I/O --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The collective operations that file I/O needs: an all-gather of strings, a
// maximum, and errors that all ranks throw together. The class Ranks
// (runtime/app) implements them for several ranks.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_PEERS_H
#define HEDDLE_RUNTIME_IO_PEERS_H

#include "heddle/runtime/io/Diagnostic.h"
#include <exception>
#include <functional>

namespace heddle::io {

/// Returns the diagnostic for an exception that is not a UserError: error H0292
/// if the system ran out of memory or threads, else the internal error H0901.
Diagnostic describeUnexpected(const std::exception &error);

/// Returns a text that identifies the host. It is the same in all containers of
/// a host.
std::string hostIdentity();

/// The ranks of a job, as one rank sees them. This base class represents a job
/// with a single rank.
class Peers {
public:
  virtual ~Peers() = default;
  virtual int64_t rank() const { return 0; }
  virtual int64_t size() const { return 1; }
  /// An all-gather of strings: returns the `text` of every rank, in the order
  /// of ranks, when all ranks have called it.
  virtual std::vector<std::string> exchange(const std::string &text) {
    return {text};
  }

  /// Returns the maximum of the ranks' values. Collective, and cheaper than
  /// `exchange`.
  virtual int64_t maximum(int64_t value) { return value; }

  /// Runs `work`. Every rank calls `together`. If `work` throws on some ranks,
  /// all ranks throw the error of the first of these ranks, as a UserError.
  /// Otherwise a rank could wait for ever for one that has given up.
  void together(const std::function<void()> &work);
  /// Whether the last call of `together` has thrown. It then has thrown on
  /// every rank.
  bool failedTogether() const { return failed; }

private:
  bool failed = false;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_PEERS_H
