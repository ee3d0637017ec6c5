//===- ResidentMemory.h - Memory with physical pages ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the bytes of a session's memory for which the system holds physical
// pages.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_RESIDENTMEMORY_H
#define HEDDLE_RUNTIME_APP_RESIDENTMEMORY_H

#include "heddle/runtime/core/Session.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt {

/// Returns how many of the `bytes` bytes from `begin` on are in physical
/// memory. 0 if the range is not mapped.
int64_t residentBytes(const char *begin, int64_t bytes);

/// The planned and the resident bytes of a use of memory.
struct OwnedMemory {
  std::string owner; ///< As plan::Owner::name.
  int64_t planned = 0;
  /// -1 if unknown. Values that are not states share the arena in turn, so its
  /// pages have no single owner.
  int64_t resident = -1;
};

/// Returns the uses of a session's memory, the largest first. The last entry is
/// the whole arena.
std::vector<OwnedMemory> ownedMemory(const Session &session);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_RESIDENTMEMORY_H
