//===- PtxResources.cpp - Register counts from ptxas ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxResources.h"
#include "heddle/Codegen/GPU/Kernels.h"

using namespace heddle;

std::map<std::string, int64_t> driver::registersOf(const std::string &ptx,
                                                   const std::string &chip) {
  static const std::string ptxas = gpu::findPtxas();
  std::map<std::string, int64_t> registers;
  if (ptxas.empty())
    return registers;
  auto assembled = gpu::assemblePtx(ptxas, ptx, chip);
  if (!assembled) {
    llvm::consumeError(assembled.takeError());
    return registers;
  }
  for (const auto &function : assembled->functions)
    registers[function.getKey().str()] = function.getValue().registers;
  return registers;
}
