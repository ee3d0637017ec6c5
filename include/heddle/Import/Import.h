//===- Import.h - A model directory becomes a module ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the MLIR module of a model from its description.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_IMPORT_H
#define HEDDLE_IMPORT_IMPORT_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Import/ModelSpec.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle {

/// The phase `import`: builds the program of the whole model, in f32, from a
/// ModelSpec. An error in the user's choices is reported as a diagnostic whose
/// message begins with the error code. A remark reports which tensors of the
/// weights are used. Returns null after an error.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context,
                                              const config::ModelSpec &spec,
                                              const dist::Strategy &strategy);

/// Completes a model whose forward function the user wrote in MLIR: sets the
/// attribute with the settings of the compilation (`strategy`), and records for
/// each parameter where its weights come from.
void completeForward(nn::ModelOp model, const config::ModelSpec &spec,
                     const dist::Strategy &strategy);

/// Reports a user's error as an MLIR diagnostic. Its message is `CODE:
/// message`. The error's notes, and its help as `help: ...`, become notes of
/// the diagnostic.
void emitUserDiagnostic(mlir::MLIRContext &context,
                        const Diagnostic &diagnostic);

} // namespace heddle

#endif // HEDDLE_IMPORT_IMPORT_H
