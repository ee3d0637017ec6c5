//===- TilePlan.h - Which products of a layer have tiles --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_TILEPLAN_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_TILEPLAN_H

#include "FetchRanges.h"
#include "heddle/Transforms/Common/TiledWeights.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::spmd {

/// Rows `first` and following of every rank's part of a weight.
struct RowTile {
  int64_t first, rows;
};

/// A weight in tiles, or the gradient of one.
struct Tiling {
  mlir::RankedTensorType type; ///< Of all that a rank computes with.
  int64_t ranks = 1;           ///< Among which it is split.
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

/// A weight that a layer is called with.
struct Weight : Tiling {
  std::string parameter;
  nn::BucketOp bucket;
  int64_t first = 0;        ///< Its first element in the flat state.
  dist::AllGatherOp gather; ///< Null: the rank has all of it.
  bool isOffloaded = false; ///< Not in the device's memory: it is fetched.
};

/// A gradient that is scattered: the product's result is what is summed.
struct Gradient : Tiling {
  nn::PackOp pack;
  dist::ReduceScatterOp scatter;
};

/// A layer's products, as they are computed for one of its instances.
struct TilePlan {
  llvm::MapVector<mlir::Operation *, Weight> weights;
  llvm::MapVector<mlir::Operation *, Gradient> gradients;
};

/// Finds the weights with tiles of one model's layers.
class TilePlanner {
public:
  TilePlanner(nn::ModelOp model, const TiledWeights &tiled,
              const mlir::SymbolTable &symbols);

  /// What of a layer's instance is computed by tiles. Emits H0149 where ranks
  /// cannot gather equal tiles.
  mlir::FailureOr<TilePlan> planOf(nn::CallOp call);
  /// The same for a product outside of layers, as of the head.
  mlir::FailureOr<TilePlan> planOf(mlir::Operation *product);

  /// Names of the weights of products: of those with tiles, and of all.
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
  /// The flat state that a state is in, and its first element there.
  llvm::StringMap<std::pair<nn::BucketOp, int64_t>> places;
};

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_TILEPLAN_H
