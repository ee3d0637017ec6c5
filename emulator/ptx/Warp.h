//===- Warp.h - State of running warps, blocks and clusters -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state of warps, blocks and clusters, which the handlers of instructions
// change. A worker thread runs one cluster at a time, and in it one warp at a
// time.
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

/// An error that a handler found, and the mask of the lanes that caused it.
struct Fault {
  std::string message;
  uint32_t lanes = 0;
};

/// A path: lanes of a warp that have diverged from the others. They run until
/// `reconverge`, the op at which they join the other lanes again.
struct Path {
  int32_t pc, reconverge;
  uint32_t mask;
  /// Whether the path waits at an instruction that needs all lanes.
  bool isParked = false;
};

/// A cp.async copy to shared memory that no thread has waited for yet.
struct AsyncCopy {
  int64_t target;     ///< Offset in shared memory.
  const char *source; ///< The address of the source on the host.
  uint32_t bytes, sourceBytes;
  int lane;
  /// The index, from 1 on, of this copy among the cp.async copies that the
  /// lanes of its warp have started.
  uint64_t number;
};

struct Block;
struct Cluster;
struct Worker;

/// A warp: 32 threads that execute an instruction together.
struct Warp {
  enum State { Running, AtBarrier, Waiting, Done };

  char *registers = nullptr;
  uint32_t mask = 0;   ///< Lanes that execute the current instruction.
  uint32_t active = 0; ///< Lanes of the path that is executed now.
  uint32_t live = 0;   ///< Lanes that have not exited.
  int32_t pc = 0;      ///< Index of the next op.
  int32_t reconverge = noPc;
  int32_t current = 0; ///< Index of the current op.
  int index = 0;       ///< Index of the warp in its block.
  int inCluster = 0;   ///< Index of the warp in its cluster.
  State state = Done;
  /// The barrier at which the warp waits, and the number of threads that the
  /// barrier needs.
  int64_t barrier = 0, barrierThreads = 0;
  /// Whether the warp arrives at the barrier without waiting (bar.arrive).
  bool countsOnly = false;
  /// The bar.red at which the warp waits: a barrier that also combines a
  /// predicate ("vote") of all threads. Null if the warp waits at none.
  const Op *reduction = nullptr;
  uint32_t votes = 0;
  std::vector<Path> paths;
  /// The committed groups of cp.async copies, oldest first.
  std::vector<std::vector<AsyncCopy>> groups;
  std::vector<AsyncCopy> open;
  /// Number of cp.async copies that the warp has issued.
  uint64_t numCopies = 0;
  BulkStores stores;
  Products products;
  enum Awaits { AnMbarrier, TheCluster, RegistersOfBlock };
  /// What the warp waits for, if its state is `Waiting`.
  Awaits awaits = AnMbarrier;
  int64_t awaited = -1; ///< Offset of the mbarrier that the warp waits for.
  /// The value of the cluster's `events` when the warp began to wait. The warp
  /// tries its instruction again when this counter has changed.
  uint64_t seen = 0;
  /// Whether the warp waits at test_wait or try_wait of an mbarrier. It then
  /// continues after other warps have run, even if the answer is false.
  bool polls = false;
  /// Whether the launch is programmatic and the warp has not executed
  /// griddepcontrol.wait yet.
  bool isEarly = false;
  /// How often the warp has arrived at the barrier of the cluster
  /// (barrier.cluster), and how often it has waited there.
  uint32_t clusterArrivals = 0, clusterWaits = 0;
  VectorClock fenced; ///< What the warp knew at its last fence for the cluster.
  /// `fencedInits` is the warp's vector clock at its last fence.mbarrier_init,
  /// which orders only initializations of mbarriers. `knownInits` says which
  /// initializations by other warps the cluster's barrier has ordered before
  /// the current point of this warp.
  VectorClock fencedInits, knownInits;
  /// `maxRegisters` is the number of registers of a thread after setmaxnreg, or
  /// 0 if unknown. `registerChanges` counts the setmaxnreg that the warp has
  /// executed, and `registerTime` is the warp's clock at the last one.
  int64_t maxRegisters = 0;
  uint32_t registerChanges = 0, registerTime = 0;
  /// Hash of the wgmma and setmaxnreg instructions that the warp has executed,
  /// and of their operands. All four warps of a warpgroup must execute the same
  /// instructions of these kinds, so their hashes are compared at the end of
  /// the block.
  uint64_t trace = 0;
  Block *block = nullptr;
  Cluster *cluster = nullptr;
  Worker *worker = nullptr;

  template <class T> T *row(const Op &op, int index) const {
    return reinterpret_cast<T *>(registers + op.rows[index]);
  }
  /// The register of a predicate operand, which has one bit for each lane.
  uint32_t &predicate(const Op &op, int index) const {
    return *row<uint32_t>(op, index);
  }
  int thread(int lane) const { return index * int(warpSize) + lane; }
  /// Returns the index of a lane's thread in the cluster, as SharedMemory
  /// numbers threads.
  int member(int lane) const { return inCluster * int(warpSize) + lane; }

  /// Executes up to `most` instructions, until the warp waits or ends.
  void run(const Program &program, uint64_t most);
  void branch(int32_t target, int32_t meet);
  /// Executes a branch. `lanesTo` maps each target to the lanes that branch
  /// there. The other active lanes continue with the next op. All paths
  /// converge at `meet`, unless that is noPc.
  void branchTo(const std::map<int32_t, uint32_t> &lanesTo, int32_t meet);
  void exitLanes();
  /// Called for an instruction that the lanes `wanted` must execute together.
  /// Returns false if some of them are on another divergent path. That path
  /// then runs first, and the instruction is executed again.
  bool converge(uint32_t wanted);
  /// Makes the warp execute the current instruction again after the next event
  /// of the cluster. If lanes on another path can run until then, switches to
  /// that path, pushes the current one on `paths`, and returns true.
  bool retryLater();
  [[noreturn]] void fail(std::string message, uint32_t lanes) const {
    throw Fault{std::move(message), lanes};
  }

  /// Adds an instruction or an operand to the hash `trace`.
  void mixTrace(uint64_t value) {
    trace = (trace ^ value) * 0x9e3779b97f4a7c15u;
  }

private:
  void resumePath();
  bool letSiblingRun();

  /// When several divergent paths of the warp wait, the warp switches between
  /// them. `rotations` counts the switches since the last event of the cluster.
  /// After too many, the warp itself waits instead of switching forever.
  /// `rotatedAt` is the value of the cluster's `events` at the last switch.
  uint64_t rotations = 0;
  uint64_t rotatedAt = 0;
};

/// How bar.red combines the predicates ("votes") of all threads. The value is
/// in Op::imm.
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
  int rank = 0; ///< The block's rank in its cluster.
  Dim3 at;
  Barrier barriers[16];
  std::vector<Warp> warps;
  /// The offset of the block's memory in the cluster's shared memory.
  int64_t firstShared = 0;
  /// Local memory of all threads, one after the other.
  std::vector<char> local;
  /// The number of registers in the block's pool, which setmaxnreg may give to
  /// warps.
  int64_t freeRegisters = 0;
  bool isDone = false;
  /// When the block lets the next launch begin, if it is programmatic. If
  /// several warps execute griddepcontrol.launch_dependents, the first counts,
  /// and any of them may be the first.
  NextBegins nextBegins = NextBegins::AtEnd;
  /// Records accesses of global memory. Null if they are not recorded.
  std::unique_ptr<AccessRecorder> touched;
  /// Records the reads of global memory before griddepcontrol.wait. Null if
  /// they are not recorded.
  std::unique_ptr<AccessRecorder> earlyReads;

  /// Lets a warp arrive at the barrier `warp.barrier`. If it is the last to
  /// arrive, all waiting warps are released.
  void arrive(Warp &warp);
  /// Called when the last warp has ended. Fails if an asynchronous operation on
  /// the block's memory is still in flight.
  void finish();
  /// Reports a deadlock: `first` waits at a barrier that other warps never
  /// reach.
  [[noreturn]] void failDivergence(const Warp &first,
                                   const Program &program) const;
};

/// A cluster: blocks that run together and may access each other's shared
/// memory.
struct Cluster {
  /// Runs the cluster to its end. If it throws a Fault, `current` is the warp
  /// that failed.
  void run(const Program &program);

  Warp *current = nullptr;
  std::vector<Block> blocks;
  Dim3 size;               ///< The number of blocks in each dimension.
  int64_t sharedBytes = 0; ///< Bytes of a block's shared memory.
  /// The distance in bytes from one block's shared memory to the next block's.
  int64_t sharedStride = 0;
  int64_t localBytes = 0; ///< Bytes of a thread's local memory.
  int64_t numThreads = 0; ///< Number of threads of a block.
  /// The shared memory of all blocks. The block with rank r in the cluster uses
  /// the bytes from offset r * sharedStride on.
  SharedMemory shared;
  /// Records stores to global memory. Null if they are not recorded.
  std::unique_ptr<GlobalWrites> written;
  /// The mbarriers, by their offset in shared memory.
  std::map<int64_t, Mbarrier> barriersInMemory;
  std::vector<BulkCopy> copies; ///< The bulk copies in flight, oldest first.
  /// The arrivals that wait for cp.async copies, oldest first.
  std::vector<AsyncArrival> arrivals;
  /// The merged vector clocks of the warps that have arrived at the cluster's
  /// barrier, for the current and for the previous phase. Warps that wait there
  /// receive them.
  VectorClock known[2];
  /// For the current and the previous phase of the cluster's barrier: the
  /// initializations of mbarriers that fence.mbarrier_init has ordered before
  /// the warps' relaxed arrivals at the cluster's barrier in that phase.
  VectorClock inits[2];
  /// The latest phase of the cluster's barrier at which a warp has arrived.
  uint32_t phase = 0;
  uint64_t events = 0; ///< Number of events that could wake a waiting warp.
  uint64_t clock = 0;  ///< The value of %clock64.
  std::optional<RandomNumbers> draw; ///< Chooses the order in which warps run.

  /// Completes the phase of an mbarrier if no arrivals or bytes are pending.
  void checkPhase(Mbarrier &barrier);
  /// Returns the block in whose shared memory the byte `offset` of the cluster
  /// is.
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

/// The state of a host thread that runs clusters. No two host threads share
/// such state.
struct Worker {
  const Program *program = nullptr;
  const Launch *launch = nullptr;
  const GlobalMemory *memory = nullptr;
  const char *parameters = nullptr;
  const Options *options = nullptr;
  Counters counters;
  std::vector<uint64_t> executed; ///< How often each op was executed.
  /// Number of blocks that have run, by their `nextBegins`.
  uint64_t blocksByNext[3] = {};
  /// For each op, the allocation that it accessed last. The next access is
  /// usually to the same one, so this avoids calls of `GlobalMemory::find`.
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
