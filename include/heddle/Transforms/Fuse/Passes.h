//===- Passes.h - Passes of lib/Transforms/Fuse -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_FUSE_PASSES_H
#define HEDDLE_TRANSFORMS_FUSE_PASSES_H

#include "dialects/NN/NNDialect.h"
#include "dialects/Pipe/PipeDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#include "include/heddle/Transforms/Fuse/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "include/heddle/Transforms/Fuse/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_FUSE_PASSES_H
