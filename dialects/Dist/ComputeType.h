//===- ComputeType.h - The types in which models compute --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_COMPUTETYPE_H
#define HEDDLE_DIALECTS_DIST_COMPUTETYPE_H

#include "heddle/Settings/Settings.h"
#include "mlir/IR/BuiltinTypes.h"

namespace heddle::dist {

/// Describes a floating-point type in which models can compute. The table of
/// these descriptions is in ComputeType.cpp; another type is one more row. In
/// each of the types, kernels add in f32 and round results when they store
/// them. Only targets have more to say about a type: which of their units
/// multiply it (PairUnit.h for CPUs, MultiplyUnit.h for GPUs), and how they
/// convert it.
struct ComputeType {
  /// The values of settings that choose the type: for the model, for gradients
  /// that are sent between ranks, and for the cache of keys and values.
  config::Precision precision;
  config::CommunicationType communication;
  config::CacheType cache;
  const char *inFiles; ///< The name in Safetensors files.
  int64_t bytes;       ///< The bytes of an element.
  /// Whether gradients underflow in this type, so that training multiplies the
  /// loss by a scale.
  bool needsLossScale;
  mlir::FloatType (*get)(mlir::MLIRContext *context);

  /// Whether elements have fewer bits than f32. Then losses, statistics and the
  /// optimizer's states are f32 all the same, and training holds f32 masters of
  /// the parameters.
  bool isNarrow() const { return bytes < 4; }
};

llvm::ArrayRef<ComputeType> computeTypes();

const ComputeType &computeType(config::Precision precision);

/// Returns the description of a type, or of the elements of a vector or tensor
/// type. Null if no model computes in it.
const ComputeType *findComputeType(mlir::Type type);

/// Whether a type, or the element type of a vector or tensor, is a compute type
/// of fewer bits than f32.
bool isNarrow(mlir::Type type);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_COMPUTETYPE_H
