//===- Frame.cpp - The bytes of a command sequence ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Frame.h"
#include "heddle/PlanFormat/FrameUse.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

static bool isStaging(planir::BufferOp buffer) {
  return buffer.getOwner() == "communication";
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
  DenseSet<Value> transferred = planir::transferBuffersOf(sequence);
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

Peak Frame::peak() const {
  std::vector<plan::FrameRange> ofDevice;
  for (auto [region, interval] : llvm::zip(regions, intervals))
    if (region.memory() == nn::MemoryKind::Device)
      ofDevice.push_back({region.owner.str(), interval.offset,
                          alignTo(interval.bytes, alignment), interval.first,
                          interval.last, interval.settled});
  Peak peak;
  if (ofDevice.empty())
    return peak;
  peak.command = plan::peakCommand(ofDevice);
  peak.owners = plan::ownersAt(peak.command, ofDevice);
  return peak;
}
