//===- MapPlain.cpp - A simple second version of a kernel -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain reference kernels, with which the compiled program's command `check`
// compares the fast kernels. They are as simple as possible: one thread
// computes each element, reduced dimensions are loops, and a tensor that is
// used several times is computed by a launch of its own. Threads share no
// memory and do not wait, and no access is wider than an element. A block
// computes a group of adjacent elements: block (x, z = 0) of the grid the x-th
// group from the beginning of a tensor, block (x, z = 1) the x-th group from
// the end. A run of only the blocks with small x thus computes both ends.
//
//===----------------------------------------------------------------------===//

#include "KernelFrame.h"
#include "heddle/Codegen/Common/LinalgLowerings.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
using linalg::GenericOp;

constexpr int64_t threads = 256;
/// Alignment of tensors in scratch memory, in bytes.
constexpr int64_t alignment = 256;

/// The element that a thread computes, by its linear index (`number`).
/// `isThere` is false if the tensor has no such element, or if another thread
/// computes it.
struct PlainElement {
  Value number, isThere;
};

class PlainMapper {
public:
  PlainMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module)
      : kernel(kernel), module(module) {}

  PlainMapping run();

private:
  /// A tensor that is computed by a launch of its own and stored in scratch
  /// memory.
  struct Stored {
    Value tensor;
    int64_t offset; ///< Offset in the scratch memory.
  };

  void findStored();
  LogicalResult emit(KernelFrame &f, Value tensor, Value buffer,
                     bool isYielded);
  FailureOr<Value> reduce(KernelFrame &f, GenericOp op, ArrayRef<Value> at);
  FailureOr<Value> loop(KernelFrame &f, GenericOp op,
                        SmallVector<Value> &iteration, unsigned dim,
                        Value carried);
  /// Adds the launch that computes `tensor` and stores it in the memory that
  /// `target` returns. The launch reads the first `numKnown` tensors of
  /// `stored` from scratch memory, where earlier launches have stored them. The
  /// launch computes all other tensors that it needs.
  LogicalResult launch(Value tensor, size_t numKnown,
                       llvm::function_ref<Value(KernelFrame &)> target);
  Value memoryOf(KernelFrame &f, const Stored &stored);

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  SmallVector<Stored> stored;
  PlainMapping mapped;
};
} // namespace

static RankedTensorType typeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType());
}

/// The number of elements that a reduction combines to one element of its
/// result.
static int64_t termsOf(GenericOp op) {
  int64_t terms = 1;
  for (auto [size, kind] :
       llvm::zip(op.getStaticLoopRanges(), op.getIteratorTypesArray()))
    terms *= kind == utils::IteratorType::reduction ? size : 1;
  return terms;
}

/// The indices of an element in `buffer`: `at`, or index 0 for a tensor of rank
/// 0, whose buffer has one element.
static SmallVector<Value> indicesIn(KernelFrame &f, Value buffer,
                                    ArrayRef<Value> at) {
  SmallVector<Value> indices(at);
  if (indices.empty() && cast<MemRefType>(buffer.getType()).getRank() > 0)
    indices.push_back(f.constant(0));
  return indices;
}

/// Whether the operations that use `tensor` would compute each of its elements
/// several times.
static bool isAskedOften(OpResult tensor) {
  if (cast<GenericOp>(tensor.getOwner()).getNumReductionLoops())
    return true;
  return llvm::any_of(tensor.getUses(), [&](OpOperand &use) {
    auto user = dyn_cast<GenericOp>(use.getOwner());
    return isa<tensor::ExtractOp>(use.getOwner()) ||
           (user && user.getNumReductionLoops() &&
            typeOf(tensor).getRank() < user.getNumLoops());
  });
}

void PlainMapper::findStored() {
  Operation *yield = kernel.getBody().front().getTerminator();
  for (Operation *op : codegen::producingGenerics(yield->getOperands()))
    for (OpResult tensor : op->getResults())
      if (isAskedOften(tensor)) {
        stored.push_back({tensor, mapped.scratchBytes});
        int64_t bytes = dist::byteSize(typeOf(tensor));
        mapped.scratchBytes += llvm::alignTo(bytes, alignment);
      }
}

Value PlainMapper::memoryOf(KernelFrame &f, const Stored &stored) {
  SmallVector<int64_t> shape(typeOf(stored.tensor).getShape());
  if (shape.empty())
    shape.push_back(1);
  return f.scratch(stored.offset, shape,
                   typeOf(stored.tensor).getElementType());
}

/// Emits loops over the reduced dimensions of `op` from dimension `dim` on. The
/// loops carry the reduction's value.
FailureOr<Value> PlainMapper::loop(KernelFrame &f, GenericOp op,
                                   SmallVector<Value> &iteration, unsigned dim,
                                   Value carried) {
  while (dim < op.getNumLoops() && iteration[dim])
    ++dim;
  if (dim == op.getNumLoops()) {
    auto next = f.emitter.payload(op, iteration, carried);
    return failed(next) ? FailureOr<Value>(failure()) : next->front();
  }
  OpBuilder &b = f.builder;
  Value end = f.constant(op.getStaticLoopRanges()[dim]);
  auto over =
      b.create<scf::ForOp>(f.loc, f.constant(0), end, f.constant(1), carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(over.getBody());
  ElementEmitter::Scope scope(f.emitter);
  iteration[dim] = over.getInductionVar();
  FailureOr<Value> next =
      loop(f, op, iteration, dim + 1, over.getRegionIterArgs()[0]);
  iteration[dim] = {};
  if (failed(next))
    return failure();
  b.create<scf::YieldOp>(f.loc, *next);
  return over.getResult(0);
}

FailureOr<Value> PlainMapper::reduce(KernelFrame &f, GenericOp op,
                                     ArrayRef<Value> at) {
  SmallVector<Value> iteration(op.getNumLoops());
  AffineMap map = op.getIndexingMapMatchingResult(op->getResult(0));
  for (auto [expr, index] : llvm::zip(map.getResults(), at))
    iteration[cast<AffineDimExpr>(expr).getPosition()] = index;
  FailureOr<Value> first = f.emitter.element(op.getDpsInits()[0], at);
  if (failed(first))
    return failure();
  return loop(f, op, iteration, 0, *first);
}

static int64_t blocksFor(Value tensor) {
  return llvm::divideCeil(typeOf(tensor).getNumElements(), threads);
}

/// Returns the element that this thread computes. A block computes a group of
/// `threads` elements. Block (x, z = 0) of the grid computes the x-th group
/// from the beginning, block (x, z = 1) the x-th group from the end. The blocks
/// with small x thus compute both ends of a tensor.
static PlainElement elementOf(KernelFrame &f, Value tensor) {
  OpBuilder &b = f.builder;
  int64_t blocks = blocksFor(tensor);
  Value column = f.blockId(mlir::gpu::Dimension::x);
  Value isFromEnd = f.compare(arith::CmpIPredicate::eq,
                              f.blockId(mlir::gpu::Dimension::z), 1);
  Value fromEnd =
      b.create<arith::SubIOp>(f.loc, f.constant(blocks - 1), column);
  Value block = b.create<arith::SelectOp>(f.loc, isFromEnd, fromEnd, column);
  Value number = f.add(f.mul(block, threads), f.threadId());
  // The blocks with z = 0 compute the first half of the elements, those with
  // z = 1 the second half. If the number of groups of elements is odd, a block
  // with z = 0 computes the middle group.
  Value isOther = f.compare(arith::CmpIPredicate::ult, column, blocks / 2);
  Value isFirst = f.compare(arith::CmpIPredicate::eq,
                            f.blockId(mlir::gpu::Dimension::z), 0);
  Value exists = f.compare(arith::CmpIPredicate::ult, number,
                           typeOf(tensor).getNumElements());
  Value isMine = b.create<arith::OrIOp>(f.loc, isFirst, isOther);
  return {number, b.create<arith::AndIOp>(f.loc, exists, isMine)};
}

/// Emits the code of one thread, which computes one element of `tensor` and
/// stores it in `buffer`.
LogicalResult PlainMapper::emit(KernelFrame &f, Value tensor, Value buffer,
                                bool isYielded) {
  auto [number, isThere] = elementOf(f, tensor);
  InsideIf exists(f, isThere);
  ElementEmitter::Scope scope(f.emitter);
  SmallVector<Value> at = f.delinearize(number, typeOf(tensor).getShape());
  // If `tensor` is a result of the kernel and a sum, an earlier launch has
  // computed the sum into scratch memory, from which this launch reads it.
  auto op = tensor.getDefiningOp<GenericOp>();
  bool isSum = !isYielded && op && op.getNumReductionLoops();
  FailureOr<Value> value =
      isSum ? reduce(f, op, at) : f.emitter.element(tensor, at);
  if (failed(value))
    return failure();
  f.store(*value, buffer, indicesIn(f, buffer, at));
  return success();
}

LogicalResult
PlainMapper::launch(Value tensor, size_t numKnown,
                    llvm::function_ref<Value(KernelFrame &)> target) {
  FrameOptions options;
  options.suffix = "_plain" + std::to_string(mapped.launches.size());
  const int64_t layers = 2;
  int64_t columns = llvm::divideCeil(blocksFor(tensor), layers);
  // Count the terms that a thread sums. They are many only in a launch that
  // computes a tensor in scratch memory: a launch that computes a result of the
  // kernel reads finished sums from scratch memory.
  auto op = tensor.getDefiningOp<GenericOp>();
  bool isSum = numKnown < stored.size() && op;
  mapped.terms.push_back(isSum ? termsOf(op) : 1);
  return addLaunch(
      mapped, kernel, module, options, {columns, 1, layers}, threads,
      [&](KernelFrame &f) {
        for (const Stored &known : ArrayRef(stored).take_front(numKnown)) {
          Value buffer = memoryOf(f, known);
          auto load = [&f, buffer](ElementEmitter::Indices at) -> Value {
            return f.builder.create<memref::LoadOp>(f.loc, buffer,
                                                    indicesIn(f, buffer, at));
          };
          f.emitter.bind(known.tensor, load);
        }
        return emit(f, tensor, target(f), numKnown == stored.size());
      });
}

PlainMapping PlainMapper::run() {
  findStored();
  auto no = [&] {
    mapped.launches.clear();
    return mapped;
  };
  for (size_t number = 0; number < stored.size(); ++number) {
    const Stored &one = stored[number];
    if (failed(launch(one.tensor, number,
                      [&](KernelFrame &f) { return memoryOf(f, one); })))
      return no();
  }
  Operation *yield = kernel.getBody().front().getTerminator();
  for (unsigned number = 0; number < yield->getNumOperands(); ++number)
    if (failed(launch(yield->getOperand(number), stored.size(),
                      [&](KernelFrame &f) { return f.outputBuffer(number); })))
      return no();
  return mapped;
}

void untie(planir::KernelOp kernel) {
  size_t numArguments = kernel.getArgumentTypes().size();
  size_t numResults = kernel.getResultTypes().size();
  if (kernel.getLeadingDimensions()) {
    SmallVector<int64_t> leading(
        kernel.getLeadingDimensions()->take_front(numArguments));
    for (size_t result = 0; result < numResults; ++result)
      leading.push_back(
          kernel.getLeadingDimension(kernel.getLaunchOperandOf(result)));
    kernel.setLeadingDimensions(leading);
  }
  kernel.setTies(SmallVector<int64_t>(numResults, -1));
}

FailureOr<PlainMapping> mapPlain(planir::KernelOp kernel,
                                 mlir::gpu::GPUModuleOp module) {
  OwningOpRef<planir::KernelOp> copy(kernel.clone());
  untie(*copy);
  if (failed(codegen::lowerBodyToLinalg(copy->getBody().front(),
                                        codegen::WholeOps::Lower)))
    return failure();
  PlainMapping mapped = PlainMapper(*copy, module).run();
  MLIRContext *context = kernel.getContext();
  for (const MappedLaunch &launch : mapped.launches) {
    if (failed(simplify(launch.func)))
      return failure();
    // Folds casts from i64 to index and back to i64, since an index may have
    // only 32 bits.
    RewritePatternSet patterns(context);
    arith::IndexCastOp::getCanonicalizationPatterns(patterns, context);
    if (failed(applyPatternsAndFoldGreedily(launch.func, std::move(patterns))))
      return failure();
  }
  for (auto op : copy->getBody().front().getOps<GenericOp>())
    mapped.longestSum = std::max(mapped.longestSum, termsOf(op));
  return mapped;
}

} // namespace heddle::gpu
