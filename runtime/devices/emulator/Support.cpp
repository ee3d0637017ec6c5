//===- Support.cpp - The functions that emulated kernels call -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Their names and arguments are those that lib/Codegen/GPU/LowerToEmulation.cpp
// emits. Addresses come as pointers or, from memrefs, as integers.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/Block.h"

#include <cstring>

using namespace heddle::rt::emulator;

namespace {
/// Thread i of a block along one dimension.
int64_t coordinate(int64_t linear, Dim3 size, int64_t dim) {
  if (dim == 0)
    return linear % size.x;
  return dim == 1 ? linear / size.x % size.y : linear / (size.x * size.y);
}

int64_t component(Dim3 of, int64_t dim) {
  return dim == 0 ? of.x : dim == 1 ? of.y : of.z;
}

/// Order of the queries: thread, block, block size, grid size; x, y, z each.
int64_t queryIndex(int64_t query) {
  BlockRunner &runner = BlockRunner::current();
  int64_t dim = query % 3;
  switch (query / 3) {
  case 0:
    return coordinate(runner.fiber().index, runner.launch().block, dim);
  case 1:
    return component(runner.blockIndex(), dim);
  case 2:
    return component(runner.launch().block, dim);
  default:
    return component(runner.launch().grid, dim);
  }
}

void *workgroupMemory(int64_t offset) {
  return BlockRunner::current().memory().data() + offset;
}

void barrier(int64_t site) {
  BlockRunner::current().park(Fiber::AtBarrier, site);
}

/// The value in the low half, bit 32 says whether the source lane exists.
int64_t shuffle(int64_t mode, int32_t value, int32_t offset, int32_t width,
                int64_t site) {
  BlockRunner &runner = BlockRunner::current();
  Fiber &fiber = runner.fiber();
  fiber.op = {};
  fiber.op.kind = WarpOp::Shuffle;
  fiber.op.mode = mode;
  fiber.op.value = static_cast<uint32_t>(value);
  fiber.op.offset = offset;
  fiber.op.count = width;
  runner.park(Fiber::AtWarpOp, site);
  return static_cast<int64_t>(fiber.op.value);
}

void loadMatrix(const void *row, int64_t tiles, int64_t transposed,
                void *result, int64_t site) {
  BlockRunner &runner = BlockRunner::current();
  WarpOp &op = runner.fiber().op;
  op = {};
  op.kind = WarpOp::LoadMatrix;
  op.count = tiles;
  op.mode = transposed;
  op.inputs[0] = row;
  op.result = result;
  runner.park(Fiber::AtWarpOp, site);
}

void multiplyAccumulate(const void *a, const void *b, const void *c,
                        void *result, int64_t site) {
  BlockRunner &runner = BlockRunner::current();
  WarpOp &op = runner.fiber().op;
  op = {};
  op.kind = WarpOp::MultiplyAccumulate;
  op.inputs[0] = a;
  op.inputs[1] = b;
  op.inputs[2] = c;
  op.result = result;
  runner.park(Fiber::AtWarpOp, site);
}

enum AccessFlags { Write = 1, Workgroup = 2 };

/// Checks an access before it is made.
void access(const void *address, int64_t bytes, int64_t alignment,
            int64_t flags, int64_t site) {
  BlockRunner &runner = BlockRunner::current();
  if (reinterpret_cast<uintptr_t>(address) % alignment)
    runner.fault(site, "access of " + std::to_string(bytes) +
                           " bytes that is not aligned to " +
                           std::to_string(alignment));
  if (!(flags & Workgroup))
    return;
  std::string wrong = runner.memory().access(address, bytes, flags & Write,
                                             runner.fiber().index);
  if (!wrong.empty())
    runner.fault(site, std::move(wrong));
}

/// The copy is made when it is waited for, so that a kernel that does not wait
/// reads what was there before.
void asyncCopy(void *target, const void *source, int64_t bytes,
               int64_t sourceBytes, int64_t site) {
  access(target, bytes, bytes, Write | Workgroup, site);
  if (sourceBytes)
    access(source, sourceBytes, bytes, /*flags=*/0, site);
  BlockRunner::current().fiber().open.push_back(
      {target, source, bytes, sourceBytes, site});
}

void asyncCommit() {
  Fiber &fiber = BlockRunner::current().fiber();
  fiber.groups.push_back(std::move(fiber.open));
  fiber.open.clear();
}

/// Waits until at most `pending` groups are under way.
void asyncWait(int64_t pending) {
  auto &groups = BlockRunner::current().fiber().groups;
  while (static_cast<int64_t>(groups.size()) > pending) {
    for (const AsyncCopy &copy : groups.front()) {
      access(copy.target, copy.bytes, copy.bytes, Write | Workgroup, copy.site);
      std::memcpy(copy.target, copy.source, copy.sourceBytes);
      std::memset(static_cast<char *>(copy.target) + copy.sourceBytes, 0,
                  copy.bytes - copy.sourceBytes);
    }
    groups.erase(groups.begin());
  }
}
} // namespace

const std::vector<SupportFunction> &heddle::rt::emulator::supportFunctions() {
  auto pointer = [](auto *function) {
    return reinterpret_cast<void *>(function);
  };
  static const std::vector<SupportFunction> functions = {
      {"heddle_emu_index", pointer(queryIndex)},
      {"heddle_emu_workgroup", pointer(workgroupMemory)},
      {"heddle_emu_barrier", pointer(barrier)},
      {"heddle_emu_shuffle", pointer(shuffle)},
      {"heddle_emu_load_matrix", pointer(loadMatrix)},
      {"heddle_emu_mma", pointer(multiplyAccumulate)},
      {"heddle_emu_access", pointer(access)},
      {"heddle_emu_async_copy", pointer(asyncCopy)},
      {"heddle_emu_async_commit", pointer(asyncCommit)},
      {"heddle_emu_async_wait", pointer(asyncWait)},
  };
  return functions;
}
