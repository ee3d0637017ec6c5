//===- ComputeType.cpp - The types in which models compute ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/ComputeType.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace heddle;
using config::CacheType;
using config::CommunicationType;
using config::Precision;
using dist::ComputeType;

template <typename T> static FloatType getType(MLIRContext *context) {
  return T::get(context);
}

static const ComputeType allTypes[] = {
    {Precision::FP32, CommunicationType::FP32, CacheType::FP32, "F32", 4,
     /*needsLossScale=*/false, getType<Float32Type>},
    {Precision::BF16, CommunicationType::BF16, CacheType::BF16, "BF16", 2,
     /*needsLossScale=*/false, getType<BFloat16Type>},
    {Precision::FP16, CommunicationType::FP16, CacheType::FP16, "F16", 2,
     /*needsLossScale=*/true, getType<Float16Type>},
};

ArrayRef<ComputeType> dist::computeTypes() { return allTypes; }

const ComputeType &dist::computeType(Precision precision) {
  return *llvm::find_if(allTypes, [&](const ComputeType &type) {
    return type.precision == precision;
  });
}

const ComputeType *dist::findComputeType(Type type) {
  if (!type)
    return nullptr;
  Type element = getElementTypeOrSelf(type);
  for (const ComputeType &each : allTypes)
    if (each.get(type.getContext()) == element)
      return &each;
  return nullptr;
}

bool dist::isNarrow(Type type) {
  const ComputeType *found = findComputeType(type);
  return found && found->isNarrow();
}
