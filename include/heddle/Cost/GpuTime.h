//===- GpuTime.h - Predicts the time of kernels on a GPU --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Predicts the time of programs whose kernels read weights and do little else,
// such as a token of a model that serves, from counts and from the speed of a
// GPU model.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_GPUTIME_H
#define HEDDLE_COST_GPUTIME_H

#include <cstdint>
#include <string>

namespace heddle::cost {

/// The speed of a GPU. GpuTime.cpp names the source of each figure.
struct GpuSpeed {
  const char *name;
  /// Bytes per second that a copy inside the GPU's memory reads and writes
  /// together.
  double copyBytesPerSecond;
  int64_t multiprocessors;
  double clockHertz;
  /// Operations per second of mma.sync in 16-bit types with sums in f32. A
  /// multiplication with an addition counts as two.
  double tensorOperationsPerSecond;
  /// Whether a kernel of a graph can begin before the end of the kernel before
  /// it (programmatic dependent launch), so that there is no gap between them.
  bool overlapsLaunches = false;

  /// The instructions of warps that the GPU can issue per second: each of the
  /// four parts of a multiprocessor issues one in a cycle.
  double issuePerSecond() const {
    return 4 * double(multiprocessors) * clockHertz;
  }
};

/// Returns the GPU for which predictions are made for a target such as `sm_90`.
/// Null if there is none.
const GpuSpeed *findGpuSpeed(const std::string &target);

/// What a launch in a CUDA graph costs before the next one computes, in
/// seconds.
struct LaunchCost {
  /// The time from the end of a kernel to the start of the next one.
  double gap = 1.3e-6;
  /// The time in which a kernel begins and ends, and memory is not busy: blocks
  /// start, read their inputs, and wait for the last block.
  double ramp = 4.7e-6;
  double seconds() const { return gap + ramp; }
};

/// What one launch moves and executes.
struct LaunchWork {
  double bytes = 0;        ///< Bytes that must move to or from memory.
  double instructions = 0; ///< Instructions of warps.
  double tensorOperations = 0; ///< Operations of tensor cores.
};

/// The time of a run of a program, in seconds, by what bounds it.
struct GpuTime {
  double memory = 0;   ///< Of launches that are bounded by memory.
  double issue = 0;    ///< Of launches that are bounded by issue slots.
  double tensor = 0;   ///< Of launches that are bounded by tensor cores.
  double launches = 0; ///< Begin and end of launches, and gaps between them.
  double bytes = 0;    ///< Bytes that all launches must move.

  /// Adds `count` launches that do the same.
  void add(const GpuSpeed &gpu, const LaunchWork &work, int64_t count,
           const LaunchCost &cost = LaunchCost());
  double seconds() const { return memory + issue + tensor + launches; }
  /// The bytes per second, as a share of what a copy reaches.
  double shareOfCopy(const GpuSpeed &gpu) const {
    return bytes / seconds() / gpu.copyBytesPerSecond;
  }
  /// What takes longest: `memory`, `issue slots`, `tensor cores` or `launches`.
  const char *bound() const;
};

} // namespace heddle::cost

#endif // HEDDLE_COST_GPUTIME_H
