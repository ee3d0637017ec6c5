//===- FairQueue.h - Whose turn it is -----------------------------*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Requests of several clients that wait. The next one is of the client that
/// has been served the least; those of one client come in their order (Sheng
/// et al., "Fairness in Serving Large Language Models", 2024, arXiv
/// 2401.00588).
class FairQueue {
public:
  void push(const std::string &client, uint64_t request);
  /// Puts back what had its turn.
  void pushFront(const std::string &client, uint64_t request);
  /// Takes a request out wherever it stands.
  void remove(const std::string &client, uint64_t request);
  /// Says that a client was served, in units of one's own.
  void charge(const std::string &client, double amount);
  /// The client has neither a request here nor one that is served.
  void forget(const std::string &client);

  /// The request whose turn it is, of those that may begin.
  std::optional<uint64_t>
  next(const std::function<bool(uint64_t)> &mayBegin) const;
  int64_t size() const { return count; }

private:
  struct Client {
    double served = 0;
    uint64_t arrival = 0; ///< Of two that were served alike the first comes.
    std::deque<uint64_t> waiting;
  };
  /// The client, who begins with what the least served one has had: who was
  /// away saves nothing up.
  Client &enter(const std::string &name);

  std::map<std::string, Client> clients;
  uint64_t arrivals = 0;
  int64_t count = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_FAIRQUEUE_H
