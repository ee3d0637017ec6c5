//===- Frame.h - The bytes of a command sequence ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Third step of `memory-plan`: finds the lifetimes of buffers, and assigns
// offsets.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_FRAME_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_FRAME_H

#include "dialects/Plan/Lifetimes.h"
#include "dialects/Plan/PlanFormat.h"
#include "heddle/Transforms/Memory/Packing.h"
#include <map>
#include <string>

namespace heddle::memory {

/// The bytes of a frame that are in use at the command where most are.
struct Peak {
  int64_t command = 0;
  std::map<std::string, int64_t> owners; ///< By owner: bytes.

  int64_t numBytes() const {
    int64_t sum = 0;
    for (const auto &[owner, bytes] : owners)
      sum += bytes;
    return sum;
  }
};

/// The frame of a sequence whose commands are complete: when each buffer and
/// each callee's frame is in use, and at which offset.
class Frame {
public:
  /// Finds the lifetime of every plan.buffer, packs the buffers and the frames
  /// of callees, whose sizes `frameOf` gives, and writes lifetimes and offsets
  /// into the sequence. Emits an error and fails if the streams are not
  /// ordered.
  mlir::LogicalResult
  plan(planir::SequenceOp sequence,
       llvm::function_ref<int64_t(llvm::StringRef)> frameOf);

  /// The size of the frame in a kind of memory. Callees have frames only in the
  /// device's.
  int64_t numBytes(nn::MemoryKind memory = nn::MemoryKind::Device) const {
    return bytes[planir::memoryOf(memory)];
  }
  /// The peak in the device's memory.
  Peak peak() const;
  /// The commands during which a command may run.
  const planir::Span &spanOf(mlir::Operation *command) const {
    return lifetimes.all().find(command)->second;
  }

private:
  /// A buffer, or the frame of a callee.
  struct FrameRegion {
    mlir::Operation *op;
    llvm::StringRef owner;

    nn::MemoryKind memory() const {
      auto buffer = llvm::dyn_cast<planir::BufferOp>(op);
      return buffer ? buffer.getMemory() : nn::MemoryKind::Device;
    }
  };
  void add(mlir::Operation *op, llvm::StringRef owner, Interval interval);
  void packAll();

  planir::Lifetimes lifetimes;
  llvm::SmallVector<FrameRegion> regions;
  llvm::SmallVector<Interval> intervals; ///< By region.
  plan::PerMemory<int64_t> bytes;
  int64_t alignment = 0;
};

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_FRAME_H
