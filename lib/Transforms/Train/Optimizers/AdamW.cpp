//===- AdamW.cpp - Adam (Kingma, Ba) and AdamW (Loshchilov, Hutter) -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   g += weight_decay p               (Adam, where the decay is not decoupled)
//   m  = beta1 m + (1 - beta1) g
//   v  = beta2 v + (1 - beta2) g^2
//   p *= 1 - lr weight_decay          (AdamW)
//   p -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
//===----------------------------------------------------------------------===//

#include "Optimizers.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

static SmallVector<Value> update(nn::Scalars &s, const train::Element &x,
                                 const dist::Strategy &strategy) {
  double beta1 = strategy.beta1, beta2 = strategy.beta2;
  Value g = x.gradient, p = x.parameter;
  if (x.weightDecay && !strategy.decoupled)
    g = s.add(g, s.mul(x.weightDecay, p));
  Value m =
      s.add(s.mul(s.real(beta1), x.states[0]), s.mul(s.real(1 - beta1), g));
  Value v = s.add(s.mul(s.real(beta2), x.states[1]),
                  s.mul(s.real(1 - beta2), s.mul(g, g)));
  if (x.weightDecay && strategy.decoupled)
    p = s.mul(p, s.sub(s.real(1), s.mul(x.lr, x.weightDecay)));
  Value rootCorrection = s.create<math::SqrtOp>(x.corrections[1]);
  Value root = s.create<math::SqrtOp>(v);
  Value denominator = s.add(s.div(root, rootCorrection), s.real(strategy.eps));
  Value step = s.div(x.lr, x.corrections[0]);
  return {s.sub(p, s.mul(step, s.div(m, denominator))), m, v};
}

train::Optimizer train::adamW(const dist::Strategy &strategy) {
  return {"adamw",
          {"exp_avg", "exp_avg_sq"},
          {{"beta1_power", strategy.beta1}, {"beta2_power", strategy.beta2}},
          update};
}
