//===- Bulk.h - Bulk copies that come late ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_EMULATOR_BULK_H
#define HEDDLE_RUNTIME_DEVICES_EMULATOR_BULK_H

#include "runtime/devices/emulator/Warp.h"

namespace heddle::rt::emulator {

/// Moves the bytes of a copy to shared memory.
void landBulkCopy(Block &block, const BulkCopy &copy);
/// The block ends: writes what stores have read, and fails if one has not.
void finishBulkStores(Warp &warp);

} // namespace heddle::rt::emulator

#endif // HEDDLE_RUNTIME_DEVICES_EMULATOR_BULK_H
