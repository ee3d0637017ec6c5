//===- ProgramNeeds.h - FLOPs and bytes of a program ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts what a run of a program computes and reads. Throughput figures use the
// counts, and servers use them to choose between programs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H
#define HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/core/DrawOperand.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

namespace heddle::rt {

/// A layout of attention over a KV cache.
struct CacheLayout {
  plan::LayoutBits bits;
  int64_t block = 0; ///< Positions in a block.
  /// Heads of the layout that read the same keys and values: 1 if all heads
  /// have the same layout.
  int64_t group = 1;

  /// The number of positions whose keys and values the last token of a sequence
  /// of `positions` positions reads, as the mean over the heads of keys and
  /// values. Heads of queries that share keys read those that one of them sees.
  double keysAt(int64_t positions) const;
};

/// The reads of the KV cache by attention, summed over the layers with the same
/// attention window and the same layout.
struct CacheNeeds {
  int64_t window = 0; ///< The most positions that a token attends to; 0: all.
  double bytes = 0;   ///< Bytes of the cache for one position of one sequence.
  /// The layout of attention; null if there is none.
  std::shared_ptr<const CacheLayout> layout = nullptr;

  /// The number of positions, as the mean over heads, that one token reads if
  /// its sequence has `positions` positions.
  double keysAt(int64_t positions) const {
    return layout   ? layout->keysAt(positions)
           : window ? double(std::min(window, positions))
                    : double(positions);
  }
  /// Bytes that one token reads from the KV cache of these layers if its
  /// sequence has `positions` positions.
  double bytesAt(int64_t positions) const { return bytes * keysAt(positions); }
};

/// What a run of a program launches and reads.
struct ProgramNeeds {
  /// How often each kernel of the plan is launched.
  std::vector<int64_t> launches;
  /// FLOPs of all kernels except those of cached attention, whose FLOPs depend
  /// on the number of positions.
  double flops = 0;
  /// Bytes of states that kernels read, without the KV cache. Each byte counts
  /// once. For each kernel, at most plan::Kernel::bytes bytes of a state are
  /// counted. This is all that the kernel reads and writes: an embedding
  /// lookup, for example, reads only few rows of its table.
  double stateBytes = 0;
  /// The reads of the KV cache by attention: one entry for each attention
  /// window and layout, sorted by window. Empty if the program has no KV cache.
  std::vector<CacheNeeds> caches;

  /// Bytes that one token reads from the KV cache of all layers if its sequence
  /// has `positions` positions.
  double cacheBytesAt(int64_t positions) const {
    double bytes = 0;
    for (const CacheNeeds &cache : caches)
      bytes += cache.bytesAt(positions);
    return bytes;
  }
};

/// Whether a kernel reads the KV cache.
bool readsCache(const plan::Kernel &kernel);

/// What a run of `program` computes and reads. The program belongs to the
/// pipeline stage that is selected in `plan`.
ProgramNeeds needsOf(const plan::Plan &plan, const plan::Program &program);

/// For each kernel of the plan: the constants among the operands with which it
/// is first launched. The states belong to `plan`.
std::vector<KernelConstants> constantOperandsOf(const plan::Plan &plan);

/// The cost of a run of each program; the keys are the programs' names. The
/// cost is the program's FLOPs, plus the FLOPs that the machine could compute
/// while it reads the program's states. The costs of all pipeline stages are
/// added up, so that all ranks get the same numbers.
std::map<std::string, double> costsOf(const plan::Plan &plan);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H
