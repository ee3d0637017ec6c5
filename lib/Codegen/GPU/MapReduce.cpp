//===- MapReduce.cpp - Sums of all elements -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps sums of all elements of a tensor, in f64. One block computes a short
// sum. A long sum takes two launches: each block of the first launch sums a
// part of the tensor, and the second launch adds these partial sums. The size
// of a part depends only on the size of the tensor, so that results do not
// depend on the chip.
//
//===----------------------------------------------------------------------===//

#include "BlockReduce.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
using linalg::GenericOp;

constexpr int64_t threads = 256;
/// If several blocks share a sum, each block sums at least this many elements.
constexpr int64_t leastPart = 8192;
/// The most parts into which a sum is divided. Each thread of the second launch
/// then reads one or two partial sums.
constexpr int64_t maxParts = 512;

class ReduceMapper {
public:
  ReduceMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module)
      : kernel(kernel), module(module), width(widestChunk(kernel)) {}

  MappedKernel run();

private:
  LogicalResult findReductions();
  /// Returns the sum of the terms of `op` over this block's part of the tensor,
  /// which is divided into `parts` parts.
  FailureOr<Value> sumTerms(KernelFrame &f, GenericOp op, Value slots);
  LogicalResult emitParts(KernelFrame &f);
  LogicalResult emitAll(KernelFrame &f);
  LogicalResult emitSumOfParts(KernelFrame &f);
  /// Computes the results of the kernel from the finished sums `sums`. The
  /// first thread stores them.
  LogicalResult emitResults(KernelFrame &f, ArrayRef<Value> sums);
  SmallVector<Value> addSlots(KernelFrame &f);
  /// The scratch memory that holds the partial sums of one reduction between
  /// the two launches.
  Value partsOf(KernelFrame &f, size_t reduction) {
    int64_t bytes = parts * static_cast<int64_t>(sizeof(double));
    return f.scratch(static_cast<int64_t>(reduction) * bytes, {parts},
                     f.builder.getF64Type());
  }
  int64_t scratchBytes() {
    return parts == 1 ? 0 : reductions.size() * parts * sizeof(double);
  }
  LogicalResult fail(const Twine &why);
  int64_t sizeOf(GenericOp op) {
    int64_t size = 1;
    for (int64_t extent : op.getStaticLoopRanges())
      size *= extent;
    return size;
  }

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  int64_t width, parts = 1;
  SmallVector<GenericOp> reductions;
  MappedKernel mapped;
};
} // namespace

LogicalResult ReduceMapper::fail(const Twine &why) {
  mapped.reason = why.str();
  return failure();
}

LogicalResult ReduceMapper::findReductions() {
  int64_t largest = 0;
  for (auto op : kernel.getBody().front().getOps<GenericOp>()) {
    if (!op.getNumReductionLoops())
      continue;
    auto sum = op.getBody()
                   ->getTerminator()
                   ->getOperand(0)
                   .getDefiningOp<arith::AddFOp>();
    if (op.getNumParallelLoops() || !sum ||
        !getElementTypeOrSelf(op.getResult(0)).isF64())
      return fail("a reduction to something other than a sum in f64");
    reductions.push_back(op);
    largest = std::max(largest, sizeOf(op));
  }
  parts =
      std::clamp<int64_t>(llvm::divideCeil(largest, leastPart), 1, maxParts);
  return success();
}

/// Allocates workgroup memory for each sum, with one element for each warp.
SmallVector<Value> ReduceMapper::addSlots(KernelFrame &f) {
  SmallVector<Value> slots;
  for (size_t i = 0; i < reductions.size(); ++i)
    slots.push_back(
        f.addWorkgroup({threads / warpSize}, f.builder.getF64Type()));
  return slots;
}

FailureOr<Value> ReduceMapper::sumTerms(KernelFrame &f, GenericOp op,
                                        Value slots) {
  OpBuilder &b = f.builder;
  int64_t size = sizeOf(op);
  int64_t part = llvm::alignTo(llvm::divideCeil(size, parts), threads * width);
  Value begin = f.constant(0), end = f.constant(size);
  if (parts > 1) {
    Value block = f.blockId(mlir::gpu::Dimension::x);
    begin = b.create<arith::MinUIOp>(f.loc, f.mul(block, part), end);
    end = b.create<arith::MinUIOp>(f.loc, f.mul(f.add(block, 1), part), end);
  }
  Value zero = b.create<arith::ConstantOp>(f.loc, b.getF64FloatAttr(0));
  FailureOr<SmallVector<Value>> sums =
      forChunks(f, begin, end, size % width == 0, {width, threads}, zero,
                [&](const Chunk &chunk,
                    ValueRange carried) -> FailureOr<SmallVector<Value>> {
                  SmallVector<Value> running(carried);
                  for (Value element : chunk.columns) {
                    auto next = f.emitter.payload(op, element, running);
                    if (failed(next))
                      return failure();
                    running = *next;
                  }
                  return running;
                });
  if (failed(sums))
    return failure();
  return acrossBlock(f, sums->front(), threads, slots,
                     [&](Value x, Value y) { return addFloats(f, x, y); });
}

LogicalResult ReduceMapper::emitResults(KernelFrame &f, ArrayRef<Value> sums) {
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  return storeSums(f, reductions, sums, {}, f.allOutputs());
}

LogicalResult ReduceMapper::emitAll(KernelFrame &f) {
  SmallVector<Value> slots = addSlots(f), sums;
  for (auto [op, slot] : llvm::zip(reductions, slots)) {
    FailureOr<Value> sum = sumTerms(f, op, slot);
    if (failed(sum))
      return failure();
    sums.push_back(*sum);
  }
  return emitResults(f, sums);
}

LogicalResult ReduceMapper::emitParts(KernelFrame &f) {
  SmallVector<Value> slots = addSlots(f);
  Value isFirst = f.compare(arith::CmpIPredicate::eq, f.threadId(), 0);
  Value block = f.blockId(mlir::gpu::Dimension::x);
  for (auto [number, op] : llvm::enumerate(reductions)) {
    FailureOr<Value> sum = sumTerms(f, op, slots[number]);
    if (failed(sum))
      return failure();
    InsideIf once(f, isFirst);
    f.store(*sum, partsOf(f, number), block);
  }
  return success();
}

LogicalResult ReduceMapper::emitSumOfParts(KernelFrame &f) {
  OpBuilder &b = f.builder;
  SmallVector<Value> slots = addSlots(f), sums;
  Value zero = b.create<arith::ConstantOp>(f.loc, b.getF64FloatAttr(0));
  for (auto [number, slot] : llvm::enumerate(slots)) {
    Value buffer = partsOf(f, number);
    auto sum = forChunks(
        f, f.constant(0), f.constant(parts), /*isWhole=*/true, {1, threads},
        zero, [&](const Chunk &chunk, ValueRange carried) {
          Value part =
              b.create<memref::LoadOp>(f.loc, buffer, ValueRange(chunk.base));
          return FailureOr<SmallVector<Value>>(
              {addFloats(f, carried[0], part)});
        });
    sums.push_back(
        acrossBlock(f, sum->front(), threads, slot,
                    [&](Value x, Value y) { return addFloats(f, x, y); }));
  }
  return emitResults(f, sums);
}

MappedKernel ReduceMapper::run() {
  if (failed(findReductions()))
    return MappedKernel::no(mapped.reason);
  mapped.scratchBytes = scratchBytes();
  FrameOptions first, second;
  first.flat = second.flat = true;
  second.suffix = "_sum";
  auto emit = [&](KernelFrame &f) {
    return parts == 1 ? emitAll(f) : emitParts(f);
  };
  if (failed(
          addLaunch(mapped, kernel, module, first, {parts}, threads, emit)) ||
      (parts > 1 &&
       failed(addLaunch(mapped, kernel, module, second, {1}, threads,
                        [&](KernelFrame &f) { return emitSumOfParts(f); }))))
    return MappedKernel::no(mapped.reason);
  return mapped;
}

MappedKernel mapReduce(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module) {
  return ReduceMapper(kernel, module).run();
}

//===----------------------------------------------------------------------===//
// Block sums of squares
//===----------------------------------------------------------------------===//

/// Maps a kernel that divides a tensor into blocks of elements and sums the
/// squares in each. One block of threads computes each sum.
MappedKernel mapBlockSums(planir::KernelOp kernel,
                          mlir::gpu::GPUModuleOp module) {
  auto op = dyn_cast<nn::SquareSumsOp>(kernel.getBody().front().front());
  if (!op)
    return MappedKernel::no("sums of something other than squares");
  constexpr int64_t blockSize = nn::SquareSumsOp::blockSize;
  int64_t size =
      cast<RankedTensorType>(op.getInput().getType()).getNumElements();
  int64_t width = widestChunk(kernel),
          blocks = llvm::divideCeil(size, blockSize);
  FrameOptions options;
  options.flat = true;
  KernelFrame f(kernel, module, options);
  OpBuilder &b = f.builder;
  Value slots = f.addWorkgroup({threads / warpSize}, b.getF64Type());
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value begin = f.mul(block, blockSize);
  Value end = b.create<arith::MinUIOp>(f.loc, f.add(begin, blockSize),
                                       f.constant(size));
  Value zero = b.create<arith::ConstantOp>(f.loc, b.getF64FloatAttr(0));
  FailureOr<SmallVector<Value>> sums =
      forChunks(f, begin, end, size % width == 0, {width, threads}, zero,
                [&](const Chunk &chunk, ValueRange carried) {
                  return sumSquares(f, op.getInput(), chunk, carried[0]);
                });
  if (failed(sums))
    return MappedKernel::no(f.emitter.reason());
  Value total =
      acrossBlock(f, sums->front(), threads, slots,
                  [&](Value x, Value y) { return addFloats(f, x, y); });
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(Value(b.create<arith::TruncFOp>(f.loc, b.getF32Type(), total)),
          f.outputBuffer(0), block);
  f.finish({blocks}, threads);
  return {{f.launch()}, 0, ""};
}

} // namespace heddle::gpu
