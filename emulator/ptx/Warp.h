//===- Warp.h - Warps, blocks and clusters that run -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_WARP_H
#define HEDDLE_EMULATOR_PTX_WARP_H

#include "emulator/ptx/AccessRecorder.h"
#include "emulator/ptx/AsyncState.h"
#include "emulator/ptx/SeededOrder.h"
#include "heddle/emulator/ptx/GlobalWrites.h"

#include <string>
#include <vector>

namespace heddle::emulator {

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
  int64_t target;     ///< Offset in shared memory.
  const char *source; ///< On the host.
  uint32_t bytes, sourceBytes;
  int lane;
  uint64_t number; ///< Of those that the warp has issued.
};

struct Block;
struct Cluster;
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
  int inCluster = 0;   ///< The same over all blocks of the cluster.
  State state = Done;
  int64_t barrier = 0, barrierThreads = 0; ///< What it waits at.
  bool countsOnly = false;       ///< Arrives at the barrier without waiting.
  const Op *reduction = nullptr; ///< What brings it `votes` of all.
  uint32_t votes = 0;
  std::vector<Path> paths;
  std::vector<std::vector<AsyncCopy>> groups; ///< Committed, oldest first.
  std::vector<AsyncCopy> open;
  uint64_t numCopies = 0; ///< That it has issued by cp.async.
  BulkStores stores;
  Products products;
  enum Awaits { AnMbarrier, TheCluster, RegistersOfBlock };
  Awaits awaits = AnMbarrier; ///< What it waits for while `Waiting`.
  int64_t awaited = -1;       ///< Offset of that mbarrier.
  uint64_t seen = 0;          ///< Events of the cluster when it began to wait.
  bool polls = false;         ///< It asked, and goes on with the answer.
  /// How often it arrived at the cluster's barrier, and waited there.
  uint32_t clusterArrivals = 0, clusterWaits = 0;
  Times fenced; ///< What it knew at its last fence for the cluster.
  /// The same of fence.mbarrier_init, which is for mbarriers' beginnings alone,
  /// and of those of others that it knows of from the cluster's barrier.
  Times fencedInits, knownInits;
  /// Of a thread, as setmaxnreg left it; 0: nobody knows. How often that has
  /// changed, and when it last did.
  int64_t maxRegisters = 0;
  uint32_t registerChanges = 0, registerTime = 0;
  uint64_t trace = 0; ///< Of what a warpgroup does together: equal in all four.
  Block *block = nullptr;
  Cluster *cluster = nullptr;
  Worker *worker = nullptr;

  template <class T> T *row(const Op &op, int index) const {
    return reinterpret_cast<T *>(registers + op.rows[index]);
  }
  /// A predicate: one bit a lane.
  uint32_t &predicate(const Op &op, int index) const {
    return *row<uint32_t>(op, index);
  }
  int thread(int lane) const { return index * int(warpSize) + lane; }
  /// The same over all blocks of the cluster: who it is in shared memory.
  int member(int lane) const { return inCluster * int(warpSize) + lane; }

  /// Executes until the warp waits or ends, or `most` ops.
  void run(const Program &program, uint64_t most);
  void branch(int32_t target, int32_t meet);
  /// Lanes of the mask go to several targets, the others on.
  void branchTo(const std::map<int32_t, uint32_t> &lanesTo, int32_t meet);
  void exitLanes();
  /// Makes sure that `wanted` lanes are here. If others have to run first, the
  /// op is left for later, and the result is false.
  bool converge(uint32_t wanted);
  /// Leaves the op for when something has happened in the cluster. True if
  /// lanes on another path run until then: `paths` has the one that was left.
  bool retryLater();
  [[noreturn]] void fail(std::string message, uint32_t lanes) const {
    throw Fault{std::move(message), lanes};
  }

  /// Adds to what the warps of a warpgroup have to have in common.
  void mixTrace(uint64_t value) {
    trace = (trace ^ value) * 0x9e3779b97f4a7c15u;
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
  Cluster *cluster = nullptr;
  int rank = 0; ///< In its cluster.
  Dim3 at;
  Barrier barriers[16];
  std::vector<Warp> warps;
  int64_t firstShared = 0;   ///< Its part of the cluster's shared memory.
  std::vector<char> local;   ///< Of all threads, one after the other.
  int64_t freeRegisters = 0; ///< That setmaxnreg may give to warps.
  bool isDone = false;
  std::unique_ptr<AccessRecorder> touched; ///< Null: nobody asks.

  /// A warp has come to its barrier: lets all pass if it was the last.
  void arrive(Warp &warp);
  /// All warps have ended: nothing that uses the block may be under way.
  void finish();
  /// `first` waits at a barrier to which the others do not come.
  [[noreturn]] void failDivergence(const Warp &first,
                                   const Program &program) const;
};

/// Blocks that run together and reach each other's shared memory.
struct Cluster {
  /// Runs to the end; throws Fault. `current` tells the warp that ran last.
  void run(const Program &program);

  Warp *current = nullptr;
  std::vector<Block> blocks;
  Dim3 size;                ///< In blocks.
  int64_t sharedBytes = 0;  ///< Of a block.
  int64_t sharedStride = 0; ///< From a block's shared memory to the next one's.
  int64_t localBytes = 0;   ///< Of a thread.
  int64_t numThreads = 0;   ///< Of a block.
  SharedMemory shared;      ///< Of all blocks, one after the other.
  std::unique_ptr<GlobalWrites> written;        ///< Null: nobody asks.
  std::map<int64_t, Mbarrier> barriersInMemory; ///< By offset.
  std::vector<BulkCopy> copies;                 ///< Under way, oldest first.
  std::vector<AsyncArrival> arrivals;           ///< The same.
  /// What warps knew when they came to the barrier of all blocks, for the
  /// phase that is under way and for the one before.
  Times known[2];
  Times inits[2];      ///< Of beginnings of mbarriers alone.
  uint32_t phase = 0;  ///< The last at which somebody has arrived.
  uint64_t events = 0; ///< How often something happened that warps wait for.
  uint64_t clock = 0;  ///< What a kernel takes for the time.
  std::optional<Draw> draw; ///< Of the order in which warps take turns.

  /// Ends the phase of an mbarrier if all has come.
  void checkPhase(Mbarrier &barrier);
  /// The block whose shared memory has a byte.
  Block &blockOf(int64_t offset) { return blocks[offset / sharedStride]; }

private:
  /// Runs a warp until it waits or its turn is over.
  void takeTurn(Warp &warp, const Program &program);
  Warp &warpAt(size_t index) {
    size_t ofBlock = blocks.front().warps.size();
    return blocks[index / ofBlock].warps[index % ofBlock];
  }
  size_t numWarps() const {
    return blocks.size() * blocks.front().warps.size();
  }
  bool wakePolling();
  bool isAwaited(int64_t barrier) const;
  bool landCopy();
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
  std::vector<uint64_t> executed; ///< By op.
  /// Where each op last found its memory.
  std::vector<const GlobalMemory::Allocation *> lastAllocation;
  Cluster cluster;
};

/// A place in words: "line 12 (file.py:3)".
std::string describeLocation(const OpLocation &place,
                             const std::map<int64_t, std::string> &files);
/// The lanes of a mask in words: "threads 0-3, 7".
std::string describeThreads(const Warp &warp, uint32_t lanes);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_WARP_H
