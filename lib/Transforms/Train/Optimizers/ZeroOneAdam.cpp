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
// Afterwards v does not change, and replicas step by themselves. b is the sum
// of the steps that a replica has made since the replicas last synchronized,
// and d what its momentum differs by from m. It computes gradients at p + b:
//
//   m_own = beta1 (m + d) + (1 - beta1) g
//   b    -= lr (m_own / (sqrt(v) + eps) + weight_decay (p + b))
//   d     = m_own - m
//
// At the multiples of an interval, which is 1 first and doubles after
// local_step_scaler updates, they send c as signs afterwards:
//
//   c  = the mean of b (sqrt(v) + eps)
//   m  = -c / the sum of the learning rates since the last time
//   p += c / (sqrt(v) + eps)
//   b  = d = 0
//
//===----------------------------------------------------------------------===//

#include "Optimizers.h"
#include "heddle/PlanFormat/ErrorFeedback.h"
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
static Value stepBy(nn::Scalars &s, const train::Element &x, Value parameter,
                    Value m, Value v, const dist::Strategy &strategy) {
  Value u = s.div(m, divisor(s, v, strategy));
  if (x.weightDecay)
    u = s.add(u, s.mul(x.weightDecay, parameter));
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
  return {s.sub(x.parameter, stepBy(s, x, x.parameter, m, v, strategy)), m, v};
}

static Value gradient(nn::Scalars &, const train::Element &x,
                      const dist::Strategy &) {
  return x.gradient;
}

static SmallVector<Value> updateCompressed(nn::Scalars &s,
                                           const train::Element &x,
                                           const dist::Strategy &strategy) {
  Value m = momentum(s, x, strategy, meanOfTrained(s, x));
  Value step = stepBy(s, x, x.parameter, m, x.states[1], strategy);
  return {s.sub(x.parameter, step), m};
}

/// The parameter with a replica's own steps. An element that has had no
/// gradient stays, for the reason above.
static Value localParameter(nn::Scalars &s, const train::Element &x,
                            const dist::Strategy &) {
  Value isTrained = s.isGreater(x.states[1], s.real(0));
  return s.add(x.parameter, s.select(isTrained, x.states[2], s.real(0)));
}

/// A replica's own momentum, from its own gradient. If replicas synchronize in
/// each update, there are no states of their own.
static Value localMomentum(nn::Scalars &s, const train::Element &x,
                           const dist::Strategy &strategy) {
  train::Element mine = x;
  SmallVector<Value> states(x.states);
  if (states.size() > 2)
    states[0] = s.add(states[0], states[3]);
  mine.states = states;
  return momentum(s, mine, strategy, x.gradient);
}

/// The sum of a replica's own steps, with one by its momentum `m`.
static Value addStep(nn::Scalars &s, const train::Element &x, Value m,
                     const dist::Strategy &strategy) {
  bool hasOwn = x.states.size() > 2;
  Value p = hasOwn ? localParameter(s, x, strategy) : x.parameter;
  Value step = stepBy(s, x, p, m, x.states[1], strategy);
  return hasOwn ? s.sub(x.states[2], step) : s.negative(step);
}

static SmallVector<Value> stepLocally(nn::Scalars &s, const train::Element &x,
                                      const dist::Strategy &strategy) {
  Value m = localMomentum(s, x, strategy);
  return {addStep(s, x, m, strategy), s.sub(m, x.states[0])};
}

static Value localSteps(nn::Scalars &s, const train::Element &x,
                        const dist::Strategy &strategy) {
  Value steps = addStep(s, x, localMomentum(s, x, strategy), strategy);
  return s.mul(steps, divisor(s, x.states[1], strategy));
}

static SmallVector<Value> synchronize(nn::Scalars &s, const train::Element &x,
                                      const dist::Strategy &strategy) {
  Value sent = meanOfTrained(s, x);
  Value p = s.add(x.parameter, s.div(sent, divisor(s, x.states[1], strategy)));
  Value rates = x.rates ? x.rates : x.lr;
  // Without a learning rate only errors were sent, and say nothing of m.
  Value m = s.select(s.isGreater(rates, s.real(0)),
                     s.negative(s.div(sent, rates)), x.states[0]);
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
  train::LaterPhase synchronizing = {"synchronizing", frozen, "sign1",
                                     localSteps, synchronize};
  synchronizing.changed = {0};
  synchronizing.errorsOf = 2;
  optimizer.later = {compressed};
  if (strategy.localStepClipper > 1 && strategy.localSteps) {
    optimizer.states.emplace_back(plan::localStep, nn::Holding::Local);
    optimizer.states.emplace_back(plan::localMomentum, nn::Holding::Local);
    optimizer.laterStates = 2;
    optimizer.localParameter = localParameter;
    synchronizing.isLocal = true;
    synchronizing.reset = {2, 3};
    synchronizing.every = {strategy.localStepScaler, /*countsRuns=*/false,
                           strategy.localStepClipper};
    train::LaterPhase local = {"local", frozen, "local", gradient, stepLocally};
    local.isLocal = true;
    local.updated = 2;
    local.changed = {3};
    optimizer.later.push_back(local);
  } else if (strategy.localStepClipper > 1) {
    synchronizing.to = frozen + strategy.localStepScaler - 1;
  }
  optimizer.later.push_back(synchronizing);
  return optimizer;
}
