//===- OptimizerLowerings.cpp - AdamW -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"

using namespace mlir;

namespace heddle::codegen {

using Args = ValueRange;

namespace {
/// The operands of one element's update, as values of the body.
struct AdamWElement {
  Value parameter, grad, expAvg, expAvgSq;
  Value lr, correction1, correction2;
  Value clip, condition; ///< Null where the operation has none.
};
} // namespace

/// New parameter and moments.
static Values update(ScalarBuilder &s, nn::AdamWOp op, AdamWElement e) {
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  double decay = op.getWeightDecay().convertToDouble();
  Value g = e.clip ? s.mul(e.grad, e.clip) : e.grad;
  Value p = e.parameter;
  if (decay != 0 && !op.getDecoupled())
    g = s.add(g, s.mul(s.f32(decay), p));
  Value m = s.add(s.mul(s.f32(beta1), e.expAvg), s.mul(s.f32(1 - beta1), g));
  Value v = s.add(s.mul(s.f32(beta2), e.expAvgSq),
                  s.mul(s.f32(1 - beta2), s.mul(g, g)));
  if (decay != 0 && op.getDecoupled())
    p = s.mul(p, s.sub(s.f32(1), s.mul(e.lr, s.f32(decay))));
  Value rootCorrection = s.create<math::SqrtOp>(e.correction2);
  Value root = s.create<math::SqrtOp>(v);
  Value denominator =
      s.add(s.div(root, rootCorrection), s.f32(op.getEps().convertToDouble()));
  Value step = s.div(e.lr, e.correction1);
  p = s.sub(p, s.mul(step, s.div(m, denominator)));
  if (!e.condition)
    return {p, m, v};
  Value updates =
      s.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, e.condition, s.f32(0));
  return {s.create<arith::SelectOp>(updates, p, e.parameter),
          s.create<arith::SelectOp>(updates, m, e.expAvg),
          s.create<arith::SelectOp>(updates, v, e.expAvgSq)};
}

static Values lowerAdamW(nn::AdamWOp op, nn::AdamWOp::Adaptor in,
                         LinalgBuilder &b) {
  SmallVector<Input> inputs = {{in.getParameter()},
                               {in.getGrad()},
                               {in.getExpAvg()},
                               {in.getExpAvgSq()},
                               scalar(in.getLr()),
                               scalar(in.getBiasCorrection1()),
                               scalar(in.getBiasCorrection2())};
  for (Value optional : {in.getClip(), in.getCondition()})
    if (optional)
      inputs.push_back(scalar(optional));
  return b.map(
      op->getResultTypes(), inputs, [&](ScalarBuilder &s, Args x) -> Values {
        AdamWElement e = {x[0], x[1], x[2], x[3], x[4], x[5], x[6], {}, {}};
        if (op.getClip())
          e.clip = x[7];
        if (op.getCondition())
          e.condition = x.back();
        Values results = update(s, op, e);
        if (op.getCopy())
          results.push_back(results[0]);
        return results;
      });
}

void attachOptimizerLowerings(MLIRContext *context) {
  attachLinalg<nn::AdamWOp, lowerAdamW>(context);
}

} // namespace heddle::codegen
