//===- FairQueue.h - Fair scheduling of clients -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The queue of waiting sequences: serves clients fairly, by the tokens that
// each has received.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_FAIRQUEUE_H
#define HEDDLE_RUNTIME_SERVE_FAIRQUEUE_H

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace heddle::rt {

/// Waiting requests of several clients. The next request is one of the client
/// that has been served least; requests of a client keep their order (Sheng et
/// al., "Fairness in Serving Large Language Models", 2024, arXiv 2401.00588).
class FairQueue {
public:
  void push(const std::string &client, uint64_t request);
  /// Inserts a request before all others of its client, for example a request
  /// that was taken out of the queue but could not run to its end.
  void pushFront(const std::string &client, uint64_t request);
  /// Removes a request, wherever it is in the queue.
  void remove(const std::string &client, uint64_t request);
  /// Adds `amount` to the amount of service that a client has received. All
  /// calls use the same unit, for example tokens.
  void charge(const std::string &client, double amount);
  /// Drops a client that has no waiting and no running request.
  void forget(const std::string &client);

  /// Returns the next request among those for which `mayBegin` is true.
  std::optional<uint64_t>
  next(const std::function<bool(uint64_t)> &mayBegin) const;
  int64_t size() const { return count; }

private:
  struct Client {
    double served = 0;
    /// The number of clients that came before this one. Among clients that have
    /// received equal service, the one that came first is served first.
    uint64_t arrival = 0;
    std::deque<uint64_t> waiting;
  };
  /// Adds a client. It starts with the service of the least served client, so
  /// that a client gains nothing by having been absent.
  Client &enter(const std::string &name);

  std::map<std::string, Client> clients;
  uint64_t arrivals = 0;
  int64_t count = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_FAIRQUEUE_H
