//===- Block.h - One thread block as fibers ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_EMULATOR_BLOCK_H
#define HEDDLE_RUNTIME_DEVICES_EMULATOR_BLOCK_H

#include "heddle/runtime/devices/emulator/Emulator.h"

#include <ucontext.h>

namespace heddle::rt::emulator {

/// Bytes of workgroup memory with who touched them since the last barrier.
/// Only barriers of the block order accesses of different threads.
class WorkgroupMemory {
public:
  explicit WorkgroupMemory(int64_t bytes);

  /// Forgets everything: a new block starts.
  void reset();
  /// A barrier was passed by all.
  void nextEpoch() { ++epoch; }
  char *data() { return bytes.data() + base; }
  /// Notes an access and returns what is wrong with it, or "".
  std::string access(const void *address, int64_t size, bool write,
                     int64_t thread);

private:
  struct Trace {
    uint32_t writeEpoch = 0, readEpoch = 0;
    int32_t writer = 0, reader = 0;
  };

  std::vector<char> bytes; ///< Larger than asked for, to align `data`.
  int64_t base = 0;
  std::vector<Trace> traces;
  uint32_t epoch = 1;
};

/// An operation at which all lanes of a warp meet.
struct WarpOp {
  enum Kind { Shuffle, LoadMatrix, MultiplyAccumulate };

  Kind kind = Shuffle;
  int64_t site = 0;
  int64_t mode = 0;           ///< Shuffle: how; LoadMatrix: transposed.
  int64_t count = 0;          ///< Shuffle: width; LoadMatrix: tiles.
  int64_t offset = 0;         ///< Shuffle.
  uint64_t value = 0;         ///< Shuffle: in and out (bit 32: valid).
  const void *inputs[3] = {}; ///< The lane's fragments or row.
  void *result = nullptr;     ///< The lane's result fragment.
};

/// Copies to workgroup memory that are not yet visible.
struct AsyncCopy {
  void *target;
  const void *source;
  int64_t bytes, sourceBytes, site;
};

/// One GPU thread.
struct Fiber {
  enum State { Ready, AtBarrier, AtWarpOp, Done };

  ucontext_t context;
  State state = Ready;
  int64_t index = 0;
  int64_t site = 0;
  WarpOp op;
  std::vector<std::vector<AsyncCopy>> groups; ///< Committed, oldest first.
  std::vector<AsyncCopy> open;                ///< Not yet committed.
};

/// Runs the blocks of a launch on the calling thread.
class BlockRunner {
public:
  BlockRunner(const Launch &launch, void *const *refs, const int64_t *scalars);
  ~BlockRunner();

  /// Runs one block to its end; returns the fault, or "".
  std::string run(Dim3 block);

  /// The runner whose fiber is executing.
  static BlockRunner &current();
  Fiber &fiber() { return *running; }
  const Launch &launch() const { return source; }
  Dim3 blockIndex() const { return block; }
  WorkgroupMemory &memory() { return workgroup; }

  /// Parks the running fiber in `state` until its block or warp has met.
  void park(Fiber::State state, int64_t site);
  /// Ends the launch with a message; does not return to the fiber.
  void fault(int64_t site, std::string message);

private:
  static void enter();
  void start(Fiber &fiber);
  void resume(Fiber &fiber);
  bool releaseWarps();
  bool releaseBarrier();
  std::string describeDeadlock() const;
  std::string describe(const Fiber &fiber) const;

  const Launch &source;
  void *const *refs;
  const int64_t *scalars;
  Dim3 block;
  WorkgroupMemory workgroup;
  std::vector<Fiber> fibers;
  Fiber *running = nullptr;
  ucontext_t scheduler;
  char *stacks = nullptr;
  int64_t stackStride = 0;
  std::string error;
};

/// Executes the operation that the lanes `warp[0..warpSize)` have met at.
/// Returns what is wrong, or "".
std::string executeWarpOp(Fiber *warp, WorkgroupMemory &memory);

} // namespace heddle::rt::emulator

#endif // HEDDLE_RUNTIME_DEVICES_EMULATOR_BLOCK_H
