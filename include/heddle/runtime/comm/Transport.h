//===- Transport.h - Messages between ranks ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_TRANSPORT_H
#define HEDDLE_RUNTIME_COMM_TRANSPORT_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt {

/// A message that was started; used up by `wait`, or by a `test` that is true.
struct Request {
  uint64_t storage = 0;
  int64_t bytes = 0;
  int peer = -1;
  bool receives = false;
};

/// The collectives that an MPI library brings. Element counts are below 2^31.
class LibraryCollectives {
public:
  virtual ~LibraryCollectives() = default;
  /// Called once for a group, by all its ranks, in one order of groups.
  virtual int addGroup(const std::vector<int> &worldRanks) = 0;
  /// Sums of floats; `in` may be `out`.
  virtual void allReduce(const float *in, float *out, int64_t count,
                         int group) = 0;
  virtual void reduceScatter(const float *in, float *out, int64_t countPerRank,
                             int group) = 0;
  /// Elements of 2 or 4 bytes, the parts in the order of the ranks.
  virtual void allGather(const void *in, void *out, int64_t countPerRank,
                         int64_t elementBytes, int group) = 0;
  virtual void allToAll(const void *in, void *out, int64_t countPerRank,
                        int64_t elementBytes, int group) = 0;
};

/// Point-to-point messages between the ranks of a job. One class for each way
/// of sending them. A message is at most `maxMessageBytes` long, and its
/// receive is of just its size. Sends are asynchronous: the buffer belongs to
/// the transport until the request is done. Between two ranks, messages of one
/// tag are received in the order of sending.
///
/// A failure throws a UserError H0424; a message of another size than its
/// receive one of H0920.
class Transport {
public:
  static constexpr int64_t maxMessageBytes = int64_t(1) << 30;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// For messages to people, as "Open MPI".
  virtual const char *name() const = 0;
  /// Several threads may call it at a time.
  virtual bool isConcurrent() const = 0;
  /// A thread that waits leaves its core to others, and does not poll.
  virtual bool waitsAsleep() const { return false; }

  virtual Request isend(int peer, int tag, const void *data, int64_t bytes) = 0;
  virtual Request irecv(int peer, int tag, void *data, int64_t bytes) = 0;
  virtual bool test(Request &request) = 0;
  virtual void wait(Request &request) = 0;

  /// The orderly end: every rank calls it, and sends nothing after it.
  virtual void finish() = 0;
  /// Ends this process, and the others as far as the transport can, with exit
  /// status `status`.
  [[noreturn]] virtual void abort(int status) = 0;

  virtual LibraryCollectives *library() { return nullptr; }
};

/// A world of one rank, which may send to itself.
std::unique_ptr<Transport> makeLoopback();

/// `ranks` ranks as threads of this process, for tests: one transport each.
std::vector<std::unique_ptr<Transport>> makeLocalThreads(int ranks);

/// Every rank's text, in the order of the ranks; all ranks call it.
std::vector<std::string> exchangeTexts(Transport &transport,
                                       const std::string &text);
/// Rank 0's text, on every rank; all call it, and rank 0 waits for none.
std::string tellText(Transport &transport, const std::string &text);

/// Memory of a rank, and on rank 0 where that puts a copy of it.
struct BroughtPart {
  int from = 0; ///< The rank; nothing is done where it is rank 0.
  void *data = nullptr;
  int64_t bytes = 0;
};
/// Brings rank 0 parts of other ranks, all at the same time. Rank 0 has the
/// list of all parts, each other rank at least its own ones, in the same order;
/// sizes that differ are an error H0920.
void bringParts(Transport &transport, const std::vector<BroughtPart> &parts);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_TRANSPORT_H
