//===- RankInterpreter.cpp - Executes what one rank runs --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ModelInterpreter, which computes with tensors, and PlanInterpreter,
// which computes with bytes in memory, have in common.
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/RankInterpreter.h"

#include "dialects/NN/Phases.h"
#include "dialects/Pipe/Schedule.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>

using namespace mlir;

namespace heddle::eval {

std::optional<ProgramName> ProgramName::parse(StringRef text) {
  std::optional<nn::ProgramKind> kind =
      nn::symbolizeProgramKind(text.split('/').first);
  if (!kind)
    return std::nullopt;
  ProgramName name(*kind);
  name.text = text.str();
  return name;
}

bool ProgramName::isOf(std::optional<nn::ProgramKind> kind, StringRef symbol,
                       nn::PhaseAttr phase) const {
  if (!StringRef(text).contains('/'))
    return kind && stringifyProgramKind(*kind) == text;
  if (!kind)
    return false;
  std::string known = phase ? nn::programName(*kind, phase) : symbol.str();
  std::replace(known.begin(), known.end(), '.', '/');
  return known == text;
}

std::vector<plan::Condition> RankInterpreter::conditions() {
  std::vector<plan::Condition> all;
  auto add = [&](auto op) {
    all.push_back(op.getHolds().toPlan(op.getSymName()));
  };
  for (Operation &op : source()->getRegion(0).getOps())
    llvm::TypeSwitch<Operation *>(&op)
        .Case<nn::ConditionOp, planir::ConditionOp>(add);
  return all;
}

std::vector<plan::Phase> RankInterpreter::phases() {
  std::vector<plan::Phase> all;
  for (Operation &op : source()->getRegion(0).getOps())
    if (auto phase = op.getAttrOfType<nn::PhaseAttr>("phase"))
      all.push_back(nn::toPlan(phase));
  return all;
}

void RankInterpreter::setOutcomes(const TensorMap &inputs) {
  falseConditions.clear();
  for (const plan::Condition &condition : conditions()) {
    auto given = inputs.find(condition.name);
    if (given != inputs.end() && given->second.floats().front() == 0)
      falseConditions.insert(condition.name);
  }
}

std::optional<int64_t>
RankInterpreter::number(Operation *op,
                        llvm::function_ref<int64_t(Value)> valueOf) const {
  return llvm::TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case([&](arith::ConstantOp constant) -> std::optional<int64_t> {
        auto value = dyn_cast<IntegerAttr>(constant.getValue());
        return value ? std::optional(value.getInt()) : std::nullopt;
      })
      .Case([&](arith::AddIOp add) {
        return valueOf(add.getLhs()) + valueOf(add.getRhs());
      })
      .Case([&](arith::MulIOp product) {
        return valueOf(product.getLhs()) * valueOf(product.getRhs());
      })
      .Case<dist::RankOp, planir::RankOp>(
          [&](auto op) { return rank.coordinate(op.getAxes()); })
      .Default([](Operation *) { return std::nullopt; });
}

LogicalResult RankInterpreter::runFragments(
    Operation *fragments,
    llvm::function_ref<LogicalResult(Block &, int64_t, int64_t)> run) {
  auto line = fragments->getAttrOfType<pipe::LineAttr>("line");
  auto slots = fragments->getAttrOfType<DenseI64ArrayAttr>("slots");
  for (const pipe::Action &action : line.getActions()) {
    size_t kind = line.kindOf(action);
    if (failed(run(fragments->getRegion(kind).front(), action.microBatch,
                   action.microBatch % slots[kind])))
      return failure();
  }
  return success();
}

} // namespace heddle::eval
