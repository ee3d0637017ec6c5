//===- MapSegments.cpp - Sums and factors of segments ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps nn.segment_sums, which sums the squares of each segment of a flat
// tensor, nn.segment_maxima, which finds the largest element of each segment in
// each of several ranges, and nn.scale_segments, which multiplies each segment
// by a factor. A segment is the range of one tensor in its bucket. A kernel may
// handle only a range of the flat tensor. Segments begin and end at multiples
// of 64 elements. Offsets are counted in such units of 64 elements, so that
// they fit 32 bits. A constant table holds the unit at which each segment
// begins. Sums take two launches: in the first, one block sums each piece of a
// segment; in the second, one warp adds the sums of a segment's pieces. Maxima
// are found in the same way.
//
//===----------------------------------------------------------------------===//

#include "BlockReduce.h"
#include "ConstantTable.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <limits>

using namespace mlir;

namespace heddle::gpu {

namespace {
constexpr int64_t unit = 64;
constexpr int64_t threads = 256;
/// The length of a piece of a segment in units of 64 elements. One block sums a
/// piece.
constexpr int64_t pieceUnits = 1024;
/// The number of accesses to the flat tensor that each thread makes to scale
/// it.
constexpr int64_t accessesToScale = 16;

class SegmentMapper {
public:
  /// `sizes` are the elements of the segments with their padding.
  SegmentMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                ArrayRef<int64_t> sizes, Value input, Value first)
      : kernel(kernel), module(module), input(input), first(first),
        length(cast<RankedTensorType>(input.getType()).getNumElements()),
        width(widestChunk(kernel)) {
    begins.push_back(0);
    pieces.push_back(0);
    for (int64_t size : sizes) {
      begins.push_back(begins.back() + static_cast<int32_t>(size / unit));
      pieces.push_back(pieces.back() + static_cast<int32_t>(llvm::divideCeil(
                                           size, unit * pieceUnits)));
    }
  }

  MappedKernel mapSums();
  MappedKernel mapMaxima(nn::SegmentMaximaOp op);
  MappedKernel mapScaled(Value factors);

private:
  using Stage = llvm::function_ref<LogicalResult(KernelFrame &)>;

  LogicalResult emitPieces(KernelFrame &f);
  LogicalResult emitSums(KernelFrame &f);
  LogicalResult emitMaximaOfPieces(KernelFrame &f, nn::SegmentMaximaOp op);
  LogicalResult emitMaxima(KernelFrame &f, nn::SegmentMaximaOp op);
  LogicalResult emitScaled(KernelFrame &f, Value factors);
  LogicalResult launch(StringRef suffix, int64_t blocks, int64_t blockThreads,
                       Stage body);

  ConstantTable table(KernelFrame &f, StringRef name,
                      ArrayRef<int32_t> numbers) {
    return {f, (kernel.getSymName() + "_" + name).str(), numbers};
  }
  /// The kernel's range of the flat tensor begins at the beginning of a unit
  /// (64 elements). Returns the index of this unit in the whole tensor.
  Value firstUnit(KernelFrame &f);
  /// The flat tensor is divided into units of 64 elements. Returns the index,
  /// counted in elements of the kernel's range, of the first element of unit
  /// `place` of the whole tensor. If the unit is outside of the range, returns
  /// the nearest end of the range.
  Value inRun(KernelFrame &f, Value place);
  /// The first element of the unit `place` of the whole tensor, counted from
  /// the beginning of the kernel's range, which may be after it.
  Value elementOf(KernelFrame &f, Value place) {
    place = f.builder.create<arith::SubIOp>(f.loc, place, firstUnit(f));
    return f.mul(f.builder.create<arith::IndexCastOp>(
                     f.loc, f.builder.getIndexType(), place),
                 unit);
  }
  Value pieceMaxima(KernelFrame &f, int64_t rows) {
    return f.scratch(0, {rows * pieces.back()}, f.builder.getF32Type());
  }
  static Value larger(KernelFrame &f, Value x, Value y) {
    return f.builder.create<arith::MaximumFOp>(f.loc, x, y);
  }
  static Value least(KernelFrame &f) {
    return f.builder.create<arith::ConstantOp>(
        f.loc,
        f.builder.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
  }
  Value pieceSums(KernelFrame &f) {
    return f.scratch(0, {pieces.back()}, f.builder.getF64Type());
  }
  Value integer(KernelFrame &f, int64_t value) {
    return f.builder.create<arith::ConstantIntOp>(f.loc, value, 32);
  }
  int64_t count() const { return static_cast<int64_t>(begins.size()) - 1; }

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  Value input, first;
  int64_t length, width;
  /// For each segment, the index of its first unit of 64 elements (`begins`)
  /// and the index of its first piece (`pieces`). One block sums a piece. The
  /// last entry of each is the total number of units or of pieces.
  SmallVector<int32_t> begins, pieces;
  MappedKernel mapped;
};
} // namespace

Value SegmentMapper::firstUnit(KernelFrame &f) {
  if (!first)
    return integer(f, 0);
  OpBuilder &b = f.builder;
  Value units =
      b.create<arith::DivUIOp>(f.loc, f.argumentScalar(first),
                               b.create<arith::ConstantIntOp>(f.loc, unit, 64));
  return b.create<arith::TruncIOp>(f.loc, b.getI32Type(), units);
}

Value SegmentMapper::inRun(KernelFrame &f, Value place) {
  OpBuilder &b = f.builder;
  place = b.create<arith::SubIOp>(f.loc, place, firstUnit(f));
  place = b.create<arith::MaxSIOp>(f.loc, place, integer(f, 0));
  place = b.create<arith::MinSIOp>(f.loc, place, integer(f, length / unit));
  return f.mul(b.create<arith::IndexCastOp>(f.loc, b.getIndexType(), place),
               unit);
}

/// Sums the squares of the elements of one piece (a part of a segment). Only
/// the elements in the kernel's range of the flat tensor are added.
LogicalResult SegmentMapper::emitPieces(KernelFrame &f) {
  OpBuilder &b = f.builder;
  Type i32 = b.getI32Type();
  Value slots = f.addWorkgroup({threads / warpSize}, b.getF64Type());
  ConstantTable firstPieces = table(f, "pieces", pieces);
  ConstantTable firstUnits = table(f, "begins", begins);
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value number = b.create<arith::IndexCastOp>(f.loc, i32, block);
  Value segment = firstPieces.search(count(), number);
  Value inSegment =
      b.create<arith::SubIOp>(f.loc, number, firstPieces.at(segment));
  Value begin = b.create<arith::AddIOp>(
      f.loc, firstUnits.at(segment),
      b.create<arith::MulIOp>(f.loc, inSegment, integer(f, pieceUnits)));
  Value end = b.create<arith::MinSIOp>(
      f.loc, b.create<arith::AddIOp>(f.loc, begin, integer(f, pieceUnits)),
      firstUnits.at(f.add(segment, 1)));
  Value zero = b.create<arith::ConstantOp>(f.loc, b.getF64FloatAttr(0));
  FailureOr<SmallVector<Value>> sums = forChunks(
      f, inRun(f, begin), inRun(f, end), /*isWhole=*/true, {width, threads},
      zero, [&](const Chunk &chunk, ValueRange carried) {
        return sumSquares(f, input, chunk, carried[0]);
      });
  if (failed(sums))
    return failure();
  Value total =
      acrossBlock(f, sums->front(), threads, slots,
                  [&](Value x, Value y) { return addFloats(f, x, y); });
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(total, pieceSums(f), block);
  return success();
}

/// Adds the sums that `emitPieces` has computed for the pieces of a segment. A
/// block of one warp does this for each segment.
LogicalResult SegmentMapper::emitSums(KernelFrame &f) {
  OpBuilder &b = f.builder;
  ConstantTable firstPieces = table(f, "pieces", pieces);
  Value sums = pieceSums(f);
  Value segment = f.blockId(mlir::gpu::Dimension::x);
  auto bound = [&](Value of) -> Value {
    return b.create<arith::IndexCastOp>(f.loc, b.getIndexType(),
                                        firstPieces.at(of));
  };
  Value zero = b.create<arith::ConstantOp>(f.loc, b.getF64FloatAttr(0));
  auto total = forChunks(
      f, bound(segment), bound(f.add(segment, 1)), /*isWhole=*/true,
      {1, warpSize}, zero, [&](const Chunk &chunk, ValueRange carried) {
        return FailureOr<SmallVector<Value>>({addFloats(
            f, carried[0],
            b.create<memref::LoadOp>(f.loc, sums, ValueRange(chunk.base)))});
      });
  Value sum = acrossBlock(f, total->front(), warpSize, {},
                          [&](Value x, Value y) { return addFloats(f, x, y); });
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(Value(b.create<arith::TruncFOp>(f.loc, b.getF32Type(), sum)),
          f.outputBuffer(0), segment);
  return success();
}

/// Finds the largest element of one piece of a segment in one of the ranges of
/// the kernel's input. Elements after the tensor do not count.
LogicalResult SegmentMapper::emitMaximaOfPieces(KernelFrame &f,
                                                nn::SegmentMaximaOp op) {
  OpBuilder &b = f.builder;
  int64_t rows = cast<RankedTensorType>(op.getOutput().getType()).getDimSize(0);
  Value slots = f.addWorkgroup({threads / warpSize}, b.getF32Type());
  ConstantTable firstPieces = table(f, "pieces", pieces);
  ConstantTable firstUnits = table(f, "begins", begins);
  ConstantTable counts(f, (kernel.getSymName() + "_counts").str(),
                       ArrayRef<int64_t>(nn::segmentCountsOf(op)));
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value row = f.div(block, pieces.back());
  Value number = b.create<arith::IndexCastOp>(f.loc, b.getI32Type(),
                                              f.rem(block, pieces.back()));
  Value segment = firstPieces.search(count() - 1, number);
  Value inSegment =
      b.create<arith::SubIOp>(f.loc, number, firstPieces.at(segment));
  Value start = elementOf(f, firstUnits.at(segment));
  Value begin = f.add(start, f.mul(b.create<arith::IndexCastOp>(
                                       f.loc, b.getIndexType(), inSegment),
                                   pieceUnits * unit));
  Value last = f.add(start, b.create<arith::IndexCastOp>(
                                f.loc, b.getIndexType(), counts.at(segment)));
  Value end =
      b.create<arith::MinSIOp>(f.loc, f.add(begin, pieceUnits * unit), last);
  Value low = f.mul(row, length / rows), high = f.add(low, length / rows);
  auto inRange = [&](Value x) -> Value {
    return b.create<arith::MinSIOp>(
        f.loc, b.create<arith::MaxSIOp>(f.loc, x, low), high);
  };
  begin = inRange(begin);
  end = b.create<arith::MaxSIOp>(f.loc, inRange(end), begin);
  FailureOr<SmallVector<Value>> largest =
      forChunks(f, begin, end, /*isWhole=*/false, {width, threads}, least(f),
                [&](const Chunk &chunk,
                    ValueRange carried) -> FailureOr<SmallVector<Value>> {
                  Value most = carried[0];
                  for (Value column : chunk.columns) {
                    FailureOr<Value> x = f.emitter.element(input, column);
                    if (failed(x))
                      return failure();
                    most = larger(f, most, *x);
                  }
                  return SmallVector<Value>{most};
                });
  if (failed(largest))
    return failure();
  Value most = acrossBlock(f, largest->front(), threads, slots,
                           [&](Value x, Value y) { return larger(f, x, y); });
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(most, pieceMaxima(f, rows), block);
  return success();
}

/// Finds the largest of what `emitMaximaOfPieces` has found in a segment. A
/// block of one warp does this for each segment of each range.
LogicalResult SegmentMapper::emitMaxima(KernelFrame &f,
                                        nn::SegmentMaximaOp op) {
  OpBuilder &b = f.builder;
  int64_t rows = cast<RankedTensorType>(op.getOutput().getType()).getDimSize(0);
  ConstantTable firstPieces = table(f, "pieces", pieces);
  Value maxima = pieceMaxima(f, rows);
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value row = f.div(block, count()), segment = f.rem(block, count());
  auto bound = [&](Value of) -> Value {
    return f.add(f.mul(row, pieces.back()),
                 b.create<arith::IndexCastOp>(f.loc, b.getIndexType(),
                                              firstPieces.at(of)));
  };
  auto largest = forChunks(
      f, bound(segment), bound(f.add(segment, 1)), /*isWhole=*/true,
      {1, warpSize}, least(f), [&](const Chunk &chunk, ValueRange carried) {
        Value x =
            b.create<memref::LoadOp>(f.loc, maxima, ValueRange(chunk.base));
        return FailureOr<SmallVector<Value>>({larger(f, carried[0], x)});
      });
  Value most = acrossBlock(f, largest->front(), warpSize, {},
                           [&](Value x, Value y) { return larger(f, x, y); });
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(most, f.outputBuffer(0), block);
  return success();
}

/// Scales the elements of the range that this block handles, segment by
/// segment. Elements after the last segment become zero.
LogicalResult SegmentMapper::emitScaled(KernelFrame &f, Value factors) {
  OpBuilder &b = f.builder;
  ConstantTable firstUnits = table(f, "begins", begins);
  int64_t part = threads * width * accessesToScale;
  Value begin = f.mul(f.blockId(mlir::gpu::Dimension::x), part);
  Value end =
      b.create<arith::MinUIOp>(f.loc, f.add(begin, part), f.constant(length));
  auto segmentAt = [&](Value element) {
    Value place = b.create<arith::IndexCastOp>(f.loc, b.getI32Type(),
                                               f.div(element, unit));
    return firstUnits.search(
        count(), b.create<arith::AddIOp>(f.loc, firstUnit(f), place));
  };
  Value afterLast = f.add(segmentAt(f.add(end, -1)), 1);
  auto segments =
      b.create<scf::ForOp>(f.loc, segmentAt(begin), afterLast, f.constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(segments.getBody());
  Value segment = segments.getInductionVar();
  Value exists = f.compare(arith::CmpIPredicate::ult, segment, count());
  Value known =
      b.create<arith::MinUIOp>(f.loc, segment, f.constant(count() - 1));
  FailureOr<Value> factor = f.emitter.element(factors, {known});
  if (failed(factor))
    return failure();
  Value from =
      b.create<arith::MaxSIOp>(f.loc, begin, inRun(f, firstUnits.at(segment)));
  Value to = b.create<arith::MinSIOp>(f.loc, end,
                                      inRun(f, firstUnits.at(f.add(known, 1))));
  to = b.create<arith::SelectOp>(f.loc, exists, to, end);
  Value zero = b.create<arith::ConstantOp>(f.loc, b.getF32FloatAttr(0));
  return forChunks(
      f, from, to, /*isWhole=*/true, {width, threads}, {},
      [&](const Chunk &chunk, ValueRange) -> FailureOr<SmallVector<Value>> {
        SmallVector<Value> scaled;
        for (Value column : chunk.columns) {
          FailureOr<Value> x = f.emitter.element(input, column);
          if (failed(x))
            return failure();
          Value product = b.create<arith::MulFOp>(f.loc, *x, *factor);
          scaled.push_back(
              b.create<arith::SelectOp>(f.loc, exists, product, zero));
        }
        f.store(scaled, f.outputBuffer(0), chunk.base);
        return SmallVector<Value>();
      });
}

LogicalResult SegmentMapper::launch(StringRef suffix, int64_t blocks,
                                    int64_t blockThreads, Stage body) {
  FrameOptions options;
  options.flat = true;
  options.suffix = suffix.str();
  return addLaunch(mapped, kernel, module, options, {blocks}, blockThreads,
                   body);
}

MappedKernel SegmentMapper::mapSums() {
  mapped.scratchBytes = pieces.back() * static_cast<int64_t>(sizeof(double));
  if (failed(launch("", pieces.back(), threads,
                    [&](KernelFrame &f) { return emitPieces(f); })) ||
      failed(launch("_sum", count(), warpSize,
                    [&](KernelFrame &f) { return emitSums(f); })))
    return MappedKernel::no(mapped.reason);
  return mapped;
}

MappedKernel SegmentMapper::mapMaxima(nn::SegmentMaximaOp op) {
  int64_t rows = cast<RankedTensorType>(op.getOutput().getType()).getDimSize(0);
  mapped.scratchBytes =
      rows * pieces.back() * static_cast<int64_t>(sizeof(float));
  if (failed(
          launch("", rows * pieces.back(), threads,
                 [&](KernelFrame &f) { return emitMaximaOfPieces(f, op); })) ||
      failed(launch("_max", rows * count(), warpSize,
                    [&](KernelFrame &f) { return emitMaxima(f, op); })))
    return MappedKernel::no(mapped.reason);
  return mapped;
}

MappedKernel SegmentMapper::mapScaled(Value factors) {
  int64_t part = threads * width * accessesToScale;
  if (failed(launch("", llvm::divideCeil(length, part), threads,
                    [&](KernelFrame &f) { return emitScaled(f, factors); })))
    return MappedKernel::no(mapped.reason);
  return mapped;
}

MappedKernel mapSegments(planir::KernelOp kernel,
                         mlir::gpu::GPUModuleOp module) {
  Operation *op = &kernel.getBody().front().front();
  if (auto sums = dyn_cast<nn::SegmentSumsOp>(op))
    return SegmentMapper(kernel, module, nn::segmentsOf(op), sums.getInput(),
                         sums.getFirst())
        .mapSums();
  if (auto scaled = dyn_cast<nn::ScaleSegmentsOp>(op))
    return SegmentMapper(kernel, module, nn::segmentsOf(op), scaled.getInput(),
                         scaled.getFirst())
        .mapScaled(scaled.getFactors());
  if (auto maxima = dyn_cast<nn::SegmentMaximaOp>(op)) {
    SmallVector<int64_t> sizes = nn::segmentCountsOf(op);
    for (int64_t &size : sizes)
      size = nn::paddedElements(size);
    return SegmentMapper(kernel, module, sizes, maxima.getInput(),
                         maxima.getFirst())
        .mapMaxima(maxima);
  }
  return mapGroups(kernel, module);
}

} // namespace heddle::gpu
