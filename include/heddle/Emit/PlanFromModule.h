//===- PlanFromModule.h - The plan dialect as the plan format ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMIT_PLANFROMMODULE_H
#define HEDDLE_EMIT_PLANFROMMODULE_H

#include "dialects/Plan/PlanDialect.h"
#include "heddle/PlanFormat/Plan.h"
#include <vector>

namespace heddle::emit {

/// What a binary is made of.
struct Parts {
  plan::Plan plan;
  std::vector<planir::ObjectOp> objects; ///< The code of the kernels.
  /// Of a GPU's plan: the code of those that the host's cores run.
  std::vector<planir::ObjectOp> hostObjects;
};

/// Reads the programs of all pipeline stages, in buffer form, in order. The
/// plan's hash, version, device, CPU features and phases are left to the
/// caller. Fails,
/// with a diagnostic, on a module that the verifiers of the memory phase would
/// refuse.
mlir::FailureOr<Parts>
planFromModule(llvm::ArrayRef<planir::ProgramOp> programs);

} // namespace heddle::emit

#endif // HEDDLE_EMIT_PLANFROMMODULE_H
