//===- Passes.h - Passes of lib/Transforms/Spmd -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_SPMD_PASSES_H
#define HEDDLE_TRANSFORMS_SPMD_PASSES_H

#include "dialects/NN/NNDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#include "include/heddle/Transforms/Spmd/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "include/heddle/Transforms/Spmd/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_SPMD_PASSES_H
