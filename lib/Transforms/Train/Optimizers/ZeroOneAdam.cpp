//===- ZeroOneAdam.cpp - 0/1 Adam (Lu et al., arXiv 2202.06009) -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As DeepSpeed's ZeroOneAdam. Up to update var_freeze_step + 1, which is the
// last for which it checks var_freeze_step:
//
//   v  = beta2 v + (1 - beta2) g^2     at the multiples of an interval
//   m  = beta1 m + (1 - beta1) g
//   p -= lr (m / (sqrt(v) + eps) + weight_decay p)
//
// At the multiples of the interval g is the mean of the gradients. In between
// replicas send theirs as signs. The interval doubles after var_update_scaler
// updates of v.
//
// Afterwards v does not change. Each replica has a step u of its own, from its
// own g, and they send b as signs:
//
//   u  = lr ((beta1 m + (1 - beta1) g) / (sqrt(v) + eps) + weight_decay p)
//   b  = the mean of -u (sqrt(v) + eps)
//   m  = -b / lr
//   p += b / (sqrt(v) + eps)
//
// DeepSpeed does so in each update at first, and in local_step_scaler updates
// begins to send b at intervals only, with steps of the replicas' own in
// between. These are not there yet.
//
//===----------------------------------------------------------------------===//

#include "Optimizers.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

static Value momentum(nn::Scalars &s, const train::Element &x,
                      const dist::Strategy &strategy, Value gradient) {
  double beta1 = strategy.beta1;
  return s.add(s.mul(s.real(beta1), x.states[0]),
               s.mul(s.real(1 - beta1), gradient));
}

static Value divisor(nn::Scalars &s, Value v, const dist::Strategy &strategy) {
  return s.add(s.create<math::SqrtOp>(v), s.real(strategy.eps));
}

/// The step of a parameter by its momentum and weight decay.
static Value stepBy(nn::Scalars &s, const train::Element &x, Value m, Value v,
                    const dist::Strategy &strategy) {
  Value u = s.div(m, divisor(s, v, strategy));
  if (x.weightDecay)
    u = s.add(u, s.mul(x.weightDecay, x.parameter));
  return s.mul(x.lr, u);
}

/// The mean that replicas have sent as signs. It is 0 for an element that has
/// had no gradient, such as a position after the end of sequences: its v is 0,
/// and its sign would give it a step of scale / eps.
static Value meanOfTrained(nn::Scalars &s, const train::Element &x) {
  Value isTrained = s.isGreater(x.states[1], s.real(0));
  return s.select(isTrained, x.gradient, s.real(0));
}

static SmallVector<Value> updateDense(nn::Scalars &s, const train::Element &x,
                                      const dist::Strategy &strategy) {
  double beta2 = strategy.beta2;
  Value m = momentum(s, x, strategy, x.gradient);
  Value v = s.add(s.mul(s.real(beta2), x.states[1]),
                  s.mul(s.real(1 - beta2), s.mul(x.gradient, x.gradient)));
  return {s.sub(x.parameter, stepBy(s, x, m, v, strategy)), m, v};
}

static Value gradient(nn::Scalars &, const train::Element &x,
                      const dist::Strategy &) {
  return x.gradient;
}

static SmallVector<Value> updateCompressed(nn::Scalars &s,
                                           const train::Element &x,
                                           const dist::Strategy &strategy) {
  Value m = momentum(s, x, strategy, meanOfTrained(s, x));
  return {s.sub(x.parameter, stepBy(s, x, m, x.states[1], strategy)), m};
}

static Value ownSteps(nn::Scalars &s, const train::Element &x,
                      const dist::Strategy &strategy) {
  Value m = momentum(s, x, strategy, x.gradient);
  Value step = stepBy(s, x, m, x.states[1], strategy);
  return s.negative(s.mul(step, divisor(s, x.states[1], strategy)));
}

static SmallVector<Value> updateFrozen(nn::Scalars &s, const train::Element &x,
                                       const dist::Strategy &strategy) {
  Value sent = meanOfTrained(s, x);
  Value p = s.add(x.parameter, s.div(sent, divisor(s, x.states[1], strategy)));
  // Without a learning rate only errors were sent, and say nothing of m.
  Value m = s.select(s.isGreater(x.lr, s.real(0)),
                     s.negative(s.div(sent, x.lr)), x.states[0]);
  return {p, m};
}

train::Optimizer train::zeroOneAdam(const dist::Strategy &strategy) {
  train::Optimizer optimizer = {
      "zero_one_adam", {"exp_avg", "exp_avg_sq"}, {}, updateDense};
  optimizer.dense = {strategy.varUpdateScaler, /*countsRuns=*/true};
  train::LaterPhase compressed = {"compressed", /*from=*/1, "sign1", gradient,
                                  updateCompressed};
  compressed.changed = {0};
  compressed.errorsOf = 1;
  // DeepSpeed compares at the end of an update, so one more is of this phase.
  int64_t frozen = strategy.varFreezeStep + 2;
  train::LaterPhase synchronizing = {"synchronizing", frozen, "sign1", ownSteps,
                                     updateFrozen};
  synchronizing.changed = {0};
  synchronizing.errorsOf = 2;
  if (strategy.localStepClipper > 1)
    synchronizing.to = frozen + strategy.localStepScaler - 1;
  optimizer.later = {compressed, synchronizing};
  return optimizer;
}
