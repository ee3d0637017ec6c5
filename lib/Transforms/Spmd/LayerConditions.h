//===- LayerConditions.h - What steps skip with a layer ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the operations of a step that serve only calls with a condition, such
// as the all-gather of a dropped layer's parameters. The pass
// `spmd-condition-transfers` gives them the condition, and `spmd-verify` checks
// it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_LAYERCONDITIONS_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_LAYERCONDITIONS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::spmd {

/// The condition of each operation that is skipped with a layer.
using LayerConditions =
    llvm::MapVector<mlir::Operation *, mlir::FlatSymbolRefAttr>;

/// Finds the operations of the step, without calls, that are skipped if a
/// condition is false. There are four kinds:
/// - An operation that uses a value which a skipped call does not compute, such
///   as the store of a saved activation.
/// - An operation that writes to a state what the state already has if a call
///   is skipped, such as the sum of a gradient and zeros.
/// - An operation all of whose results are used by operations with the
///   condition only, such as the all-gather of a layer's parameters.
/// - An operation that saves an activation which only operations with the
///   condition read.
/// Emits an error and fails if an operation uses values that calls with
/// different conditions do not compute.
mlir::FailureOr<LayerConditions> layerConditionsOf(nn::StepOp step);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_LAYERCONDITIONS_H
