//===- ScalarFunctions.cpp - Named scalar functions -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The table of named functions for nn.map: `nn.map relu(%x)` is written without
// a body. Derivatives are computed from the bodies (Scalars.cpp).
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"
#include "dialects/NN/Scalars.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace heddle::nn;

static const double sqrt2OverPi = std::sqrt(2.0 / M_PI);

/// tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
static Value geluTanh(Scalars &s, Value x) {
  constexpr double cubic = 0.044715;
  Value square = s.mul(x, x);
  Value inner =
      s.add(s.real(sqrt2OverPi), s.mul(s.real(sqrt2OverPi * cubic), square));
  return s.create<math::TanhOp>(s.mul(x, inner));
}

/// Returns x / 2 * (1 + t).
static Value halfOf(Scalars &s, Value x, Value t) {
  Value half = s.mul(s.real(0.5), x);
  return s.add(half, s.mul(half, t));
}

namespace {
struct NamedFunction {
  StringRef name;
  unsigned arguments;
  Value (*body)(Scalars &s, ValueRange x);
};
} // namespace

static const NamedFunction functions[] = {
    {"gelu", 1,
     [](Scalars &s, ValueRange x) {
       return halfOf(
           s, x[0],
           s.create<math::ErfOp>(s.mul(x[0], s.real(M_SQRT1_2))).getResult());
     }},
    {"gelu_tanh", 1,
     [](Scalars &s, ValueRange x) {
       return halfOf(s, x[0], geluTanh(s, x[0]));
     }},
    {"relu", 1,
     [](Scalars &s, ValueRange x) -> Value {
       return s.create<arith::MaximumFOp>(x[0], s.real(0));
     }},
    {"relu_squared", 1,
     [](Scalars &s, ValueRange x) {
       Value relu = s.create<arith::MaximumFOp>(x[0], s.real(0));
       return s.mul(relu, relu);
     }},
    {"quick_gelu", 1,
     [](Scalars &s, ValueRange x) {
       Value logistic = s.create<LogisticOp>(s.mul(s.real(1.702), x[0]));
       return s.mul(x[0], logistic);
     }},
    {"silu", 1,
     [](Scalars &s, ValueRange x) {
       return s.mul(x[0], s.create<LogisticOp>(x[0]).getResult());
     }},
};

static const NamedFunction *find(StringRef name) {
  const auto *row = llvm::find_if(
      functions, [&](const NamedFunction &row) { return row.name == name; });
  return row == std::end(functions) ? nullptr : row;
}

static constexpr llvm::StringLiteral gradient = "_grad";

bool heddle::nn::isFunctionName(StringRef name) {
  while (name.consume_back(gradient))
    ;
  return find(name);
}

LogicalResult heddle::nn::buildFunction(StringRef name, Location loc,
                                        Region &body) {
  if (name.consume_back(gradient)) {
    Region forward;
    if (failed(buildFunction(name, loc, forward)))
      return failure();
    Block &block = forward.front();
    SmallVector<bool> seeded(block.getTerminator()->getNumOperands(), true);
    SmallVector<bool> wanted(block.getNumArguments(), true);
    buildScalarGradient(block, seeded, wanted, body);
    return success();
  }
  const NamedFunction *function = find(name);
  if (!function)
    return failure();
  Block &block = body.emplaceBlock();
  Scalars s(loc, loc.getContext());
  s.setInsertionPointToEnd(&block);
  for (unsigned i = 0; i < function->arguments; ++i)
    block.addArgument(s.getF64Type(), loc);
  s.create<ReturnOp>(function->body(s, block.getArguments()));
  return success();
}

std::string heddle::nn::functionNames() {
  std::string names;
  for (const NamedFunction &function : functions)
    names += (names.empty() ? "" : ", ") + function.name.str();
  return names;
}
