//===- MultiplyUnit.h - Units that multiply ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A multiply unit is the part of a GPU that multiplies in a matrix product:
// tensor cores, which take operands of few types, or the FMA units for f32. The
// object of a unit knows how its operands lie in shared memory, how they get
// there, and which instructions multiply and sum them. The other files of
// products and of attention do not ask which unit it is, so that support for
// another unit is one new file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_MULTIPLYUNIT_H
#define HEDDLE_LIB_CODEGEN_GPU_MULTIPLYUNIT_H

#include "GemmTiles.h"

namespace heddle::gpu {

class WarpTiles;
class PagedTiles;
struct PagedShape;

/// A tiling, and its speed on one multiprocessor relative to the speed of the
/// unit's fastest tiling.
struct TilingCandidate {
  Tiling tiling;
  double rate;
};

/// Estimated costs of the work that is no multiplication. Their unit is the
/// time in which a multiprocessor does one multiplication.
struct TilingCosts {
  /// The cost of writing one partial sum to memory and reading it again.
  double partialSum;
  /// The cost of the second launch, which adds the partial sums. About a
  /// microsecond passes between two kernels of a CUDA graph.
  double launch;
};

/// Describes a unit, and creates the objects that emit code for it.
class MultiplyUnit {
public:
  virtual ~MultiplyUnit() = default;

  /// Whether the unit can multiply operands of these types. `matmul` says how
  /// users want f32 to be multiplied.
  virtual bool takes(mlir::Type left, mlir::Type right,
                     config::Matmul matmul) const = 0;
  /// The least relative tolerance for products, with which the compiled
  /// program's command `check` compares them, if the unit rounds its operands;
  /// 0 if it does not.
  virtual double tolerance() const { return 0; }

  /// The tilings of products from which `chooseTiling` chooses.
  virtual llvm::ArrayRef<TilingCandidate> tilings() const = 0;
  virtual TilingCosts costs() const = 0;
  /// The layout of tiles in shared memory, for an operand whose rows in global
  /// memory run along k (`kContiguous`) or along the other dimension.
  virtual TileLayout layout(bool kContiguous) const = 0;
  /// Creates the loop that copies the tiles to shared memory: a RingLoop unless
  /// the unit needs another one.
  virtual std::unique_ptr<GemmLoop> createLoop(ThreadCode &c,
                                               const GemmBlock &block) const;
  virtual std::unique_ptr<Multiplier>
  createMultiplier(ThreadCode &c, const GemmBlock &block) const = 0;
  /// Creates the sums of an operand along k. They take the tiles that the
  /// unit's loop gives them.
  virtual std::unique_ptr<TileSums>
  createSums(ThreadCode &c, const GemmBlock &block) const = 0;

  /// Creates the tiles of attention's products, for matrices whose rows have
  /// `width` elements of type `element`. Null if attention never uses the unit.
  virtual std::unique_ptr<WarpTiles>
  createWarpTiles(KernelFrame &frame, mlir::Type element, int64_t width) const;
  /// Creates the tiles of the products of attention over a paged cache. Null if
  /// this attention never uses the unit.
  virtual std::unique_ptr<PagedTiles>
  createPagedTiles(ThreadCode &c, const PagedShape &shape) const;
};

/// The units. Each is defined in the file with its name.
const MultiplyUnit &bf16Unit();
const MultiplyUnit &fp16Unit();
const MultiplyUnit &tf32Unit();
const MultiplyUnit &fmaUnit();

/// Returns the fastest unit that multiplies operands of these types.
const MultiplyUnit &unitFor(mlir::Type left, mlir::Type right,
                            config::Matmul matmul);
const MultiplyUnit &unitFor(const codegen::Product &product, const Chip &chip);

/// Returns the tiling of `unit` that is estimated to take the least time on
/// `chip`.
Tiling chooseTiling(const codegen::Product &product, const MultiplyUnit &unit,
                    const Chip &chip);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_MULTIPLYUNIT_H
