//===- NormLowerings.cpp - Layer and RMS norms as linalg ------------------===//
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
using Combine = LinalgBuilder::Combine;

static ArrayRef<int64_t> shapeOf(Value value) {
  return tensorOf(value).getShape();
}

/// 1 / sqrt(sum / size + eps).
static Value inverseDeviation(LinalgBuilder &b, Value sum, int64_t size,
                              double eps) {
  return b.map(sum.getType(), {{sum}}, [=](ScalarBuilder &s, Args x) {
    Value variance = s.mul(x[0], s.f32(1.0 / size));
    Value deviation = s.create<math::SqrtOp>(s.add(variance, s.f32(eps)));
    return s.div(s.f32(1), deviation);
  });
}

static Value meanOf(LinalgBuilder &b, Value sum, int64_t size) {
  return b.map(sum.getType(), {{sum}}, [=](ScalarBuilder &s, Args x) {
    return s.mul(x[0], s.f32(1.0 / size));
  });
}

/// (x - mean) * rstd.
static Value normalized(ScalarBuilder &s, Value x, Value mean, Value rstd) {
  return s.mul(s.sub(x, mean), rstd);
}

static Values lowerLayerNorm(nn::LayerNormOp op, nn::LayerNormOp::Adaptor in,
                             LinalgBuilder &b) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  int64_t size = shape.back();
  Value sum = b.reduceLast(shape, {{in.getInput()}}, Combine::Add,
                           [](ScalarBuilder &, Args x) { return x[0]; });
  Value mean = meanOf(b, sum, size);
  Value squares = b.reduceLast(shape, {{in.getInput()}, rows(mean)},
                               Combine::Add, [](ScalarBuilder &s, Args x) {
                                 Value centered = s.sub(x[0], x[1]);
                                 return s.mul(centered, centered);
                               });
  Value rstd =
      inverseDeviation(b, squares, size, op.getEps().convertToDouble());
  Value output = b.map(op.getOutput().getType(),
                       {{in.getInput()},
                        rows(mean),
                        rows(rstd),
                        columns(in.getWeight()),
                        columns(in.getBias())},
                       [](ScalarBuilder &s, Args x) {
                         Value y = normalized(s, x[0], x[1], x[2]);
                         return s.add(s.mul(y, x[3]), x[4]);
                       });
  return {output, mean, rstd};
}

static Values lowerLayerNormGradInput(nn::LayerNormGradInputOp op,
                                      nn::LayerNormGradInputOp::Adaptor in,
                                      LinalgBuilder &b) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  int64_t size = shape.back();
  Value sumG = b.reduceLast(
      shape, {{in.getGrad()}, columns(in.getWeight())}, Combine::Add,
      [](ScalarBuilder &s, Args x) { return s.mul(x[0], x[1]); });
  Value sumGX = b.reduceLast(shape,
                             {{in.getGrad()},
                              columns(in.getWeight()),
                              {in.getInput()},
                              rows(in.getMean()),
                              rows(in.getRstd())},
                             Combine::Add, [](ScalarBuilder &s, Args x) {
                               Value xh = normalized(s, x[2], x[3], x[4]);
                               return s.mul(s.mul(x[0], x[1]), xh);
                             });
  Value meanG = meanOf(b, sumG, size), meanGX = meanOf(b, sumGX, size);
  return {b.map(op.getOutput().getType(),
                {{in.getGrad()},
                 columns(in.getWeight()),
                 {in.getInput()},
                 rows(in.getMean()),
                 rows(in.getRstd()),
                 rows(meanG),
                 rows(meanGX)},
                [](ScalarBuilder &s, Args x) {
                  Value xh = normalized(s, x[2], x[3], x[4]);
                  Value g = s.mul(x[0], x[1]);
                  Value centered = s.sub(s.sub(g, x[5]), s.mul(xh, x[6]));
                  return s.mul(x[4], centered);
                })};
}

static Values lowerLayerNormGradWeight(nn::LayerNormGradWeightOp op,
                                       nn::LayerNormGradWeightOp::Adaptor in,
                                       LinalgBuilder &b) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  Value weight = b.sumRows(
      op.getWeightGrad().getType(), shape,
      {{in.getGrad()}, {in.getInput()}, rows(in.getMean()), rows(in.getRstd())},
      in.getWeightInit(), [](ScalarBuilder &s, Args x) {
        return s.mul(x[0], normalized(s, x[1], x[2], x[3]));
      });
  Value bias =
      b.sumRows(op.getBiasGrad().getType(), shape, {{in.getGrad()}},
                in.getBiasInit(), [](ScalarBuilder &, Args x) { return x[0]; });
  return {weight, bias};
}

static Values lowerSumRows(nn::SumRowsOp op, nn::SumRowsOp::Adaptor in,
                           LinalgBuilder &b) {
  return {b.sumRows(op.getOutput().getType(), shapeOf(op.getInput()),
                    {{in.getInput()}}, in.getInit(),
                    [](ScalarBuilder &, Args x) { return x[0]; })};
}

static Values lowerRmsNorm(nn::RmsNormOp op, nn::RmsNormOp::Adaptor in,
                           LinalgBuilder &b) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  Value squares =
      b.reduceLast(shape, {{in.getInput()}}, Combine::Add,
                   [](ScalarBuilder &s, Args x) { return s.mul(x[0], x[0]); });
  Value rstd =
      inverseDeviation(b, squares, shape.back(), op.getEps().convertToDouble());
  Value output = b.map(
      op.getOutput().getType(),
      {{in.getInput()}, rows(rstd), columns(in.getWeight())},
      [](ScalarBuilder &s, Args x) { return s.mul(s.mul(x[0], x[1]), x[2]); });
  return {output, rstd};
}

static Values lowerRmsNormGradInput(nn::RmsNormGradInputOp op,
                                    nn::RmsNormGradInputOp::Adaptor in,
                                    LinalgBuilder &b) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  Value sum = b.reduceLast(shape,
                           {{in.getGrad()},
                            columns(in.getWeight()),
                            {in.getInput()},
                            rows(in.getRstd())},
                           Combine::Add, [](ScalarBuilder &s, Args x) {
                             return s.mul(s.mul(x[0], x[1]), s.mul(x[2], x[3]));
                           });
  Value mean = meanOf(b, sum, shape.back());
  return {b.map(op.getOutput().getType(),
                {{in.getGrad()},
                 columns(in.getWeight()),
                 {in.getInput()},
                 rows(in.getRstd()),
                 rows(mean)},
                [](ScalarBuilder &s, Args x) {
                  Value xh = s.mul(x[2], x[3]);
                  Value g = s.mul(x[0], x[1]);
                  return s.mul(x[3], s.sub(g, s.mul(xh, x[4])));
                })};
}

static Values lowerRmsNormGradWeight(nn::RmsNormGradWeightOp op,
                                     nn::RmsNormGradWeightOp::Adaptor in,
                                     LinalgBuilder &b) {
  return {b.sumRows(
      op.getOutput().getType(), shapeOf(op.getInput()),
      {{in.getGrad()}, {in.getInput()}, rows(in.getRstd())}, in.getInit(),
      [](ScalarBuilder &s, Args x) { return s.mul(x[0], s.mul(x[1], x[2])); })};
}

void attachNormLowerings(MLIRContext *context) {
  attachLinalg<nn::LayerNormOp, lowerLayerNorm>(context);
  attachLinalg<nn::LayerNormGradInputOp, lowerLayerNormGradInput>(context);
  attachLinalg<nn::LayerNormGradWeightOp, lowerLayerNormGradWeight,
               Generator::Columns>(context);
  attachLinalg<nn::SumRowsOp, lowerSumRows, Generator::Columns>(context);
  attachLinalg<nn::RmsNormOp, lowerRmsNorm>(context);
  attachLinalg<nn::RmsNormGradInputOp, lowerRmsNormGradInput>(context);
  attachLinalg<nn::RmsNormGradWeightOp, lowerRmsNormGradWeight,
               Generator::Columns>(context);
}

} // namespace heddle::codegen
