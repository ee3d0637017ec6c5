//===- DistMemoryOps.cpp - Verifiers of traffic between memories ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/DistDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle::dist;

/// Checks the range of elements that a transfer moves. With `slot`, the state's
/// first dimension counts slots (copies of a tensor, one for each micro-batch
/// in flight), and the range lies in one slot. Without `slot`, the state is a
/// one-dimensional (flat) tensor, so the range must have one dimension.
/// `element`, the first element, must not be negative.
static LogicalResult verifyRange(Operation *op, int64_t element, Type range,
                                 Value slot) {
  if (!slot && llvm::cast<RankedTensorType>(range).getRank() != 1)
    return op->emitOpError("moves a range of a flat tensor, got ") << range;
  return element >= 0 ? success()
                      : op->emitOpError("begins at element ") << element;
}

/// Checks that the range lies within the state or bucket `name`. With `slot`,
/// the state's first dimension counts slots (one tensor for each micro-batch in
/// flight), and the range must lie within one slot.
static LogicalResult verifyInState(Operation *op, FlatSymbolRefAttr name,
                                   int64_t element, Type range, Value slot,
                                   SymbolTableCollection &tables) {
  Operation *state = tables.lookupNearestSymbolFrom(op, name);
  auto stored = state ? state->getAttrOfType<TypeAttr>("type") : TypeAttr();
  auto whole = stored ? llvm::dyn_cast<RankedTensorType>(stored.getValue())
                      : RankedTensorType();
  if (!whole)
    return op->emitOpError("refers to unknown state ") << name;
  auto part = llvm::cast<RankedTensorType>(range);
  int64_t there = !slot ? whole.getNumElements()
                  : whole.getRank() > 1
                      ? whole.getNumElements() / whole.getDimSize(0)
                      : 0;
  bool fits = (slot || whole.getRank() == 1) &&
              whole.getElementType() == part.getElementType() &&
              part.getNumElements() <= there - element;
  return fits ? success()
              : op->emitOpError("moves ")
                    << range << " from element " << element << " of " << name
                    << ", which is " << whole;
}

LogicalResult FetchOp::verify() {
  if (failed(
          verifyRange(*this, getElement(), getOutput().getType(), getSlot())))
    return failure();
  return getPending() ? verifyPending(*this) : success();
}

LogicalResult MoveOp::verify() {
  return getPending() ? verifyPending(*this) : success();
}

LogicalResult FetchOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyInState(*this, getStateAttr(), getElement(),
                       getOutput().getType(), getSlot(), tables);
}

LogicalResult FetchRowsOp::verify() {
  auto output = llvm::cast<RankedTensorType>(getOutput().getType());
  auto ids = llvm::cast<RankedTensorType>(getIds().getType());
  if (output.getRank() == 0 || output.getShape().drop_back() != ids.getShape())
    return emitOpError("makes ") << output << " of the rows at " << ids;
  auto first = static_cast<int64_t>(getElement());
  auto rows = static_cast<int64_t>(getRows());
  int64_t elements = 0;
  if (first < 0 || rows < 1 ||
      llvm::MulOverflow(rows, output.getShape().back(), elements))
    return emitOpError("fetches of ")
           << rows << " rows from element " << first << " on";
  return getPending() ? verifyPending(*this) : success();
}

LogicalResult FetchRowsOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto output = llvm::cast<RankedTensorType>(getOutput().getType());
  int64_t elements = getRows() * output.getShape().back();
  auto table = output.clone(ArrayRef<int64_t>(elements));
  return verifyInState(*this, getStateAttr(), getElement(), table, Value(),
                       tables);
}

LogicalResult StoreOp::verify() {
  return verifyRange(*this, getElement(), getValue().getType(), getSlot());
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyInState(*this, getStateAttr(), getElement(),
                       getValue().getType(), getSlot(), tables);
}
