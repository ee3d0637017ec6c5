//===- PairUnit.h - Units that multiply pairs of narrow elements *- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A CPU's unit that multiplies elements of 16 bits and adds in f32. A 32-bit
// word of each operand holds two elements that are adjacent along the summed
// dimension. Operands of types without such a unit are widened to f32.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PAIRUNIT_H
#define HEDDLE_LIB_CODEGEN_CPU_PAIRUNIT_H

#include "AmxTiles.h"
#include "heddle/Codegen/CPU/CpuTarget.h"
#include "heddle/Codegen/CPU/LoopBuilder.h"

namespace heddle::cpu {

/// Whether `target` has an instruction that multiplies vectors of pairs with
/// elements of these types.
bool multipliesPairs(const CpuTarget &target, mlir::Type left,
                     mlir::Type right);

/// Whether `target` has AMX tiles that multiply elements of these types.
bool multipliesTiles(const CpuTarget &target, mlir::Type left,
                     mlir::Type right);

/// How tiles with pairs of `element` are multiplied. A target must multiply
/// tiles of this type.
AmxTiles::Kind pairsOf(mlir::Type element);

/// Multiplies two vectors of pairs and adds the products of each pair to a
/// lane of `sum`. `left` and `right` are vectors of as many bits as `sum`, with
/// elements of type `element`.
mlir::Value addPairProducts(LoopBuilder &b, mlir::Type element,
                            mlir::Value left, mlir::Value right,
                            mlir::Value sum);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PAIRUNIT_H
