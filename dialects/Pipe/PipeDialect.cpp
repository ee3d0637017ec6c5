//===- PipeDialect.cpp - Which part runs where, in what order -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/PipeDialect.h"
#include "dialects/NN/NNDialect.h"
#include "dialects/Pipe/Fragments.h"
#include "dialects/Pipe/Schedule.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle::pipe;

#include "dialects/Pipe/PipeDialect.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Pipe/PipeOps.cpp.inc"

void PipeDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Pipe/PipeOps.cpp.inc"
      >();
}

LogicalResult ScheduleOp::verify() {
  if (getMicroBatches() < 1 || getMicroBatches() > mostMicroBatches)
    return emitOpError("has ") << getMicroBatches() << " micro-batches; 1 to "
                               << mostMicroBatches << " are possible";
  if (getStages().empty())
    return emitOpError("has no stages");
  // All stages have the same one: read and checked once, with the first.
  auto stage = (*this)->getParentOp()->getAttrOfType<IntegerAttr>("stage");
  if (stage && stage.getInt() > 0)
    return success();
  Schedule schedule;
  for (auto line : getStages().getAsRange<StringAttr>()) {
    auto read = parseStage(line.getValue());
    if (!read)
      return emitOpError("cannot read the stage \"") << line.getValue() << "\"";
    schedule.push_back(*read);
  }
  std::string wrong = checkSchedule(schedule, getMicroBatches());
  if (!wrong.empty())
    return emitOpError() << wrong;
  return success();
}

LogicalResult heddle::pipe::verifyFragments(Operation *op, StringRef line,
                                            ArrayAttr kinds,
                                            ArrayRef<int64_t> slots) {
  if (kinds.size() != op->getNumRegions() || slots.size() != kinds.size())
    return op->emitOpError("has ")
           << op->getNumRegions() << " regions, " << kinds.size()
           << " kinds and " << slots.size() << " numbers of slots";
  for (auto [body, number] : llvm::zip(op->getRegions(), slots)) {
    if (number < 1)
      return op->emitOpError("has ") << number << " slots; at least 1";
    if (body.getNumArguments() != 2 ||
        !llvm::all_of(body.getArgumentTypes(),
                      [](Type type) { return type.isIndex(); }))
      return op->emitOpError(
          "needs two arguments of type index in every region");
  }
  llvm::StringSet<> names;
  for (StringRef kind : kinds.getAsValueRange<StringAttr>())
    if (!names.insert(kind).second)
      return op->emitOpError("has two regions for ") << kind;
  auto read = parseStage(line);
  if (!read)
    return op->emitOpError("cannot read the line \"") << line << "\"";
  for (const Action &action : *read)
    if (!names.contains(action.name()))
      return op->emitOpError("has no region for ") << action.str();
  return success();
}

LogicalResult FragmentsOp::verify() {
  return verifyFragments(*this, getLine(), getKinds(), getSlots());
}

int64_t heddle::pipe::microBatchesAt(Operation *op) {
  if (auto loop = dyn_cast<nn::MicroBatchesOp>(op->getParentOp()))
    return loop.getCount();
  auto fragments = dyn_cast<FragmentsOp>(op->getParentOp());
  if (!fragments)
    return 0;
  int64_t count = 0;
  Line line = *parseStage(fragments.getLine());
  for (const Action &action : line)
    count = std::max(count, action.microBatch + 1);
  return count;
}
