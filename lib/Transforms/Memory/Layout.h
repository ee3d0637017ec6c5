//===- Layout.h - Offsets of states in memory -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// First step of `memory-plan`: assigns the persistent region to states.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H

#include "Storage.h"
#include "heddle/PlanFormat/Memory.h"
#include <map>
#include <string>

namespace heddle::memory {

/// The sizes of memory regions, and who owns how many bytes.
struct MemoryMap {
  plan::PerMemory<int64_t> persistentBytes;
  /// The part of the persistent region of each file.
  plan::PerFile<int64_t> fileBytes;
  /// The bytes that modelStateBytes returns.
  plan::PerMemory<int64_t> modelBytes;
  std::map<std::string, int64_t> owners;
  std::map<std::string, int64_t> arenaOwners;
};

/// Makes a plan.state of every state. First the members of each bucket, in its
/// order and each at a multiple of 64 elements; then the other states.
/// Offloaded buckets begin at pages; those on file are grouped by the role of
/// their file.
MemoryMap layOutStates(nn::ModelOp model, planir::ProgramOp program);

/// The bytes of pinned memory through which a program's copies between files
/// and the device go, and its lookups of rows. 0 on a CPU. The sizes of the
/// program's regions must be set.
int64_t stagingBytesOf(planir::ProgramOp program);

/// A range of elements of a state or bucket.
struct StateRange {
  llvm::StringRef name;
  int64_t element = 0, count = 0;
};
StateRange rangeOf(dist::FetchOp fetch);
StateRange rangeOf(dist::FetchRowsOp fetch);
StateRange rangeOf(dist::StoreOp store);

/// Whether two ranges may overlap, in any slot. Different names may mean the
/// same states: a bucket and its members.
class RangeOverlaps {
public:
  explicit RangeOverlaps(const mlir::SymbolTable &symbols) : symbols(symbols) {}
  bool operator()(const StateRange &a, const StateRange &b);
  /// Whether ranges of these names may overlap.
  bool share(llvm::StringRef a, llvm::StringRef b);

private:
  const mlir::SymbolTable &symbols;
  /// Results so far, by the addresses of the names: each symbol's name has one.
  llvm::DenseMap<std::pair<const char *, const char *>, bool> shared;
};

/// The owner of a buffer, for the memory map. Owners are keys of `explain
/// --json`, so those of state tiles keep the name "windows of states".
llvm::StringRef ownerOf(const Root &root);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H
