//===- Lamb.cpp - LAMB (You et al., arXiv 1904.00962) ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As DeepSpeed's FusedLamb: the bias correction is part of the step size.
//
//   m  = beta1 m + (1 - beta1) g
//   v  = beta2 v + (1 - beta2) g^2
//   u  = m / (sqrt(v) + eps) + weight_decay p
//   r  = |p| / |u|, clamped to [min_coeff, max_coeff]; 1 if a norm is 0
//   p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) r u
//
//===----------------------------------------------------------------------===//

#include "Optimizers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

static std::pair<Value, Value> averages(nn::Scalars &s, const train::Element &x,
                                        const dist::Strategy &strategy) {
  double beta1 = strategy.beta1, beta2 = strategy.beta2;
  Value g = x.gradient;
  Value m =
      s.add(s.mul(s.real(beta1), x.states[0]), s.mul(s.real(1 - beta1), g));
  Value v = s.add(s.mul(s.real(beta2), x.states[1]),
                  s.mul(s.real(1 - beta2), s.mul(g, g)));
  return {m, v};
}

static Value direction(nn::Scalars &s, const train::Element &x,
                       const dist::Strategy &strategy) {
  auto [m, v] = averages(s, x, strategy);
  Value root = s.create<math::SqrtOp>(v);
  Value u = s.div(m, s.add(root, s.real(strategy.eps)));
  return x.weightDecay ? s.add(u, s.mul(x.weightDecay, x.parameter)) : u;
}

static SmallVector<Value> factor(nn::Scalars &s, ArrayRef<Value> squares,
                                 ArrayRef<Value> /*numbers*/,
                                 const dist::Strategy &strategy) {
  Value zero = s.real(0), parameter = squares[0], direction = squares[1];
  Value ratio = s.create<math::SqrtOp>(s.div(parameter, direction));
  ratio = s.create<arith::MaximumFOp>(ratio, s.real(strategy.minCoeff));
  ratio = s.create<arith::MinimumFOp>(ratio, s.real(strategy.maxCoeff));
  ratio = s.select(s.isGreater(parameter, zero), ratio, s.real(1));
  return {s.select(s.isGreater(direction, zero), ratio, s.real(1))};
}

static SmallVector<Value> update(nn::Scalars &s, const train::Element &x,
                                 const dist::Strategy &strategy) {
  auto [m, v] = averages(s, x, strategy);
  Value root = s.create<math::SqrtOp>(x.corrections[1]);
  Value step = s.div(s.mul(x.lr, root), x.corrections[0]);
  return {s.sub(x.parameter, s.mul(step, x.scaled)), m, v};
}

train::Optimizer train::lamb(const dist::Strategy &strategy) {
  return {"lamb",
          {"exp_avg", "exp_avg_sq"},
          {{"beta1_power", strategy.beta1}, {"beta2_power", strategy.beta2}},
          update,
          Scaling{direction,
                  {{Reduction::SumOfSquares, nullptr},
                   {Reduction::SumOfSquares, direction}},
                  factor}};
}
