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

/// Emits instructions on the eight tile registers, each 16 rows of 64 bytes.
/// Registers are named by number: no value of a tile type exists, so nothing
/// can be copied or spilled. With `emulated` every instruction becomes a call
/// to `heddle_amx_<name>`, which a test defines.
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
  /// What two tiles hold that are multiplied.
  enum class Kind { Pairs, Signed, SignedByUnsigned };

  /// Sets up all tiles, with these shapes; without, each as large as can be.
  /// `config` is memory for the configuration.
  void configure(mlir::Value config, llvm::ArrayRef<Shape> shapes = {});
  void release();
  void zero(int tile);
  /// `strideBytes` from one row to the next.
  void load(int tile, mlir::Value pointer, int64_t strideBytes);
  void store(int tile, mlir::Value pointer, int64_t strideBytes);
  /// sum += left * right, on pairs of bf16, or on four bytes at a time.
  void multiplyAdd(int sum, int left, int right, Kind kind = Kind::Pairs);

private:
  void emit(llvm::StringRef instruction, mlir::ValueRange operands);
  mlir::Value number(int tile);

  LoopBuilder &b;
  bool emulated;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_AMXTILES_H
