//===- Halves.h - Backward passes in halves, for zb-h1 ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits backward passes in two halves for the schedule zb-h1 (Qi et al., arXiv
// 2401.10241), which fills bubbles with the computation of weights' gradients.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PIPE_HALVES_H
#define HEDDLE_LIB_TRANSFORMS_PIPE_HALVES_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::pipe {

/// Splits the backward function of each layer into two functions. `.input`
/// computes the gradients for which other layers wait. `.weight` computes the
/// gradients of the weights, from values that `.input` returns. In `body` each
/// layer has a forward call and a backward call with the same path. The
/// backward call is replaced by calls of the two functions. `symbols` is the
/// model's symbol table.
void splitBackward(mlir::SymbolTable &symbols, mlir::Block &body);

} // namespace heddle::pipe

#endif // HEDDLE_LIB_TRANSFORMS_PIPE_HALVES_H
