//===- Ports.h - The names of a program's ports -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_PORTS_H
#define HEDDLE_DIALECTS_NN_PORTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace heddle::nn {

/// The port under which `--dump` writes what nn.keep names.
inline std::string portOfKept(llvm::StringRef path) {
  return path == "logits" ? path.str() : ("value." + path).str();
}

/// Whether a port of this name is written before a program runs; all others are
/// read after it.
inline bool isInputPort(llvm::StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Cases("ids", "labels", "rng", "position", "lr", "bias_correction1",
             "bias_correction2", true)
      .Default(false);
}

/// Whether a result of this name is one that somebody reads.
inline bool isOutputPort(llvm::StringRef name) {
  return name == "loss" || name == "grad_norm" || name == "logits" ||
         name.starts_with("value.");
}

/// Whether what is written to, or read from, a port of this name has this type.
/// What is kept has any, as has a port that has no meaning.
inline bool isTypeOfPort(llvm::StringRef name, mlir::ShapedType type) {
  if (name == "ids" || name == "labels")
    return type.getElementType().isInteger(32);
  if (name == "rng" || name == "position")
    return type.getElementType().isInteger(32) &&
           type.getNumElements() == (name == "rng" ? 4 : 1);
  if (isInputPort(name) || name == "loss" || name == "grad_norm")
    return type.getElementType().isF32() && type.getNumElements() == 1;
  return true;
}

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_PORTS_H
