//===- FairQueue.cpp - Fair scheduling of clients -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/FairQueue.h"

#include <algorithm>

using namespace heddle::rt;

FairQueue::Client &FairQueue::enter(const std::string &name) {
  auto found = clients.find(name);
  if (found != clients.end())
    return found->second;
  double least = 0;
  bool isFirst = true;
  for (const auto &[other, client] : clients) {
    least = isFirst ? client.served : std::min(least, client.served);
    isFirst = false;
  }
  Client &client = clients[name];
  client.served = least;
  client.arrival = arrivals++;
  return client;
}

void FairQueue::push(const std::string &client, uint64_t request) {
  enter(client).waiting.push_back(request);
  ++count;
}

void FairQueue::pushFront(const std::string &client, uint64_t request) {
  enter(client).waiting.push_front(request);
  ++count;
}

void FairQueue::remove(const std::string &client, uint64_t request) {
  std::deque<uint64_t> &waiting = clients.at(client).waiting;
  waiting.erase(std::find(waiting.begin(), waiting.end(), request));
  --count;
}

void FairQueue::charge(const std::string &client, double amount) {
  clients.at(client).served += amount;
}

void FairQueue::forget(const std::string &client) { clients.erase(client); }

std::optional<uint64_t>
FairQueue::next(const std::function<bool(uint64_t)> &mayBegin) const {
  const Client *least = nullptr;
  uint64_t chosen = 0;
  for (const auto &[name, client] : clients) {
    if (least &&
        (client.served > least->served ||
         (client.served == least->served && client.arrival > least->arrival)))
      continue;
    auto found =
        std::find_if(client.waiting.begin(), client.waiting.end(), mayBegin);
    if (found == client.waiting.end())
      continue;
    least = &client;
    chosen = *found;
  }
  return least ? std::optional(chosen) : std::nullopt;
}
