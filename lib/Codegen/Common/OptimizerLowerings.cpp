//===- OptimizerLowerings.cpp - Updates of parameters ---------------------===//
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

/// Whether an update or a part of it happens, in f32.
static Value holds(ScalarBuilder &s, Value condition) {
  return s.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, condition,
                                 s.f32(0));
}

static Values lowerUpdate(nn::UpdateOp op, nn::UpdateOp::Adaptor in,
                          LinalgBuilder &b) {
  int64_t rank = tensorOf(op.getParameter()).getRank();
  SmallVector<Input> inputs;
  for (Value operand : in.getOperands())
    inputs.push_back(tensorOf(operand).getRank() == rank ? Input{operand}
                                                         : scalar(operand));
  Block &body = op.getBody().front();
  return b.map(op.getResultTypes(), inputs,
               [&](ScalarBuilder &s, Args x) -> Values {
                 Values results =
                     runScalars(s, body, x.take_front(body.getNumArguments()));
                 if (op.getCondition()) {
                   Value updates = holds(s, x.back());
                   // The parameter, and the states behind the gradient.
                   for (auto [number, result] : llvm::enumerate(results))
                     result = s.create<arith::SelectOp>(
                         updates, result, x[number ? number + 1 : 0]);
                 }
                 if (op.getCopy())
                   results.push_back(results[0]);
                 return results;
               });
}

static Values lowerAdvancePower(nn::AdvancePowerOp op,
                                nn::AdvancePowerOp::Adaptor in,
                                LinalgBuilder &b) {
  SmallVector<Input> inputs = {{in.getPower()}};
  if (in.getCondition())
    inputs.push_back({in.getCondition()});
  return b.map(
      op.getResultTypes(), inputs, [&](ScalarBuilder &s, Args x) -> Values {
        auto f64 = [&](double value) -> Value {
          return s.create<arith::ConstantOp>(s.getF64FloatAttr(value));
        };
        Value next = s.mul(x[0], f64(op.getFactor().convertToDouble()));
        if (in.getCondition())
          next = s.create<arith::SelectOp>(holds(s, x[1]), next, x[0]);
        return {next, s.sub(f64(1), next)};
      });
}

void attachOptimizerLowerings(MLIRContext *context) {
  attachLinalg<nn::UpdateOp, lowerUpdate>(context);
  attachLinalg<nn::AdvancePowerOp, lowerAdvancePower>(context);
  nn::SegmentSumsOp::attachInterface<
      WholeModel<nn::SegmentSumsOp, Generator::Segments>>(*context);
  nn::ScaleSegmentsOp::attachInterface<
      WholeModel<nn::ScaleSegmentsOp, Generator::Segments>>(*context);
}

} // namespace heddle::codegen
