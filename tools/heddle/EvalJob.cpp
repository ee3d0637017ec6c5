//===- EvalJob.cpp - Runs heddle eval -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EvalJob.h"
#include "DiagnosticPrinter.h"
#include "ModuleFile.h"
#include "heddle/Eval/EvalMain.h"

using namespace heddle;
using namespace heddle::driver;

int driver::runEvalJob(const eval::EvalOptions &options) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(context, /*verbose=*/false);
  UserModule read;
  printer.parse([&] { read = readUserModule(context, options.file); });
  printer.isUsersModule = true;
  if (!read.module)
    return printer.exitCode;
  // With --poison, the execution sets dead bytes to NaN, in order to find
  // errors in lifetimes. The verifier would reject a module with such an error,
  // so it does not run.
  if (!options.poison && failed(takeIn(*read.module, read.done)))
    return printer.exitCode;
  printer.defaultCode = "H0371";
  return eval::evalModule(*read.module, options);
}
