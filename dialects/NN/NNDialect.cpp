//===- NNDialect.cpp - The nn dialect -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

#include "dialects/NN/NNDialect.cpp.inc"
#include "dialects/NN/NNEnums.cpp.inc"
#include "dialects/NN/NNInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttrs.cpp.inc"

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/NN/NNAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/NN/NNOps.cpp.inc"
      >();
}

StringRef PortAttr::getKey() const {
  return getName() ? getName().getValue() : stringifyPortRole(getRole());
}

bool PortAttr::isOfTokens() const {
  switch (getRole()) {
  case PortRole::Ids:
  case PortRole::Labels:
  case PortRole::LabelWeights:
  case PortRole::Positions:
  case PortRole::Segments:
    return true;
  default:
    return false;
  }
}

bool PortAttr::isOfBatch() const {
  return isOfTokens() || getRole() == PortRole::Lengths;
}

LogicalResult InitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               InitKind, FloatAttr value, FloatAttr stddev,
                               int64_t zeroRow) {
  if (zeroRow < -1)
    return emitError() << "initialises row " << zeroRow << " with zeros";
  for (FloatAttr number : {value, stddev})
    if (!number.getValue().isFinite())
      return emitError() << "initialises with " << number
                         << ", which is no finite number";
  return success();
}

LogicalResult
RotaryScalingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          RotaryRamp ramp, FloatAttr factor, FloatAttr low,
                          FloatAttr high, FloatAttr magnitude) {
  for (FloatAttr number : {factor, low, high, magnitude})
    if (!number.getType().isF64() || !number.getValue().isFinite())
      return emitError() << "scales by " << number
                         << ", which is no finite f64";
  if (factor.getValueAsDouble() <= 0)
    return emitError() << "divides rates by " << factor;
  if (ramp != RotaryRamp::All &&
      low.getValueAsDouble() >= high.getValueAsDouble())
    return emitError() << "has a ramp from " << low << " to " << high;
  return success();
}

LogicalResult
LayerDropAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr,
                      FloatAttr rate, FloatAttr theta, FloatAttr gamma) {
  if (!theta != !gamma)
    return emitError() << "needs theta and gamma, or neither";
  double drop = rate.getValueAsDouble();
  if (!(drop >= 0 && drop <= 1) || (!theta && drop == 1))
    return emitError() << "drops a layer with probability " << rate;
  if (theta && !(theta.getValueAsDouble() > 0 && theta.getValueAsDouble() <= 1))
    return emitError() << "has theta " << theta << ", which must be in (0, 1]";
  if (gamma && !(gamma.getValueAsDouble() >= 0 && gamma.getValue().isFinite()))
    return emitError() << "has gamma " << gamma << ", which must be at least 0";
  return success();
}

LogicalResult IntervalAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t doubledAfter, bool, int64_t atMost) {
  if (doubledAfter < 1)
    return emitError() << "doubles after " << doubledAfter
                       << "; at least 1 is right";
  if (atMost < 0)
    return emitError() << "is at most " << atMost
                       << "; at least 1, or 0 for no limit";
  return success();
}

Attribute IntervalAttr::parse(AsmParser &parser, Type) {
  StringRef counted;
  int64_t doubledAfter = 0, atMost = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&counted))
    return {};
  if (counted != "doubled_after" && counted != "doubled_after_runs") {
    parser.emitError(loc, "expected doubled_after or doubled_after_runs");
    return {};
  }
  if (parser.parseEqual() || parser.parseInteger(doubledAfter))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("at_most") || parser.parseEqual() ||
       parser.parseInteger(atMost)))
    return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    doubledAfter, counted == "doubled_after_runs", atMost);
}

void IntervalAttr::print(AsmPrinter &printer) const {
  printer << "<" << (getCountsRuns() ? "doubled_after_runs" : "doubled_after")
          << " = " << getDoubledAfter();
  if (getAtMost())
    printer << ", at_most = " << getAtMost();
  printer << ">";
}

LogicalResult PhaseAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringAttr name, int64_t from,
                                bool countsUpdates, IntervalAttr, int64_t to) {
  // The name is a part of the names of the program and of its states.
  auto isAllowed = [](char c) {
    return llvm::isAlnum(c) || c == '_' || c == '-';
  };
  if (name.empty() || !llvm::all_of(name.getValue(), isAllowed))
    return emitError() << "has the name " << name
                       << "; a name has letters, digits, \"_\" and \"-\"";
  StringRef counted = countsUpdates ? "update" : "step";
  if (from < 1)
    return emitError() << "begins at " << counted << " " << from << "; "
                       << counted << "s are counted from 1";
  if (to != 0 && to < from)
    return emitError() << "begins at " << counted << " " << from
                       << " and ends with " << to;
  return success();
}

Attribute PhaseAttr::parse(AsmParser &parser, Type) {
  StringAttr name;
  StringRef counted;
  int64_t from = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseAttribute(name) ||
      parser.parseComma() || parser.parseKeyword(&counted))
    return {};
  if (counted != "from_step" && counted != "from_update") {
    parser.emitError(loc, "expected from_step or from_update");
    return {};
  }
  if (parser.parseEqual() || parser.parseInteger(from))
    return {};
  IntervalAttr every;
  int64_t to = 0;
  while (succeeded(parser.parseOptionalComma())) {
    bool isInterval = succeeded(parser.parseOptionalKeyword("every"));
    if ((!isInterval && parser.parseKeyword("to")) || parser.parseEqual() ||
        (isInterval ? parser.parseAttribute(every) : parser.parseInteger(to)))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    name, from, counted == "from_update", every, to);
}

void PhaseAttr::print(AsmPrinter &printer) const {
  printer << "<" << getName() << ", "
          << (getCountsUpdates() ? "from_update" : "from_step") << " = "
          << getFrom();
  if (getEvery())
    printer << ", every = " << getEvery();
  if (getTo())
    printer << ", to = " << getTo();
  printer << ">";
}

plan::Condition LayerDropAttr::toPlan(StringRef name) const {
  plan::Condition condition;
  condition.name = name.str();
  condition.path = getPath().str();
  condition.rate = getRate().getValueAsDouble();
  if (getTheta())
    condition.progress = {getTheta().getValueAsDouble(),
                          getGamma().getValueAsDouble()};
  return condition;
}

double heddle::nn::bytesOf(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? static_cast<double>(dist::byteSize(tensor)) : 0;
}

int64_t heddle::nn::paddedElements(int64_t elements, int64_t parts) {
  int64_t alignment = 64 * parts;
  return (elements + alignment - 1) / alignment * alignment;
}
