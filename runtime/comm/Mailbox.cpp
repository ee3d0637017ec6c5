//===- Mailbox.cpp - Match messages with receives -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Mailbox.h"

#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;

/// Returns an unused object from `free`, or a new one if there is none. `all`
/// owns the objects.
template <typename T>
static T *take(std::vector<T *> &free, std::vector<std::unique_ptr<T>> &all) {
  if (free.empty()) {
    all.push_back(std::make_unique<T>());
    return all.back().get();
  }
  T *object = free.back();
  free.pop_back();
  return object;
}

template <typename T>
static T *removeFirst(std::vector<T *> &list, int peer, int tag) {
  auto it = std::find_if(list.begin(), list.end(), [&](const T *each) {
    return each->peer == peer && each->tag == tag;
  });
  if (it == list.end())
    return nullptr;
  T *found = *it;
  list.erase(it);
  return found;
}

Mailbox::Receive *Mailbox::post(int peer, int tag, void *data, int64_t bytes) {
  Receive *receive = take(freeReceives, receives);
  receive->peer = peer;
  receive->tag = tag;
  receive->data = data;
  receive->bytes = bytes;
  receive->arrived = -1;
  if (Arrival *arrival = removeFirst(early, peer, tag)) {
    arrival->receive = receive;
    if (arrival->isComplete)
      deliver(arrival);
  } else {
    posted.push_back(receive);
  }
  return receive;
}

Mailbox::Arrival *Mailbox::begin(int peer, int tag, int64_t bytes) {
  Arrival *arrival = take(freeArrivals, arrivals);
  arrival->peer = peer;
  arrival->tag = tag;
  arrival->bytes = bytes;
  arrival->isComplete = false;
  arrival->receive = removeFirst(posted, peer, tag);
  if (arrival->receive && arrival->receive->bytes == bytes) {
    arrival->data = static_cast<uint8_t *>(arrival->receive->data);
    return arrival;
  }
  if (static_cast<int64_t>(arrival->early.size()) < bytes)
    arrival->early.resize(bytes);
  arrival->data = arrival->early.data();
  if (!arrival->receive)
    early.push_back(arrival);
  return arrival;
}

void Mailbox::complete(Arrival *arrival) {
  arrival->isComplete = true;
  if (arrival->receive)
    deliver(arrival);
}

void Mailbox::deliver(Arrival *arrival) {
  Receive &receive = *arrival->receive;
  if (receive.bytes == arrival->bytes && arrival->data != receive.data &&
      receive.bytes > 0)
    std::memcpy(receive.data, arrival->data, receive.bytes);
  receive.arrived = arrival->bytes;
  freeArrivals.push_back(arrival);
}

void Mailbox::release(Receive *receive) {
  posted.erase(std::remove(posted.begin(), posted.end(), receive),
               posted.end());
  freeReceives.push_back(receive);
}

void rt::failMessageSize(int peer, int64_t bytes, int64_t expected) {
  fail("H0920", "a message of " + std::to_string(bytes) + " bytes from rank " +
                    std::to_string(peer) + " where the plan has one of " +
                    std::to_string(expected));
}
