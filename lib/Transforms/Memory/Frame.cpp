//===- Frame.cpp - The bytes of a command sequence ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Frame.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

static bool isStaging(planir::BufferOp buffer) {
  return buffer.getOwner() == "communication";
}

/// The buffers that are copied to or from offloaded states. They begin at a
/// page and consist of whole pages, because direct I/O to files requires this.
static DenseSet<Value> transferBuffersOf(planir::SequenceOp sequence) {
  auto program = sequence->getParentOfType<planir::ProgramOp>();
  SymbolTable symbols(program);
  auto isOffloaded = [&](Value root) {
    auto ref = root.getDefiningOp<planir::StateRefOp>();
    Operation *state = ref ? symbols.lookup(ref.getState()) : nullptr;
    auto memory = state ? state->getAttrOfType<nn::MemoryKindAttr>("memory")
                        : nn::MemoryKindAttr();
    return memory && memory.getValue() != nn::MemoryKind::Device;
  };
  DenseSet<Value> transferred;
  sequence.walk([&](planir::CopyOp copy) {
    Value target = planir::rootOf(copy.getTarget());
    Value source = planir::rootOf(copy.getSource());
    if (isOffloaded(source))
      transferred.insert(target);
    if (isOffloaded(target))
      transferred.insert(source);
  });
  return transferred;
}

void Frame::add(Operation *op, StringRef owner, Interval interval) {
  regions.push_back({op, owner});
  intervals.push_back(interval);
}

LogicalResult Frame::plan(planir::SequenceOp sequence,
                          function_ref<int64_t(StringRef)> frameOf) {
  if (failed(lifetimes.find(sequence)))
    return failure();
  auto uses = lifetimes.uses();
  DenseSet<Value> transferred = transferBuffersOf(sequence);
  auto addBuffer = [&](planir::BufferOp buffer) {
    Interval interval;
    interval.bytes = dist::byteSize(buffer.getBuffer().getType());
    interval.first = lifetimes.numCommands();
    if (transferred.contains(buffer.getBuffer())) {
      interval.alignment = pageBytes;
      interval.bytes = alignTo(interval.bytes, pageBytes);
    }
    SmallVector<planir::Span> all = uses.lookup(buffer.getBuffer());
    for (const planir::Span &use : all) {
      interval.first = std::min(interval.first, use.first);
      interval.last = std::max(interval.last, use.last);
      interval.settled = std::max(interval.settled, use.settled);
    }
    interval.followsCarried = !all.empty() && lifetimes.followsCarried(all);
    if (buffer.getPort())
      std::tie(interval.first, interval.last) =
          std::make_pair(int64_t(0), lifetimes.numCommands());
    add(buffer, buffer.getOwner(), interval);
  };
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>())
    if (!isStaging(buffer))
      addBuffer(buffer);
  for (const auto &[op, span] : lifetimes.all())
    if (auto call = dyn_cast<planir::CallOp>(op))
      add(op, "working memory of layers",
          {frameOf(call.getSequence()), span.first, span.last, 0});
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>())
    if (isStaging(buffer))
      addBuffer(buffer);

  alignment = alignmentFor(
      sequence->getParentOfType<planir::ProgramOp>().getStrategy().getValue());
  packAll();
  sequence.setFrameBytes(numBytes());
  for (auto [region, interval] : llvm::zip(regions, intervals)) {
    if (auto call = dyn_cast<planir::CallOp>(region.op)) {
      call.setFrameOffset(interval.offset);
      continue;
    }
    auto buffer = cast<planir::BufferOp>(region.op);
    buffer.setOffset(interval.offset);
    buffer.setFirst(interval.first);
    buffer.setLast(interval.last);
    if (interval.settled >= 0)
      buffer.setSettled(interval.settled);
  }
  return success();
}

/// Assigns offsets in each kind of memory separately.
void Frame::packAll() {
  for (nn::MemoryKind kind : planir::memoryKinds) {
    SmallVector<Interval> own;
    SmallVector<size_t> places;
    for (auto [place, region] : llvm::enumerate(regions))
      if (region.memory() == kind) {
        places.push_back(place);
        own.push_back(intervals[place]);
      }
    bytes[planir::memoryOf(kind)] = pack(own, alignment);
    for (auto [place, interval] : llvm::zip(places, own))
      intervals[place] = interval;
  }
}

/// Returns how many bytes are in use while `command` runs, by the category of
/// the data (see Peak::owners). Bytes that an unfinished store of the previous
/// step still reads count as in use until they are overwritten.
static std::map<std::string, int64_t>
ownersAt(int64_t command,
         ArrayRef<std::pair<StringRef, const Interval *>> intervals,
         int64_t alignment) {
  std::map<std::string, int64_t> owners;
  // The ranges of memory that have been counted, each as its begin and end.
  // They are disjoint, so that no byte is counted twice.
  std::map<int64_t, int64_t> taken;
  auto take = [&](StringRef owner, int64_t begin, int64_t end) {
    while (begin < end) {
      auto next = taken.upper_bound(begin);
      if (next != taken.begin() && std::prev(next)->second > begin) {
        begin = std::prev(next)->second;
        continue;
      }
      int64_t stop = next == taken.end() ? end : std::min(end, next->first);
      owners[owner.str()] += stop - begin;
      taken[begin] = stop;
      begin = stop;
    }
  };
  for (bool isLeft : {false, true})
    for (auto [owner, interval] : intervals) {
      bool isLive = interval->first <= command && command <= interval->last;
      if (isLeft ? !isLive && command <= interval->settled : isLive)
        take(owner, interval->offset,
             interval->offset + int64_t(alignTo(interval->bytes, alignment)));
    }
  return owners;
}

Peak Frame::peak() const {
  auto isOfDevice = [](const FrameRegion &region) {
    return region.memory() == nn::MemoryKind::Device;
  };
  // For each command at which the number of bytes in use changes: the
  // difference to the number before this command.
  std::map<int64_t, int64_t> inUse;
  auto add = [&](int64_t first, int64_t last, int64_t bytes) {
    if (first > last)
      return;
    inUse[first] += alignTo(bytes, alignment);
    inUse[last + 1] -= alignTo(bytes, alignment);
  };
  for (auto [region, interval] : llvm::zip(regions, intervals))
    if (isOfDevice(region)) {
      add(0, interval.settled, interval.bytes);
      add(std::max(interval.first, interval.settled + 1), interval.last,
          interval.bytes);
    }
  int64_t sum = 0;
  for (auto &entry : inUse)
    entry.second = sum += entry.second;
  int64_t most = -1;
  Peak peak;
  for (const Interval &at : intervals) {
    auto after = inUse.upper_bound(at.first);
    int64_t total = after == inUse.begin() ? 0 : std::prev(after)->second;
    if (total > most) {
      most = total;
      peak.command = at.first;
    }
  }
  if (most < 0)
    return peak;
  SmallVector<std::pair<StringRef, const Interval *>> ofDevice;
  for (auto [region, interval] : llvm::zip(regions, intervals))
    if (isOfDevice(region))
      ofDevice.push_back({region.owner, &interval});
  peak.owners = ownersAt(peak.command, ofDevice, alignment);
  return peak;
}
