//===- MapRows.cpp - Rows to blocks, the last dimension to threads --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two forms. Flat: nothing but equal shapes and scalars, so the tensors are one
// long vector. By rows: a block takes a row, runs the reductions one after
// another (registers, shuffles within a warp, workgroup memory between warps),
// then the results. Inputs are read again for each reduction: a row fits the
// first-level cache.
//
//===----------------------------------------------------------------------===//

#include "BlockReduce.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// Threads of a block at most: enough to hide latency, few enough that a
/// reduction crosses eight warps.
constexpr int64_t maxThreads = 256;
/// Blocks at most: more than any chip holds at once; the rest is grid-stride.
constexpr int64_t maxBlocks = 4096;

/// A reduction over the last dimension.
struct Reduction {
  linalg::GenericOp op;
  Operation *combiner;
  TypedAttr neutral;
};

class RowMapper {
public:
  RowMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module)
      : kernel(kernel), body(kernel.getBody().front()), module(module) {}

  MappedKernel run();

private:
  bool isFlat();
  LogicalResult findReductions();
  LogicalResult findShape();
  LogicalResult emitFlat();
  LogicalResult emitRows();
  LogicalResult emitRow(Value row);
  LogicalResult emitReduction(const Reduction &reduction, unsigned slot);
  FailureOr<Value> partial(const Reduction &reduction);
  Value combine(const Reduction &reduction, Value a, Value b);
  Value combineElements(const Reduction &reduction, Value terms);
  LogicalResult checkTies();
  bool isRowResult(unsigned i);
  FailureOr<SmallVector<Value>> rowResults();
  LogicalResult emitResults();
  LogicalResult emitElements(Chunk chunk, ArrayRef<Value> leading);
  /// A loop over the columns of this thread, by chunks.
  scf::ForOp columnLoop(ValueRange inits);
  LogicalResult fail(const Twine &why);

  planir::KernelOp kernel;
  Block &body;
  mlir::gpu::GPUModuleOp module;
  std::unique_ptr<KernelFrame> frame;
  SmallVector<Reduction> reductions;
  SmallVector<int64_t> shape; ///< Of the whole; the last one are columns.
  int64_t width = 1;
  int64_t threads = 0;
  SmallVector<Value> slots; ///< Workgroup memory of each reduction.
  SmallVector<Value> rowIndices;
  Value thread;
  std::string reason;
};
} // namespace

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

LogicalResult RowMapper::fail(const Twine &why) {
  if (reason.empty())
    reason = why.str();
  return failure();
}

/// Whether every tensor can be walked by one index.
bool RowMapper::isFlat() {
  for (Operation &op : body.without_terminator()) {
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic)
      continue;
    if (generic.getNumReductionLoops())
      return false;
    for (AffineMap map : generic.getIndexingMapsArray())
      if (!map.isIdentity() && map.getNumResults())
        return false;
    auto found = generic.getBody()->walk([](Operation *inner) {
      auto extract = dyn_cast<tensor::ExtractOp>(inner);
      bool needsIndices = isa<linalg::IndexOp>(inner) ||
                          (extract && extract.getIndices().size() > 1);
      return needsIndices ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (found.wasInterrupted())
      return false;
  }
  Operation *yield = body.getTerminator();
  return llvm::all_of(yield->getOperands(), [&](Value value) {
    return tensorOf(value).getShape() ==
           tensorOf(yield->getOperand(0)).getShape();
  });
}

LogicalResult RowMapper::findReductions() {
  for (Operation &op : body.without_terminator()) {
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic || !generic.getNumReductionLoops())
      continue;
    unsigned rank = generic.getNumLoops();
    auto rows = AffineMap::getMultiDimIdentityMap(rank, op.getContext())
                    .getMajorSubMap(rank - 1);
    if (generic.getNumReductionLoops() != 1 || generic.getNumResults() != 1 ||
        generic.getIndexingMapMatchingResult(generic->getResult(0)) != rows)
      return fail("a reduction that is not over the last dimension");
    if (!tensorOf(generic.getResult(0)).getElementType().isF32())
      return fail("a reduction that is not in f32");
    Operation *combiner =
        generic.getBody()->getTerminator()->getOperand(0).getDefiningOp();
    Value running = generic.getRegionOutputArgs()[0];
    std::optional<TypedAttr> neutral;
    if (combiner && combiner->getNumOperands() == 2 && running.hasOneUse() &&
        llvm::is_contained(combiner->getOperands(), running))
      neutral = arith::getNeutralElement(combiner);
    if (!neutral)
      return fail("a reduction whose combination is not known");
    reductions.push_back({generic, combiner, *neutral});
  }
  return success();
}

LogicalResult RowMapper::findShape() {
  Operation *yield = body.getTerminator();
  if (yield->getNumOperands() == 0)
    return fail("no results");
  auto consider = [&](ArrayRef<int64_t> candidate) {
    if (candidate.size() > shape.size())
      shape.assign(candidate.begin(), candidate.end());
  };
  for (Reduction &reduction : reductions)
    consider(reduction.op.getStaticLoopRanges());
  for (Value value : yield->getOperands())
    consider(tensorOf(value).getShape());
  ArrayRef<int64_t> full = shape;
  for (Reduction &reduction : reductions)
    if (full != ArrayRef<int64_t>(reduction.op.getStaticLoopRanges()))
      return fail("reductions of different shapes");
  for (Value value : yield->getOperands()) {
    ArrayRef<int64_t> own = tensorOf(value).getShape();
    if (own != full && (own != full.drop_back() || reductions.empty()))
      return fail("results of different shapes");
  }
  return success();
}

/// Threads do not wait for each other between elements: none may read what
/// another one overwrites.
LogicalResult RowMapper::checkTies() {
  auto isTied = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument &&
           llvm::is_contained(kernel.getTies(), argument.getArgNumber());
  };
  for (Operation &op : body.without_terminator()) {
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic ||
        ArrayRef<int64_t>(shape) != tensorOf(op.getResult(0)).getShape())
      continue;
    auto found = generic.getBody()->walk([&](tensor::ExtractOp extract) {
      return isTied(extract.getTensor()) ? WalkResult::interrupt()
                                         : WalkResult::advance();
    });
    if (found.wasInterrupted())
      return fail("a result in place of an argument of which other elements "
                  "are read");
  }
  return success();
}

scf::ForOp RowMapper::columnLoop(ValueRange inits) {
  KernelFrame &f = *frame;
  return f.builder.create<scf::ForOp>(f.loc, f.mul(thread, width),
                                      f.constant(shape.back()),
                                      f.constant(threads * width), inits);
}

//===----------------------------------------------------------------------===//
// Flat
//===----------------------------------------------------------------------===//

LogicalResult RowMapper::emitFlat() {
  int64_t elements =
      tensorOf(body.getTerminator()->getOperand(0)).getNumElements();
  threads = maxThreads;
  // The widest chunk of any size: what it leaves over is done one by one.
  width = widestChunk(kernel);
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  int64_t whole = elements / width * width;
  int64_t blocks = std::clamp<int64_t>(
      llvm::divideCeil(elements, threads * width), 1, maxBlocks);
  Value global =
      f.add(f.mul(f.blockId(mlir::gpu::Dimension::x), threads), thread);
  auto loop =
      b.create<scf::ForOp>(f.loc, f.mul(global, width), f.constant(whole),
                           f.constant(blocks * threads * width));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    if (failed(emitElements(f.chunk(loop.getInductionVar(), width), {})))
      return failure();
  }
  if (whole < elements) {
    auto rest = b.create<scf::IfOp>(
        f.loc, f.compare(arith::CmpIPredicate::ult, global, elements - whole));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rest.thenBlock());
    if (failed(emitElements(f.chunk(f.add(global, whole), 1), {})))
      return failure();
  }
  f.finish({blocks}, threads);
  return success();
}

/// Computes and stores every result of the full shape at the chunk.
LogicalResult RowMapper::emitElements(Chunk chunk, ArrayRef<Value> leading) {
  KernelFrame &f = *frame;
  f.emitter.enterScope(chunk);
  SmallVector<Value> elements(f.numOutputs());
  auto isFull = [&](unsigned i) {
    return shape.empty() ||
           tensorOf(f.yielded(i)).getShape() == ArrayRef<int64_t>(shape);
  };
  // Everything is read before anything is written: results may lie on inputs.
  for (unsigned i = 0; i < f.numOutputs(); ++i) {
    if (!isFull(i))
      continue;
    FailureOr<Value> value = f.emitter.elements(f.yielded(i), leading);
    if (failed(value))
      return fail(f.emitter.reason());
    elements[i] = *value;
  }
  SmallVector<Value> start(leading);
  start.push_back(chunk.base);
  for (unsigned i = 0; i < f.numOutputs(); ++i)
    if (elements[i])
      f.store(elements[i], f.outputBuffer(i), start);
  f.emitter.enterScope();
  return success();
}

//===----------------------------------------------------------------------===//
// By rows
//===----------------------------------------------------------------------===//

LogicalResult RowMapper::emitRows() {
  int64_t columns = shape.back();
  int64_t rows = 1;
  for (int64_t size : ArrayRef<int64_t>(shape).drop_back())
    rows *= size;
  width = widestChunk(kernel, columns);
  threads = std::min<int64_t>(
      llvm::alignTo(llvm::divideCeil(columns, width), warpSize), maxThreads);
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  if (threads > warpSize)
    for (size_t i = 0; i < reductions.size(); ++i)
      slots.push_back(f.addWorkgroup({threads / warpSize}, b.getF32Type()));
  int64_t blocks = std::min(rows, maxBlocks);
  auto loop = b.create<scf::ForOp>(f.loc, f.blockId(mlir::gpu::Dimension::x),
                                   f.constant(rows), f.constant(blocks));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  if (failed(emitRow(loop.getInductionVar())))
    return failure();
  // The next row writes the slots that this one may still be reading.
  if (!slots.empty() && rows > blocks)
    b.create<mlir::gpu::BarrierOp>(f.loc);
  f.finish({blocks}, threads);
  return success();
}

LogicalResult RowMapper::emitRow(Value row) {
  rowIndices = frame->delinearize(row, ArrayRef<int64_t>(shape).drop_back());
  for (auto [slot, reduction] : llvm::enumerate(reductions))
    if (failed(emitReduction(reduction, slot)))
      return failure();
  return emitResults();
}

LogicalResult RowMapper::emitReduction(const Reduction &reduction,
                                       unsigned slot) {
  KernelFrame &f = *frame;
  FailureOr<Value> value = partial(reduction);
  if (failed(value))
    return failure();
  Value total =
      acrossBlock(f, *value, threads, slots.empty() ? Value() : slots[slot],
                  [&](Value a, Value b) { return combine(reduction, a, b); });
  linalg::GenericOp op = reduction.op;
  FailureOr<Value> initial = f.emitter.element(op.getDpsInits()[0], rowIndices);
  if (failed(initial))
    return fail(f.emitter.reason());
  total = combine(reduction, *initial, total);
  f.emitter.enterScope();
  f.emitter.bind(
      op->getResult(0), [this, total](ElementEmitter::Indices indices) {
        return indices == ArrayRef<Value>(rowIndices) ? total : Value();
      });
  return success();
}

/// What this thread's columns combine to.
FailureOr<Value> RowMapper::partial(const Reduction &reduction) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  Value neutral = b.create<arith::ConstantOp>(f.loc, reduction.neutral);
  scf::ForOp loop = columnLoop(neutral);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  f.emitter.enterScope(f.chunk(loop.getInductionVar(), width));
  FailureOr<Value> terms = f.emitter.terms(reduction.op, rowIndices);
  if (failed(terms))
    return fail(f.emitter.reason());
  b.create<scf::YieldOp>(f.loc, combine(reduction, loop.getRegionIterArgs()[0],
                                        combineElements(reduction, *terms)));
  f.emitter.enterScope();
  return loop.getResult(0);
}

/// The elements of a vector combined in halves, so that few wait for others; a
/// scalar as it is.
Value RowMapper::combineElements(const Reduction &reduction, Value terms) {
  if (!isa<VectorType>(terms.getType()))
    return terms;
  KernelFrame &f = *frame;
  SmallVector<Value> parts;
  for (int64_t i = 0; i < width; ++i)
    parts.push_back(f.builder.create<vector::ExtractOp>(f.loc, terms, i));
  for (size_t half = parts.size() / 2; half; half /= 2)
    for (size_t i = 0; i < half; ++i)
      parts[i] = combine(reduction, parts[i], parts[i + half]);
  return parts.front();
}

Value RowMapper::combine(const Reduction &reduction, Value a, Value b) {
  IRMapping mapping;
  mapping.map(reduction.combiner->getOperand(0), a);
  mapping.map(reduction.combiner->getOperand(1), b);
  return frame->builder.clone(*reduction.combiner, mapping)->getResult(0);
}

/// The results of one value per row, in registers of every thread.
FailureOr<SmallVector<Value>> RowMapper::rowResults() {
  KernelFrame &f = *frame;
  SmallVector<Value> results(f.numOutputs());
  f.emitter.enterScope();
  for (unsigned i = 0; i < f.numOutputs(); ++i) {
    if (!isRowResult(i))
      continue;
    FailureOr<Value> value = f.emitter.element(f.yielded(i), rowIndices);
    if (failed(value))
      return fail(f.emitter.reason());
    results[i] = *value;
  }
  f.emitter.enterScope();
  return results;
}

bool RowMapper::isRowResult(unsigned i) {
  return tensorOf(frame->yielded(i)).getRank() + 1 ==
         static_cast<int64_t>(shape.size());
}

/// Everything is read before it may be overwritten: the results of one value
/// per row read any column, so that they come first; they are stored last, as
/// they may lie on what the columns read.
LogicalResult RowMapper::emitResults() {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  FailureOr<SmallVector<Value>> rows = rowResults();
  if (failed(rows))
    return failure();
  bool hasRowResults = llvm::any_of(*rows, [](Value value) { return !!value; });
  bool isInPlace =
      llvm::any_of(kernel.getTies(), [](int64_t tie) { return tie >= 0; });
  if (hasRowResults && isInPlace)
    b.create<mlir::gpu::BarrierOp>(f.loc);
  scf::ForOp loop = columnLoop({});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    if (failed(
            emitElements(f.chunk(loop.getInductionVar(), width), rowIndices)))
      return failure();
  }
  if (!hasRowResults)
    return success();
  if (isInPlace)
    b.create<mlir::gpu::BarrierOp>(f.loc);
  auto once = b.create<scf::IfOp>(
      f.loc, f.compare(arith::CmpIPredicate::eq, thread, 0));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(once.thenBlock());
  for (unsigned i = 0; i < f.numOutputs(); ++i)
    if (Value value = (*rows)[i])
      f.store(value, f.outputBuffer(i), rowIndices);
  return success();
}

MappedKernel RowMapper::run() {
  if (failed(findReductions()) || failed(findShape()) || failed(checkTies()))
    return MappedKernel::no(reason);
  bool flat = isFlat();
  if (!flat && shape.empty())
    return MappedKernel::no("a result of rank 0 that is not element-wise");
  frame = std::make_unique<KernelFrame>(kernel, module, FrameOptions{flat});
  thread = frame->threadId();
  if (failed(frame->emitScalars()) || failed(flat ? emitFlat() : emitRows())) {
    frame->func.erase();
    return MappedKernel::no(reason.empty() ? frame->emitter.reason() : reason);
  }
  return {{frame->launch()}};
}

MappedKernel mapRows(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module) {
  return RowMapper(kernel, module).run();
}

} // namespace heddle::gpu
