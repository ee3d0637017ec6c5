//===- MmaUnit.h - Tensor cores, by mma.sync --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the units of tensor cores have in common whose instructions are ldmatrix
// and mma.sync.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_MMAUNIT_H
#define HEDDLE_LIB_CODEGEN_GPU_MMAUNIT_H

#include "MultiplyUnit.h"

namespace heddle::gpu {

/// The rows and columns of the sums of one mma.sync.
constexpr int64_t mmaM = 16, mmaN = 8;

/// A unit that multiplies fragments, which are operands in the registers of a
/// warp. A left fragment has 16 rows, a right fragment 8 columns, and both have
/// `depth` elements along k.
class MmaUnit : public MultiplyUnit {
public:
  virtual int64_t depth() const = 0;
  /// As Multiplier::mostUnrolledSteps.
  virtual int64_t mostUnrolledSteps() const { return 0; }
  /// Emits one mma.sync: multiplies two fragments and adds their product to
  /// `sum`, this lane's part of a 16 x 8 tile.
  virtual void multiply(ThreadCode &c, llvm::ArrayRef<mlir::Value> left,
                        llvm::ArrayRef<mlir::Value> right,
                        llvm::MutableArrayRef<mlir::Value> sum) const = 0;

  std::unique_ptr<Multiplier>
  createMultiplier(ThreadCode &c, const GemmBlock &block) const override;
};

/// A unit for operands of 16 bits, which differ only in how they divide their
/// bits among exponent and mantissa.
class NarrowMmaUnit : public MmaUnit {
public:
  /// Two ones as adjacent elements, in an i32.
  virtual uint32_t ones() const = 0;
  /// The intrinsic that rounds two f32 to a vector of two elements. Its second
  /// operand becomes the first element.
  virtual llvm::StringRef rounding() const = 0;

  int64_t depth() const override { return 16; }
  /// LLVM unrolls so many steps in bf16. In fp16 it would not unroll even one,
  /// because it takes an intrinsic with operands that are vectors for one that
  /// is computed element by element.
  int64_t mostUnrolledSteps() const override { return 5; }
  llvm::ArrayRef<TilingCandidate> tilings() const override;
  TilingCosts costs() const override;
  TileLayout layout(bool kContiguous) const override;
  std::unique_ptr<TileSums> createSums(ThreadCode &c,
                                       const GemmBlock &block) const override;
  std::unique_ptr<WarpTiles> createWarpTiles(KernelFrame &frame,
                                             mlir::Type element,
                                             int64_t width) const override;
  std::unique_ptr<PagedTiles>
  createPagedTiles(ThreadCode &c, const PagedShape &shape) const override;
};

/// Loads `count` matrices, 2 or 4, by one ldmatrix. A matrix has 8 rows of 16
/// bytes, which are 8 elements of 16 bits or 4 elements of 32 bits. Lane i
/// passes the address of row i mod 8 of matrix i / 8.
llvm::SmallVector<mlir::Value> loadMatrices(ThreadCode &c, mlir::Value pointer,
                                            bool transpose, int64_t count = 4);

/// Calls `intrinsic`, which multiplies two fragments, and adds their product to
/// `sum`.
void callMma(ThreadCode &c, llvm::StringRef intrinsic,
             llvm::ArrayRef<mlir::Value> left,
             llvm::ArrayRef<mlir::Value> right,
             llvm::MutableArrayRef<mlir::Value> sum);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_MMAUNIT_H
