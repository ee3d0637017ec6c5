//===- Import.h - A model directory becomes a module ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the module of a model.
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
/// ModelSpec. Errors in the user's choices are reported with their code at the
/// beginning of the message. A remark reports the coverage of the weights. Null
/// after an error.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context,
                                              const config::ModelSpec &spec,
                                              const dist::Strategy &strategy);

/// Sets strategy and weights of a model whose forward function the user wrote.
void completeForward(nn::ModelOp model, const config::ModelSpec &spec,
                     const dist::Strategy &strategy);

/// Reports a user's error through MLIR's diagnostics: `CODE: message`, with
/// notes, and with the help as a note `help: ...`.
void emitUserDiagnostic(mlir::MLIRContext &context,
                        const Diagnostic &diagnostic);

} // namespace heddle

#endif // HEDDLE_IMPORT_IMPORT_H
