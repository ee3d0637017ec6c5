//===- OneBitLamb.cpp - 1-bit LAMB (Li et al., arXiv 2104.06069) ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As DeepSpeed's OnebitLamb, without bias correction. In the first freeze_step
// updates:
//
//   m  = beta1 m + (1 - beta1) g
//   v  = beta2 v + (1 - beta2) g^2
//   u  = m / (sqrt(v) + eps) + weight_decay p
//   c  = |p| / |u|, clamped to [min_coeff, max_coeff]; 1 if a norm is 0
//   p -= lr c u
//
// and c_frozen, which is 0 at first, is coeff_beta c_frozen +
// (1 - coeff_beta) c unless c is 1. Afterwards v does not change, and m is the
// mean of beta1 m + (1 - beta1) g over the replicas, each with its own g, which
// they send as signs with one scale for all parameters. So that one scale fits
// all, the momentum of each parameter is divided by the root of its mean square
// at the end of the dense updates. Then
//
//   g' = (m - beta1 m_before) / (1 - beta1)
//   w  = beta2 w + (1 - beta2) g'^2, which is v at first
//   f  = the largest of (sqrt(v) + eps) / (sqrt(w) + eps)
//   r  = min(1, |m / (sqrt(v) + eps)| / |u|)
//   f  = f r + 1 - r, clamped to [factor_min, factor_max], and then to
//        1 -+ factor_threshold times what it was before, which is 1 at first
//   p -= lr c_frozen f u
//
// Where v is 0, m counts as 0.
//
//===----------------------------------------------------------------------===//

#include "Optimizers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

/// The states. Those that a later phase changes come before the others.
enum State { Momentum, FreshMoment, SecondMoment };
/// The numbers of each parameter.
enum Number { FrozenCoefficient, MomentumScale, LastFactor };

static Value clamp(nn::Scalars &s, Value x, Value least, Value most) {
  return s.create<arith::MinimumFOp>(s.create<arith::MaximumFOp>(x, least),
                                     most);
}

//===----------------------------------------------------------------------===//
// Dense updates
//===----------------------------------------------------------------------===//

static Value momentum(nn::Scalars &s, const train::Element &x,
                      const dist::Strategy &strategy) {
  double beta1 = strategy.beta1;
  return s.add(s.mul(s.real(beta1), x.states[Momentum]),
               s.mul(s.real(1 - beta1), x.gradient));
}

static Value average(nn::Scalars &s, Value before, Value g,
                     const dist::Strategy &strategy) {
  double beta2 = strategy.beta2;
  return s.add(s.mul(s.real(beta2), before),
               s.mul(s.real(1 - beta2), s.mul(g, g)));
}

static Value denominator(nn::Scalars &s, Value v,
                         const dist::Strategy &strategy) {
  return s.add(s.create<math::SqrtOp>(v), s.real(strategy.eps));
}

static Value decayed(nn::Scalars &s, const train::Element &x, Value u) {
  return x.weightDecay ? s.add(u, s.mul(x.weightDecay, x.parameter)) : u;
}

static Value direction(nn::Scalars &s, const train::Element &x,
                       const dist::Strategy &strategy) {
  Value m = momentum(s, x, strategy);
  Value v = average(s, x.states[SecondMoment], x.gradient, strategy);
  return decayed(s, x, s.div(m, denominator(s, v, strategy)));
}

static SmallVector<Value> factor(nn::Scalars &s, ArrayRef<Value> squares,
                                 ArrayRef<Value> numbers,
                                 const dist::Strategy &strategy) {
  Value zero = s.real(0), one = s.real(1), frozen = numbers[FrozenCoefficient];
  Value c = clamp(s, s.create<math::SqrtOp>(s.div(squares[0], squares[1])),
                  s.real(strategy.minCoeff), s.real(strategy.maxCoeff));
  for (Value square : squares)
    c = s.select(s.isGreater(square, zero), c, one);
  double beta = strategy.coeffBeta;
  Value next = s.add(s.mul(s.real(beta), frozen), s.mul(s.real(1 - beta), c));
  next = s.select(s.isGreater(c, one), next,
                  s.select(s.isGreater(one, c), next, frozen));
  // What the compressed phase computes begins anew with its first update.
  return {c, next, zero, one};
}

static SmallVector<Value> update(nn::Scalars &s, const train::Element &x,
                                 const dist::Strategy &strategy) {
  Value m = momentum(s, x, strategy);
  Value v = average(s, x.states[SecondMoment], x.gradient, strategy);
  return {s.sub(x.parameter, s.mul(x.lr, x.scaled)), m, v, v};
}

//===----------------------------------------------------------------------===//
// Compressed updates
//===----------------------------------------------------------------------===//

/// `value` where v is not 0. An element that has had no gradient, such as a
/// position after the end of sequences, has v = 0. Its sign would give it a
/// step of scale / eps.
static Value ifTrained(nn::Scalars &s, const train::Element &x, Value value) {
  return s.select(s.isGreater(x.states[SecondMoment], s.real(0)), value,
                  s.real(0));
}

static Value freshMoment(nn::Scalars &s, const train::Element &x,
                         const dist::Strategy &strategy) {
  double beta1 = strategy.beta1;
  Value g = s.sub(x.states[Momentum], s.mul(s.real(beta1), x.before));
  g = ifTrained(s, x, s.mul(g, s.real(1 / (1 - beta1))));
  return average(s, x.states[FreshMoment], g, strategy);
}

static Value ratio(nn::Scalars &s, const train::Element &x,
                   const dist::Strategy &strategy) {
  return s.div(denominator(s, x.states[SecondMoment], strategy),
               denominator(s, freshMoment(s, x, strategy), strategy));
}

static Value frozenStep(nn::Scalars &s, const train::Element &x,
                        const dist::Strategy &strategy) {
  return s.div(ifTrained(s, x, x.states[Momentum]),
               denominator(s, x.states[SecondMoment], strategy));
}

static Value frozenDirection(nn::Scalars &s, const train::Element &x,
                             const dist::Strategy &strategy) {
  return decayed(s, x, frozenStep(s, x, strategy));
}

static SmallVector<Value> frozenFactor(nn::Scalars &s, ArrayRef<Value> reduced,
                                       ArrayRef<Value> numbers,
                                       const dist::Strategy &strategy) {
  Value one = s.real(1), f = reduced[0], last = numbers[LastFactor];
  Value r = s.create<math::SqrtOp>(s.div(reduced[1], reduced[2]));
  r = s.create<arith::MinimumFOp>(r, one);
  r = s.select(s.isGreater(reduced[2], s.real(0)), r, one);
  f = s.add(s.mul(f, r), s.sub(one, r));
  f = clamp(s, f, s.real(strategy.factorMin), s.real(strategy.factorMax));
  double threshold = strategy.factorThreshold;
  f = clamp(s, f, s.mul(last, s.real(1 - threshold)),
            s.mul(last, s.real(1 + threshold)));
  return {s.mul(numbers[FrozenCoefficient], f), numbers[FrozenCoefficient],
          numbers[MomentumScale], f};
}

static SmallVector<Value> updateFrozen(nn::Scalars &s, const train::Element &x,
                                       const dist::Strategy &strategy) {
  return {s.sub(x.parameter, s.mul(x.lr, x.scaled)),
          freshMoment(s, x, strategy)};
}

train::Optimizer train::oneBitLamb(const dist::Strategy &strategy) {
  train::Optimizer optimizer = {
      "onebit_lamb",
      {{"exp_avg", nn::Holding::Whole}, "exp_avg_sq_fresh", "exp_avg_sq"},
      {},
      update};
  optimizer.scaling = {direction,
                       {{Reduction::SumOfSquares, nullptr},
                        {Reduction::SumOfSquares, direction}},
                       factor};
  optimizer.numbers = {
      {"lamb_coeff_freeze", 0}, {"momentum_scale", 0}, {"last_factor", 1}};
  LaterPhase frozen = {"compressed", strategy.freezeStep + 1,
                       "sign1",      momentum,
                       updateFrozen, Momentum,
                       {FreshMoment}};
  frozen.readsBefore = true;
  frozen.isJoint = true;
  frozen.normalizedBy = MomentumScale;
  frozen.scaling = {frozenDirection,
                    {{Reduction::Maximum, ratio},
                     {Reduction::SumOfSquares, frozenStep},
                     {Reduction::SumOfSquares, frozenDirection}},
                    frozenFactor};
  optimizer.later.push_back(frozen);
  return optimizer;
}
