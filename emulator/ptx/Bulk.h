//===- Bulk.h - Bulk copies -------------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that complete bulk copies (cp.async.bulk) and their arrivals.
// Cluster.cpp calls them when a warp waits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_BULK_H
#define HEDDLE_EMULATOR_PTX_BULK_H

#include "emulator/ptx/Warp.h"

namespace heddle::emulator {

/// The operations of cp.reduce.async.bulk. The element types of these
/// instructions are the types of tensor maps.
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
/// Returns the function that combines elements of a type by an operation. Null
/// if PTX has no such reduction.
Reduction reductionOf(int operation, int type);

/// Completes a bulk copy: writes its bytes to shared memory, and notifies its
/// mbarrier.
void landBulkCopy(Cluster &cluster, const BulkCopy &copy);
/// Completes the cp.async copies that an arrival waits for, and arrives at the
/// mbarrier.
void landArrival(Cluster &cluster, const AsyncArrival &arrival);
/// Called at the end of a block. Completes the bulk stores whose source has
/// been read. Fails if there is a bulk store whose source has not been read.
void finishBulkStores(Warp &warp);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_BULK_H
