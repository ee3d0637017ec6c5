//===- StateBytes.h - The bytes that training needs in any case -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_MEMORY_STATEBYTES_H
#define HEDDLE_TRANSFORMS_MEMORY_STATEBYTES_H

#include "dialects/NN/NNDialect.h"
#include "heddle/PlanFormat/Memory.h"

namespace heddle {

/// Returns the bytes of parameters, derived states, gradients and optimizer
/// states per kind of memory, as memory-plan lays them out. The model must be
/// one after the fuse phase. The result does not depend on which activations
/// are saved.
plan::PerMemory<int64_t> modelStateBytes(nn::ModelOp model);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_MEMORY_STATEBYTES_H
