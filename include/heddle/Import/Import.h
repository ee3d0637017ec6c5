//===- Import.h - A model directory becomes a module ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The phase `import`: builds the whole-model program in f32 from a model whose
/// files have been read. What is wrong with the user's choices is reported as
/// an error whose text begins with its code; the coverage of the weights is
/// reported as a remark. Null when there was an error.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context,
                                              const config::ModelSpec &spec,
                                              const dist::Strategy &strategy);

/// Gives a model whose forward function the user wrote its strategy and its
/// weights, as they were found in files.
void completeForward(nn::ModelOp model, const config::ModelSpec &spec,
                     const dist::Strategy &strategy);

/// Reports a user's error through MLIR's diagnostics: the text is
/// `CODE: message`, notes are attached, the help as a note `help: ...`.
void emitUserDiagnostic(mlir::MLIRContext &context,
                        const Diagnostic &diagnostic);

} // namespace heddle

#endif // HEDDLE_IMPORT_IMPORT_H
