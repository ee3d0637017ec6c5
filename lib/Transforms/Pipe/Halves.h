//===- Halves.h - Backward passes in two halves -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PIPE_HALVES_H
#define HEDDLE_LIB_TRANSFORMS_PIPE_HALVES_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::pipe {

/// Splits the backward functions of layers in two (Qi et al., arXiv
/// 2401.10241): `.input` makes what other layers wait for, and also gives what
/// `.weight` needs of that to make the parameters' gradients. Their calls in
/// `body`, the second of each path, become two calls. `symbols`: the model's.
void splitBackward(mlir::SymbolTable &symbols, mlir::Block &body);

} // namespace heddle::pipe

#endif // HEDDLE_LIB_TRANSFORMS_PIPE_HALVES_H
