//===- Bulk.h - Bulk copies that come late ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_BULK_H
#define HEDDLE_EMULATOR_PTX_BULK_H

#include "emulator/ptx/Warp.h"

namespace heddle::emulator {

/// What bulk copies do with what is there, and types as those of tensor maps.
enum BulkOperation {
  ReduceAdd,
  ReduceMin,
  ReduceMax,
  ReduceInc,
  ReduceDec,
  ReduceAnd,
  ReduceOr,
  ReduceXor
};
enum MapType {
  MapU32 = 2,
  MapS32 = 3,
  MapU64 = 4,
  MapS64 = 5,
  MapF16 = 6,
  MapF32 = 7,
  MapF64 = 8,
  MapBF16 = 9
};
/// How numbers of a type are combined; null if bulk copies cannot.
Reduction reductionOf(int operation, int type);

/// Moves the bytes of a copy to shared memory, and tells its mbarrier.
void landBulkCopy(Cluster &cluster, const BulkCopy &copy);
/// Makes the copies by cp.async of an arrival, and arrives.
void landArrival(Cluster &cluster, const AsyncArrival &arrival);
/// The block ends: writes what stores have read, and fails if one has not.
void finishBulkStores(Warp &warp);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_BULK_H
