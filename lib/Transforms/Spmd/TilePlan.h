//===- TilePlan.h - Which weights are computed by row tiles -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Analysis of `spmd-tile-products`. It finds the products of a layer that read
// a weight which `--tile` divides into tiles, and the rows of each tile.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_TILEPLAN_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_TILEPLAN_H

#include "FetchRanges.h"
#include "heddle/Transforms/Common/TiledWeights.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::spmd {

/// A row tile: rows [first, first + rows) of each rank's shard of a weight.
struct RowTile {
  int64_t first, rows;
};

/// How a weight, or the gradient of a weight, is divided into row tiles.
struct Tiling {
  /// The type of the weight that products read. If ranks all-gather the weight,
  /// this is the gathered type.
  mlir::RankedTensorType type;
  /// The number of ranks that the weight or gradient is split over.
  int64_t ranks = 1;
  llvm::SmallVector<RowTile> tiles;

  int64_t width() const { return type.getDimSize(1); }
  int64_t rowsOfPart() const { return type.getDimSize(0) / ranks; }
  mlir::RankedTensorType part(const RowTile &tile) const {
    return type.clone({tile.rows, width()});
  }
  mlir::RankedTensorType whole(const RowTile &tile) const {
    return type.clone({tile.rows * ranks, width()});
  }
};

/// A weight that a layer takes as an argument.
struct Weight : Tiling {
  std::string parameter;
  nn::BucketOp bucket;
  int64_t first = 0; ///< The weight's first element in the flat state.
  /// The all-gather that makes the weight. Null if the rank has the whole
  /// weight.
  dist::AllGatherOp gather;
  /// Whether the weight is fetched from the host's memory or a file.
  bool isOffloaded = false;
};

/// The gradient of a weight, as a product computes it and ranks reduce-scatter
/// it.
struct Gradient : Tiling {
  nn::PackOp pack;
  dist::ReduceScatterOp scatter;
};

/// The matrix products that are computed by row tiles in one call of a layer.
struct TilePlan {
  llvm::MapVector<mlir::Operation *, Weight> weights;
  llvm::MapVector<mlir::Operation *, Gradient> gradients;
};

/// Finds the tiled weights of the layers of one model.
class TilePlanner {
public:
  TilePlanner(nn::ModelOp model, const TiledWeights &tiled,
              const mlir::SymbolTable &symbols);

  /// Returns the products of a layer's call that are computed by tiles. Emits
  /// H0149 if the tiles of ranks that all-gather a weight cannot be equal.
  mlir::FailureOr<TilePlan> planOf(nn::CallOp call);
  /// Returns the tiles of one product outside of layers, for example of the
  /// head that computes the logits.
  mlir::FailureOr<TilePlan> planOf(mlir::Operation *product);

  /// Names of the weights that products read: `products` has all of them,
  /// `found` those that are divided into tiles. The pass reports `--tile`
  /// patterns that match no name in `products`.
  std::vector<std::string> found, products;

private:
  llvm::StringRef parameterOf(llvm::StringRef name) const;
  std::optional<Weight> weightOf(mlir::Value value);
  bool hasNoTiles(nn::EmbeddingOp embedding);
  std::optional<Gradient> gradientOf(mlir::OpResult result,
                                     std::string &parameter);
  mlir::LogicalResult cut(Tiling &tiling, llvm::StringRef parameter,
                          int64_t unit, bool isOffloaded,
                          mlir::Operation *place);
  mlir::LogicalResult addWeight(mlir::Value operand,
                                llvm::ArrayRef<mlir::Operation *> ops,
                                mlir::Operation *place, TilePlan &plan);
  mlir::LogicalResult addGradient(mlir::OpResult result,
                                  nn::LinearGradWeightOp product,
                                  mlir::Operation *place, TilePlan &plan);

  const TiledWeights &tiled;
  const mlir::SymbolTable &symbols;
  /// Maps the name of a state to the bucket that contains the state, and to the
  /// index of the state's first element in this bucket.
  llvm::StringMap<std::pair<nn::BucketOp, int64_t>> places;
};

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_TILEPLAN_H
