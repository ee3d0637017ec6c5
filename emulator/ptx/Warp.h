//===- Warp.h - State of running warps, blocks and clusters -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state that instruction handlers change. A worker thread runs one cluster
// at a time, and within it one warp at a time.
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

/// An error that a handler found, and the lanes that caused it.
struct Fault {
  std::string message;
  uint32_t lanes = 0;
};

/// Lanes of a warp that have diverged, and run until they reach another path's
/// lanes.
struct Path {
  int32_t pc, reconverge;
  uint32_t mask;
  bool isParked = false; ///< Waits at an instruction that needs all lanes.
};

/// A cp.async copy to shared memory that no thread has waited for yet.
struct AsyncCopy {
  int64_t target;     ///< Offset in shared memory.
  const char *source; ///< On the host.
  uint32_t bytes, sourceBytes;
  int lane;
  uint64_t number; ///< Number among the warp's copies.
};

struct Block;
struct Cluster;
struct Worker;

/// A warp: 32 threads that execute an instruction together.
struct Warp {
  enum State { Running, AtBarrier, Waiting, Done };

  char *registers = nullptr;
  uint32_t mask = 0;   ///< Lanes that execute the current instruction.
  uint32_t active = 0; ///< Lanes of the current path.
  uint32_t live = 0;   ///< Lanes that have not exited.
  int32_t pc = 0;      ///< Index of the next op.
  int32_t reconverge = noPc;
  int32_t current = 0; ///< Index of the current op.
  int index = 0;       ///< Number in its block.
  int inCluster = 0;   ///< Number in the cluster.
  State state = Done;
  int64_t barrier = 0, barrierThreads = 0; ///< The barrier that it waits at.
  /// Whether the warp arrives at the barrier without waiting (bar.arrive).
  bool countsOnly = false;
  /// The bar.red that gets the votes of all threads.
  const Op *reduction = nullptr;
  uint32_t votes = 0;
  std::vector<Path> paths;
  /// Committed groups of cp.async, oldest first.
  std::vector<std::vector<AsyncCopy>> groups;
  std::vector<AsyncCopy> open;
  uint64_t numCopies = 0; ///< Number of cp.async copies that it has issued.
  BulkStores stores;
  Products products;
  enum Awaits { AnMbarrier, TheCluster, RegistersOfBlock };
  Awaits awaits = AnMbarrier; ///< What it waits for, in state `Waiting`.
  int64_t awaited = -1;       ///< Offset of the mbarrier that it waits for.
  uint64_t seen = 0;          ///< The cluster's `events` when it began to wait.
  bool polls = false; ///< It tests a barrier, and continues with the result.
  /// How often the warp arrived at the cluster's barrier, and waited at it.
  uint32_t clusterArrivals = 0, clusterWaits = 0;
  VectorClock fenced; ///< What it knew at its last fence for the cluster.
  /// What the warp knew at its last fence.mbarrier_init, which only orders the
  /// initialization of mbarriers; and which initializations of other warps it
  /// knows of through the cluster's barrier.
  VectorClock fencedInits, knownInits;
  /// Registers of a thread after setmaxnreg; 0 if unknown. Also how often it
  /// was executed, and when last.
  int64_t maxRegisters = 0;
  uint32_t registerChanges = 0, registerTime = 0;
  uint64_t trace = 0; ///< Hash of the warpgroup's steps; must agree in 4 warps.
  Block *block = nullptr;
  Cluster *cluster = nullptr;
  Worker *worker = nullptr;

  template <class T> T *row(const Op &op, int index) const {
    return reinterpret_cast<T *>(registers + op.rows[index]);
  }
  /// A predicate row: one bit for each lane.
  uint32_t &predicate(const Op &op, int index) const {
    return *row<uint32_t>(op, index);
  }
  int thread(int lane) const { return index * int(warpSize) + lane; }
  /// The thread's number in the cluster, as SharedMemory counts threads.
  int member(int lane) const { return inCluster * int(warpSize) + lane; }

  /// Executes up to `most` instructions, until the warp waits or ends.
  void run(const Program &program, uint64_t most);
  void branch(int32_t target, int32_t meet);
  /// Executes a branch. `lanesTo`: by target, the lanes that branch there. The
  /// other active lanes continue with the next op. All converge at `meet`,
  /// unless that is noPc.
  void branchTo(const std::map<int32_t, uint32_t> &lanesTo, int32_t meet);
  void exitLanes();
  /// For an instruction that needs the lanes `wanted` together. If some are on
  /// other paths, these run first: the instruction will be executed again, and
  /// the result is false.
  bool converge(uint32_t wanted);
  /// Executes the instruction again after the next event of the cluster. True
  /// if lanes on another path run until then; the current path is then in
  /// `paths`.
  bool retryLater();
  [[noreturn]] void fail(std::string message, uint32_t lanes) const {
    throw Fault{std::move(message), lanes};
  }

  /// Adds a value to the hash of what all warps of a warpgroup must do alike.
  void mixTrace(uint64_t value) {
    trace = (trace ^ value) * 0x9e3779b97f4a7c15u;
  }

private:
  void resumePath();
  bool letSiblingRun();

  /// How often the warp has switched between waiting paths since the cluster's
  /// `events` had the value `rotatedAt`.
  uint64_t rotations = 0;
  uint64_t rotatedAt = 0;
};

/// How a barrier combines the votes of all threads; stored in Op::imm.
enum Voting { CountVotes, AllVote, AnyVotes };

/// The state of one of a block's 16 barriers.
struct Barrier {
  uint32_t arrived = 0; ///< Mask of warps that have arrived.
  int64_t threads = 0;  ///< Number of threads that must arrive.
  uint32_t votes = 0, voters = 0;
};

/// A thread block.
struct Block {
  Cluster *cluster = nullptr;
  int rank = 0; ///< Its rank in the cluster.
  Dim3 at;
  Barrier barriers[16];
  std::vector<Warp> warps;
  /// Offset of its memory in the cluster's shared memory.
  int64_t firstShared = 0;
  /// Local memory of all threads, one after the other.
  std::vector<char> local;
  /// Registers that setmaxnreg may still hand to warps.
  int64_t freeRegisters = 0;
  bool isDone = false;
  std::unique_ptr<AccessRecorder> touched; ///< Null: accesses are not recorded.

  /// Arrives at the warp's barrier, and releases all waiting warps if it was
  /// the last.
  void arrive(Warp &warp);
  /// After the last warp's end: fails if an asynchronous operation on the
  /// block's memory is in flight.
  void finish();
  /// Reports a deadlock: `first` waits at a barrier that other warps never
  /// reach.
  [[noreturn]] void failDivergence(const Warp &first,
                                   const Program &program) const;
};

/// A cluster: blocks that run together and may access each other's shared
/// memory.
struct Cluster {
  /// Runs to the end. Throws Fault; `current` is then the warp that failed.
  void run(const Program &program);

  Warp *current = nullptr;
  std::vector<Block> blocks;
  Dim3 size;               ///< In blocks.
  int64_t sharedBytes = 0; ///< Of a block.
  /// From one block's shared memory to the next one's.
  int64_t sharedStride = 0;
  int64_t localBytes = 0; ///< Of a thread.
  int64_t numThreads = 0; ///< Of a block.
  SharedMemory shared;    ///< Of all blocks, one after the other.
  std::unique_ptr<GlobalWrites> written; ///< Null: stores are not recorded.
  std::map<int64_t, Mbarrier> barriersInMemory; ///< By offset.
  std::vector<BulkCopy> copies;                 ///< In flight, oldest first.
  std::vector<AsyncArrival> arrivals;           ///< In flight, oldest first.
  /// What warps knew when they arrived at the cluster's barrier, for the
  /// current and the previous phase.
  VectorClock known[2];
  VectorClock inits[2]; ///< The same, of mbarrier initializations only.
  uint32_t phase = 0;   ///< The latest phase of the barrier with an arrival.
  uint64_t events = 0;  ///< Number of events that could wake a waiting warp.
  uint64_t clock = 0;   ///< The value of %clock64.
  std::optional<RandomNumbers> draw; ///< Chooses the order in which warps run.

  /// Completes the phase of an mbarrier if nothing is pending.
  void checkPhase(Mbarrier &barrier);
  /// The block that owns a byte of the cluster's shared memory.
  Block &blockOf(int64_t offset) { return blocks[offset / sharedStride]; }

private:
  /// Runs a warp until it waits or its turn ends.
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

/// A host thread, with the state that it shares with no other.
struct Worker {
  const Program *program = nullptr;
  const Launch *launch = nullptr;
  const GlobalMemory *memory = nullptr;
  const char *parameters = nullptr;
  const Options *options = nullptr;
  Counters counters;
  std::vector<uint64_t> executed; ///< How often each op was executed.
  /// The allocation that each op last accessed: a cache for
  /// `GlobalMemory::find`.
  std::vector<const GlobalMemory::Allocation *> lastAllocation;
  Cluster cluster;
};

/// Describes a location: "line 12 (file.py:3)".
std::string describeLocation(const OpLocation &location,
                             const std::map<int64_t, std::string> &files);
/// Describes the lanes of a mask: "threads 0-3, 7".
std::string describeThreads(const Warp &warp, uint32_t lanes);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_WARP_H
