//===- Layout.h - States in the persistent region, owners of bytes --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H

#include "Storage.h"
#include "heddle/PlanFormat/Memory.h"
#include <map>
#include <string>

namespace heddle::memory {

/// Who owns how many bytes.
struct MemoryMap {
  plan::PerMemory<int64_t> persistentBytes;
  plan::PerFile<int64_t> fileBytes;    ///< Of what is persistent on file.
  plan::PerMemory<int64_t> modelBytes; ///< See modelStateBytes.
  std::map<std::string, int64_t> owners;
  std::map<std::string, int64_t> arenaOwners;
};

/// Makes a plan.state of every state: members of a bucket in its order, each at
/// a multiple of 64 elements; then the others. What is not in the device's
/// memory begins at a page, bucket by bucket; on file role by role.
MemoryMap layOutStates(nn::ModelOp model, planir::ProgramOp program);

/// Pinned memory that a program's copies between files and its device, and of
/// rows, go through: none on a CPU. Its regions have their sizes.
int64_t stagingBytesOf(planir::ProgramOp program);

/// Elements of a state or of a bucket, one behind the other.
struct StateRange {
  llvm::StringRef name;
  int64_t element = 0, count = 0;
};
StateRange rangeOf(dist::FetchOp fetch);
StateRange rangeOf(dist::FetchRowsOp fetch);
StateRange rangeOf(dist::StoreOp store);

/// Whether runs may be the same bytes, in any slot. Different names may stand
/// for the same states.
class RangeOverlaps {
public:
  explicit RangeOverlaps(const mlir::SymbolTable &symbols) : symbols(symbols) {}
  bool operator()(const StateRange &a, const StateRange &b);
  /// Whether runs of these names may.
  bool share(llvm::StringRef a, llvm::StringRef b);

private:
  const mlir::SymbolTable &symbols;
  /// What was found, by where the names stand: a symbol's has one place.
  llvm::DenseMap<std::pair<const char *, const char *>, bool> shared;
};

/// What a buffer holds, for the memory map.
llvm::StringRef ownerOf(const Root &root);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_LAYOUT_H
