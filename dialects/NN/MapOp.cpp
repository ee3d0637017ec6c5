//===- MapOp.cpp - The operation nn.map -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Syntax, verifier, sharding and derivative of nn.map.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"
#include "dialects/NN/Scalars.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OpImplementation.h"
#include <cmath>

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

Attribute FunctionAttr::parse(AsmParser &parser, Type) {
  StringRef name;
  SMLoc place = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&name) || parser.parseGreater())
    return {};
  return parser.getChecked<FunctionAttr>(place, parser.getContext(), name);
}

void FunctionAttr::print(AsmPrinter &printer) const {
  printer << "<" << getName() << ">";
}

LogicalResult FunctionAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringRef name) {
  if (isFunctionName(name))
    return success();
  return emitError() << "unknown function \"" << name << "\"; known are "
                     << functionNames() << ", and their derivatives with _grad";
}

void MapOp::build(OpBuilder &builder, OperationState &state, StringRef function,
                  ValueRange inputs) {
  Region &body = *state.addRegion();
  bool isKnown = succeeded(buildFunction(function, state.location, body));
  assert(isKnown && "no function of that name");
  (void)isKnown;
  state.addOperands(inputs);
  state.addAttribute(getFunctionAttrName(state.name),
                     FunctionAttr::get(builder.getContext(), function));
  for (size_t i = 0; i < body.front().getTerminator()->getNumOperands(); ++i)
    state.addTypes(inputs[0].getType());
}

namespace {

/// How a scalar in the body of nn.map depends on one argument of the body.
/// `None` and `Zero` mean that it does not depend on the argument; `Zero` also
/// means that the scalar is the constant 0, which counts as linear.
enum class Dependence { None, Zero, Linear, Other };

bool isLinear(Dependence dependence) {
  return dependence == Dependence::Linear || dependence == Dependence::Zero;
}

bool isNone(Dependence dependence) {
  return dependence == Dependence::None || dependence == Dependence::Zero;
}

} // namespace

/// How the result of `op` depends on an argument of the body, if the operands
/// of `op` depend on this argument as `operands` says.
static Dependence dependenceOf(Operation &op, ArrayRef<Dependence> operands) {
  if (matchPattern(&op, m_AnyZeroFloat()))
    return Dependence::Zero;
  if (llvm::all_of(operands, isNone))
    return Dependence::None;
  bool right = false;
  if (isa<arith::AddFOp, arith::SubFOp, arith::NegFOp>(op))
    right = llvm::all_of(operands, isLinear);
  else if (isa<arith::MulFOp>(op))
    right = isNone(operands[0]) ? isLinear(operands[1])
                                : isLinear(operands[0]) && isNone(operands[1]);
  else if (isa<arith::DivFOp>(op))
    right = isLinear(operands[0]) && isNone(operands[1]);
  else if (isa<arith::SelectOp>(op))
    right =
        isNone(operands[0]) && isLinear(operands[1]) && isLinear(operands[2]);
  return right ? Dependence::Linear : Dependence::Other;
}

bool MapOp::isLinearIn(OpOperand &operand) {
  Block &body = getBody().front();
  DenseMap<Value, Dependence> known;
  for (BlockArgument argument : body.getArguments())
    known[argument] = argument.getArgNumber() == operand.getOperandNumber()
                          ? Dependence::Linear
                          : Dependence::None;
  for (Operation &op : body.without_terminator()) {
    SmallVector<Dependence> operands;
    for (Value value : op.getOperands())
      operands.push_back(known.lookup(value));
    for (Value result : op.getResults())
      known[result] = dependenceOf(op, operands);
  }
  return llvm::all_of(body.getTerminator()->getOperands(), [&](Value result) {
    return isLinear(known.lookup(result));
  });
}

StringRef heddle::nn::labelOf(Operation *op) {
  if (auto update = dyn_cast<UpdateOp>(op))
    return update.getRule();
  auto map = dyn_cast<MapOp>(op);
  return map && map.getFunction() ? map.getFunction()->getName()
                                  : op->getName().stripDialect();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Parses either one type for all operands and results, or a function type.
static ParseResult parseTypes(OpAsmParser &parser, size_t numInputs,
                              size_t numOutputs, SmallVectorImpl<Type> &inputs,
                              SmallVectorImpl<Type> &outputs) {
  Type type;
  if (parser.parseColonType(type))
    return failure();
  if (auto function = dyn_cast<FunctionType>(type)) {
    llvm::append_range(inputs, function.getInputs());
    llvm::append_range(outputs, function.getResults());
    return success();
  }
  inputs.assign(numInputs, type);
  outputs.assign(numOutputs, type);
  return success();
}

/// Parses the short form `nn.map relu(%x)`, after the function's name was
/// parsed. Builds the body of the named function.
static ParseResult
parseNamed(OpAsmParser &parser, StringRef name, OperationState &result,
           SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  SMLoc place = parser.getCurrentLocation();
  auto function =
      parser.getChecked<FunctionAttr>(place, parser.getContext(), name);
  if (!function || parser.parseLParen() || parser.parseOperandList(operands) ||
      parser.parseRParen())
    return failure();
  result.addAttribute(MapOp::getFunctionAttrName(result.name), function);
  return buildFunction(name, result.location, *result.addRegion());
}

/// Parses `(%a = %x, %b = %y)`: the body's arguments and the operands.
static ParseResult
parseBindings(OpAsmParser &parser,
              SmallVectorImpl<OpAsmParser::Argument> &arguments,
              SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, [&] {
    arguments.emplace_back().type = parser.getBuilder().getF64Type();
    return failure(parser.parseArgument(arguments.back()) ||
                   parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()));
  });
}

ParseResult MapOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef name;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> inputs, outputs;
  bool isNamed = succeeded(parser.parseOptionalKeyword(&name));
  SMLoc place = parser.getCurrentLocation();
  if (isNamed ? parseNamed(parser, name, result, operands)
              : parseBindings(parser, arguments, operands))
    return failure();
  size_t numOutputs = 1;
  if (isNamed)
    numOutputs = result.regions[0]->front().getTerminator()->getNumOperands();
  if (parser.parseOptionalAttrDict(result.attributes) ||
      parseTypes(parser, operands.size(), numOutputs, inputs, outputs) ||
      parser.resolveOperands(operands, inputs, place, result.operands))
    return failure();
  result.addTypes(outputs);
  if (isNamed)
    return success();
  return parser.parseRegion(*result.addRegion(), arguments,
                            /*enableNameShadowing=*/true);
}

void MapOp::print(OpAsmPrinter &printer) {
  Block &body = getBody().front();
  if (auto function = getFunction()) {
    printer << " " << function->getName() << "(" << getInputs() << ")";
  } else {
    printer << " (";
    llvm::interleaveComma(
        llvm::zip(body.getArguments(), getInputs()), printer, [&](auto pair) {
          printer << std::get<0>(pair) << " = " << std::get<1>(pair);
        });
    printer << ")";
  }
  printer.printOptionalAttrDict((*this)->getAttrs(), {getFunctionAttrName()});
  SmallVector<Type> types(getOperandTypes());
  llvm::append_range(types, getResultTypes());
  printer << " : ";
  if (llvm::all_equal(types) && getFunction())
    printer << types.front();
  else
    printer.printFunctionalType(*this);
  if (getFunction())
    return;
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult MapOp::verify() {
  if (getOutputs().empty())
    return emitOpError("has no results");
  ArrayRef<int64_t> shape = tensorOf(getOutputs()[0]).getShape();
  for (Value output : getOutputs())
    if (tensorOf(output).getShape() != shape)
      return emitOpError("has results of several shapes: ")
             << getOutputs()[0].getType() << " and " << output.getType();
  bool any = false;
  for (Value input : getInputs()) {
    any |= tensorOf(input).getShape() == shape;
    if (tensorOf(input).getShape() != shape && tensorOf(input).getRank() > 0)
      return emitOpError("takes ")
             << input.getType() << "; possible are tensors of the shape of "
             << getOutputs()[0].getType() << " and scalars of rank 0";
  }
  if (!any)
    return emitOpError("takes no tensor of the shape of its results");
  return success();
}

/// Whether a value in a body may have this type: f64 for a number, i1 for a
/// condition.
static bool isScalar(Type type) { return type.isF64() || type.isInteger(1); }

LogicalResult heddle::nn::verifyScalarBody(Operation *op, Block &body,
                                           size_t arguments, size_t results) {
  auto end = body.empty() ? ReturnOp() : dyn_cast<ReturnOp>(body.back());
  if (!end)
    return op->emitOpError("must end in nn.return");
  auto allReal = [](TypeRange types) {
    return llvm::all_of(types, [](Type type) { return type.isF64(); });
  };
  if (body.getNumArguments() != arguments || !allReal(body.getArgumentTypes()))
    return op->emitOpError("has a body of ")
           << body.getArgumentTypes() << " for " << arguments
           << " operands; it needs one f64 for each";
  if (end.getNumOperands() != results || !allReal(end.getOperandTypes()))
    return end.emitOpError("returns ")
           << end.getOperandTypes() << " from a body for " << results
           << " results; it needs one f64 for each";
  for (Operation &op : body.without_terminator()) {
    if (!findScalarOp(&op))
      return op.emitOpError("is no scalar operation of nn.map");
    if (op.getNumResults() != 1 || !isScalar(op.getResult(0).getType()))
      return op.emitOpError("gives ")
             << op.getResultTypes() << " in a body of f64";
    // Generated code computes in f32, so constants must be in the range of f32.
    FloatAttr constant;
    if (matchPattern(&op, m_Constant(&constant)) &&
        !std::isfinite(static_cast<float>(constant.getValueAsDouble())))
      return op.emitOpError("is no finite number in f32");
  }
  return success();
}

LogicalResult MapOp::verifyRegions() {
  Block &body = getBody().front();
  if (failed(verifyScalarBody(*this, body, getNumOperands(), getNumResults())))
    return failure();
  auto function = getFunction();
  if (!function)
    return success();
  Region known;
  if (failed(buildFunction(function->getName(), getLoc(), known)) ||
      !areEqualFunctions(body, known.front()))
    return emitOpError("has another body than the function ")
           << function->getName();
  return success();
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

double MapOp::getFlops() {
  return flopsOf(getBody().front()) *
         static_cast<double>(tensorOf(getOutputs()[0]).getNumElements());
}

dist::ShardingRule MapOp::getShardingRule() {
  int64_t rank = tensorOf(getOutputs()[0]).getRank();
  std::string letters = leadingLetters(rank);
  SmallVector<std::string> operands, results(getNumResults(), letters);
  for (Value input : getInputs())
    operands.push_back(tensorOf(input).getRank() == rank ? letters : "");
  return dist::buildRule(*this, operands, results);
}

void MapOp::buildGradient(OpBuilder &builder, GradientContext &context) {
  SmallVector<Value> operands;
  SmallVector<bool> seeded, wanted;
  for (Value output : getOutputs()) {
    Value grad = context.gradientOf(output);
    seeded.push_back(static_cast<bool>(grad));
    if (grad)
      operands.push_back(grad);
  }
  RankedTensorType domain = tensorOf(getOutputs()[0]);
  SmallVector<Type> types;
  for (Value input : getInputs()) {
    wanted.push_back(context.isActive(input));
    // A scalar input is used by all elements, so its gradient is a sum over
    // them.
    bool isScalar = tensorOf(input).getRank() != domain.getRank();
    if (wanted.back())
      types.push_back(isScalar ? domain.clone(builder.getF32Type())
                               : input.getType());
  }
  if (types.empty())
    return;
  Region body;
  for (unsigned number :
       buildScalarGradient(getBody().front(), seeded, wanted, body))
    operands.push_back(context.forward(getInputs()[number]));
  FunctionAttr name;
  if (getFunction() && !llvm::is_contained(seeded, false) &&
      !llvm::is_contained(wanted, false))
    name = FunctionAttr::get(getContext(),
                             (getFunction()->getName() + "_grad").str());
  auto gradient = builder.create<MapOp>(getLoc(), types, operands, name,
                                        /*shardings=*/ArrayAttr());
  gradient.getBody().takeBody(body);
  auto next = gradient.getOutputs().begin();
  for (auto [input, isWanted] : llvm::zip(getInputs(), wanted)) {
    if (!isWanted)
      continue;
    Value grad = *next++;
    if (tensorOf(input).getRank() != domain.getRank())
      grad = builder.create<SumOp>(
          getLoc(), tensorOf(input).clone(builder.getF32Type()), grad,
          /*weights=*/Value(), /*init=*/Value(), ArrayAttr());
    if (grad.getType() != input.getType())
      grad =
          builder.create<CastOp>(getLoc(), input.getType(), grad, ArrayAttr());
    context.add(input, grad);
  }
}
