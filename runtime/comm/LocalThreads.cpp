//===- LocalThreads.cpp - Ranks as threads of a process -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A transport for ranks that are threads of one process. Tests use it, and so
// does a job of a single rank.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Transport.h"
#include "runtime/comm/Mailbox.h"

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

namespace {
/// The mailbox of one rank. The threads of other ranks put their messages
/// directly into it.
struct Inbox {
  std::mutex mutex;
  std::condition_variable arrived;
  Mailbox mailbox;
};
using Inboxes = std::vector<std::unique_ptr<Inbox>>;

class LocalTransport : public Transport {
public:
  LocalTransport(int rank, std::shared_ptr<Inboxes> inboxes)
      : self(rank), inboxes(std::move(inboxes)) {}

  int rank() const override { return self; }
  int size() const override { return static_cast<int>(inboxes->size()); }
  const char *name() const override {
    return size() == 1 ? "one rank" : "threads";
  }
  bool isConcurrent() const override { return true; }
  bool waitsAsleep() const override { return true; }

  Request isend(int peer, int tag, const void *data, int64_t bytes) override {
    Inbox &to = *(*inboxes)[peer];
    {
      std::lock_guard<std::mutex> lock(to.mutex);
      Mailbox::Arrival *arrival = to.mailbox.begin(self, tag, bytes);
      if (bytes > 0)
        std::memcpy(arrival->data, data, bytes);
      to.mailbox.complete(arrival);
    }
    to.arrived.notify_all();
    return {0, bytes, peer, false};
  }

  Request irecv(int peer, int tag, void *data, int64_t bytes) override {
    Inbox &own = *(*inboxes)[self];
    std::lock_guard<std::mutex> lock(own.mutex);
    auto *receive = own.mailbox.post(peer, tag, data, bytes);
    return {reinterpret_cast<uint64_t>(receive), bytes, peer, true};
  }

  bool test(Request &request) override { return take(request, false); }
  void wait(Request &request) override { take(request, true); }
  void finish() override {}
  void abort(int status) override { _exit(status); }

private:
  bool take(Request &request, bool waits) {
    if (!request.receives)
      return true;
    auto *receive = reinterpret_cast<Mailbox::Receive *>(request.storage);
    Inbox &own = *(*inboxes)[self];
    std::unique_lock<std::mutex> lock(own.mutex);
    if (waits)
      own.arrived.wait(lock, [&] { return receive->arrived >= 0; });
    if (receive->arrived < 0)
      return false;
    int64_t arrived = receive->arrived;
    own.mailbox.release(receive);
    request.receives = false;
    if (arrived != request.bytes)
      failMessageSize(request.peer, arrived, request.bytes);
    return true;
  }

  int self;
  std::shared_ptr<Inboxes> inboxes;
};
} // namespace

std::vector<std::unique_ptr<Transport>> rt::makeLocalThreads(int ranks) {
  auto inboxes = std::make_shared<Inboxes>();
  for (int rank = 0; rank < ranks; ++rank)
    inboxes->push_back(std::make_unique<Inbox>());
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<LocalTransport>(rank, inboxes));
  return transports;
}

std::unique_ptr<Transport> rt::makeLoopback() {
  return std::move(makeLocalThreads(1).front());
}
