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

/// The bytes of parameters, of what is derived of them, of gradients and
/// optimizer, as memory-plan lays them out of what the fuse phase leaves. They
/// are alike however many activations are kept, and wherever these are.
plan::PerMemory<int64_t> modelStateBytes(nn::ModelOp model);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_MEMORY_STATEBYTES_H
