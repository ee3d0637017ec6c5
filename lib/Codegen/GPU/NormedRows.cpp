//===- NormedRows.cpp - Rows that a product's kernel computes -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With few rows, a norm of its own takes longer to begin than to compute. So
// each block of the product computes it, while the copies of the block's
// weights are under way.
//
//===----------------------------------------------------------------------===//

#include "NormedRows.h"
#include "BlockReduce.h"
#include "RowLayout.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/OwningOpRef.h"

using namespace mlir;

namespace heddle::gpu {

using codegen::RowReduction;
using codegen::RowRound;
using codegen::RowsForm;
using nn::tensorOf;

/// The most bytes of the rows. A multiprocessor has enough memory for copies of
/// weights beside them.
static constexpr int64_t mostRowBytes = 64 << 10;

/// Returns a copy of `kernel`, whose operations are linalg, that computes only
/// the operand of the products.
static OwningOpRef<planir::KernelOp> kernelOfRows(planir::KernelOp kernel) {
  OwningOpRef<planir::KernelOp> copy(kernel.clone());
  Block &body = copy->getBody().front();
  auto product = *body.getOps<nn::PackedLinearOp>().begin();
  Value rows = product.getInput();
  body.getTerminator()->setOperands(rows);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  llvm::BitVector unused(body.getNumArguments());
  for (BlockArgument argument : body.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
  body.eraseArguments(unused);
  copy->setFunctionType(FunctionType::get(
      kernel.getContext(), body.getArgumentTypes(), rows.getType()));
  copy->setTies({-1});
  copy->removeLeadingDimensionsAttr();
  return copy;
}

std::string refusalOfNorm(nn::PackedLinearOp product,
                          ArrayRef<Operation *> rows, const Chip &chip) {
  Operation *norm = rows.front();
  if (rows.size() > 1 || !isa<nn::RmsNormOp, nn::LayerNormOp>(norm))
    return "products of this target compute no rows but by one norm";
  if (product.getInput() != norm->getResult(0))
    return "the product reads other values of the norm than its rows";
  for (Operation *user : norm->getUsers())
    if (!isa<nn::PackedLinearOp>(user) ||
        cast<nn::PackedLinearOp>(user).getInput() != norm->getResult(0))
      return "what it makes is used elsewhere";
  if (product.getInputBlock())
    return "the product rounds its rows";
  FragmentShape shape(codegen::describe(product), chip);
  int64_t row = dist::byteSize(tensorOf(product.getInput())) / shape.rows;
  int64_t ofInput = dist::byteSize(tensorOf(norm->getOperand(0))) / shape.rows;
  if (shape.isPadded() || row % accessBytes != 0 || ofInput % accessBytes != 0)
    return "rows are not aligned";
  if (shape.rows > shape.tileRows)
    return "a block does not have all rows";
  if (shape.rows * row > mostRowBytes)
    return "rows need more shared memory than " + std::to_string(mostRowBytes) +
           " bytes";
  return "";
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

NormedRows::NormedRows(planir::KernelOp kernel, Value rows,
                       const FragmentShape &shape)
    : tensor(rows), shape(shape) {
  FailureOr<RowsForm> found = RowsForm::ofRows(kernel, rows);
  if (failed(found) || found->hasColumnSums() ||
      RowsForm::isReadAtOtherColumns(rows)) {
    why = "a product of rows that are no norm";
    return;
  }
  form.emplace(*found);
  for (const RowRound &round : form->reductionRounds())
    for (const RowReduction &reduction : round.reductions)
      if (!reduction.startsNeutral || !reduction.neutral.getType().isF32() ||
          !round.stores.empty() || round.extent != shape.weight.inputs())
        why = "a product of rows whose sums are not those of a norm";
  if (shape.inputBlock > 0 || shape.isPadded() ||
      shape.rows > std::min(shape.tileRows, mostNormedRows))
    why = "a product that cannot keep the rows that its kernel computes";
  if (why.empty())
    findLayout(kernel);
}

/// Finds how a kernel of the norm alone divides a row among threads.
void NormedRows::findLayout(planir::KernelOp kernel) {
  OwningOpRef<planir::KernelOp> alone = kernelOfRows(kernel);
  FailureOr<RowsForm> ofAlone = RowsForm::of(*alone);
  if (failed(ofAlone) || ofAlone->isFlat()) {
    why = "a product of rows that are no norm";
    return;
  }
  RowLayout layout(*alone, *ofAlone, /*mayDivide=*/true);
  const RowRound &any = *ofAlone->rounds().front();
  if (!layout.reason().empty() || layout.isOdd(any)) {
    why = "a product of rows with an odd length";
    return;
  }
  threads = layout.threads();
  width = layout.chunkOf(any);
  auto rowType = RankedTensorType::get(tensorOf(tensor).getShape(),
                                       Float32Type::get(kernel.getContext()));
  for (auto [read, times] : form->columnReads()) {
    ArrayRef<int64_t> shapeOfRead = tensorOf(read).getShape();
    if (shapeOfRead == rowType.getShape() && times > 1)
      keptRows.push_back(read);
    else if (shapeOfRead == rowType.getShape().take_back())
      keptColumns.push_back(read);
  }
}

/// Bytes of registers of a thread for elements of rows.
int64_t NormedRows::keptBytes() const {
  int64_t ofThread = llvm::divideCeil(shape.weight.inputs(), threads * width) *
                     width * turnsOfRow();
  int64_t bytes = 0;
  for (Value read : keptRows)
    bytes += dist::byteSize(tensorOf(read).getElementType());
  return llvm::divideCeil(shape.rows, rowsAtOnce()) * ofThread * bytes;
}

int64_t NormedRows::numReductions() const {
  int64_t count = 0;
  for (const RowRound &round : form->reductionRounds())
    count += static_cast<int64_t>(round.reductions.size());
  return count;
}

int64_t NormedRows::rowBytes() const {
  return shape.steps() * shape.storedRows() * shape.stepInputs() *
         dist::byteSize(tensorOf(tensor).getElementType());
}

int64_t NormedRows::slotBytes() const {
  return static_cast<int64_t>(llvm::alignTo(
      numReductions() * shape.rows * slotsOfRow() * 4, int64_t(accessBytes)));
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

/// Emits `body` for warps that have rows. Others get zeros for its values.
FailureOr<SmallVector<Value>> NormedRows::inTeams(TypeRange types, Body body) {
  if (!isTeam)
    return body();
  OpBuilder &b = frame->builder;
  OpBuilder::InsertionGuard guard(b);
  auto branch = b.create<scf::IfOp>(frame->loc, types, isTeam,
                                    /*withElseRegion=*/!types.empty());
  b.setInsertionPointToStart(branch.thenBlock());
  ElementEmitter::Scope scope(frame->emitter);
  FailureOr<SmallVector<Value>> values = body();
  if (failed(values) || types.empty())
    return values;
  b.create<scf::YieldOp>(frame->loc, *values);
  b.setInsertionPointToStart(branch.elseBlock());
  b.create<scf::YieldOp>(
      frame->loc, llvm::map_to_vector(types, [&](Type type) -> Value {
        return b.create<arith::ConstantOp>(frame->loc, b.getZeroAttr(type));
      }));
  return SmallVector<Value>(branch.getResults());
}

/// Calls `emit` for some of a row's columns.
template <typename Emit>
auto NormedRows::inColumns(const Row &row, size_t column, Emit emit) {
  ElementEmitter::Scope scope(frame->emitter,
                              frame->chunk(columns[column].base, width));
  for (auto [read, values] : llvm::zip(keptColumns, columns[column].kept))
    frame->emitter.define(read, {}, values);
  if (!row.kept.empty())
    for (auto [read, values] : llvm::zip(keptRows, row.kept[column]))
      frame->emitter.define(read, row.indices, values);
  return emit();
}

/// Rows and inputs that are missing in the last blocks of the weight are zero.
void NormedRows::fillWithZeros() {
  ThreadCode &c = *code;
  if (shape.fillsBlocks() && shape.storedRows() == shape.rows)
    return;
  OpBuilder &b = c.builder;
  auto loop = b.create<scf::ForOp>(
      c.loc, c.mul(c.threadId(), accessBytes), c.constant(rowBytes()),
      c.constant(shape.warps() * warpSize * accessBytes));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> zeros(4, c.constant(0));
    c.storeVector(zeros, c.at(memory, c.wide(loop.getInductionVar())));
  }
  c.barrier();
}

/// Returns the smaller one of `index` and `most`.
static Value atMost(KernelFrame &f, Value index, int64_t most) {
  return f.builder.create<arith::MinUIOp>(f.loc, index, f.constant(most));
}

void NormedRows::findRows() {
  KernelFrame &f = *frame;
  int64_t teams = std::min(rowsAtOnce(), shape.rows);
  Value team = teams > 1 ? f.div(warp, warpsOfRow()) : f.constant(0);
  isTeam = {};
  if (shape.warps() > teams * warpsOfRow())
    isTeam = f.compare(arith::CmpIPredicate::ult, warp, teams * warpsOfRow());
  for (int64_t first = 0; first < shape.rows; first += teams) {
    Row row;
    row.number = f.add(team, first);
    if (first + teams > shape.rows) {
      row.exists = f.compare(arith::CmpIPredicate::ult, row.number, shape.rows);
      row.number = atMost(f, row.number, shape.rows - 1);
    }
    row.indices = f.delinearize(row.number, form->rowDims());
    rows.push_back(row);
  }
  lanes.ofRow = warpSize / static_cast<int64_t>(llvm::bit_ceil(rows.size()));
  lanes.number = f.add(team, f.mul(f.div(lane, lanes.ofRow), teams));
  lanes.exists = f.compare(arith::CmpIPredicate::ult, lanes.number, shape.rows);
  lanes.number = atMost(f, lanes.number, shape.rows - 1);
  lanes.indices = f.delinearize(lanes.number, form->rowDims());
}

/// Columns that do not exist become the last ones, and rows the last one, so
/// that few conditions are needed: nothing is stored of them.
void NormedRows::findColumns() {
  KernelFrame &f = *frame;
  int64_t extent = shape.weight.inputs(), step = threads * width;
  for (int64_t turn = 0; turn < turnsOfRow(); ++turn) {
    Value inRow = f.add(warpOfRow, turn * shape.warps()), isThere;
    if ((turn + 1) * shape.warps() > warpsOfRow() && turnsOfRow() > 1)
      isThere = f.compare(arith::CmpIPredicate::ult, inRow, warpsOfRow());
    turns.push_back({inRow, isThere, {}});
    Value thread = f.add(f.mul(inRow, warpSize), lane);
    for (int64_t first = 0; first < extent; first += step) {
      Columns mine;
      mine.base = f.add(f.mul(thread, width), first);
      mine.exists = isThere;
      if (first + step > extent)
        mine.exists = code->both(
            isThere, f.compare(arith::CmpIPredicate::ult, mine.base, extent));
      if (mine.exists)
        mine.base = atMost(f, mine.base, extent - width);
      turns.back().columns.push_back(columns.size());
      columns.push_back(mine);
    }
  }
}

/// Loads what threads keep in registers.
LogicalResult NormedRows::load() {
  KernelFrame &f = *frame;
  SmallVector<Type> types;
  auto addTypes = [&](ArrayRef<Value> tensors) {
    for (Value read : tensors) {
      Type type = tensorOf(read).getElementType();
      types.push_back(width > 1 ? VectorType::get({width}, type) : type);
    }
  };
  for (size_t i = 0; i < columns.size(); ++i) {
    for (size_t row = 0; row < rows.size(); ++row)
      addTypes(keptRows);
    addTypes(keptColumns);
  }
  auto loadAll = [&]() -> FailureOr<SmallVector<Value>> {
    SmallVector<Value> loaded;
    auto add = [&](Value read, ArrayRef<Value> leading) {
      FailureOr<Value> values = f.emitter.elements(read, leading);
      if (succeeded(values))
        loaded.push_back(*values);
      return LogicalResult(values);
    };
    for (const Columns &mine : columns) {
      ElementEmitter::Scope scope(f.emitter, f.chunk(mine.base, width));
      for (const Row &row : rows)
        for (Value read : keptRows)
          if (failed(add(read, row.indices)))
            return failure();
      for (Value read : keptColumns)
        if (failed(add(read, {})))
          return failure();
    }
    return loaded;
  };
  FailureOr<SmallVector<Value>> loaded = inTeams(types, loadAll);
  if (failed(loaded))
    return failure();
  ArrayRef<Value> rest = *loaded;
  auto take = [&](size_t count) {
    SmallVector<Value> taken(rest.take_front(count));
    rest = rest.drop_front(count);
    return taken;
  };
  for (Columns &mine : columns) {
    for (Row &row : rows)
      row.kept.push_back(take(keptRows.size()));
    mine.kept = take(keptColumns.size());
  }
  return success();
}

/// The sums of a thread's columns of a row in a turn, for each reduction of a
/// round.
FailureOr<SmallVector<Value>>
NormedRows::partsOf(const RowRound &round, const Row &row, const Turn &turn) {
  KernelFrame &f = *frame;
  SmallVector<Value> parts;
  for (const RowReduction &reduction : round.reductions) {
    f.emitter.hoistTerms(reduction.op, row.indices);
    parts.push_back(
        f.builder.create<arith::ConstantOp>(f.loc, reduction.neutral));
  }
  for (size_t column : turn.columns)
    for (auto [i, part] : llvm::enumerate(parts)) {
      const RowReduction &reduction = round.reductions[i];
      FailureOr<Value> terms = inColumns(row, column, [&] {
        return f.emitter.terms(reduction.op, row.indices);
      });
      if (failed(terms))
        return failure();
      Value sum = codegen::combine(f.builder, f.loc, reduction, part,
                                   combineElements(f, reduction, *terms));
      Value exists = columns[column].exists;
      part = exists
                 ? f.builder.create<arith::SelectOp>(f.loc, exists, sum, part)
                 : sum;
    }
  return parts;
}

/// Where the warps of a row write their sums.
Value NormedRows::slotOf(int64_t reduction, Value row) {
  ThreadCode &c = *code;
  int64_t first = rowBytes() + reduction * shape.rows * slotsOfRow() * 4;
  return c.at(c.at(memory, first),
              c.wide(c.mul(c.toI32(row), slotsOfRow() * 4)));
}

/// Adds the values of all lanes, for each of a power of two of rows. While
/// lanes have several rows, half of them pass on the values of one half of the
/// rows, and get those of the other half. Each lane ends with the row of its
/// group (LaneRows). As the order of lanes is that of acrossBlock, so are the
/// bits.
Value NormedRows::acrossLanes(const RowReduction &reduction,
                              SmallVector<Value> values) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  auto combine = [&](Value x, Value y) {
    return codegen::combine(b, f.loc, reduction, x, y);
  };
  for (int64_t offset = warpSize / 2; offset > 0; offset /= 2) {
    size_t half = values.size() / 2;
    if (half == 0) {
      values[0] = combine(values[0], exchange(f, values[0], offset));
      continue;
    }
    Value isUpper =
        f.compare(arith::CmpIPredicate::uge, f.rem(lane, 2 * offset), offset);
    for (size_t i = 0; i < half; ++i) {
      Value lower = values[i], upper = values[i + half];
      Value own = b.create<arith::SelectOp>(f.loc, isUpper, upper, lower);
      Value other = b.create<arith::SelectOp>(f.loc, isUpper, lower, upper);
      values[i] = combine(own, exchange(f, other, offset));
    }
    values.truncate(half);
  }
  return values[0];
}

/// Writes the sums of each warp in a round for all its rows.
LogicalResult NormedRows::putParts(const RowRound &round, int64_t slot) {
  ThreadCode &c = *code;
  Value isFirst = frame->compare(arith::CmpIPredicate::eq,
                                 frame->rem(lane, lanes.ofRow), 0);
  for (const Turn &turn : turns) {
    SmallVector<SmallVector<Value>> ofReductions(round.reductions.size());
    for (const Row &row : rows) {
      FailureOr<SmallVector<Value>> parts = partsOf(round, row, turn);
      if (failed(parts))
        return failure();
      for (auto [all, part] : llvm::zip(ofReductions, *parts))
        all.push_back(part);
    }
    Value writes = c.both(c.both(isFirst, lanes.exists), turn.exists);
    for (auto [i, parts] : llvm::enumerate(ofReductions)) {
      parts.resize(warpSize / lanes.ofRow, parts.back());
      Value sum = acrossLanes(round.reductions[i], parts);
      Value place = c.at(slotOf(slot + static_cast<int64_t>(i), lanes.number),
                         c.wide(c.mul(c.toI32(turn.warpOfRow), 4)));
      InsideIf inside(c, writes);
      c.store(sum, place);
    }
  }
  return success();
}

/// Adds the sums of all warps of this lane's row, in order.
Value NormedRows::totalOf(const RowReduction &reduction, int64_t slot) {
  ThreadCode &c = *code;
  Value first = slotOf(slot, lanes.number), total;
  Type f32 = c.builder.getF32Type();
  for (int64_t at = 0, count = 0; at < warpsOfRow(); at += count) {
    count = std::min<int64_t>(4, llvm::bit_floor(uint64_t(warpsOfRow() - at)));
    for (Value part : c.elements(c.loadVector(f32, count, c.at(first, at * 4))))
      total = total ? codegen::combine(c.builder, c.loc, reduction, total, part)
                    : part;
  }
  return total;
}

/// Whether the elements of rows are computed of this value directly.
static bool isOfColumns(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto generic = dyn_cast<linalg::GenericOp>(user);
    return generic && static_cast<int64_t>(generic.getNumLoops()) >
                          tensorOf(value).getRank();
  });
}

/// Defines a value of rows, such as a mean: each lane computes it for its row,
/// and passes it to the others.
LogicalResult NormedRows::defineOfRows(Value value) {
  KernelFrame &f = *frame;
  FailureOr<Value> own = f.emitter.element(value, lanes.indices);
  if (failed(own))
    return failure();
  if (isOfColumns(value))
    for (auto [i, row] : llvm::enumerate(rows))
      f.emitter.defineElement(value, row.indices,
                              f.builder
                                  .create<mlir::gpu::ShuffleOp>(
                                      f.loc, *own,
                                      static_cast<int64_t>(i) * lanes.ofRow,
                                      warpSize, mlir::gpu::ShuffleMode::IDX)
                                  .getShuffleResult());
  return success();
}

/// Loads the totals of a round, whose first reduction has the number `slot`,
/// and defines them and what is computed of them for each row.
LogicalResult NormedRows::getTotals(const RowRound &round, int64_t slot) {
  for (auto [i, reduction] : llvm::enumerate(round.reductions)) {
    linalg::GenericOp op = reduction.op;
    Value total = totalOf(reduction, slot + static_cast<int64_t>(i));
    frame->emitter.defineElement(op.getResult(0), lanes.indices, total);
    if (failed(defineOfRows(op.getResult(0))))
      return failure();
    known.insert(op);
  }
  for (Operation *op : codegen::producingGenerics(tensor)) {
    auto isKnown = [&](Operation *other) {
      return known.contains(other) ||
             cast<linalg::GenericOp>(other).getNumReductionLoops() == 0;
    };
    auto generic = cast<linalg::GenericOp>(op);
    bool isOfRow = tensorOf(generic.getResult(0)).getRank() ==
                   static_cast<int64_t>(form->rowDims().size());
    if (!isOfRow || known.contains(op) || generic.getNumReductionLoops() ||
        !llvm::all_of(codegen::producingGenerics(generic.getResult(0)),
                      isKnown))
      continue;
    if (failed(defineOfRows(generic.getResult(0))))
      return failure();
    known.insert(op);
  }
  return success();
}

/// Returns the elements of a chunk. Those that are rounded to 16 bits are
/// rounded in pairs, each of which is an i32.
SmallVector<Value> NormedRows::packed(Value values) {
  ThreadCode &c = *code;
  if (width == 1)
    return {values};
  auto rounded = values.getDefiningOp<arith::TruncFOp>();
  Type element = getElementTypeOrSelf(values.getType());
  if (!rounded || !getElementTypeOrSelf(rounded.getIn().getType()).isF32())
    return c.elements(values);
  SmallVector<Value> wide = c.elements(rounded.getIn()), pairs;
  for (size_t i = 0; i < wide.size(); i += 2) {
    // The intrinsic's first operand becomes the upper half.
    Value pair = c.call(element.isBF16() ? "llvm.nvvm.ff2bf16x2.rn"
                                         : "llvm.nvvm.ff2f16x2.rn",
                        VectorType::get({2}, element), {wide[i + 1], wide[i]});
    pairs.push_back(c.create<LLVM::BitcastOp>(c.builder.getI32Type(), pair));
  }
  return pairs;
}

/// Computes the rows, and stores them.
LogicalResult NormedRows::store() {
  ThreadCode &c = *code;
  KernelFrame &f = *frame;
  RowReader reader(c, shape, tensorOf(tensor).getElementType());
  for (const Row &row : rows)
    f.emitter.hoist(tensor, row.indices);
  for (size_t column = 0; column < columns.size(); ++column)
    for (const Row &row : rows) {
      const Columns &mine = columns[column];
      FailureOr<Value> values = inColumns(
          row, column, [&] { return f.emitter.elements(tensor, row.indices); });
      if (failed(values))
        return failure();
      SmallVector<Value> all = packed(*values);
      auto put = [&] {
        reader.store(memory, c.toI32(row.number), c.toI32(mine.base), all);
      };
      Value exists = c.both(row.exists, mine.exists);
      if (!exists) {
        put();
        continue;
      }
      InsideIf inside(c, exists);
      put();
    }
  return success();
}

/// Between two rounds, warps exchange their sums.
LogicalResult NormedRows::emitRounds() {
  auto inRows = [&](llvm::function_ref<LogicalResult()> body) {
    auto done = inTeams({}, [&]() -> FailureOr<SmallVector<Value>> {
      if (failed(body()))
        return failure();
      return SmallVector<Value>();
    });
    code->barrier();
    return LogicalResult(done);
  };
  int64_t slot = 0;
  for (const RowRound &round : form->reductionRounds()) {
    if (failed(inRows([&] { return putParts(round, slot); })) ||
        failed(getTotals(round, slot)))
      return failure();
    slot += static_cast<int64_t>(round.reductions.size());
  }
  return inRows([&] { return store(); });
}

LogicalResult NormedRows::emit(KernelFrame &ofFrame, ThreadCode &ofCode,
                               Value ofMemory) {
  frame = &ofFrame;
  code = &ofCode;
  memory = ofMemory;
  rows.clear();
  columns.clear();
  turns.clear();
  known.clear();
  constexpr int64_t mostKeptBytes = 128 * 4;
  if (keptBytes() > mostKeptBytes)
    keptRows.clear();
  KernelFrame &f = *frame;
  ElementEmitter::Scope scope(f.emitter);
  fillWithZeros();
  warp = f.div(f.threadId(), warpSize);
  lane = f.rem(f.threadId(), warpSize);
  warpOfRow =
      std::min(rowsAtOnce(), shape.rows) > 1 ? f.rem(warp, warpsOfRow()) : warp;
  findRows();
  findColumns();
  return failure(failed(load()) || failed(emitRounds()));
}

} // namespace heddle::gpu
