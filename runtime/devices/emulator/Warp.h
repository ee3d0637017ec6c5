//===- Warp.h - Warps and blocks that run -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_EMULATOR_WARP_H
#define HEDDLE_RUNTIME_DEVICES_EMULATOR_WARP_H

#include "runtime/devices/emulator/AsyncState.h"
#include "runtime/devices/emulator/Draw.h"
#include "runtime/devices/emulator/TouchRecorder.h"

#include <string>
#include <vector>

namespace heddle::rt::emulator {

constexpr uint32_t allLanes = ~uint32_t(0);

/// What an op found wrong, with the lanes that did it.
struct Fault {
  std::string message;
  uint32_t lanes = 0;
};

/// Lanes that go their own way, until those of another path have caught up.
struct Path {
  int32_t pc, reconverge;
  uint32_t mask;
  bool isParked = false; ///< Waits for the others at an op of all lanes.
};

/// A copy to shared memory that nobody has waited for yet.
struct AsyncCopy {
  uint64_t target;    ///< Offset in shared memory.
  const char *source; ///< On the host.
  uint32_t bytes, sourceBytes;
  int thread;
};

struct Block;
struct Worker;

/// 32 threads in step.
struct Warp {
  enum State { Running, AtBarrier, Waiting, Done };

  char *registers = nullptr;
  uint32_t mask = 0;   ///< Lanes that execute the current op.
  uint32_t active = 0; ///< Lanes of the current path.
  uint32_t live = 0;   ///< Lanes that have not exited.
  int32_t pc = 0;      ///< The next op.
  int32_t reconverge = noPc;
  int32_t current = 0; ///< The op that is executed.
  int index = 0;       ///< In its block.
  State state = Done;
  int64_t barrier = 0, barrierThreads = 0; ///< What it waits at.
  bool countsOnly = false;       ///< Arrives at the barrier without waiting.
  const Op *reduction = nullptr; ///< What brings it `votes` of all.
  uint32_t votes = 0;
  std::vector<Path> paths;
  std::vector<std::vector<AsyncCopy>> groups; ///< Committed, oldest first.
  std::vector<AsyncCopy> open;
  BulkStores stores;
  Products products;
  int64_t awaited = -1;    ///< Offset of the mbarrier that it waits for.
  uint64_t seen = 0;       ///< Events of the block when it began to wait.
  bool polls = false;      ///< It asked, and goes on with the answer.
  int64_t clusterTurn = 0; ///< How often it arrived at the cluster's barrier.
  Block *block = nullptr;
  Worker *worker = nullptr;

  template <class T> T *row(const Op &op, int index) const {
    return reinterpret_cast<T *>(registers + op.rows[index]);
  }
  /// A predicate: one bit a lane.
  uint32_t &predicate(const Op &op, int index) const {
    return *row<uint32_t>(op, index);
  }
  int thread(int lane) const { return index * int(warpSize) + lane; }

  /// Executes until the warp waits or ends, or `most` ops.
  void run(const Program &program, uint64_t most);
  void branch(int32_t target, int32_t meet);
  void exitLanes();
  /// Makes sure that `wanted` lanes are here. If others have to run first, the
  /// op is left for later, and the result is false.
  bool converge(uint32_t wanted);
  /// Leaves the op for when something has happened in the block. True if lanes
  /// on another path run until then: `paths` has the one that was left.
  bool retryLater();
  [[noreturn]] void fail(std::string message, uint32_t lanes) const {
    throw Fault{std::move(message), lanes};
  }

private:
  void resumePath();
  bool letSiblingRun();

  uint64_t rotations = 0; ///< Of paths that wait, since `rotatedAt` events.
  uint64_t rotatedAt = 0;
};

/// What a barrier makes of the votes of all threads: Op::imm.
enum Voting { CountVotes, AllVote, AnyVotes };

/// Who has come to one of the 16 barriers.
struct Barrier {
  uint32_t arrived = 0; ///< Warps.
  int64_t threads = 0;  ///< How many are awaited.
  uint32_t votes = 0, voters = 0;
};

/// Threads that share memory and barriers.
struct Block {
  /// Runs to the end; throws Fault. `current` tells the warp that ran last.
  void run(const Program &program);

  Warp *current = nullptr;
  Barrier barriers[16];
  Dim3 at;
  std::vector<Warp> warps;
  SharedMemory shared;
  std::vector<char> local; ///< Of all threads, one after the other.
  int64_t localBytes = 0;
  int64_t numThreads = 0;
  std::map<int64_t, Mbarrier> barriersInMemory; ///< By offset.
  std::vector<BulkCopy> copies;                 ///< Under way, oldest first.
  Times ofCluster;     ///< What warps knew when they came to its barrier.
  uint64_t events = 0; ///< How often something happened that warps wait for.
  std::optional<Draw> draw; ///< Of the order in which warps take turns.

  /// Ends the phase of an mbarrier if all has come.
  void checkPhase(Mbarrier &barrier);

private:
  /// Runs a warp until it waits or its turn is over.
  void takeTurn(Warp &warp, const Program &program);
  void arrive(Warp &warp);
  bool wakePolling();
  bool landCopy();
  void finish();
  [[noreturn]] void failDeadlock(const Program &program);
};

/// A thread of the host, with all that is not shared with others.
struct Worker {
  const Program *program = nullptr;
  const Launch *launch = nullptr;
  const GlobalMemory *memory = nullptr;
  const char *parameters = nullptr;
  const Options *options = nullptr;
  Counters counters;
  std::unique_ptr<TouchRecorder> touched; ///< Null: nobody asks.
  std::vector<uint64_t> executed;         ///< By op.
  /// Where each op last found its memory.
  std::vector<const GlobalMemory::Allocation *> lastAllocation;
  Block block;
};

/// A place in words: "line 12 (file.py:3)".
std::string describePlace(const Place &place,
                          const std::map<int64_t, std::string> &files);
/// The lanes of a mask in words: "threads 0-3, 7".
std::string describeThreads(const Warp &warp, uint32_t lanes);

} // namespace heddle::rt::emulator

#endif // HEDDLE_RUNTIME_DEVICES_EMULATOR_WARP_H
