//===- Frame.h - The bytes of a command sequence ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// What of a frame is in use at the command where most of it is.
struct Peak {
  int64_t command = 0;
  std::map<std::string, int64_t> owners; ///< Who has how many bytes.

  int64_t numBytes() const {
    int64_t sum = 0;
    for (const auto &[owner, bytes] : owners)
      sum += bytes;
    return sum;
  }
};

/// The bytes of a sequence whose commands are all there: when each buffer and
/// each callee's frame is in use, and where it stands.
class Frame {
public:
  /// Gives every plan.buffer its lifetime, packs them with the frames of
  /// callees, whose sizes `frameOf` gives, and writes all into the sequence.
  /// Fails, with an error, where streams have no order.
  mlir::LogicalResult
  plan(planir::SequenceOp sequence,
       llvm::function_ref<int64_t(llvm::StringRef)> frameOf);

  /// Of each kind of memory; callees have frames in the device's alone.
  int64_t numBytes(nn::MemoryKind memory = nn::MemoryKind::Device) const {
    return bytes[planir::memoryOf(memory)];
  }
  /// Of the device's memory.
  Peak peak() const;
  /// When the command runs.
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
  llvm::SmallVector<Interval> intervals; ///< Of each region.
  plan::PerMemory<int64_t> bytes;
  int64_t alignment = 0;
};

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_FRAME_H
