//===- heddle-lsp-server.cpp - Language server for Heddle IR --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A language server: editors run it to get errors, completions and definitions
// in .mlir files of Heddle.
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compile.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  heddle::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
