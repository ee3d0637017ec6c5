//===- Bulk.cpp - Bulk copies of shared memory ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cp.async.bulk: plain copies, and boxes of tensors (TMA). A copy to shared
// memory is made when every warp waits and one of them for its mbarrier; one
// from there is read when its thread waits for that, and written at the next
// wait that asks for it, or when the block ends.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/Bulk.h"
#include "heddle/runtime/devices/emulator/TensorMap.h"
#include "runtime/devices/emulator/Access.h"
#include "runtime/devices/emulator/Lanes.h"

#include <algorithm>

namespace heddle::rt::emulator {

namespace {
constexpr int64_t chunkBytes = 16;

/// Rows: shared, global or map, [mbarrier], [size] or coordinates.
enum BulkFlags {
  NarrowShared = 1,
  NarrowBarrier = 2,
  OnlyRead = 4,
  RankShift = 8
};
constexpr int offsetBits = 20;

/// The three offsets of addresses, packed into `imm`.
int64_t offsetOf(const Op &op, int index) {
  return op.imm >> (offsetBits * index) & ((int64_t(1) << offsetBits) - 1);
}

uint64_t addressOf(const Warp &warp, const Op &op, int row, bool isNarrow,
                   int offset, int lane) {
  uint64_t base = isNarrow ? warp.row<uint32_t>(op, row)[lane]
                           : warp.row<uint64_t>(op, row)[lane];
  return base + static_cast<uint64_t>(offsetOf(op, offset));
}

/// The offset of `bytes` in shared memory.
int64_t sharedOffset(Warp &warp, uint64_t address, int64_t bytes,
                     uint64_t alignment, int lane) {
  if ((address & ~(windowBytes - 1)) == sharedWindow)
    address -= sharedWindow;
  if (address % alignment)
    warp.fail("shared memory at " + std::to_string(address) +
                  ", which is not aligned to " + std::to_string(alignment),
              uint32_t(1) << lane);
  int64_t offset = static_cast<int64_t>(address) - sharedBase;
  if (offset < 0 || offset + bytes > warp.block->shared.size())
    warp.fail(std::to_string(bytes) + " bytes at byte " +
                  std::to_string(offset) + ", outside of shared memory",
              uint32_t(1) << lane);
  return offset;
}

/// Global memory on the host, which is noted and counted.
char *globalMemory(Warp &warp, uint64_t address, int64_t bytes, bool isWrite,
                   int lane) {
  Worker &worker = *warp.worker;
  auto end = address + static_cast<uint64_t>(bytes);
  const auto *found = worker.memory->find(address, end);
  if (!found)
    warp.fail("access of " + std::to_string(bytes) + " bytes, " +
                  worker.memory->describe(address),
              uint32_t(1) << lane);
  if (worker.touched)
    worker.touched->add(warp.current, address, end,
                        isWrite ? Touch::Write : Touch::Read);
  if (worker.options->counts) {
    constexpr uint64_t sector = 32;
    ++worker.counters.globalRequests;
    worker.counters.globalSectors += (end - 1) / sector - address / sector + 1;
    worker.counters.globalBytes += static_cast<uint64_t>(bytes);
  }
  return found->host + (address - found->address);
}

/// Where a chunk of a box is put that would be at `address`.
int64_t swizzled(int64_t address, int swizzle) {
  return address ^ ((address >> 7 & ((1 << swizzle) - 1)) << 4);
}

/// Takes a box of a tensor apart.
class Box {
public:
  Box(Warp &warp, const TensorMap &map, const int64_t *start, int64_t shared,
      bool isWrite, int lane)
      : warp(warp), map(map), start(start), shared(shared), isWrite(isWrite),
        lane(lane) {}

  std::vector<Chunk> take() {
    walk(map.rank - 1, map.address, /*isInside=*/true);
    return std::move(chunks);
  }

private:
  void walk(int dimension, uint64_t address, bool isInside) {
    if (dimension == 0)
      return row(address, isInside);
    for (int i = 0; i < map.box[dimension]; i += map.steps[dimension]) {
      int64_t at = start[dimension] + i;
      walk(dimension - 1,
           address + static_cast<uint64_t>(at) * map.strides[dimension - 1],
           isInside && at >= 0 &&
               at < static_cast<int64_t>(map.sizes[dimension]));
    }
  }

  void row(uint64_t address, bool isInside) {
    int64_t type = map.typeBytes(), bytes = map.box[0] * type;
    int64_t first = std::clamp<int64_t>(-start[0] * type, 0, bytes);
    int64_t last = std::clamp<int64_t>(
        (static_cast<int64_t>(map.sizes[0]) - start[0]) * type, first, bytes);
    if (!isInside)
      first = last = 0;
    uint64_t from = address + static_cast<uint64_t>(start[0] * type);
    char *host = nullptr;
    if (last > first)
      host = globalMemory(warp, from + static_cast<uint64_t>(first),
                          last - first, isWrite, lane) -
             first;
    for (int64_t at = 0; at < bytes; at += chunkBytes, done += chunkBytes) {
      Chunk chunk;
      chunk.shared =
          swizzled(shared + sharedBase + done, map.swizzle) - sharedBase;
      chunk.first =
          static_cast<int32_t>(std::clamp<int64_t>(first - at, 0, chunkBytes));
      chunk.last =
          static_cast<int32_t>(std::clamp<int64_t>(last - at, 0, chunkBytes));
      chunk.last = std::max(chunk.first, chunk.last);
      chunk.global = host ? host + at : nullptr;
      chunks.push_back(chunk);
    }
  }

  Warp &warp;
  const TensorMap &map;
  const int64_t *start;
  int64_t shared, done = 0;
  bool isWrite;
  int lane;
  std::vector<Chunk> chunks;
};

/// The map at an address; it is constant, or a parameter of the kernel.
TensorMap readMap(Warp &warp, uint64_t address, int lane) {
  TensorMap map;
  auto fail = [&](const std::string &what) {
    warp.fail(what, uint32_t(1) << lane);
  };
  if (address % alignof(TensorMap))
    fail("a tensor map that is not aligned to 64 bytes");
  const char *from = nullptr;
  if (address >= parameterWindow) {
    uint64_t offset = address - parameterWindow;
    if (offset + sizeof(map) >
        static_cast<uint64_t>(warp.worker->program->parameterBytes))
      fail("a tensor map outside of the parameters");
    from = warp.worker->parameters + offset;
  } else {
    const auto *found =
        warp.worker->memory->find(address, address + sizeof(map));
    if (!found)
      fail("a tensor map " + warp.worker->memory->describe(address));
    from = found->host + (address - found->address);
  }
  std::memcpy(&map, from, sizeof(map));
  if (map.tag != TensorMap::isMap)
    fail("no tensor map is here");
  return map;
}

/// What an op copies for a lane: chunks, and the bytes that an mbarrier counts.
struct Transfer {
  std::vector<Chunk> chunks;
  int64_t bytes = 0;
  TensorMap map;
};

Transfer transferOf(Warp &warp, const Op &op, bool isStore, int lane) {
  Transfer result;
  int rank = static_cast<int>(op.flags >> RankShift);
  uint64_t shared = addressOf(warp, op, 0, op.flags & NarrowShared, 0, lane);
  uint64_t global = addressOf(warp, op, 1, /*isNarrow=*/false, 1, lane);
  int next = isStore ? 2 : 3;
  if (rank) {
    result.map = readMap(warp, global, lane);
    const TensorMap &map = result.map;
    if (map.rank != rank)
      warp.fail("a tensor map of rank " + std::to_string(map.rank),
                uint32_t(1) << lane);
    if (map.swizzle && map.box[0] * map.typeBytes() != 16 << map.swizzle)
      warp.fail("a box that is narrower than its swizzle: the machine does "
                "not know it",
                uint32_t(1) << lane);
    int64_t start[TensorMap::maxRank];
    for (int i = 0; i < rank; ++i)
      start[i] = warp.row<int32_t>(op, next + i)[lane];
    result.bytes = map.boxBytes();
    constexpr int64_t alignment = 128;
    int64_t offset = sharedOffset(warp, shared, result.bytes, alignment, lane);
    result.chunks = Box(warp, map, start, offset, isStore, lane).take();
    // A swizzled box may not reach beyond its own rows.
    for (const Chunk &chunk : result.chunks)
      if (chunk.shared + chunkBytes > warp.block->shared.size())
        warp.fail("a swizzled box outside of shared memory", uint32_t(1)
                                                                 << lane);
    return result;
  }
  result.bytes = warp.row<uint32_t>(op, next)[lane];
  if (result.bytes % chunkBytes || global % chunkBytes)
    warp.fail("a bulk copy of " + std::to_string(result.bytes) +
                  " bytes; size and addresses have to be multiples of 16",
              uint32_t(1) << lane);
  int64_t offset = sharedOffset(warp, shared, result.bytes, chunkBytes, lane);
  char *host = result.bytes
                   ? globalMemory(warp, global, result.bytes, isStore, lane)
                   : nullptr;
  for (int64_t at = 0; at < result.bytes; at += chunkBytes) {
    Chunk chunk;
    chunk.shared = offset + at;
    chunk.global = host + at;
    result.chunks.push_back(chunk);
  }
  return result;
}

void check(Warp &warp, const std::string &wrong, int lane) {
  if (!wrong.empty())
    warp.fail(wrong, uint32_t(1) << lane);
}

/// Global to shared memory.
void load(Warp &warp, const Op &op) {
  Block &block = *warp.block;
  forLanes(warp.mask, [&](int lane) {
    Transfer transfer = transferOf(warp, op, /*isStore=*/false, lane);
    int64_t barrier = sharedOffset(
        warp, addressOf(warp, op, 2, op.flags & NarrowBarrier, 2, lane), 8, 8,
        lane);
    if (!block.barriersInMemory.count(barrier))
      warp.fail("there is no mbarrier at byte " + std::to_string(barrier) +
                    " of shared memory",
                uint32_t(1) << lane);
    check(warp, block.shared.useBarrier(barrier, warp.thread(lane)), lane);
    for (const Chunk &chunk : transfer.chunks)
      check(
          warp,
          block.shared.beginCopy(chunk.shared, chunk.bytes, warp.thread(lane)),
          lane);
    block.copies.push_back({std::move(transfer.chunks), barrier, transfer.bytes,
                            transfer.map.fillsNaN, warp.current});
  });
}

/// Shared to global memory.
void storeBulk(Warp &warp, const Op &op) {
  forLanes(warp.mask, [&](int lane) {
    Transfer transfer = transferOf(warp, op, /*isStore=*/true, lane);
    int thread = warp.thread(lane);
    for (const Chunk &chunk : transfer.chunks)
      check(warp,
            warp.block->shared.beginRead(chunk.shared, chunk.bytes, thread),
            lane);
    warp.stores.open.push_back(
        {std::move(transfer.chunks), {}, thread, warp.current});
  });
}

void readStore(Warp &warp, BulkStore &made) {
  if (!made.bytes.empty())
    return;
  SharedMemory &shared = warp.block->shared;
  for (const Chunk &chunk : made.chunks) {
    const char *from = shared.data() + chunk.shared;
    made.bytes.insert(made.bytes.end(), from, from + chunk.bytes);
    shared.endRead(chunk.shared, chunk.bytes, made.thread);
  }
}

void writeStore(const BulkStore &made) {
  const char *from = made.bytes.data();
  for (const Chunk &chunk : made.chunks) {
    if (chunk.last > chunk.first)
      std::memcpy(chunk.global + chunk.first, from + chunk.first,
                  chunk.last - chunk.first);
    from += chunk.bytes;
  }
}

/// Groups are those of the lanes that are here, as those of cp.async.
void commit(Warp &warp, const Op &) {
  warp.stores.groups.push_back(std::move(warp.stores.open));
  warp.stores.open.clear();
}

void wait(Warp &warp, const Op &op) {
  auto &groups = warp.stores.groups;
  auto pending = static_cast<size_t>(op.imm);
  size_t done = groups.size() > pending ? groups.size() - pending : 0;
  for (size_t i = 0; i < done; ++i)
    for (BulkStore &made : groups[i]) {
      readStore(warp, made);
      if (!(op.flags & OnlyRead))
        writeStore(made);
    }
  if (!(op.flags & OnlyRead))
    groups.erase(groups.begin(), groups.begin() + static_cast<long>(done));
}

//===----------------------------------------------------------------------===//
// Opcodes
//===----------------------------------------------------------------------===//

/// An address: whether its row is narrow. Its offset goes into `offsets`.
bool takeAddress(Decode &d, size_t index, int place, int64_t &offsets) {
  int bits = d.address(index);
  if (d.op.imm < 0 || d.op.imm >> offsetBits)
    d.fail("an offset of " + std::to_string(d.op.imm) + " bytes");
  offsets |= d.op.imm << (offsetBits * place);
  return bits == 32;
}

int takeRank(Decode &d) {
  if (!d.take("tensor"))
    return 0;
  int rank = d.takeOneOf({"1d", "2d", "3d", "4d", "5d"}) + 1;
  d.take("tile");
  if (rank < 1)
    d.failUnknown();
  return rank;
}

void useCoordinates(Decode &d, size_t index, int rank) {
  const std::vector<Operand> &coordinates = d.operand(index).elements;
  if (coordinates.size() != static_cast<size_t>(rank))
    d.fail("'" + d.name() + "' takes " + std::to_string(rank) + " coordinates");
  for (const Operand &coordinate : coordinates)
    d.use(coordinate, b32Type);
}

void decodeLoad(Decode &d, int rank) {
  if (!d.take("global") || !d.take("mbarrier::complete_tx::bytes") ||
      d.take("multicast::cluster"))
    d.failUnknown();
  size_t count = (rank ? 3 : 4) + (d.take("L2::cache_hint") ? 1 : 0);
  d.expectOperands(count);
  int64_t offsets = 0;
  uint32_t flags = takeAddress(d, 0, 0, offsets) ? NarrowShared : 0;
  if (takeAddress(d, 1, 1, offsets))
    d.fail("an address of 32 bits in global memory");
  flags |= takeAddress(d, rank ? 2 : 3, 2, offsets) ? NarrowBarrier : 0;
  if (rank)
    useCoordinates(d, 1, rank);
  else
    d.use(2, u32Type);
  d.op.imm = offsets;
  d.op.flags = flags | static_cast<uint32_t>(rank) << RankShift;
  d.op.run = load;
}

void decodeStore(Decode &d, int rank) {
  if (!d.take("shared::cta") || !d.take("bulk_group"))
    d.failUnknown();
  d.expectOperands((rank ? 2 : 3) + (d.take("L2::cache_hint") ? 1 : 0));
  int64_t offsets = 0;
  uint32_t flags = takeAddress(d, 1, 0, offsets) ? NarrowShared : 0;
  if (takeAddress(d, 0, 1, offsets))
    d.fail("an address of 32 bits in global memory");
  if (rank)
    useCoordinates(d, 0, rank);
  else
    d.use(2, u32Type);
  d.op.imm = offsets;
  d.op.flags = flags | static_cast<uint32_t>(rank) << RankShift;
  d.op.run = storeBulk;
}
} // namespace

void decodeBulk(Decode &d) {
  d.requireTarget({"sm_90", "sm_90a"});
  if (d.take("commit_group")) {
    d.expectOperands(0);
    d.op.run = commit;
    return;
  }
  if (d.take("wait_group")) {
    d.op.flags = d.take("read") ? OnlyRead : 0;
    d.expectOperands(1);
    d.op.imm = d.number(0);
    d.op.run = wait;
    return;
  }
  int rank = takeRank(d);
  // The first of the two spaces is that of the target.
  const std::vector<std::string> &words = d.source.modifiers;
  auto at = [&](const char *word) {
    return std::find(words.begin(), words.end(), word) - words.begin();
  };
  if (at("global") < at("shared::cta"))
    if (at("shared::cluster") == static_cast<long>(words.size())) {
      d.take("global");
      return decodeStore(d, rank);
    }
  if (!d.take("shared::cluster") && !d.take("shared::cta"))
    d.failUnknown();
  decodeLoad(d, rank);
}

void landBulkCopy(Block &block, const BulkCopy &copy) {
  // Only numbers are NaN outside; all their bits are set.
  char fill = copy.fillsNaN ? static_cast<char>(0xff) : 0;
  for (const Chunk &chunk : copy.chunks) {
    char *to = block.shared.data() + chunk.shared;
    std::memset(to, fill, chunk.bytes);
    if (chunk.last > chunk.first)
      std::memcpy(to + chunk.first, chunk.global + chunk.first,
                  chunk.last - chunk.first);
    block.shared.landCopy(chunk.shared, chunk.bytes);
  }
}

void finishBulkStores(Warp &warp) {
  commit(warp, Op());
  for (std::vector<BulkStore> &group : warp.stores.groups)
    for (BulkStore &made : group) {
      if (made.bytes.empty() && !made.chunks.empty()) {
        warp.current = made.op;
        warp.fail("the block ends before this copy was waited for", allLanes);
      }
      writeStore(made);
    }
  warp.stores = {};
}

} // namespace heddle::rt::emulator
