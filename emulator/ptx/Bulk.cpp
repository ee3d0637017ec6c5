//===- Bulk.cpp - Bulk copies of shared memory ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements cp.async.bulk: copies of adjacent bytes and of boxes of tensors
// (TMA), also multicast to several blocks of the cluster, and with reductions.
// A copy to shared memory completes when all warps wait and one of them waits
// for the copy's mbarrier. A copy to global memory completes when its thread
// waits for it, or at the end of the block.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Bulk.h"
#include "emulator/ptx/Access.h"
#include "emulator/ptx/Lanes.h"
#include "heddle/emulator/ptx/TensorMap.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
constexpr int64_t chunkBytes = 16;

/// Values of Op::flags. The op's registers, in order (optional in brackets):
/// address in shared memory; global address, tensor map, or source in shared
/// memory; [mbarrier]; size or coordinates; [mask of a multicast's blocks].
enum BulkFlags {
  NarrowShared = 1,
  NarrowBarrier = 2,
  OnlyRead = 4,
  NarrowSource = 8,
  IsMulticast = 16,
  IsOfBlock = 32, ///< The target is the block's own shared memory.
  IsFromShared = 64,
  RankShift = 8,
  /// First bit of a field that holds 1 + BulkOperation, or 0: no reduction.
  OperationShift = 12,
  TypeShift = 16
};
constexpr uint32_t fieldMask = 15;
constexpr int offsetBits = 20;

/// Returns an address operand's constant offset, one of several in `imm`.
int64_t offsetOf(const Op &op, int index) {
  return op.imm >> (offsetBits * index) & ((int64_t(1) << offsetBits) - 1);
}

uint64_t addressOf(const Warp &warp, const Op &op, int row, bool isNarrow,
                   int offset, int lane) {
  uint64_t base = isNarrow ? warp.row<uint32_t>(op, row)[lane]
                           : warp.row<uint64_t>(op, row)[lane];
  return base + static_cast<uint64_t>(offsetOf(op, offset));
}

/// Returns the offset of `address` in the cluster's shared memory. Fails unless
/// the address is aligned, and the block or cluster has `bytes` bytes there.
int64_t alignedOffset(Warp &warp, uint64_t address, int64_t bytes,
                      uint64_t alignment, bool ofCluster, int lane) {
  if ((address & ~(windowBytes - 1)) == sharedWindow)
    address -= sharedWindow;
  if (address % alignment)
    warp.fail("shared memory at " + std::to_string(address) +
                  ", which is not aligned to " + std::to_string(alignment),
              uint32_t(1) << lane);
  return sharedOffset(warp, address, bytes, ofCluster, lane);
}

/// Checks, records and counts an access of global memory; returns its host
/// address.
char *globalMemory(Warp &warp, uint64_t address, int64_t bytes, AccessKind kind,
                   int lane) {
  Worker &worker = *warp.worker;
  auto end = address + static_cast<uint64_t>(bytes);
  const auto *found = worker.memory->find(address, end);
  if (!found)
    warp.fail("access of " + std::to_string(bytes) + " bytes, " +
                  worker.memory->describe(address),
              uint32_t(1) << lane);
  checkStoresFenced(warp, address, end, lane);
  noteAccess(warp, kind, address, end, uint32_t(1) << lane);
  if (worker.options->counts) {
    constexpr uint64_t sector = 32;
    ++worker.counters.globalRequests;
    worker.counters.globalSectors += (end - 1) / sector - address / sector + 1;
    worker.counters.globalBytes += static_cast<uint64_t>(bytes);
  }
  return found->host + (address - found->address);
}

/// Returns the address of a chunk (at most 16 bytes of a tensor's box) after
/// the swizzle. `address` is where the chunk would be without a swizzle.
int64_t swizzled(int64_t address, int swizzle) {
  return address ^ ((address >> 7 & ((1 << swizzle) - 1)) << 4);
}

/// Splits a box of a tensor into chunks of at most 16 bytes.
class Box {
public:
  Box(Warp &warp, const TensorMap &map, const int64_t *start, int64_t shared,
      AccessKind kind, int lane)
      : warp(warp), map(map), start(start), shared(shared),
        base(warp.cluster->blockOf(shared).firstShared - sharedBase),
        kind(kind), lane(lane) {}

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
                          last - first, kind, lane) -
             first;
    for (int64_t at = 0; at < bytes; at += chunkBytes, done += chunkBytes) {
      Chunk chunk;
      // Swizzle the address in the block's shared memory, as hardware does.
      chunk.shared = base + swizzled(shared - base + done, map.swizzle);
      chunk.first =
          static_cast<int32_t>(std::clamp<int64_t>(first - at, 0, chunkBytes));
      chunk.last =
          static_cast<int32_t>(std::clamp<int64_t>(last - at, 0, chunkBytes));
      chunk.last = std::max(chunk.first, chunk.last);
      chunk.other = host ? host + at : nullptr;
      chunks.push_back(chunk);
    }
  }

  Warp &warp;
  const TensorMap &map;
  const int64_t *start;
  int64_t shared, done = 0;
  /// Offset of the block's shared address 0 in the cluster's shared memory.
  int64_t base;
  AccessKind kind;
  int lane;
  std::vector<Chunk> chunks;
};

/// The tensor map at an address, in constant memory or a kernel parameter.
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

/// The chunks (of up to 16 bytes) and the size of a copy that a lane issues.
struct Transfer {
  std::vector<Chunk> chunks;
  /// The size of the copy, and the offset in shared memory of its bytes.
  int64_t bytes = 0, shared = 0;
  bool fillsNaN = false;
  Reduction reduction = nullptr;
};

int operationOf(const Op &op) {
  return static_cast<int>(op.flags >> OperationShift & fieldMask) - 1;
}

/// Returns the copy that one lane issues, of a box of a tensor.
Transfer boxTransfer(Warp &warp, const Op &op, bool isStore, int lane) {
  Transfer result;
  auto fail = [&](const std::string &what) {
    warp.fail(what, uint32_t(1) << lane);
  };
  int rank = static_cast<int>(op.flags >> RankShift & fieldMask);
  uint64_t shared = addressOf(warp, op, 0, op.flags & NarrowShared, 0, lane);
  uint64_t global = addressOf(warp, op, 1, /*isNarrow=*/false, 1, lane);
  TensorMap map = readMap(warp, global, lane);
  if (map.rank != rank)
    fail("a tensor map of rank " + std::to_string(map.rank));
  if (map.swizzle && map.box[0] * map.typeBytes() != 16 << map.swizzle)
    fail("a box that is narrower than its swizzle: the machine does not know "
         "it");
  int next = isStore ? 2 : 3;
  int64_t start[TensorMap::maxRank];
  for (int i = 0; i < rank; ++i)
    start[i] = warp.row<int32_t>(op, next + i)[lane];
  AccessKind kind = isStore ? AccessKind::Write : AccessKind::Read;
  if (operationOf(op) >= 0) {
    kind = AccessKind::Atomic;
    result.reduction = reductionOf(operationOf(op), map.type);
    if (!result.reduction)
      fail("tensors of this type know no such operation");
  }
  constexpr int64_t alignment = 128;
  result.bytes = map.boxBytes();
  result.fillsNaN = map.fillsNaN;
  result.shared = alignedOffset(warp, shared, result.bytes, alignment,
                                !(op.flags & IsOfBlock), lane);
  result.chunks = Box(warp, map, start, result.shared, kind, lane).take();
  // The swizzle must not move bytes outside of the block's shared memory.
  int64_t end = warp.cluster->blockOf(result.shared).firstShared +
                warp.cluster->sharedBytes;
  for (const Chunk &chunk : result.chunks)
    if (chunk.shared + chunkBytes > end)
      fail("a swizzled box outside of shared memory");
  return result;
}

/// Returns the copy that one lane issues, of adjacent bytes.
Transfer plainTransfer(Warp &warp, const Op &op, bool isStore, int lane) {
  Transfer result;
  uint64_t shared = addressOf(warp, op, 0, op.flags & NarrowShared, 0, lane);
  uint64_t other = addressOf(warp, op, 1, op.flags & NarrowSource, 1, lane);
  result.bytes = warp.row<uint32_t>(op, isStore ? 2 : 3)[lane];
  if (result.bytes % chunkBytes || other % chunkBytes)
    warp.fail("a bulk copy of " + std::to_string(result.bytes) +
                  " bytes; size and addresses have to be multiples of 16",
              uint32_t(1) << lane);
  result.shared = alignedOffset(warp, shared, result.bytes, chunkBytes,
                                !(op.flags & IsOfBlock), lane);
  AccessKind kind = isStore ? AccessKind::Write : AccessKind::Read;
  if (operationOf(op) >= 0) {
    kind = AccessKind::Atomic;
    result.reduction = reductionOf(
        operationOf(op), static_cast<int>(op.flags >> TypeShift & fieldMask));
  }
  char *host = nullptr;
  if (op.flags & IsFromShared)
    host = warp.cluster->shared.data() +
           alignedOffset(warp, other, result.bytes, chunkBytes,
                         /*ofCluster=*/false, lane);
  else if (result.bytes)
    host = globalMemory(warp, other, result.bytes, kind, lane);
  for (int64_t at = 0; at < result.bytes; at += chunkBytes) {
    Chunk chunk;
    chunk.shared = result.shared + at;
    chunk.other = host + at;
    result.chunks.push_back(chunk);
  }
  return result;
}

Transfer transferOf(Warp &warp, const Op &op, bool isStore, int lane) {
  bool isBox = op.flags >> RankShift & fieldMask;
  return isBox ? boxTransfer(warp, op, isStore, lane)
               : plainTransfer(warp, op, isStore, lane);
}

void check(Warp &warp, const std::string &wrong, int lane) {
  if (!wrong.empty())
    warp.fail(wrong, uint32_t(1) << lane);
}

/// Starts one copy to the shared memory of a block.
void beginLoad(Warp &warp, Transfer transfer, int64_t barrier, int64_t source,
               int lane) {
  Cluster &cluster = *warp.cluster;
  int member = warp.member(lane);
  useMbarrier(warp, barrier, lane);
  for (const Chunk &chunk : transfer.chunks) {
    check(warp,
          transfer.reduction
              ? cluster.shared.beginReduction(chunk.shared, chunk.bytes, member)
              : cluster.shared.beginCopy(chunk.shared, chunk.bytes, member),
          lane);
    if (source >= 0)
      check(warp,
            cluster.shared.beginRead(chunk.other - cluster.shared.data(),
                                     chunk.bytes, member),
            lane);
  }
  cluster.copies.push_back({std::move(transfer.chunks), barrier, transfer.bytes,
                            transfer.fillsNaN, warp.current, source,
                            transfer.reduction});
}

/// Executes a copy from global memory or another block to shared memory.
void load(Warp &warp, const Op &op) {
  Cluster &cluster = *warp.cluster;
  forLanes(warp.mask, [&](int lane) {
    Transfer transfer = transferOf(warp, op, /*isStore=*/false, lane);
    uint64_t at = addressOf(warp, op, 2, op.flags & NarrowBarrier, 2, lane);
    int64_t barrier =
        alignedOffset(warp, at, 8, 8, !(op.flags & IsOfBlock), lane);
    const Block &home = cluster.blockOf(transfer.shared);
    if (&cluster.blockOf(barrier) != &home)
      warp.fail("target and mbarrier are in different blocks", uint32_t(1)
                                                                   << lane);
    int64_t source = -1;
    if (op.flags & IsFromShared && !transfer.chunks.empty())
      source = transfer.chunks.front().other - cluster.shared.data();
    if (!(op.flags & IsMulticast))
      return beginLoad(warp, std::move(transfer), barrier, source, lane);
    // A multicast writes to the same offsets in each block of the mask.
    uint32_t blocks =
        warp.row<uint16_t>(op, op.results + op.operands - 1)[lane];
    if (!blocks || blocks >> cluster.blocks.size())
      warp.fail("a mask of blocks " + std::to_string(blocks) +
                    " in a cluster of " + std::to_string(cluster.blocks.size()),
                uint32_t(1) << lane);
    forLanes(blocks, [&](int rank) {
      const Block &block = cluster.blocks[rank];
      check(warp, whyNoAccess(warp, block, lane), lane);
      int64_t by = block.firstShared - home.firstShared;
      Transfer copy = transfer;
      for (Chunk &chunk : copy.chunks)
        chunk.shared += by;
      beginLoad(warp, std::move(copy), barrier + by, source, lane);
    });
  });
}

/// Executes a copy from shared memory to global memory.
void storeBulk(Warp &warp, const Op &op) {
  forLanes(warp.mask, [&](int lane) {
    Transfer transfer = transferOf(warp, op, /*isStore=*/true, lane);
    int member = warp.member(lane);
    for (const Chunk &chunk : transfer.chunks)
      check(warp,
            warp.cluster->shared.beginRead(chunk.shared, chunk.bytes, member),
            lane);
    warp.stores.open.push_back({std::move(transfer.chunks),
                                {},
                                member,
                                warp.current,
                                transfer.reduction});
  });
}

void readStore(Warp &warp, BulkStore &made) {
  if (!made.bytes.empty())
    return;
  SharedMemory &shared = warp.cluster->shared;
  for (const Chunk &chunk : made.chunks) {
    const char *from = shared.data() + chunk.shared;
    made.bytes.insert(made.bytes.end(), from, from + chunk.bytes);
    shared.endRead(chunk.shared, chunk.bytes, made.member);
  }
}

void writeStore(const BulkStore &made) {
  const char *from = made.bytes.data();
  for (const Chunk &chunk : made.chunks) {
    int64_t bytes = chunk.last - chunk.first;
    if (bytes > 0 && made.reduction)
      made.reduction(chunk.other + chunk.first, from + chunk.first, bytes);
    else if (bytes > 0)
      std::memcpy(chunk.other + chunk.first, from + chunk.first, bytes);
    from += chunk.bytes;
  }
}

/// Closes a group of bulk stores. The emulator keeps one list of groups for a
/// warp, although in PTX each thread has its own list.
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

/// Decodes an address operand, and packs its constant offset into `offsets` at
/// index `slot`. Returns whether the address is in a register of 32 bits.
bool takeAddress(Decode &d, size_t index, int slot, int64_t &offsets) {
  int bits = d.address(index);
  if (d.op.imm < 0 || d.op.imm >> offsetBits)
    d.fail("an offset of " + std::to_string(d.op.imm) + " bytes");
  offsets |= d.op.imm << (offsetBits * slot);
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

/// Consumes the operation of a reduction and, if `hasType`, the type.
uint32_t takeOperation(Decode &d, bool hasType, bool toShared) {
  int operation =
      d.takeOneOf({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
  if (operation < 0)
    d.failUnknown();
  uint32_t flags = static_cast<uint32_t>(operation + 1) << OperationShift;
  if (!hasType)
    return flags;
  bool isExact = d.take("noftz");
  Type type = d.type();
  bool isNarrow = type.isFloat() && type.bits() == 16;
  bool isWide = type.bits() == 64;
  int ofMap = type.kind == Type::BFloat   ? MapBF16
              : type.kind == Type::Float  ? (isNarrow ? MapF16
                                             : isWide ? MapF64
                                                      : MapF32)
              : type.kind == Type::Signed ? (isWide ? MapS64 : MapS32)
                                          : (isWide ? MapU64 : MapU32);
  bool isLogic = operation >= ReduceAnd;
  bool isWhole = type.bits() >= 32 && !type.isFloat();
  if ((!isWhole && !type.isFloat()) || type.lanes > 1 ||
      type.kind == Type::Tf32 || isLogic != (type.kind == Type::Bits) ||
      isExact != (isNarrow && operation == ReduceAdd) ||
      (toShared && (!isWhole || (isWide && operation != ReduceAdd))) ||
      !reductionOf(operation, ofMap))
    d.failUnknown();
  return flags | static_cast<uint32_t>(ofMap) << TypeShift;
}

/// Consumes the modifier for a cache policy. Returns 1 if there is one, else 0.
size_t takeCachePolicy(Decode &d) { return d.take("L2::cache_hint") ? 1 : 0; }

/// Decodes a copy to shared memory. With `ofCluster` the target may be in any
/// block of the cluster, otherwise it is in the executing block.
void decodeLoad(Decode &d, int rank, bool ofCluster, bool reduces) {
  bool isFromShared = ofCluster && !rank && d.take("shared::cta");
  if ((!isFromShared && !d.take("global")) ||
      !d.take("mbarrier::complete_tx::bytes") || (reduces && !isFromShared))
    d.failUnknown();
  uint32_t flags = static_cast<uint32_t>(rank) << RankShift;
  flags |= (isFromShared ? IsFromShared : 0) | (ofCluster ? 0 : IsOfBlock);
  if (reduces)
    flags |= takeOperation(d, /*hasType=*/true, /*toShared=*/true);
  bool isMulticast = ofCluster && !isFromShared && d.take("multicast::cluster");
  size_t count = rank ? 3 : 4;
  d.expectOperands(count + isMulticast +
                   (isFromShared ? 0 : takeCachePolicy(d)));
  int64_t offsets = 0;
  flags |= takeAddress(d, 0, 0, offsets) ? NarrowShared : 0;
  bool isNarrow = takeAddress(d, 1, 1, offsets);
  if (isNarrow && !isFromShared)
    d.fail("an address of 32 bits in global memory");
  flags |= isNarrow ? NarrowSource : 0;
  flags |= takeAddress(d, count - 1, 2, offsets) ? NarrowBarrier : 0;
  if (rank)
    useCoordinates(d, 1, rank);
  else
    d.use(2, u32Type);
  if (isMulticast) {
    d.use(count, b16Type);
    flags |= IsMulticast;
  }
  d.op.imm = offsets;
  d.op.flags = flags;
  d.op.run = load;
}

void decodeStore(Decode &d, int rank, bool reduces) {
  if (!d.take("shared::cta") || !d.take("bulk_group"))
    d.failUnknown();
  uint32_t flags = (static_cast<uint32_t>(rank) << RankShift) | IsOfBlock;
  if (reduces)
    flags |= takeOperation(d, /*hasType=*/!rank, /*toShared=*/false);
  d.expectOperands((rank ? 2 : 3) + takeCachePolicy(d));
  int64_t offsets = 0;
  flags |= takeAddress(d, 1, 0, offsets) ? NarrowShared : 0;
  if (takeAddress(d, 0, 1, offsets))
    d.fail("an address of 32 bits in global memory");
  if (rank)
    useCoordinates(d, 0, rank);
  else
    d.use(2, u32Type);
  d.op.imm = offsets;
  d.op.flags = flags;
  d.op.run = storeBulk;
}
} // namespace

void decodeBulk(Decode &d, bool reduces) {
  d.requireTarget({"sm_90", "sm_90a"});
  d.copyBulk();
  if (!reduces && d.take("commit_group")) {
    d.expectOperands(0);
    d.op.run = commit;
    return;
  }
  if (!reduces && d.take("wait_group")) {
    d.op.flags = d.take("read") ? OnlyRead : 0;
    d.expectOperands(1);
    d.op.imm = d.number(0);
    d.op.run = wait;
    return;
  }
  int rank = takeRank(d);
  // The instruction names two spaces, the first of which is that of the target.
  const std::vector<std::string> &words = d.source.modifiers;
  const char *const spaces[] = {"global", "shared::cta", "shared::cluster"};
  auto target =
      std::find_first_of(words.begin(), words.end(), spaces, spaces + 3);
  if (target == words.end())
    d.failUnknown();
  d.take(*target);
  if (*target == spaces[0])
    return decodeStore(d, rank, reduces);
  decodeLoad(d, rank, /*ofCluster=*/*target == spaces[2], reduces);
}

void landBulkCopy(Cluster &cluster, const BulkCopy &copy) {
  SharedMemory &shared = cluster.shared;
  // All bits of a NaN that fills elements outside of the tensor are set.
  char fill = copy.fillsNaN ? static_cast<char>(0xff) : 0;
  for (const Chunk &chunk : copy.chunks) {
    char *to = shared.data() + chunk.shared;
    if (copy.reduction) {
      copy.reduction(to, chunk.other, chunk.bytes);
      shared.landReduction(chunk.shared, chunk.bytes);
    } else {
      std::memset(to, fill, chunk.bytes);
      if (chunk.last > chunk.first)
        std::memcpy(to + chunk.first, chunk.other + chunk.first,
                    chunk.last - chunk.first);
      shared.landCopy(chunk.shared, chunk.bytes);
    }
    if (copy.source >= 0)
      shared.landRead(chunk.other - shared.data(), chunk.bytes);
  }
  Mbarrier &barrier = cluster.barriersInMemory[copy.barrier];
  shared.releaseCopies(barrier.next);
  barrier.bytes -= copy.bytes;
  cluster.checkPhase(barrier);
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

} // namespace heddle::emulator
