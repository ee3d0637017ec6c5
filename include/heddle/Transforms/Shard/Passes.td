//===- Passes.td - Passes of lib/Transforms/Shard --------------*- tablegen -*-==//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_SHARD_PASSES
#define HEDDLE_TRANSFORMS_SHARD_PASSES

include "mlir/Pass/PassBase.td"

#endif // HEDDLE_TRANSFORMS_SHARD_PASSES
