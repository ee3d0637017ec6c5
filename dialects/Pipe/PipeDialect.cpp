//===- PipeDialect.cpp - Stages, schedules and fragments ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/PipeDialect.h"
#include "dialects/NN/NNDialect.h"
#include "dialects/Pipe/Schedule.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle::pipe;

#include "dialects/Pipe/PipeDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Pipe/PipeAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Pipe/PipeOps.cpp.inc"

void PipeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Pipe/PipeAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Pipe/PipeOps.cpp.inc"
      >();
}

size_t LineAttr::kindOf(const Action &action) const {
  return llvm::find(getKinds(), action.kindOnly()) - getKinds().begin();
}

Attribute LineAttr::parse(AsmParser &parser, Type) {
  std::string text;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseString(&text))
    return {};
  if (auto line = parseStage(text))
    return get(parser.getContext(), *line);
  parser.emitError(location) << "cannot read the stage \"" << text << "\"";
  return {};
}

void LineAttr::print(AsmPrinter &printer) const {
  printer << '"' << printStage(getActions()) << '"';
}

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  SmallVector<LineAttr> lines;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parser.parseCustomAttributeWithFallback(lines.emplace_back());
      }))
    return {};
  return get(parser.getContext(), lines);
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  printer << '[';
  llvm::interleaveComma(getLines(), printer.getStream(),
                        [&](LineAttr line) { line.print(printer); });
  printer << ']';
}

LogicalResult ScheduleOp::verify() {
  if (getMicroBatches() < 1 || getMicroBatches() > mostMicroBatches)
    return emitOpError("has ") << getMicroBatches() << " micro-batches; 1 to "
                               << mostMicroBatches << " are possible";
  if (getStages().getLines().empty())
    return emitOpError("has no stages");
  // The models of all stages have the same schedule. Therefore it is checked
  // only in the model of the first stage.
  auto stage = (*this)->getParentOp()->getAttrOfType<IntegerAttr>("stage");
  if (stage && stage.getInt() > 0)
    return success();
  Schedule schedule;
  for (LineAttr line : getStages().getLines())
    schedule.push_back(line.getActions());
  std::string wrong = checkSchedule(schedule, getMicroBatches());
  if (!wrong.empty())
    return emitOpError() << wrong;
  return success();
}

LogicalResult heddle::pipe::verifyFragments(Operation *op, LineAttr line,
                                            ArrayRef<int64_t> slots) {
  size_t kinds = line.getKinds().size();
  if (kinds != op->getNumRegions() || kinds != slots.size())
    return op->emitOpError("has ")
           << op->getNumRegions() << " regions and " << slots.size()
           << " numbers of slots for " << kinds << " kinds of fragments";
  for (auto [body, number] : llvm::zip(op->getRegions(), slots)) {
    if (number < 1)
      return op->emitOpError("has ") << number << " slots; at least 1";
    if (body.getNumArguments() != 2 ||
        !llvm::all_of(body.getArgumentTypes(),
                      [](Type type) { return type.isIndex(); }))
      return op->emitOpError(
          "needs two arguments of type index in every region");
  }
  return success();
}

LogicalResult FragmentsOp::verify() {
  return verifyFragments(*this, getLine(), getSlots());
}

int64_t heddle::pipe::microBatchesAt(Operation *op) {
  if (auto loop = dyn_cast<nn::MicroBatchesOp>(op->getParentOp()))
    return loop.getCount();
  auto fragments = dyn_cast<FragmentsOp>(op->getParentOp());
  if (!fragments)
    return 0;
  int64_t count = 0;
  for (const Action &action : fragments.getLine().getActions())
    count = std::max(count, action.microBatch + 1);
  return count;
}
