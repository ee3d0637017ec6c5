//===- MapColumns.cpp - Sums over rows ------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps sums over rows, for example the gradient of a bias. A block sums some
// adjacent columns. Adjacent threads have adjacent columns; threads with the
// same column sum every n-th row, and their sums are added in workgroup memory.
// If there are too few columns to fill the chip, several blocks share the rows
// of the same columns, and a second launch adds these blocks' sums. The order
// of all additions depends only on sizes.
//
//===----------------------------------------------------------------------===//

#include "ColumnSums.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
using linalg::GenericOp;
using Tile = ColumnTile;

/// If several blocks share rows, each thread sums at least this many rows.
constexpr int64_t leastRows = 8;
/// With this many blocks, every supported chip is busy.
constexpr int64_t manyBlocks = 512;
/// The most blocks that share the rows of the same columns. The number is
/// limited because the second launch reads the partial sums of all these
/// blocks.
constexpr int64_t maxShares = 64;

class ColumnMapper {
public:
  ColumnMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module)
      : kernel(kernel), module(module) {}

  MappedKernel run();

private:
  bool sumsVectors();
  LogicalResult findReductions();
  LogicalResult emitRows(KernelFrame &f);
  LogicalResult store(KernelFrame &f, Value column, ArrayRef<Value> sums) {
    return storeSums(f, reductions, sums, column, f.allOutputs());
  }
  /// The partial sums of the blocks that share the rows.
  SumParts parts() const {
    return {shares, columns, static_cast<int64_t>(reductions.size())};
  }
  LogicalResult fail(const Twine &why);

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  SmallVector<GenericOp> reductions;
  SmallVector<int64_t> rowDims;
  int64_t rows = 1, columns = 0, shares = 1;
  MappedKernel mapped;
};
} // namespace

LogicalResult ColumnMapper::fail(const Twine &why) {
  mapped.reason = why.str();
  return failure();
}

/// Whether all sums are over a single row. Such sums are mapped as element-wise
/// additions.
bool ColumnMapper::sumsVectors() {
  auto generics = kernel.getBody().front().getOps<GenericOp>();
  return llvm::all_of(generics, [](GenericOp op) {
    return op.getNumReductionLoops() == 0 &&
           llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) {
             return map.isIdentity() || map.getNumResults() == 0;
           });
  });
}

LogicalResult ColumnMapper::findReductions() {
  for (auto op : kernel.getBody().front().getOps<GenericOp>()) {
    if (!op.getNumReductionLoops())
      continue;
    SmallVector<int64_t> loops = op.getStaticLoopRanges();
    unsigned last = op.getNumLoops() - 1;
    Operation *sum =
        op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
    if (op.getNumReductionLoops() != last ||
        op.getIteratorTypesArray()[last] != utils::IteratorType::parallel ||
        !isa_and_nonnull<arith::AddFOp>(sum) ||
        !getElementTypeOrSelf(op.getResult(0)).isF32())
      return fail("a reduction to something other than sums over rows in f32");
    ArrayRef<int64_t> dims = ArrayRef(loops).drop_back();
    if (!reductions.empty() &&
        (columns != loops[last] || dims != ArrayRef(rowDims)))
      return fail("sums over rows of different shapes");
    columns = loops[last];
    rowDims.assign(dims.begin(), dims.end());
    reductions.push_back(op);
  }
  if (reductions.empty())
    return fail("no sum over rows");
  for (int64_t dim : rowDims)
    rows *= dim;
  for (Value value : kernel.getBody().front().getTerminator()->getOperands())
    if (cast<RankedTensorType>(value.getType()).getShape() != ArrayRef(columns))
      return fail("a result that is no sum over rows");
  return success();
}

/// Sums the rows that this block adds, and writes the results or partial sums.
LogicalResult ColumnMapper::emitRows(KernelFrame &f) {
  OpBuilder &b = f.builder;
  Tile tile(columns, widestChunk(kernel, columns));
  Value share = f.blockId(mlir::gpu::Dimension::y);
  Value begin = f.constant(0), end = f.constant(rows);
  if (shares > 1) {
    int64_t count = llvm::divideCeil(rows, shares);
    begin = f.mul(share, count);
    end = b.create<arith::MinUIOp>(f.loc, f.add(begin, count), end);
  }
  auto terms = [&](Value row, const Chunk &chunk,
                   ValueRange running) -> FailureOr<SmallVector<Value>> {
    SmallVector<Value> indices = f.delinearize(row, rowDims), next;
    indices.push_back({});
    for (auto [i, op] : llvm::enumerate(reductions))
      for (auto [j, column] : llvm::enumerate(chunk.columns)) {
        indices.back() = column;
        auto sum = f.emitter.payload(op, indices, running[i * tile.width + j]);
        if (failed(sum))
          return failure();
        next.push_back(sum->front());
      }
    return next;
  };
  return sumColumns(f, tile, {f.blockId(mlir::gpu::Dimension::x), begin, end},
                    reductions.size(), terms,
                    [&](Value column, ArrayRef<Value> sums) -> LogicalResult {
                      if (shares == 1)
                        return store(f, column, sums);
                      for (auto [i, sum] : llvm::enumerate(sums))
                        f.store(sum,
                                parts().of(f, static_cast<int64_t>(i), columns),
                                {share, column});
                      return success();
                    });
}

MappedKernel ColumnMapper::run() {
  if (sumsVectors())
    return mapFlat(kernel, module);
  if (failed(findReductions()))
    return MappedKernel::no(mapped.reason);
  Tile tile(columns, widestChunk(kernel, columns));
  shares = std::clamp<int64_t>(
      std::min(rows / (tile.below * leastRows), manyBlocks / tile.blocks), 1,
      maxShares);
  mapped.scratchBytes = shares == 1 ? 0 : parts().scratchBytes();
  if (failed(addLaunch(mapped, kernel, module, FrameOptions(),
                       {tile.blocks, shares}, Tile::threads,
                       [&](KernelFrame &f) { return emitRows(f); })) ||
      (shares > 1 && failed(addSumOfParts(mapped, kernel, module, parts(),
                                          [&](KernelFrame &f, Value column,
                                              ArrayRef<Value> sums) {
                                            return store(f, column, sums);
                                          }))))
    return MappedKernel::no(mapped.reason);
  return mapped;
}

MappedKernel mapColumns(planir::KernelOp kernel,
                        mlir::gpu::GPUModuleOp module) {
  return ColumnMapper(kernel, module).run();
}

} // namespace heddle::gpu
