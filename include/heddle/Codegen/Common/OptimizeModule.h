//===- OptimizeModule.h - Runs LLVM's passes over a kernel ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_OPTIMIZEMODULE_H
#define HEDDLE_CODEGEN_COMMON_OPTIMIZEMODULE_H

#include "llvm/ADT/StringRef.h"

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace heddle::codegen {

/// Runs LLVM's passes over a module. `pipeline` has the syntax of opt's
/// -passes; an invalid pipeline is a fatal error.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine,
                    llvm::StringRef pipeline);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_OPTIMIZEMODULE_H
