//===- PackedFusion.cpp - Kernels of packed products ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits kernels of products with weights that are packed into panels
// (nn.packed_linear), and of the operations fused before and after them.
//
// Prologue: if the kernel begins with a norm, every thread computes the norm of
// all rows into its scratch, with the same bits as a separate kernel of the
// norm. A row that the prologue computes, such as the residual before the norm,
// may also be a result of the kernel. Then only one thread writes the row to
// the result.
//
// Heads: norms of attention heads, rotary embeddings and the write to the
// key-value cache are fused too. To compute a column of a head, these
// operations read other columns of the head. So they cannot be part of the
// epilogue, which gets one vector of columns. They run after a thread has
// computed whole heads of a product, so they read only columns that the thread
// has just written and that are still in the CPU's cache.
//
//===----------------------------------------------------------------------===//

#include "GemmEpilogue.h"
#include "PackedGemm.h"
#include "dialects/Dist/ByteSize.h"
#include "dialects/NN/HeadColumns.h"
#include "heddle/Codegen/Common/LinalgLowerings.h"
#include "llvm/ADT/SmallBitVector.h"
#include <numeric>

using namespace mlir;

namespace heddle::cpu {

namespace {

/// An operation on attention heads: the value that it reads and its result.
struct HeadStage {
  Value input, output;
  /// Emits the computation of one head by a row-wise operation, for which a
  /// head is a row. Null for other operations, such as rotary embeddings.
  RowEmitter heads;
  int64_t columns = 0; ///< The number of columns of a head, with `heads`.
};

class PackedFusion {
public:
  PackedFusion(KernelEmitter &k, ArrayRef<codegen::Product> products)
      : k(k), b(k.b), products(products) {}

  LogicalResult emit();

private:
  LogicalResult findHeads();
  Value rowsReadBy(Operation *op);
  LogicalResult lowerHeads(Operation *op);
  LogicalResult addNorm(Value heads, Value output);
  LogicalResult addStage(Operation *op);
  LogicalResult addHeads(Operation *op);
  void reserveMemory();
  Value memoryOf(Value value);
  void findOutputs();
  LogicalResult findRowResults();
  FailureOr<PackedRowFn> rowsOf();
  void copyRow(Type type, int64_t columns, Value from, Value to);
  void collect(Value value, llvm::SmallBitVector &found);
  FusedProducts describe(const llvm::SmallBitVector &members,
                         ArrayRef<Output> made);
  PackedFinishFn finishOf(ArrayRef<Output> made);
  void emitStage(const HeadStage &stage, Value first, Value count, Value begin,
                 Value end);
  void emitRotated(const HeadStage &stage, Value first, Value count,
                   Value begin, Value end);
  Value pointer(Value value) { return value ? k.pointerOf(value) : Value(); }
  static Type elementType(Value value) {
    return getElementTypeOrSelf(value.getType());
  }

  KernelEmitter &k;
  LoopBuilder &b;
  ArrayRef<codegen::Product> products;
  PackedGemmSpec spec;
  SmallVector<HeadStage> stages; ///< In the order of execution.
  nn::CacheWriteOp write;        ///< The kernel's cache write, or null.
  /// Some values have a separate dimension of heads: [..., heads, headColumns].
  /// Maps such a value to the value [..., heads * headColumns] from which
  /// row-wise operations compute it.
  llvm::DenseMap<Value, Value> rowsOfHeads;
  SmallVector<Value> rowResults; ///< Results of the prologue.
  SmallVector<Output> outputs;   ///< Values computed by products' epilogues.
  Value rowCopy; ///< Address in scratch of a copy of a row, for a stage.
};

} // namespace

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

/// The address of `value`, which an operation on attention heads reads or
/// computes. If `value` is not a result of the kernel and only one operation
/// reads it, the result of that operation has the same address, so that the
/// operation computes in place.
Value PackedFusion::memoryOf(Value value) {
  if (Value known = k.pointerOf(value))
    return known;
  Value pointer = k.resultPointer(value);
  auto readers = llvm::make_filter_range(
      stages, [&](const HeadStage &stage) { return stage.input == value; });
  bool isCached = write && llvm::is_contained(write.getQkv(), value);
  if (!pointer && !isCached && llvm::hasSingleElement(readers))
    pointer = memoryOf((*readers.begin()).output);
  if (!pointer) {
    auto type = cast<RankedTensorType>(value.getType());
    pointer = k.reserve(type.getNumElements() *
                        dist::byteSize(type.getElementType()));
  }
  k.setPointer(value, pointer);
  return pointer;
}

/// The value [..., columns] whose heads `op` reads. Reports an error and
/// returns null if `op` reads no heads, or heads of several values.
Value PackedFusion::rowsReadBy(Operation *op) {
  Value found;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (isa<BlockArgument>(operand) || !type || type.getRank() < 2)
      continue;
    Value rows = rowsOfHeads.lookup(operand);
    rows = rows ? rows : operand;
    if (found && found != rows) {
      op->emitError("works on heads of several products");
      return {};
    }
    found = rows;
  }
  if (!found)
    op->emitError("reads heads that the kernel does not make");
  return found;
}

/// Lowers a row-wise operation on attention heads to linalg, but adds no
/// HeadStage for it. The operation is computed by the stage that `addNorm` adds
/// for the reshape that merges the heads into rows again, or for a result of
/// the kernel.
LogicalResult PackedFusion::lowerHeads(Operation *op) {
  Value rows = rowsReadBy(op);
  FailureOr<SmallVector<Value>> results = failure();
  if (!rows || failed(results = codegen::lowerToLinalg(op)))
    return failure();
  for (Value result : *results)
    rowsOfHeads[result] = rows;
  return success();
}

/// Adds a stage, which runs after the matrix products. The stage executes the
/// row-wise operations that compute `heads`, and writes their result to the
/// memory of `output`. `output` is `heads` itself, or `heads` after a reshape
/// that merges heads and columns into one dimension.
LogicalResult PackedFusion::addNorm(Value heads, Value output) {
  auto type = cast<RankedTensorType>(heads.getType());
  Value rows = rowsOfHeads.lookup(heads);
  if (!rows || elementType(rows) != type.getElementType())
    return k.kernel.emitError("changes the type of attention heads");
  FailureOr<RowEmitter> emitter = rowEmitterOf(k, heads);
  if (failed(emitter))
    return failure();
  stages.push_back({rows, output, *emitter, type.getShape().back()});
  return success();
}

LogicalResult PackedFusion::addStage(Operation *op) {
  HeadStage stage;
  stage.input = rowsReadBy(op);
  if (!stage.input)
    return failure();
  FailureOr<SmallVector<Value>> results = codegen::lowerToLinalg(op);
  if (failed(results))
    return failure();
  stage.output = results->front();
  if (stage.input.getType() != stage.output.getType())
    return k.kernel.emitError("changes the type of attention heads");
  stages.push_back(stage);
  return success();
}

LogicalResult PackedFusion::addHeads(Operation *op) {
  if (auto found = dyn_cast<nn::CacheWriteOp>(op)) {
    if (write)
      return op->emitError("is the second write of a cache");
    write = found;
    if (failed(verifyInPlace(k, write)))
      return failure();
    if (llvm::any_of(write.getQkv(), llvm::IsaPred<BlockArgument>))
      return op->emitError("reads heads that the kernel does not make");
    return success();
  }
  if (auto reshape = dyn_cast<nn::ReshapeOp>(op); reshape && !reshape.splits())
    return addNorm(reshape.getInput(), reshape.getOutput());
  return op->hasTrait<nn::Rowwise>() ? lowerHeads(op) : addStage(op);
}

LogicalResult PackedFusion::findHeads() {
  SmallVector<Operation *> ops;
  for (Operation &op : k.kernel.getBody().front())
    if (int64_t columns = nn::headColumnsOf(&op)) {
      int64_t together = std::lcm(columns, panelWidth) / panelWidth;
      spec.panelsTogether = std::lcm(spec.panelsTogether, together);
      ops.push_back(&op);
    }
  for (Operation *op : ops)
    if (failed(addHeads(op)))
      return failure();
  for (Value yield : k.yields())
    if (rowsOfHeads.count(yield) && failed(addNorm(yield, yield)))
      return failure();
  reserveMemory();
  return success();
}

void PackedFusion::reserveMemory() {
  int64_t rowBytes = 0;
  for (const HeadStage &stage : stages) {
    auto type = cast<RankedTensorType>(stage.input.getType());
    int64_t bytes = dist::byteSize(type.getElementType());
    rowBytes = std::max(rowBytes, type.getShape().back() * bytes);
  }
  rowCopy = k.reserve(rowBytes);
  for (const HeadStage &stage : stages) {
    memoryOf(stage.input);
    memoryOf(stage.output);
  }
  if (write)
    for (Value operand : write.getQkv())
      memoryOf(operand);
}

/// Emits a stage (an operation on attention heads that runs after the products)
/// for columns `begin` to `end` of `count` rows from `first` on. The stage may
/// compute in place, because each element depends only on the element with the
/// same index and on sums over the head.
void PackedFusion::emitStage(const HeadStage &stage, Value first, Value count,
                             Value begin, Value end) {
  if (!stage.heads)
    return emitRotated(stage, first, count, begin, end);
  TensorEvaluator &ev = k.evaluator;
  auto type = cast<RankedTensorType>(stage.input.getType());
  int64_t columns = stage.columns, heads = type.getShape().back() / columns;
  ev.setMemory(stage.input, memoryOf(stage.input));
  b.forLoop(first, b.add(first, count), 1, [&](Value row) {
    b.forLoop(b.div(begin, columns), b.div(end, columns), 1, [&](Value head) {
      Value number = b.add(b.mul(row, heads), head);
      stage.heads(number,
                  b.advance(memoryOf(stage.output), type.getElementType(),
                            b.mul(number, columns)));
    });
  });
  ev.unbind(stage.input);
}

/// Emits an operation on attention heads that computes each element of a head
/// also from other columns of the head, such as a rotary embedding. The output
/// may overwrite the input. So the emitted code first copies each row of the
/// input and reads the copy.
void PackedFusion::emitRotated(const HeadStage &stage, Value first, Value count,
                               Value begin, Value end) {
  TensorEvaluator &ev = k.evaluator;
  auto type = cast<RankedTensorType>(stage.output.getType());
  int64_t lanes = ev.laneCount();
  auto forVectors = [&](llvm::function_ref<void(Value)> body) {
    b.forLoop(begin, end, lanes, [&](Value column) {
      TensorEvaluator::Scope scope(ev);
      ev.setMask(b.mask(b.sub(end, column), lanes));
      body(column);
      ev.setMask({});
    });
  };
  b.forLoop(first, b.add(first, count), 1, [&](Value row) {
    TensorEvaluator::Scope scope(ev);
    Point inRow = ev.splitRow(row, type.getShape().drop_back());
    auto at = [&](Value column) {
      Point point = inRow;
      point.push_back({column, Coordinate::Consecutive});
      return point;
    };
    ev.setMemory(stage.input, memoryOf(stage.input));
    // `rowCopy` has memory for one row, but the store below adds the offset of
    // row `row` in the whole tensor. So subtract this offset from the address
    // first.
    Value before = b.sub(b.constant(0), b.mul(row, type.getShape().back()));
    Value copied = b.advance(rowCopy, type.getElementType(), before);
    forVectors([&](Value column) {
      ev.store(stage.input, copied, at(column),
               ev.evaluate(stage.input, at(column)));
    });
    ev.setMemory(stage.input, rowCopy, /*oneRow=*/true);
    ev.hoist(stage.output, at(b.constant(0)));
    forVectors([&](Value column) {
      ev.store(stage.output, memoryOf(stage.output), at(column),
               ev.evaluate(stage.output, at(column)));
    });
    ev.unbind(stage.input);
  });
}

/// `made` are outputs of products. Returns a function that emits the operations
/// on attention heads (such as a norm of each head, a rotary embedding or a
/// cache write) that read `made`, directly or through other such operations. A
/// thread executes them after it has computed some columns of the outputs;
/// these columns are whole heads. Returns null if there are no such operations.
PackedFinishFn PackedFusion::finishOf(ArrayRef<Output> made) {
  SmallVector<Value> values;
  for (const Output &output : made)
    values.push_back(output.value);
  SmallVector<HeadStage> own;
  for (const HeadStage &stage : stages)
    if (llvm::is_contained(values, stage.input)) {
      own.push_back(stage);
      values.push_back(stage.output);
    }
  SmallVector<int64_t> cached; // Indices of operands q, k and v of the write.
  if (write)
    for (auto [number, value] : llvm::enumerate(write.getQkv()))
      if (llvm::is_contained(values, value))
        cached.push_back(static_cast<int64_t>(number));
  if (own.empty() && cached.empty())
    return {};
  return [=](Value first, Value count, Value begin, Value end) {
    for (const HeadStage &stage : own)
      emitStage(stage, first, count, begin, end);
    for (int64_t tensor : cached)
      emitCacheColumns(k, write, tensor, first, count, begin, end);
  };
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Finds the results of the kernel that the prologue (the operations before the
/// products, such as a norm) computes. These are the results that depend on no
/// product.
LogicalResult PackedFusion::findRowResults() {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(products.front().a.getType()).getShape();
  for (auto [yield, tie] : llvm::zip(k.yields(), k.kernel.getTies())) {
    llvm::SmallBitVector members(products.size());
    collect(yield, members);
    if (members.any())
      continue;
    if (isa<BlockArgument>(products.front().a) ||
        cast<RankedTensorType>(yield.getType()).getShape() != shape)
      return k.kernel.emitError("yields a value that depends on no product");
    if (tie >= 0)
      return k.kernel.emitError("overwrites rows that other threads read");
    rowResults.push_back(yield);
  }
  return success();
}

void PackedFusion::copyRow(Type type, int64_t columns, Value from, Value to) {
  int64_t lanes = k.evaluator.laneCount();
  auto vector = VectorType::get(lanes, type);
  unsigned alignment = dist::byteSize(type);
  b.forLoop(b.constant(0), b.constant(columns), lanes, [&](Value column) {
    Value mask = b.mask(b.sub(b.constant(columns), column), lanes);
    Value x = b.load(vector, b.advance(from, type, column), alignment, mask);
    b.store(x, b.advance(to, type, column), alignment, mask);
  });
}

/// Returns a function that emits the address of a row of A. If the kernel
/// computes A itself, for example by a norm (prologue), the emitted code first
/// computes the row in scratch memory.
FailureOr<PackedRowFn> PackedFusion::rowsOf() {
  Value a = products.front().a;
  int64_t columns = spec.k;
  if (isa<BlockArgument>(a))
    return PackedRowFn([=, type = spec.aType](Value row) {
      return b.advance(k.pointerOf(a), type, b.mul(row, columns));
    });
  SmallVector<Value> made = {a};
  llvm::copy_if(rowResults, std::back_inserter(made),
                [&](Value value) { return value != a; });
  FailureOr<RowEmitter> emitter = rowEmitterOf(k, made);
  if (failed(emitter))
    return failure();
  SmallVector<Value> rows;
  for (Value value : made)
    rows.push_back(k.reserve(columns * dist::byteSize(elementType(value))));
  return PackedRowFn([=, make = *emitter](Value row) {
    make(row, rows);
    if (rowResults.empty())
      return rows[0];
    Value writer =
        b.sub(row, b.mul(b.div(row, k.self.threads), k.self.threads));
    b.ifThen(b.equal(writer, k.self.thread), [&] {
      for (auto [value, address] : llvm::zip(made, rows))
        if (Value result = k.resultPointer(value)) {
          Type type = elementType(value);
          copyRow(type, columns, address,
                  b.advance(result, type, b.mul(row, columns)));
        }
    });
    return rows[0];
  });
}

/// Finds the values that products and their epilogues must store: results of
/// the kernel, and values that operations on heads read.
void PackedFusion::findOutputs() {
  auto isOfHeads = [&](Value value) {
    return llvm::any_of(
               stages,
               [&](const HeadStage &stage) { return stage.output == value; }) ||
           (write && value.getDefiningOp() == write.getOperation());
  };
  auto add = [&](Value value) {
    bool isKnown = llvm::any_of(
        outputs, [&](const Output &other) { return other.value == value; });
    if (isKnown || isOfHeads(value) || llvm::is_contained(rowResults, value))
      return;
    k.evaluator.hoistConstants(value);
    Value result = k.resultPointer(value);
    outputs.push_back({value, result ? result : memoryOf(value)});
  };
  for (Value yield : k.yields())
    add(yield);
  for (const HeadStage &stage : stages) {
    k.evaluator.hoistConstants(stage.output);
    add(stage.input);
  }
  if (write)
    for (Value value : write.getQkv())
      add(value);
}

/// Sets bit i of `found` for each product i on whose result `value` depends.
void PackedFusion::collect(Value value, llvm::SmallBitVector &found) {
  for (auto [number, product] : llvm::enumerate(products))
    if (product.result() == value) {
      found.set(number);
      return;
    }
  if (Operation *op = value.getDefiningOp())
    for (Value operand : op->getOperands())
      collect(operand, found);
}

FusedProducts PackedFusion::describe(const llvm::SmallBitVector &members,
                                     ArrayRef<Output> made) {
  FusedProducts part;
  SmallVector<Addition, 2> additions;
  for (unsigned number : members.set_bits()) {
    const codegen::Product &product = products[number];
    part.n = product.n;
    part.weights.push_back(
        {pointer(product.b), pointer(product.scales), pointer(product.zeros)});
    additions.push_back({&product, product.addend});
  }
  part.cType = elementType(made[0].value);
  part.c = made[0].pointer;
  Epilogue ending(k, additions, made);
  if (!ending.isEmpty())
    part.epilogue = [ending](ValueRange sums, Value row, Value column,
                             Value mask) mutable {
      return ending.finish(sums, row, column, mask);
    };
  part.finish = finishOf(made);
  return part;
}

LogicalResult PackedFusion::emit() {
  const codegen::Product &first = products.front();
  spec.m = first.m;
  spec.k = first.k;
  spec.aType = elementType(first.a);
  spec.bits = first.bits;
  spec.groups = first.groups;
  spec.inputBlock = first.inputBlock;
  if (first.scales)
    spec.scaleType = elementType(first.scales);
  else
    spec.floatType = elementType(first.b);
  spec.products = static_cast<int64_t>(products.size());
  k.scratchBytes = packedGemmScratchBytes(spec, k.target);
  if (failed(k.verifyYieldedOnce()) || failed(findRowResults()))
    return failure();
  FailureOr<PackedRowFn> rows = rowsOf();
  if (failed(rows) || failed(findHeads()))
    return failure();
  findOutputs();
  // Outputs that depend on a common product are computed together, so that
  // their products share one pass over the weights.
  SmallVector<std::pair<llvm::SmallBitVector, SmallVector<Output>>> sets;
  for (const Output &output : outputs) {
    std::pair<llvm::SmallBitVector, SmallVector<Output>> joined = {
        llvm::SmallBitVector(products.size()), {}};
    collect(output.value, joined.first);
    if (joined.first.none())
      return k.kernel.emitError("yields a value that depends on no product");
    llvm::erase_if(sets, [&](auto &known) {
      if (!known.first.anyCommon(joined.first))
        return false;
      joined.first |= known.first;
      llvm::append_range(joined.second, known.second);
      return true;
    });
    joined.second.push_back(output);
    sets.push_back(std::move(joined));
  }
  SmallVector<FusedProducts> parts;
  for (auto &[members, made] : sets)
    parts.push_back(describe(members, made));
  emitPackedGemm(b, spec, k.target, *rows, k.scratch, parts, k.self);
  return k.finish();
}

LogicalResult emitPackedProducts(KernelEmitter &k,
                                 ArrayRef<codegen::Product> products) {
  return PackedFusion(k, products).emit();
}

} // namespace heddle::cpu
