//===- AmxTiles.h - Instructions on AMX tiles ----------------*- C++ -*- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_AMXTILES_H
#define HEDDLE_LIB_CODEGEN_CPU_AMXTILES_H

#include "heddle/Codegen/CPU/LoopBuilder.h"

namespace heddle::cpu {

/// Emits AMX instructions on the eight tile registers of 16 rows of 64 bytes.
/// Registers are given by their numbers. There are no values of a tile type, so
/// LLVM cannot copy or spill tiles. With `emulated` every instruction becomes a
/// call of the function `heddle_amx_<name>`, which a test defines.
class AmxTiles {
public:
  AmxTiles(LoopBuilder &builder, bool emulated)
      : b(builder), emulated(emulated) {}

  static constexpr int64_t count = 8;
  static constexpr int64_t rows = 16;
  static constexpr int64_t rowBytes = 64;
  static constexpr int64_t tileBytes = rows * rowBytes;
  static constexpr int64_t configBytes = 64;

  struct Shape {
    int64_t rows = AmxTiles::rows, rowBytes = AmxTiles::rowBytes;
  };
  /// The element types of a left and a right tile. `Bf16Pairs` and `Fp16Pairs`:
  /// pairs of this type in both. `Signed`: int8 in both. `SignedByUnsigned`:
  /// int8 and unsigned int8.
  enum class Kind { Bf16Pairs, Fp16Pairs, Signed, SignedByUnsigned };

  /// Configures all tile registers: register i with `shapes`[i], or each with
  /// the largest shape if `shapes` is empty. `config` is the address of
  /// `configBytes` bytes for the configuration.
  void configure(mlir::Value config, llvm::ArrayRef<Shape> shapes = {});
  void release();
  void zero(int tile);
  /// Loads or stores a tile; `strideBytes` is the distance of its rows in
  /// memory.
  void load(int tile, mlir::Value pointer, int64_t strideBytes);
  void store(int tile, mlir::Value pointer, int64_t strideBytes);
  /// sum += left * right. The rows of `left` and the columns of `right` consist
  /// of 32-bit groups: two bf16 or fp16, or four bytes. Each element of `sum`
  /// adds the products of all groups of its row and column.
  void multiplyAdd(int sum, int left, int right, Kind kind);

private:
  void emit(llvm::StringRef instruction, mlir::ValueRange operands);
  mlir::Value number(int tile);

  LoopBuilder &b;
  bool emulated;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_AMXTILES_H
