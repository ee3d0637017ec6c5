//===- Transport.h - Point-to-point messages between ranks ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface for messages between ranks, which are sent from and received
// into host memory. Implemented for MPI, TCP, and ranks that are threads of one
// process. Collectives are built on it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_TRANSPORT_H
#define HEDDLE_RUNTIME_COMM_TRANSPORT_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt {

/// A message that was started. `wait`, or a `test` that returns true, completes
/// it; it must not be used after that.
struct Request {
  uint64_t storage = 0;
  int64_t bytes = 0;
  int peer = -1;
  bool receives = false;
};

/// Collectives of an MPI library. Element counts are below 2^31.
class LibraryCollectives {
public:
  virtual ~LibraryCollectives() = default;
  /// Registers a group of ranks with the library. All ranks of the group call
  /// this function, and all ranks register groups in the same order.
  virtual int addGroup(const std::vector<int> &worldRanks) = 0;
  /// Sums floats; `in` may equal `out`.
  virtual void allReduce(const float *in, float *out, int64_t count,
                         int group) = 0;
  virtual void reduceScatter(const float *in, float *out, int64_t countPerRank,
                             int group) = 0;
  /// Gathers elements of 2 or 4 bytes in the order of ranks.
  virtual void allGather(const void *in, void *out, int64_t countPerRank,
                         int64_t elementBytes, int group) = 0;
  virtual void allToAll(const void *in, void *out, int64_t countPerRank,
                        int64_t elementBytes, int group) = 0;
};

/// Point-to-point messages between the ranks of a job; each subclass is a way
/// of sending them. A message has at most `maxMessageBytes`, and the receive
/// must have the same size. Sends are asynchronous: the buffer must not change
/// until the request is done. Between two ranks, messages with the same tag are
/// received in the order of sending.
///
/// A failure throws a UserError H0424; a message of an unexpected size, H0920.
class Transport {
public:
  static constexpr int64_t maxMessageBytes = int64_t(1) << 30;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The transport's name in messages to users, such as "Open MPI".
  virtual const char *name() const = 0;
  /// Whether several threads may call this transport at the same time.
  virtual bool isConcurrent() const = 0;
  /// Whether a waiting thread sleeps instead of polling.
  virtual bool waitsAsleep() const { return false; }

  virtual Request isend(int peer, int tag, const void *data, int64_t bytes) = 0;
  virtual Request irecv(int peer, int tag, void *data, int64_t bytes) = 0;
  virtual bool test(Request &request) = 0;
  virtual void wait(Request &request) = 0;

  /// Shuts the transport down after a run without an error. Every rank calls
  /// this function and sends nothing afterwards.
  virtual void finish() = 0;
  /// Ends this process with exit status `status`. Also ends the other ranks if
  /// the transport can do that (MPI_Abort).
  [[noreturn]] virtual void abort(int status) = 0;

  virtual LibraryCollectives *library() { return nullptr; }
};

/// Creates the transport of a single rank, which may send to itself.
std::unique_ptr<Transport> makeLoopback();

/// Creates transports for `ranks` ranks that are threads of this process, for
/// tests.
std::vector<std::unique_ptr<Transport>> makeLocalThreads(int ranks);

/// An all-gather of strings: returns the `text` of every rank, in the order of
/// ranks. Every rank must call it.
std::vector<std::string> exchangeTexts(Transport &transport,
                                       const std::string &text);
/// A broadcast of a string: returns rank 0's `text` on every rank. Every rank
/// must call it. Rank 0 does not wait for the others.
std::string tellText(Transport &transport, const std::string &text);

/// A buffer that `gatherParts` copies to rank 0. On the sending rank `data` is
/// the source, and on rank 0 the destination.
struct GatheredPart {
  int from = 0; ///< The rank that sends the part; rank 0's are not sent.
  void *data = nullptr;
  int64_t bytes = 0;
};
/// Sends buffers from the other ranks to rank 0, all at the same time. Rank 0
/// passes one entry in `parts` for each buffer of every rank. Each other rank
/// passes at least the entries for its own buffers, in the same order. Throws
/// H0920 when the size of a buffer differs between sender and rank 0.
void gatherParts(Transport &transport, const std::vector<GatheredPart> &parts);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_TRANSPORT_H
