//===- EmitBinary.cpp - Plan and objects to a program ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Emit/EmitBinary.h"
#include "heddle/Emit/LinkKernels.h"

using namespace heddle;

std::optional<Diagnostic> emit::emitBinary(plan::Plan &plan,
                                           llvm::ArrayRef<std::string> objects,
                                           const std::string &runtimePath,
                                           const std::string &output) {
  llvm::Expected<std::string> image = linkKernels(objects);
  if (!image)
    return Diagnostic{"H0911",
                      "the kernels cannot be linked: " +
                          llvm::toString(image.takeError()),
                      {},
                      {},
                      ""};
  return writeBinary(plan, *image, runtimePath, output);
}
