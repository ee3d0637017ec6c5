//===- Reshard.cpp - Lowers reshards to collectives -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reshard.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;
using dist::TensorShardingAttr;

int64_t heddle::spmd::sizeOf(ArrayAttr axes, dist::MeshOp mesh) {
  int64_t size = 1;
  for (auto axis : axes.getAsRange<StringAttr>())
    size *= mesh.getAxisSize(axis);
  return size;
}

RankedTensorType heddle::spmd::localType(RankedTensorType type,
                                         TensorShardingAttr sharding,
                                         dist::MeshOp mesh) {
  SmallVector<int64_t> shape(type.getShape());
  for (auto [extent, axes] :
       llvm::zip(shape, sharding.getDims().getAsRange<ArrayAttr>())) {
    int64_t parts = sizeOf(axes, mesh);
    extent = (extent + parts - 1) / parts;
  }
  return type.clone(shape);
}

namespace {

using Axes = SmallVector<Attribute>;

/// Lowers one reshard to reductions, all-to-alls, all-gathers and slices, in
/// this order.
class Lowering {
public:
  Lowering(dist::ReshardOp reshard, dist::MeshOp mesh)
      : reshard(reshard), mesh(mesh), builder(reshard),
        value(reshard.getInput()) {
    for (auto axes : reshard.getFrom().getDims().getAsRange<ArrayAttr>())
      now.emplace_back(axes.getValue());
    for (auto axes : reshard.getTo().getDims().getAsRange<ArrayAttr>())
      wanted.emplace_back(axes.getValue());
  }

  void run() {
    reduce();
    exchange();
    for (size_t dim = 0; dim < now.size(); ++dim)
      gather(dim);
    for (size_t dim = 0; dim < now.size(); ++dim)
      slice(dim);
    reshard.getOutput().replaceAllUsesWith(value);
    reshard.erase();
  }

private:
  RankedTensorType typeWith(size_t dim, int64_t times, int64_t parts) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = (shape[dim] * times + parts - 1) / parts;
    return type.clone(shape);
  }

  int64_t size(ArrayRef<Attribute> axes) {
    return sizeOf(builder.getArrayAttr(axes), mesh);
  }

  /// Creates a collective with the reshard's reason, wire format and segments.
  template <typename OpT, typename... Dims>
  void create(RankedTensorType type, ArrayRef<Attribute> axes, Dims... dims) {
    value = builder.create<OpT>(reshard.getLoc(), type, value,
                                builder.getArrayAttr(axes), dims...,
                                reshard.getReasonAttr(), reshard.getWireAttr(),
                                segmentsIn(type), UnitAttr());
  }

  /// Returns the sizes of the segments of the last dimension, for a collective
  /// that makes a value of `type`. If other mesh axes have split the dimension
  /// already, these segments are smaller than those of the reshard.
  DenseI64ArrayAttr segmentsIn(RankedTensorType type) {
    auto whole = reshard.getSegments();
    if (!whole || type.getRank() == 0)
      return {};
    int64_t sum = 0;
    for (int64_t extent : *whole)
      sum += extent;
    auto now = cast<RankedTensorType>(value.getType());
    int64_t here = std::max(type.getShape().back(), now.getShape().back());
    SmallVector<int64_t> segments;
    for (int64_t extent : *whole)
      segments.push_back(extent * here / sum);
    return builder.getDenseI64ArrayAttr(segments);
  }

  void reduce() {
    Axes sums;
    for (Attribute axis : reshard.getFrom().getUnreduced())
      if (!llvm::is_contained(reshard.getTo().getUnreduced(), axis))
        sums.push_back(axis);
    // If the tensor is a partial sum over a mesh axis that splits a dimension
    // of the result, a reduce-scatter along that dimension sums and splits at
    // once.
    for (auto [dim, axes] : llvm::enumerate(wanted)) {
      Axes scattered;
      for (Attribute axis : axes)
        if (llvm::is_contained(sums, axis))
          scattered.push_back(axis);
      Axes after = now[dim];
      after.append(scattered);
      if (scattered.empty() || after != axes)
        continue;
      llvm::erase_if(sums, [&](Attribute axis) {
        return llvm::is_contained(scattered, axis);
      });
      create<dist::ReduceScatterOp>(typeWith(dim, 1, size(scattered)),
                                    scattered, builder.getI64IntegerAttr(dim));
      now[dim] = after;
    }
    if (!sums.empty())
      create<dist::AllReduceOp>(cast<RankedTensorType>(value.getType()), sums);
  }

  /// Moves mesh axes from one dimension of the tensor to another by
  /// all-to-alls. An axis moves from dimension a to dimension b if two
  /// conditions hold: it is the innermost of the axes that split a, and it is
  /// the only axis that is still missing in the split of b.
  void exchange() {
    for (size_t from = 0; from < now.size(); ++from)
      for (size_t to = 0; to < now.size(); ++to) {
        if (from == to || now[from].empty() || now[from] == wanted[from])
          continue;
        Attribute axis = now[from].back();
        Axes after = now[to];
        after.push_back(axis);
        if (after != wanted[to])
          continue;
        int64_t parts = size(axis);
        auto type = typeWith(from, parts, 1);
        SmallVector<int64_t> shape(type.getShape());
        shape[to] /= parts;
        create<dist::AllToAllOp>(type.clone(shape), axis,
                                 builder.getI64IntegerAttr(to),
                                 builder.getI64IntegerAttr(from));
        now[from].pop_back();
        now[to] = after;
      }
  }

  void gather(size_t dim) {
    size_t common = 0;
    while (common < now[dim].size() && common < wanted[dim].size() &&
           now[dim][common] == wanted[dim][common])
      ++common;
    if (common == now[dim].size())
      return;
    Axes gone(ArrayRef<Attribute>(now[dim]).drop_front(common));
    create<dist::AllGatherOp>(typeWith(dim, size(gone), 1), gone,
                              builder.getI64IntegerAttr(dim));
    now[dim].truncate(common);
  }

  /// Takes this rank's slice of dimension `dim`. A slice of the first dimension
  /// is contiguous and needs no copy; other slices do.
  void slice(size_t dim) {
    Axes coming(ArrayRef<Attribute>(wanted[dim]).drop_front(now[dim].size()));
    if (coming.empty())
      return;
    RankedTensorType type = typeWith(dim, 1, size(coming));
    auto shape = type.getShape();
    DenseI64ArrayAttr segments = segmentsIn(type);
    bool inPieces =
        llvm::any_of(shape.take_front(dim), [](int64_t d) { return d != 1; });
    if (!inPieces && !segments)
      return create<dist::SliceOp>(type, coming,
                                   builder.getI64IntegerAttr(dim));
    int64_t extent = cast<RankedTensorType>(value.getType()).getDimSize(dim);
    Location loc = reshard.getLoc();
    Value rank = builder.create<dist::RankOp>(loc, builder.getIndexType(),
                                              builder.getArrayAttr(coming));
    SmallVector<Value> parts;
    int64_t offset = 0;
    for (int64_t segment :
         segments ? segments.asArrayRef() : ArrayRef(extent)) {
      SmallVector<int64_t> own(shape);
      own[dim] = (segment + size(coming) - 1) / size(coming);
      Value count = builder.create<arith::ConstantIndexOp>(loc, own[dim]);
      Value first = builder.create<arith::MulIOp>(loc, rank, count);
      parts.push_back(builder.create<nn::SliceOp>(
          loc, type.clone(own), value, first, dim, offset, ArrayAttr()));
      offset += segment;
    }
    value = parts[0];
    if (parts.size() > 1)
      value = builder.create<nn::ConcatOp>(loc, type, parts, dim, ArrayAttr());
  }

  dist::ReshardOp reshard;
  dist::MeshOp mesh;
  OpBuilder builder;
  Value value;
  /// For each dimension, the mesh axes that split it now (`now`), and the axes
  /// that split it after the reshard (`wanted`).
  SmallVector<Axes> now, wanted;
};

} // namespace

void heddle::spmd::lowerReshard(dist::ReshardOp reshard, dist::MeshOp mesh) {
  Lowering(reshard, mesh).run();
}
