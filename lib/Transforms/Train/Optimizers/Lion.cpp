//===- Lion.cpp - Lion (Chen et al., arXiv 2302.06675) --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   u  = sign(beta1 m + (1 - beta1) g)
//   p -= lr (u + weight_decay p)
//   m  = beta2 m + (1 - beta2) g
//
//===----------------------------------------------------------------------===//

#include "Optimizers.h"

using namespace mlir;
using namespace heddle;

/// The sign of x: 1, -1, or 0.
static Value signOf(nn::Scalars &s, Value x) {
  Value zero = s.real(0);
  Value below = s.select(s.isGreater(zero, x), s.real(-1), zero);
  return s.select(s.isGreater(x, zero), s.real(1), below);
}

static SmallVector<Value> update(nn::Scalars &s, const train::Element &x,
                                 const dist::Strategy &strategy) {
  double beta1 = strategy.beta1, beta2 = strategy.beta2;
  Value g = x.gradient, p = x.parameter, m = x.states[0];
  Value step =
      signOf(s, s.add(s.mul(s.real(beta1), m), s.mul(s.real(1 - beta1), g)));
  if (x.weightDecay)
    step = s.add(step, s.mul(x.weightDecay, p));
  Value next = s.add(s.mul(s.real(beta2), m), s.mul(s.real(1 - beta2), g));
  return {s.sub(p, s.mul(x.lr, step)), next};
}

train::Optimizer train::lion(const dist::Strategy &strategy) {
  // The state is not called exp_avg as in Adam, so that Lion does not continue
  // from Adam's moments in a checkpoint.
  return {"lion", {"momentum"}, {}, update};
}
