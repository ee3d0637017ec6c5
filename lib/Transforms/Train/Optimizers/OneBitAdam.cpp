//===- OneBitAdam.cpp - 1-bit Adam (Tang et al., arXiv 2102.02888) --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As DeepSpeed's OnebitAdam, without bias correction. In the first freeze_step
// updates:
//
//   m  = beta1 m + (1 - beta1) g
//   v  = beta2 v + (1 - beta2) g^2
//   p -= lr (m / (sqrt(v) + eps) + weight_decay p)
//
// Afterwards v does not change, and m is the mean of beta1 m + (1 - beta1) g
// over the replicas, each with its own g, which they send as signs. Where v is
// 0, m counts as 0.
//
//===----------------------------------------------------------------------===//

#include "Optimizers.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

static Value momentum(nn::Scalars &s, const train::Element &x,
                      const dist::Strategy &strategy) {
  double beta1 = strategy.beta1;
  return s.add(s.mul(s.real(beta1), x.states[0]),
               s.mul(s.real(1 - beta1), x.gradient));
}

static Value step(nn::Scalars &s, const train::Element &x, Value m, Value v,
                  const dist::Strategy &strategy) {
  Value root = s.create<math::SqrtOp>(v);
  Value u = s.div(m, s.add(root, s.real(strategy.eps)));
  if (x.weightDecay)
    u = s.add(u, s.mul(x.weightDecay, x.parameter));
  return s.sub(x.parameter, s.mul(x.lr, u));
}

static SmallVector<Value> update(nn::Scalars &s, const train::Element &x,
                                 const dist::Strategy &strategy) {
  double beta2 = strategy.beta2;
  Value m = momentum(s, x, strategy);
  Value v = s.add(s.mul(s.real(beta2), x.states[1]),
                  s.mul(s.real(1 - beta2), s.mul(x.gradient, x.gradient)));
  return {step(s, x, m, v, strategy), m, v};
}

static SmallVector<Value> updateFrozen(nn::Scalars &s, const train::Element &x,
                                       const dist::Strategy &strategy) {
  // An element that has had no gradient, such as a position after the end of
  // sequences, has v = 0. Its sign would give it a step of scale / eps.
  Value isTrained = s.isGreater(x.states[1], s.real(0));
  Value m = s.select(isTrained, x.states[0], s.real(0));
  return {step(s, x, m, x.states[1], strategy)};
}

train::Optimizer train::oneBitAdam(const dist::Strategy &strategy) {
  train::Optimizer optimizer = {"onebit_adam",
                                {{"exp_avg", nn::Holding::Whole}, "exp_avg_sq"},
                                {},
                                update};
  optimizer.later.push_back({"compressed", strategy.freezeStep + 1, "sign1",
                             momentum, updateFrozen, /*exchanged=*/0});
  return optimizer;
}
