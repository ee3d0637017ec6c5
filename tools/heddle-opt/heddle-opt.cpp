//===- heddle-opt.cpp - Runs any pass -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs passes on IR, as mlir-opt does. The tests of passes use it, and so can
// users who want to see what a pass does.
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compile.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  heddle::registerAllDialects(registry);
  heddle::registerAllPasses();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "Heddle's pass driver\n", registry);
  // Refuse an output that is the input: opening the output would truncate the
  // file while it is still mapped as input.
  if (bool isSame = false; llvm::sys::fs::is_regular_file(input) &&
                           !llvm::sys::fs::equivalent(input, output, isSame) &&
                           isSame) {
    llvm::errs() << "error[H0160]: -o " << output
                 << " would be written over what is read\n  help: name another "
                    "file with -o\n";
    return 2;
  }
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
