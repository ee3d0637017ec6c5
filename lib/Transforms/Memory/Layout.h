//===- Layout.h - Offsets of states in memory -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// First step of `memory-plan`: assigns each state its offset in the persistent
// region, which is the memory that keeps its contents across steps.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H

#include "Storage.h"
#include "heddle/PlanFormat/Memory.h"
#include <map>
#include <string>

namespace heddle::memory {

/// How many bytes a program needs, by kind of memory, by file, and by category
/// of data.
struct MemoryMap {
  /// The size of the persistent region, which holds the states that live across
  /// steps.
  plan::PerMemory<int64_t> persistentBytes;
  /// Bytes of each file.
  plan::PerFile<int64_t> fileBytes;
  /// The bytes that modelStateBytes returns.
  plan::PerMemory<int64_t> modelBytes;
  /// The bytes of persistent memory (`owners`) and of temporary memory
  /// (`arenaOwners`) by category of data, for example "gradients".
  std::map<std::string, int64_t> owners;
  std::map<std::string, int64_t> arenaOwners;
};

/// Assigns offsets to all states, and adds a plan.state for each to `program`.
/// The members of a bucket are adjacent, each at a multiple of 64 elements;
/// states without a bucket follow. Offloaded buckets begin at pages. States on
/// file are grouped by the file that they belong to.
MemoryMap layOutStates(nn::ModelOp model, planir::ProgramOp program);

/// The bytes of pinned memory through which a program copies data between files
/// and the device, or rows of an embedding table from the host's memory to the
/// device. 0 on a CPU. The sizes of the program's memory regions must be set.
int64_t stagingBytesOf(planir::ProgramOp program);

/// A range of elements of a state or bucket.
struct StateRange {
  llvm::StringRef name;
  int64_t element = 0, count = 0;
};
StateRange rangeOf(dist::FetchOp fetch);
StateRange rangeOf(dist::FetchRowsOp fetch);
StateRange rangeOf(dist::StoreOp store);

/// Tells whether two ranges of states overlap. A range of a bucket may overlap
/// with a range of one of its members, although their names differ. Slots (a
/// state's entries for different micro-batches) are not distinguished.
class RangeOverlaps {
public:
  explicit RangeOverlaps(const mlir::SymbolTable &symbols) : symbols(symbols) {}
  bool operator()(const StateRange &a, const StateRange &b);
  /// Whether a range of `a` can overlap with a range of `b`. Both arguments are
  /// names of states or buckets.
  bool share(llvm::StringRef a, llvm::StringRef b);

private:
  const mlir::SymbolTable &symbols;
  /// The results of earlier calls of `share`, by the pair of its arguments:
  /// whether the states or buckets with these two names may overlap. The key is
  /// the address of each name's text, which is unique for a symbol.
  llvm::DenseMap<std::pair<const char *, const char *>, bool> shared;
};

/// Returns the category of data, for example "activations", under which the
/// memory map counts a buffer's bytes. Categories are keys of `explain --json`
/// and must not change. Therefore the ranges of states that are fetched and
/// updated at a time still have the category "windows of states", although
/// they are called tiles elsewhere.
llvm::StringRef ownerOf(const Root &root);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H
