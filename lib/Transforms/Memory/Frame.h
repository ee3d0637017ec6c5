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

/// The command of a sequence at which the most bytes of its frame are in use,
/// and the number of these bytes by category of data.
struct Peak {
  int64_t command = 0;
  /// The number of bytes in use for each category of data, for example
  /// "activations".
  std::map<std::string, int64_t> owners;

  int64_t numBytes() const {
    int64_t sum = 0;
    for (const auto &[owner, bytes] : owners)
      sum += bytes;
    return sum;
  }
};

/// The frame of a command sequence: the memory of the sequence's temporary
/// buffers and of the frames of the sequences that it calls. The sequence must
/// be complete before its frame is laid out.
class Frame {
public:
  /// Finds the lifetime of every plan.buffer, and assigns offsets to the
  /// buffers and to the frames of called sequences. `frameOf` returns the frame
  /// of a called sequence, which must be laid out already, so that its size is
  /// known. Writes lifetimes and offsets into the sequence. Emits an error and
  /// fails if commands on different streams are not ordered by waits.
  mlir::LogicalResult
  plan(planir::SequenceOp sequence,
       llvm::function_ref<int64_t(llvm::StringRef)> frameOf);

  /// The size of the frame in one kind of memory. Called sequences have frames
  /// in the device's memory only.
  int64_t numBytes(nn::MemoryKind memory = nn::MemoryKind::Device) const {
    return bytes[planir::memoryOf(memory)];
  }
  /// The peak of the device's memory.
  Peak peak() const;
  /// The first and last command during which `command` may run. An asynchronous
  /// command, such as a copy, may still run during later commands.
  const planir::Span &spanOf(mlir::Operation *command) const {
    return lifetimes.all().find(command)->second;
  }

private:
  /// A buffer, or the frame of a called sequence.
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
  /// The lifetime and offset of each FrameRegion (a buffer or a called
  /// sequence's frame).
  llvm::SmallVector<Interval> intervals;
  plan::PerMemory<int64_t> bytes;
  int64_t alignment = 0;
};

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_FRAME_H
