//===- RowsForm.cpp - The loops of kernels over rows ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/RowsForm.h"
#include "heddle/Codegen/Common/ElementEvaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace heddle::codegen {

using linalg::GenericOp;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

RowsForm::RowsForm(planir::KernelOp kernel, ValueRange results,
                   ArrayRef<int64_t> ties)
    : kernel(kernel), results(results), ties(ties),
      generics(producingGenerics(results)) {}

FailureOr<RowsForm> RowsForm::of(planir::KernelOp kernel) {
  RowsForm form(kernel, kernel.getBody().front().getTerminator()->getOperands(),
                kernel.getTies());
  if (form.results.empty())
    return kernel.emitError("yields nothing");
  form.flat = form.findFlat();
  if (!form.flat && failed(form.findLoops()))
    return failure();
  return form;
}

FailureOr<RowsForm> RowsForm::ofRows(planir::KernelOp kernel,
                                     ValueRange tensors) {
  SmallVector<int64_t> ties(tensors.size(), -1);
  RowsForm form(kernel, tensors, ties);
  if (failed(form.findLoops()))
    return failure();
  return form;
}

LogicalResult RowsForm::findLoops() {
  if (failed(findRounds()) || failed(findRows()))
    return failure();
  placeResults();
  return success();
}

int64_t RowsForm::rows() const {
  int64_t count = 1;
  for (int64_t size : dims)
    count *= size;
  return count;
}

/// Whether `op` reduces all dimensions but the last: a column sum.
static bool isColumnSum(GenericOp op) {
  unsigned last = op.getNumLoops() - 1;
  return last && op.getNumReductionLoops() == last &&
         op.getIteratorTypesArray()[last] == utils::IteratorType::parallel;
}

bool RowsForm::isColumnResult(unsigned index) const {
  return hasColumnSums() &&
         llvm::any_of(producingGenerics(results[index]), [](Operation *op) {
           return isColumnSum(cast<GenericOp>(op));
         });
}

bool RowsForm::isRowResult(unsigned index) const {
  return !isColumnResult(index) &&
         shapeOf(results[index]).size() == dims.size();
}

SmallVector<const RowRound *> RowsForm::rounds() const {
  SmallVector<const RowRound *> all;
  for (const RowRound &round : reducing)
    all.push_back(&round);
  if (hasColumnSums())
    all.push_back(&sums);
  for (const RowRound &round : last)
    all.push_back(&round);
  return all;
}

bool RowsForm::isReadAtOtherColumns(Value tensor) {
  return llvm::any_of(tensor.getUsers(), llvm::IsaPred<tensor::ExtractOp>);
}

/// Finds out whether the kernel is flat: an element of a result depends only on
/// the elements of other tensors that have the same row-major index, and on
/// scalars.
bool RowsForm::findFlat() {
  if (kernel.getLeadingDimensions())
    return false;
  for (Value result : results)
    if (shapeOf(result) != shapeOf(results[0]))
      return false;
  return llvm::all_of(generics, [&](Operation *op) {
    auto generic = cast<GenericOp>(op);
    if (generic.getNumReductionLoops())
      return false;
    for (AffineMap map : generic.getIndexingMapsArray())
      if (!map.isIdentity() && map.getNumResults())
        return false;
    WalkResult walk = generic.getBody()->walk([&](Operation *inner) {
      auto extract = dyn_cast<tensor::ExtractOp>(inner);
      bool needsIndices = isa<linalg::IndexOp>(inner) ||
                          (extract && extract.getIndices().size() > 1);
      return needsIndices ? WalkResult::interrupt() : WalkResult::advance();
    });
    return !walk.wasInterrupted();
  });
}

//===----------------------------------------------------------------------===//
// Rounds
//===----------------------------------------------------------------------===//

/// A round is a loop over the columns of a row that computes reductions. Rounds
/// run one after the other. Returns the number of rounds after which `value` is
/// known: the largest number of reductions in a chain of operations that ends
/// with `value`.
int RowsForm::depthOf(Value value) {
  auto known = depths.find(value);
  if (known != depths.end())
    return known->second;
  auto op = value.getDefiningOp<GenericOp>();
  if (!op)
    return 0;
  int depth = 0;
  for (Value operand : op->getOperands())
    depth = std::max(depth, depthOf(operand));
  op.getBody()->walk([&](tensor::ExtractOp extract) {
    depth = std::max(depth, depthOf(extract.getTensor()));
  });
  if (op.getNumReductionLoops())
    ++depth;
  return depths[value] = depth;
}

/// Describes a reduction. The field `combiner` is null if the last operation of
/// the body does not combine the accumulator with a term.
static RowReduction describe(GenericOp op) {
  Operation *combiner =
      op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  Value running = op.getRegionOutputArgs()[0];
  std::optional<TypedAttr> neutral;
  if (combiner && combiner->getNumOperands() == 2 && running.hasOneUse() &&
      llvm::is_contained(combiner->getOperands(), running))
    neutral = arith::getNeutralElement(combiner);
  if (!neutral)
    return {op, nullptr, {}, false};
  auto fill = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
  Attribute first;
  bool startsNeutral = fill && matchPattern(fill.value(), m_Constant(&first)) &&
                       first == *neutral;
  return {op, combiner, *neutral, startsNeutral};
}

LogicalResult RowsForm::addReduction(GenericOp op) {
  SmallVector<int64_t> loops = op.getStaticLoopRanges();
  unsigned columns = op.getNumLoops() - 1;
  if (op.getNumReductionLoops() != 1 || op->getNumResults() != 1 ||
      op.getIteratorTypesArray()[columns] != utils::IteratorType::reduction)
    return kernel.emitError("reduces something other than the last "
                            "dimension; its generator is not \"rows\"");
  RowReduction reduction = describe(op);
  if (!reduction.combiner)
    return kernel.emitError("reduces by a combination without neutral element");
  if (failed(setRowDims(ArrayRef(loops).drop_back())))
    return failure();
  size_t depth = depthOf(op.getResult(0));
  while (reducing.size() < depth)
    reducing.push_back({loops[columns], {}, {}});
  RowRound &round = reducing[depth - 1];
  if (round.reductions.empty())
    round.extent = loops[columns];
  if (round.extent != loops[columns])
    return kernel.emitError("reduces rows of different lengths");
  round.reductions.push_back(reduction);
  return success();
}

LogicalResult RowsForm::setRowDims(ArrayRef<int64_t> own) {
  if ((!reducing.empty() || hasColumnSums()) && own != ArrayRef(dims))
    return kernel.emitError("reduces over rows of different shapes");
  dims.assign(own.begin(), own.end());
  return success();
}

LogicalResult RowsForm::addColumnSum(GenericOp op) {
  SmallVector<int64_t> loops = op.getStaticLoopRanges();
  RowReduction sum = describe(op);
  if (!isa_and_nonnull<arith::AddFOp>(sum.combiner))
    return kernel.emitError("reduces over rows by something other than a sum");
  if (hasColumnSums() && sums.extent != loops.back())
    return kernel.emitError("sums rows of different lengths");
  if (failed(setRowDims(ArrayRef(loops).drop_back())))
    return failure();
  sums.extent = loops.back();
  sums.reductions.push_back(sum);
  return success();
}

LogicalResult RowsForm::findRounds() {
  for (Operation *op : generics) {
    auto generic = cast<GenericOp>(op);
    if (!generic.getNumReductionLoops())
      continue;
    if (failed(isColumnSum(generic) ? addColumnSum(generic)
                                    : addReduction(generic)))
      return failure();
  }
  return success();
}

LogicalResult RowsForm::findRows() {
  ArrayRef<int64_t> first = shapeOf(results[0]);
  if (reducing.empty() && !hasColumnSums() && !first.empty())
    dims.assign(first.begin(), first.end() - 1);
  for (auto [index, result] : llvm::enumerate(results)) {
    ArrayRef<int64_t> shape = shapeOf(result);
    if (isColumnResult(index))
      continue;
    if (shape != ArrayRef(dims) &&
        (shape.empty() || shape.drop_back() != ArrayRef(dims)))
      return kernel.emitError("yields tensors without a common row shape");
  }
  return success();
}

/// Whether a loop that computes reductions may also store the result with the
/// index `index`, so that later loops load it instead of recomputing it. The
/// loop must not store a result that overwrites an argument which later loops
/// read.
bool RowsForm::mayStoreEarly(unsigned index) {
  Operation *op = results[index].getDefiningOp();
  if (!isa_and_nonnull<GenericOp>(op))
    return false;
  int64_t tie = ties[index];
  if (tie < 0)
    return true;
  BlockArgument argument = kernel.getBody().getArgument(tie);
  return llvm::all_of(argument.getUsers(),
                      [&](Operation *user) { return user == op; });
}

void RowsForm::placeResults() {
  for (auto [index, result] : llvm::enumerate(results)) {
    if (isRowResult(index) || isColumnResult(index))
      continue;
    int64_t extent = shapeOf(result).back();
    size_t depth = depthOf(result);
    // If a reduction reads the result, the loop of this reduction computes the
    // result anyway, so store it there.
    if (depth < reducing.size() && reducing[depth].extent == extent &&
        !result.use_empty() && !result.hasOneUse() && mayStoreEarly(index)) {
      reducing[depth].stores.push_back(index);
      continue;
    }
    auto *round = llvm::find_if(
        last, [&](const RowRound &other) { return other.extent == extent; });
    if (round == last.end())
      round = &last.emplace_back(RowRound{extent, {}, {}});
    round->stores.push_back(index);
  }
}

llvm::MapVector<Value, unsigned> RowsForm::columnReads() const {
  llvm::MapVector<Value, unsigned> reads;
  llvm::DenseSet<Value> stored;
  for (const RowRound *round : rounds()) {
    llvm::DenseSet<Value> seen;
    std::function<void(Value)> visit;
    auto visitInputs = [&](GenericOp op) {
      for (OpOperand *input : op.getDpsInputOperands()) {
        AffineMap map = op.getMatchingIndexingMap(input);
        if (map.getNumResults() &&
            map.getResults().back().isFunctionOfDim(op.getNumLoops() - 1))
          visit(input->get());
      }
    };
    visit = [&](Value value) {
      if (!seen.insert(value).second)
        return;
      auto op = value.getDefiningOp<GenericOp>();
      if (isa<BlockArgument>(value) || stored.contains(value))
        ++reads[value];
      else if (op && !op.getNumReductionLoops())
        visitInputs(op);
    };
    for (const RowReduction &reduction : round->reductions)
      visitInputs(reduction.op);
    for (unsigned index : round->stores)
      visit(results[index]);
    for (unsigned index : round->stores)
      stored.insert(results[index]);
  }
  return reads;
}

Value combine(OpBuilder &builder, Location loc, const RowReduction &reduction,
              Value x, Value y) {
  OperationState state(loc, reduction.combiner->getName());
  state.addOperands({x, y});
  state.addAttributes(reduction.combiner->getAttrs());
  state.addTypes(x.getType());
  return builder.create(state)->getResult(0);
}

} // namespace heddle::codegen
