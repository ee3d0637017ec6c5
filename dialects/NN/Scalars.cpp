//===- Scalars.cpp - The table of scalar operations -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Scalars.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <cmath>

using namespace mlir;
using namespace heddle::nn;

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value Scalars::real(double value) {
  return create<arith::ConstantOp>(getF64FloatAttr(value));
}
Value Scalars::add(Value a, Value b) { return create<arith::AddFOp>(a, b); }
Value Scalars::sub(Value a, Value b) { return create<arith::SubFOp>(a, b); }
Value Scalars::mul(Value a, Value b) { return create<arith::MulFOp>(a, b); }
Value Scalars::div(Value a, Value b) { return create<arith::DivFOp>(a, b); }
Value Scalars::negative(Value a) { return create<arith::NegFOp>(a); }
Value Scalars::isGreater(Value a, Value b) {
  return create<arith::CmpFOp>(arith::CmpFPredicate::OGT, a, b);
}
Value Scalars::select(Value condition, Value a, Value b) {
  return create<arith::SelectOp>(condition, a, b);
}

Value heddle::nn::buildMap(OpBuilder &builder, Location loc,
                           ValueRange operands,
                           function_ref<Value(Scalars &, ValueRange)> function,
                           Type type) {
  auto map =
      builder.create<MapOp>(loc, type ? type : operands.front().getType(),
                            operands, FunctionAttr(), ArrayAttr());
  Block &body = map.getBody().emplaceBlock();
  Scalars s(loc, builder.getContext());
  s.setInsertionPointToEnd(&body);
  for (size_t i = 0; i < operands.size(); ++i)
    body.addArgument(s.getF64Type(), loc);
  s.create<ReturnOp>(function(s, body.getArguments()));
  return map.getOutputs()[0];
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

using Operands = ArrayRef<double>;
using At = const ScalarAdjoint &;

static double valueOf(Operation *constant) {
  return cast<FloatAttr>(cast<arith::ConstantOp>(constant).getValue())
      .getValueAsDouble();
}

static double compare(Operation *op, Operands x) {
  return arith::applyCmpPredicate(cast<arith::CmpFOp>(op).getPredicate(),
                                  llvm::APFloat(x[0]), llvm::APFloat(x[1]));
}

/// The maximum; NaN if `a` is NaN, as arith.maximumf.
static double larger(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

/// The gradient of one operand of a select: `grad` if the operand was selected,
/// otherwise 0. `first` says which operand.
static Value chosen(At at, Value condition, bool first) {
  Value zero = at.s.real(0);
  return first ? at.s.select(condition, at.grad, zero)
               : at.s.select(condition, zero, at.grad);
}

static const ScalarOp table[] = {
    {"arith.constant", 0, [](Operation *op, Operands) { return valueOf(op); },
     nullptr},
    {"arith.addf", 1, [](Operation *, Operands x) { return x[0] + x[1]; },
     [](At at, unsigned) { return at.grad; }},
    {"arith.subf", 1, [](Operation *, Operands x) { return x[0] - x[1]; },
     [](At at, unsigned operand) {
       return operand == 0 ? at.grad : at.s.negative(at.grad);
     }},
    {"arith.mulf", 1, [](Operation *, Operands x) { return x[0] * x[1]; },
     [](At at, unsigned operand) {
       return at.s.mul(at.grad, at.operand(1 - operand));
     }},
    {"arith.divf", 1, [](Operation *, Operands x) { return x[0] / x[1]; },
     [](At at, unsigned operand) {
       Value quotient = at.s.div(at.grad, at.operand(1));
       return operand == 0 ? quotient
                           : at.s.negative(at.s.mul(quotient, at.result()));
     }},
    {"arith.negf", 1, [](Operation *, Operands x) { return -x[0]; },
     [](At at, unsigned) { return at.s.negative(at.grad); }},
    {"arith.maximumf", 1,
     [](Operation *, Operands x) { return larger(x[0], x[1]); },
     [](At at, unsigned operand) {
       return chosen(at, at.s.isGreater(at.operand(0), at.operand(1)),
                     operand == 0);
     }},
    {"arith.minimumf", 1,
     [](Operation *, Operands x) { return -larger(-x[0], -x[1]); },
     [](At at, unsigned operand) {
       return chosen(at, at.s.isGreater(at.operand(1), at.operand(0)),
                     operand == 0);
     }},
    {"arith.cmpf", 1, compare, nullptr},
    {"arith.select", 1,
     [](Operation *, Operands x) { return x[0] != 0 ? x[1] : x[2]; },
     [](At at, unsigned operand) {
       return operand == 0 ? Value() : chosen(at, at.operand(0), operand == 1);
     }},
    {"math.absf", 1, [](Operation *, Operands x) { return std::fabs(x[0]); },
     [](At at, unsigned) {
       Value x = at.operand(0), zero = at.s.real(0);
       Value below = chosen(at, at.s.isGreater(zero, x), /*first=*/true);
       return at.s.sub(chosen(at, at.s.isGreater(x, zero), /*first=*/true),
                       below);
     }},
    {"math.exp", 12, [](Operation *, Operands x) { return std::exp(x[0]); },
     [](At at, unsigned) { return at.s.mul(at.grad, at.result()); }},
    {"math.log", 12, [](Operation *, Operands x) { return std::log(x[0]); },
     [](At at, unsigned) { return at.s.div(at.grad, at.operand(0)); }},
    {"math.sqrt", 1, [](Operation *, Operands x) { return std::sqrt(x[0]); },
     [](At at, unsigned) {
       return at.s.div(at.s.mul(at.s.real(0.5), at.grad), at.result());
     }},
    {"math.rsqrt", 2,
     [](Operation *, Operands x) { return 1 / std::sqrt(x[0]); },
     [](At at, unsigned) {
       Value y = at.result(), cube = at.s.mul(y, at.s.mul(y, y));
       return at.s.mul(at.grad, at.s.mul(at.s.real(-0.5), cube));
     }},
    {"math.tanh", 13, [](Operation *, Operands x) { return std::tanh(x[0]); },
     [](At at, unsigned) {
       Value square = at.s.mul(at.result(), at.result());
       return at.s.mul(at.grad, at.s.sub(at.s.real(1), square));
     }},
    {"math.erf", 16, [](Operation *, Operands x) { return std::erf(x[0]); },
     [](At at, unsigned) {
       Value x = at.operand(0);
       Value bell =
           at.s.create<math::ExpOp>(at.s.negative(at.s.mul(x, x))).getResult();
       return at.s.mul(at.grad, at.s.mul(at.s.real(M_2_SQRTPI), bell));
     }},
    {"nn.logistic", 15,
     [](Operation *, Operands x) { return 1 / (1 + std::exp(-x[0])); },
     [](At at, unsigned) {
       Value y = at.result(), slope = at.s.mul(y, at.s.sub(at.s.real(1), y));
       return at.s.mul(at.grad, slope);
     }},
};

const ScalarOp *heddle::nn::findScalarOp(Operation *op) {
  StringRef name = op->getName().getStringRef();
  const auto *row = llvm::find_if(
      table, [&](const ScalarOp &known) { return known.name == name; });
  return row == std::end(table) ? nullptr : row;
}

double heddle::nn::flopsOf(Block &function) {
  double flops = 0;
  for (Operation &op : function.without_terminator())
    if (const ScalarOp *scalar = findScalarOp(&op))
      flops += scalar->flops;
  return flops;
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

namespace {

/// Builds the derivative of a scalar function in reverse mode.
class GradientBuilder {
public:
  GradientBuilder(Block &function, Region &gradient)
      : function(function), block(gradient.emplaceBlock()),
        s(function.getTerminator()->getLoc(),
          function.getTerminator()->getContext()) {
    s.setInsertionPointToEnd(&block);
  }

  SmallVector<unsigned> build(ArrayRef<bool> seeded, ArrayRef<bool> wanted) {
    Operation *end = function.getTerminator();
    SmallVector<Value> seeds;
    for (bool isSeeded : seeded)
      seeds.push_back(isSeeded ? addArgument() : Value());
    for (BlockArgument argument : function.getArguments()) {
      clones.map(argument, addArgument());
      if (wanted[argument.getArgNumber()])
        active.insert(argument);
    }
    for (Operation &op : function.without_terminator()) {
      s.clone(op, clones);
      if (llvm::any_of(op.getOperands(),
                       [&](Value v) { return active.contains(v); }))
        active.insert(op.getResult(0));
    }
    for (auto [value, seed] : llvm::zip(end->getOperands(), seeds))
      if (seed && active.contains(value))
        add(value, seed);
    for (Operation &op : llvm::reverse(function.without_terminator()))
      visit(op);
    SmallVector<Value> results;
    for (BlockArgument argument : function.getArguments())
      if (wanted[argument.getArgNumber()]) {
        Value grad = grads.lookup(argument);
        results.push_back(grad ? grad : s.real(0));
      }
    s.create<ReturnOp>(results);
    return prune();
  }

private:
  Value addArgument() { return block.addArgument(s.getF64Type(), s.getLoc()); }

  void add(Value value, Value grad) {
    Value &sum = grads[value];
    sum = sum ? s.add(sum, grad) : grad;
  }

  void visit(Operation &op) {
    Value grad = grads.lookup(op.getResult(0));
    const ScalarOp *scalar = findScalarOp(&op);
    if (!grad || !scalar || !scalar->derivative)
      return;
    Operation *clone = clones.lookup(op.getResult(0)).getDefiningOp();
    for (OpOperand &operand : op.getOpOperands())
      if (active.contains(operand.get()))
        if (Value share = scalar->derivative({s, clone, grad},
                                             operand.getOperandNumber()))
          add(operand.get(), share);
  }

  /// Erases operations and arguments that the gradients do not need. Returns
  /// the indices of the function's arguments that remain.
  SmallVector<unsigned> prune() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    SmallVector<unsigned> read;
    for (BlockArgument argument : function.getArguments()) {
      auto clone = cast<BlockArgument>(clones.lookup(argument));
      if (clone.use_empty())
        block.eraseArgument(clone.getArgNumber());
      else
        read.push_back(argument.getArgNumber());
    }
    return read;
  }

  Block &function;
  Block &block;
  Scalars s;
  IRMapping clones;
  DenseSet<Value> active; ///< Values that depend on a wanted argument.
  DenseMap<Value, Value> grads;
};

} // namespace

SmallVector<unsigned> heddle::nn::buildScalarGradient(Block &function,
                                                      ArrayRef<bool> seeded,
                                                      ArrayRef<bool> wanted,
                                                      Region &gradient) {
  return GradientBuilder(function, gradient).build(seeded, wanted);
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// Whether two values are the same expression; `known` are pairs already found
/// equal.
static bool areEqual(Value a, Value b,
                     DenseSet<std::pair<Value, Value>> &known) {
  if (known.contains({a, b}))
    return true;
  auto left = dyn_cast<BlockArgument>(a), right = dyn_cast<BlockArgument>(b);
  if (left || right)
    return left && right && left.getArgNumber() == right.getArgNumber();
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (x->getName() != y->getName() ||
      x->getAttrDictionary() != y->getAttrDictionary() ||
      x->getNumOperands() != y->getNumOperands())
    return false;
  for (auto [i, j] : llvm::zip(x->getOperands(), y->getOperands()))
    if (!areEqual(i, j, known))
      return false;
  known.insert({a, b});
  return true;
}

bool heddle::nn::areEqualFunctions(Block &a, Block &b) {
  DenseSet<std::pair<Value, Value>> known;
  auto left = a.getTerminator()->getOperands();
  auto right = b.getTerminator()->getOperands();
  return a.getNumArguments() == b.getNumArguments() &&
         left.size() == right.size() &&
         llvm::all_of(llvm::zip(left, right), [&](auto pair) {
           return areEqual(std::get<0>(pair), std::get<1>(pair), known);
         });
}
