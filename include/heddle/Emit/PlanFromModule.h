//===- PlanFromModule.h - From the plan dialect to the plan -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first step of the emit phase: from IR in buffer form to the plan, before
// kernels are linked and the binary is written.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMIT_PLANFROMMODULE_H
#define HEDDLE_EMIT_PLANFROMMODULE_H

#include "dialects/Plan/PlanDialect.h"
#include "heddle/PlanFormat/Plan.h"
#include <vector>

namespace heddle::emit {

/// What a binary is made of: the plan, and the objects with the kernels' code.
struct Parts {
  plan::Plan plan;
  std::vector<planir::ObjectOp> objects; ///< Code of the kernels.
  /// Code of the kernels that a GPU's plan runs on the host's cores.
  std::vector<planir::ObjectOp> hostObjects;
};

/// Reads the programs of all pipeline stages, stage after stage. They must be
/// in buffer form. The caller sets the plan's hash, version, device, CPU
/// features and phases. Fails, with a diagnostic, on a module that the
/// verifiers of the memory phase would refuse.
mlir::FailureOr<Parts>
planFromModule(llvm::ArrayRef<planir::ProgramOp> programs);

} // namespace heddle::emit

#endif // HEDDLE_EMIT_PLANFROMMODULE_H
