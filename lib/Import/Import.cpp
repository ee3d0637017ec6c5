//===- Import.cpp - A model directory becomes a module --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Import.h"
#include "ModelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Verifier.h"

using namespace heddle;
using namespace mlir;

void heddle::emitUserDiagnostic(MLIRContext &context,
                                const heddle::Diagnostic &diagnostic) {
  Location location = UnknownLoc::get(&context);
  const SourceLocation &place = diagnostic.location;
  if (!place.file.empty())
    location =
        FileLineColLoc::get(&context, place.file, place.line, place.column);
  InFlightDiagnostic error = emitError(location);
  error << diagnostic.code << ": " << diagnostic.message;
  for (const std::string &note : diagnostic.notes)
    error.attachNote() << note;
  if (!diagnostic.help.empty())
    error.attachNote() << "help: " << diagnostic.help;
}

OwningOpRef<ModuleOp> heddle::importModel(MLIRContext &context,
                                          const config::ModelSpec &spec,
                                          const dist::Strategy &strategy) {
  context.loadDialect<nn::NNDialect, dist::DistDialect, arith::ArithDialect>();
  Location place = FileLineColLoc::get(&context, spec.configFile, 1, 1);
  OwningOpRef<ModuleOp> module = ModuleOp::create(place);
  ModelWriter writer(*module, spec, strategy);
  const auto *gpt2 = std::get_if<config::Gpt2Config>(&spec.architecture);
  if (!gpt2) {
    emitError(place) << "H0915: the family " << spec.family
                     << " has a reader and no builder";
    return {};
  }
  if (!buildGpt2(writer, *gpt2) || failed(verify(*module)))
    return {};
  emitRemark(place) << config::coverageReport(spec);
  return module;
}
