//===- ForwardFile.h - Reads a model that a user wrote as MLIR --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a model that a user wrote as MLIR: `heddle compile model.mlir --weights
// DIR`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_FORWARDFILE_H
#define HEDDLE_TOOLS_HEDDLE_FORWARDFILE_H

#include "CompileJob.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::driver {

/// Parses the job's .mlir file, which has a model with only a forward function:
/// later passes derive the programs for training or serving from it. Adds the
/// job's weights and settings to the model. Returns null after an error.
mlir::OwningOpRef<mlir::ModuleOp> readForwardFile(mlir::MLIRContext &context,
                                                  const CompileJob &job);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_FORWARDFILE_H
