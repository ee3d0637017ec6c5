//===- MapRows.cpp - Rows to blocks, the last dimension to threads --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps chains of row-wise operations: element-wise operations, and reductions
// over the last dimension. codegen::RowsForm describes them as rounds, which
// are passes over the columns of a row. Kernels of only element-wise operations
// are mapped by MapFlat.cpp instead. A block computes one row after the other,
// and each thread takes the same columns in every round. Values that several
// rounds read are kept in registers if they fit, otherwise in workgroup memory.
//
//===----------------------------------------------------------------------===//

#include "RowChunks.h"
#include "RowLayout.h"
#include "RowMemory.h"
#include "RowSums.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
using codegen::RowReduction;
using codegen::RowRound;
using codegen::RowsForm;
using nn::tensorOf;

class RowMapper {
public:
  RowMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
            RowsForm form)
      : kernel(kernel), body(kernel.getBody().front()), module(module),
        form(std::move(form)) {}

  MappedKernel run();

private:
  LogicalResult checkReductions();
  LogicalResult checkTies();
  LogicalResult emitRows();
  bool mayDivide() const;
  LogicalResult placeKept();
  LogicalResult shareColumns();
  RowChunks::KeptTensor keptOf(Value tensor) const;
  LogicalResult load(ArrayRef<Value> tensors);
  LogicalResult emitRow(Value row);
  LogicalResult emitColumnSums();
  LogicalResult emitRounds(ArrayRef<RowRound> rounds);
  LogicalResult emitRound(const RowRound &round);
  Walk walkOf(const RowRound &round);
  FailureOr<SmallVector<Value>>
  emitColumns(const RowRound &round, const Chunk &chunk, ValueRange running);
  LogicalResult bindTotals(const RowRound &round, ValueRange parts);
  Value combine(const RowReduction &reduction, Value a, Value b) {
    return codegen::combine(frame->builder, frame->loc, reduction, a, b);
  }
  LogicalResult elementsOf(ArrayRef<unsigned> results, ArrayRef<Value> leading,
                           SmallVectorImpl<Value> &elements);
  void store(ArrayRef<unsigned> results, ArrayRef<Value> elements,
             const Chunk &chunk, ArrayRef<Value> leading);
  FailureOr<SmallVector<Value>> rowResults();
  void storeRowResults(ArrayRef<Value> values);
  const RowRound &anyRound() const { return *form.rounds().front(); }
  LogicalResult fail(const Twine &why);

  planir::KernelOp kernel;
  Block &body;
  mlir::gpu::GPUModuleOp module;
  RowsForm form;
  std::unique_ptr<KernelFrame> frame;
  int64_t threads = 0;
  std::optional<RowLayout> layout;
  /// The chunks of adjacent columns that a thread handles. Set if the kernel
  /// keeps elements in registers between rounds (passes over a row's columns).
  std::optional<RowChunks> chunks;
  /// The rows that are kept in workgroup memory between rounds (passes over a
  /// row's columns). Set if rows are too long for registers.
  std::optional<RowMemory> memory;
  /// The kernel's sums over rows, and a thread's sums of the rows so far.
  std::optional<RowSums> sums;
  std::optional<RowProducts> products;
  SmallVector<Value> running;
  Walk walk; ///< The walk of the current round.
  /// The shape of the tensors of the current pass over the columns. It is a
  /// member because a Walk (how threads visit the columns) holds only a
  /// reference to the shape.
  SmallVector<int64_t> shape;
  /// Whether a result overwrites an argument that threads may read at arbitrary
  /// columns. A barrier must then separate these reads from the stores.
  bool overwritesExtracted = false;
  /// Whether a result with one value per row overwrites an argument. A barrier
  /// must then precede the store, since all threads read the argument.
  bool overwritesRow = false;
  /// Workgroup memory through which each reduction combines the values of
  /// several warps.
  llvm::DenseMap<Operation *, Value> slots;
  Value row; ///< The number of the current row.
  SmallVector<Value> rowIndices;
  Value thread;
  std::string reason;
};
} // namespace

LogicalResult RowMapper::fail(const Twine &why) {
  if (reason.empty())
    reason = why.str();
  return failure();
}

LogicalResult RowMapper::checkReductions() {
  for (const RowRound *round : form.rounds())
    for (RowReduction reduction : round->reductions) {
      Type type = tensorOf(reduction.op.getResult(0)).getElementType();
      if (!type.isF32() && !type.isF64())
        return fail("a reduction that is not in f32 or f64");
      if (round == &form.columnSums() && !type.isF32())
        return fail("a sum over rows that is not in f32");
    }
  return success();
}

/// Checks results that are computed in place of arguments. Threads do not wait
/// for each other between columns, so that no thread may read an element that
/// another thread overwrites.
LogicalResult RowMapper::checkTies() {
  for (auto [index, tie] : llvm::enumerate(kernel.getTies())) {
    if (tie < 0)
      continue;
    BlockArgument argument = kernel.getBody().getArgument(tie);
    overwritesExtracted |= RowsForm::isReadAtOtherColumns(argument);
    overwritesRow |= !form.isFlat() && form.isRowResult(index);
    for (Operation *user : argument.getUsers()) {
      auto generic = user->getParentOfType<linalg::GenericOp>();
      if (!isa<tensor::ExtractOp>(user) || !generic)
        continue;
      if (form.isFlat() || tensorOf(generic.getResult(0)).getRank() >
                               static_cast<int64_t>(form.rowDims().size()))
        return fail("a result in place of an argument of which other elements "
                    "are read");
    }
  }
  return success();
}

/// Emits the elements of all `results` in a chunk (adjacent columns) before any
/// of them is stored, since a result may overwrite an argument that another
/// result needs.
LogicalResult RowMapper::elementsOf(ArrayRef<unsigned> results,
                                    ArrayRef<Value> leading,
                                    SmallVectorImpl<Value> &elements) {
  KernelFrame &f = *frame;
  for (unsigned result : results) {
    FailureOr<Value> value = f.emitter.elements(f.yielded(result), leading);
    if (failed(value))
      return fail(f.emitter.reason());
    elements.push_back(*value);
  }
  return success();
}

void RowMapper::store(ArrayRef<unsigned> results, ArrayRef<Value> elements,
                      const Chunk &chunk, ArrayRef<Value> leading) {
  SmallVector<Value> start(leading);
  start.push_back(chunk.base);
  for (auto [result, element] : llvm::zip(results, elements))
    frame->store(element, frame->outputBuffer(result), start);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

RowChunks::KeptTensor RowMapper::keptOf(Value tensor) const {
  bool isOfAllRows = llvm::is_contained(layout->keptColumns(), tensor);
  return {tensor, isOfAllRows ? ArrayRef<Value>() : ArrayRef(rowIndices)};
}

/// Whether the warps of a block may handle different rows. This is allowed if
/// no thread reads values that threads of other warps write.
bool RowMapper::mayDivide() const {
  return !overwritesExtracted && !overwritesRow &&
         llvm::none_of(
             llvm::seq<unsigned>(0, form.numResults()), [&](unsigned result) {
               return RowsForm::isReadAtOtherColumns(form.result(result));
             });
}

/// Copies the values that all rows share to workgroup memory. All teams (warps
/// that each have a row) read them there.
LogicalResult RowMapper::shareColumns() {
  KernelFrame &f = *frame;
  int64_t extent = anyRound().extent;
  SmallVector<Value> shared;
  for (Value tensor : layout->keptColumns())
    shared.push_back(
        f.addWorkgroup({extent}, tensorOf(tensor).getElementType()));
  Walk all = {layout->chunkOf(anyRound()), threads * layout->teams()};
  auto copy = [&](const Chunk &chunk,
                  ValueRange) -> FailureOr<SmallVector<Value>> {
    for (auto [tensor, memory] : llvm::zip(layout->keptColumns(), shared)) {
      FailureOr<Value> elements = f.emitter.elements(tensor, {});
      if (failed(elements))
        return failure();
      f.store(*elements, memory, chunk.base);
    }
    return SmallVector<Value>();
  };
  if (failed(forChunks(f, f.constant(0), f.constant(extent),
                       /*isWhole=*/!layout->isOdd(anyRound()), all, {}, copy)))
    return fail(f.emitter.reason());
  f.builder.create<mlir::gpu::BarrierOp>(f.loc);
  for (auto [tensor, memory] : llvm::zip(layout->keptColumns(), shared))
    f.emitter.bindBuffer(tensor, memory);
  return success();
}

/// Reserves memory for values that are kept. Workgroup memory holds the current
/// row until a later round (pass over the columns) reads it. Registers or
/// workgroup memory hold the values that all rows share.
LogicalResult RowMapper::placeKept() {
  KernelFrame &f = *frame;
  const RowRound &round = anyRound();
  if (layout->keepsInMemory())
    memory.emplace(f, Walk{layout->chunkOf(round), threads}, round.extent,
                   layout->keptRowsAndResults());
  if (layout->teams() > 1)
    return layout->keptColumns().empty() ? success() : shareColumns();
  if (layout->keptColumns().empty() && !sums)
    return success();
  chunks.emplace(f, walkOf(round), round.extent);
  return load(layout->keptColumns());
}

LogicalResult RowMapper::emitRows() {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  threads = layout->threads();
  if (threads > warpSize)
    for (const RowRound &round : form.reductionRounds())
      for (RowReduction reduction : round.reductions)
        slots[reduction.op] =
            f.addWorkgroup({threads / warpSize}, reduction.neutral.getType());
  for (unsigned i = 0; i < form.numResults(); ++i)
    if (!form.isColumnResult(i))
      f.emitter.hoistConstants(form.result(i));
  if (failed(placeKept()))
    return failure();
  int64_t blocks = layout->blocks(), teams = layout->teams();
  Value first = f.blockId(mlir::gpu::Dimension::x);
  if (teams > 1)
    first = f.add(f.mul(first, teams), f.beginTeams(threads));
  thread = f.threadId();
  SmallVector<Value> zeros;
  if (sums) {
    zeros = sums->zeros(f, threads);
    if (!chunks)
      chunks.emplace(f, walkOf(anyRound()), anyRound().extent);
  }
  auto loop = b.create<scf::ForOp>(f.loc, first, f.constant(form.rows()),
                                   f.constant(blocks * teams), zeros);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    llvm::append_range(running, loop.getRegionIterArgs());
    if (failed(emitRow(loop.getInductionVar())))
      return failure();
    // A barrier is needed between rows: the reductions of the next row
    // overwrite the workgroup memory of this row's reductions, which some
    // threads may still read.
    if (!slots.empty() && form.rows() > blocks)
      b.create<mlir::gpu::BarrierOp>(f.loc);
    if (sums)
      b.create<scf::YieldOp>(f.loc, running);
  }
  f.endTeams();
  if (sums && failed(sums->store(f, *chunks, loop.getResults())))
    return failure();
  f.finish({blocks}, threads * teams, layout->sharedBytes());
  return success();
}

LogicalResult RowMapper::load(ArrayRef<Value> tensors) {
  if (failed(chunks->load(llvm::map_to_vector(
          tensors, [&](Value tensor) { return keptOf(tensor); }))))
    return fail(frame->emitter.reason());
  return success();
}

/// Emits the code of one row. Results with one value per row are computed after
/// the last reduction, and before the last passes over the columns, which may
/// overwrite arguments that these results depend on. They are stored after the
/// last passes, since the stores may overwrite arguments that all threads read.
LogicalResult RowMapper::emitRow(Value row) {
  KernelFrame &f = *frame;
  ElementEmitter::Scope scope(f.emitter);
  this->row = row;
  rowIndices = f.delinearize(row, form.rowDims());
  SmallVector<Value> results;
  for (unsigned i = 0; i < form.numResults(); ++i)
    results.push_back(form.result(i));
  products.emplace(results, rowIndices.size());
  if (memory)
    memory->beginRow();
  bool keeps = !memory && !layout->keptRowsAndResults().empty();
  if (keeps && !chunks)
    chunks.emplace(f, walkOf(anyRound()), anyRound().extent);
  if (keeps && failed(load(layout->keptRows())))
    return failure();
  if (failed(emitRounds(form.reductionRounds())))
    return failure();
  FailureOr<SmallVector<Value>> values = rowResults();
  if (failed(values))
    return failure();
  if (sums && failed(emitColumnSums()))
    return failure();
  for (const RowRound &round : form.lastRounds())
    for (unsigned result : round.stores)
      f.emitter.hoist(form.result(result), rowIndices);
  if (overwritesExtracted)
    f.builder.create<mlir::gpu::BarrierOp>(f.loc);
  if (failed(emitRounds(form.lastRounds())))
    return failure();
  storeRowResults(*values);
  return success();
}

LogicalResult RowMapper::emitColumnSums() {
  FailureOr<SmallVector<Value>> next =
      sums->add(*frame, *chunks, rowIndices, running);
  if (failed(next))
    return fail(frame->emitter.reason());
  running = *next;
  return success();
}

LogicalResult RowMapper::emitRounds(ArrayRef<RowRound> rounds) {
  KernelFrame &f = *frame;
  for (const RowRound &round : rounds) {
    if (failed(emitRound(round)))
      return failure();
    bool hasMet = !round.reductions.empty() && threads > warpSize;
    for (unsigned result : round.stores) {
      Value value = form.result(result);
      if (!value.getDefiningOp())
        continue;
      f.emitter.bindBuffer(value, f.outputBuffer(result));
      if (RowsForm::isReadAtOtherColumns(value) && !hasMet)
        f.builder.create<mlir::gpu::BarrierOp>(f.loc);
    }
  }
  return success();
}

LogicalResult RowMapper::emitRound(const RowRound &round) {
  KernelFrame &f = *frame;
  for (unsigned result : round.stores)
    f.emitter.hoist(form.result(result), rowIndices);
  SmallVector<Value> neutrals;
  for (const RowReduction &reduction : round.reductions) {
    f.emitter.hoistTerms(reduction.op, rowIndices);
    neutrals.push_back(
        f.builder.create<arith::ConstantOp>(f.loc, reduction.neutral));
  }
  auto body = [&](const Chunk &chunk, ValueRange running) {
    return emitColumns(round, chunk, running);
  };
  SmallVector<RowChunks::KeptTensor> kept;
  for (unsigned result : round.stores)
    if (llvm::is_contained(layout->keptResults(), form.result(result)))
      kept.push_back(keptOf(form.result(result)));
  if (!chunks)
    walk = walkOf(round);
  FailureOr<SmallVector<Value>> parts =
      chunks
          ? chunks->walk(neutrals, kept, body)
          : forChunks(f, f.constant(0), f.constant(round.extent),
                      /*isWhole=*/!layout->isOdd(round), walk, neutrals, body);
  if (failed(parts))
    return failure();
  if (memory)
    memory->endWalk();
  return bindTotals(round, *parts);
}

Walk RowMapper::walkOf(const RowRound &round) {
  KernelFrame &f = *frame;
  Walk walk = {layout->chunkOf(round), threads};
  if (!layout->isShifted(round))
    return walk;
  shape.assign(form.rowDims().begin(), form.rowDims().end());
  shape.push_back(round.extent);
  int64_t missing = walk.width - round.extent % walk.width;
  walk.head = f.rem(f.mul(row, missing), walk.width);
  walk.row = rowIndices;
  walk.shape = shape;
  return walk;
}

/// Emits the code of a round (a pass over the columns) for one chunk of
/// adjacent columns. Stores the results that the round computes for these
/// columns. Returns the values of the round's reductions after this chunk.
FailureOr<SmallVector<Value>> RowMapper::emitColumns(const RowRound &round,
                                                     const Chunk &chunk,
                                                     ValueRange running) {
  KernelFrame &f = *frame;
  SmallVector<Value> elements, next;
  if (memory && failed(memory->fetch(walk, chunk, rowIndices)))
    return fail(f.emitter.reason());
  if (failed(elementsOf(round.stores, rowIndices, elements)))
    return failure();
  if (memory)
    for (auto [result, element] : llvm::zip(round.stores, elements))
      memory->put(form.result(result), walk, chunk, element);
  for (auto [reduction, value] : llvm::zip(round.reductions, running)) {
    FailureOr<Value> terms = f.emitter.terms(reduction.op, rowIndices);
    if (failed(terms))
      return fail(f.emitter.reason());
    next.push_back(
        combine(reduction, value, combineElements(*frame, reduction, *terms)));
  }
  store(round.stores, elements, chunk, rowIndices);
  return next;
}

/// Combines the values that all threads have for each reduction of a round (a
/// pass over the columns). Binds the totals as the reductions' results, so that
/// later rounds use them.
LogicalResult RowMapper::bindTotals(const RowRound &round, ValueRange parts) {
  KernelFrame &f = *frame;
  SmallVector<Value> own;
  for (const RowReduction &reduction : round.reductions)
    own.push_back(slots.lookup(reduction.op));
  SmallVector<Value> totals =
      acrossBlock(f, parts, threads, own, [&](size_t i, Value a, Value b) {
        return combine(round.reductions[i], a, b);
      });
  for (auto [reduction, total] : llvm::zip(round.reductions, totals)) {
    linalg::GenericOp op = reduction.op;
    if (!reduction.startsNeutral) {
      FailureOr<Value> first =
          f.emitter.element(op.getDpsInits()[0], rowIndices);
      if (failed(first))
        return fail(f.emitter.reason());
      total = combine(reduction, *first, total);
    }
    f.emitter.bind(op.getResult(0),
                   [this, value = total](ElementEmitter::Indices indices) {
                     return indices == ArrayRef<Value>(rowIndices) ? value
                                                                   : Value();
                   });
  }
  if (failed(products->bind(f, round.reductions, {rowIndices})))
    return fail(f.emitter.reason());
  return success();
}

/// Computes the results that have one value per row, in registers of every
/// thread. Returns null for other results.
FailureOr<SmallVector<Value>> RowMapper::rowResults() {
  KernelFrame &f = *frame;
  SmallVector<Value> values(form.numResults());
  for (unsigned i = 0; i < form.numResults(); ++i) {
    if (!form.isRowResult(i))
      continue;
    FailureOr<Value> value = f.emitter.element(form.result(i), rowIndices);
    if (failed(value))
      return fail(f.emitter.reason());
    values[i] = *value;
  }
  return values;
}

void RowMapper::storeRowResults(ArrayRef<Value> values) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  if (llvm::none_of(values, [](Value value) { return !!value; }))
    return;
  if (overwritesRow)
    b.create<mlir::gpu::BarrierOp>(f.loc);
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, thread, 0));
  for (auto [i, value] : llvm::enumerate(values))
    if (value)
      f.store(value, f.outputBuffer(i), rowIndices);
}

MappedKernel RowMapper::run() {
  if (failed(checkReductions()) || failed(checkTies()))
    return MappedKernel::no(reason);
  if (form.isFlat())
    return mapFlat(kernel, module);
  layout.emplace(kernel, form, mayDivide());
  if (!layout->reason().empty())
    return MappedKernel::no(layout->reason().str());
  if (form.hasColumnSums())
    sums.emplace(form, layout->chunkOf(anyRound()), layout->blocks(),
                 layout->teams());
  MappedKernel mapped;
  mapped.scratchBytes = sums ? sums->scratchBytes() : 0;
  FrameOptions options;
  options.scratchBytes = mapped.scratchBytes;
  frame = std::make_unique<KernelFrame>(kernel, module, options);
  if (failed(frame->emitScalars()) || failed(emitRows())) {
    frame->func.erase();
    return MappedKernel::no(reason.empty() ? frame->emitter.reason() : reason);
  }
  mapped.launches.push_back(frame->launch());
  if (sums && failed(sums->addLaunch(mapped, kernel, module)))
    return MappedKernel::no(mapped.reason);
  return mapped;
}

FailureOr<MappedKernel> mapRows(planir::KernelOp kernel,
                                mlir::gpu::GPUModuleOp module) {
  FailureOr<RowsForm> form = RowsForm::of(kernel);
  if (failed(form))
    return failure();
  return RowMapper(kernel, module, *form).run();
}

} // namespace heddle::gpu
