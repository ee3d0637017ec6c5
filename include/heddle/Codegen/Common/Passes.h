//===- Passes.h - Passes of lib/Codegen/Common ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_PASSES_H
#define HEDDLE_CODEGEN_COMMON_PASSES_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#include "include/heddle/Codegen/Common/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "include/heddle/Codegen/Common/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_CODEGEN_COMMON_PASSES_H
