//===- Ports.h - The names of a program's ports -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_PORTS_H
#define HEDDLE_DIALECTS_NN_PORTS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace heddle::nn {

/// The port under which `--dump` writes what nn.keep names.
inline std::string portOfKept(llvm::StringRef path) {
  return path == "logits" ? path.str() : ("value." + path).str();
}

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_PORTS_H
