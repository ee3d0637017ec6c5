//===- ProductLowerings.cpp - Matrix products as linalg -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers nn.linear, nn.packed_linear and nn.linear_grad_weight to loops without
// optimizations. The compiled program's command `check` compares the results of
// these loops with those of the optimized kernels. `unpackWeight` defines how
// int4 and int8 codes are unpacked.
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"

using namespace mlir;

namespace heddle::codegen {

using Args = ValueRange;

static Value product(ScalarBuilder &s, Args x) { return s.mul(x[0], x[1]); }

/// The indices of the dimensions from `first` to `end` (exclusive).
static SmallVector<unsigned> range(unsigned first, unsigned end) {
  return llvm::to_vector(llvm::seq<unsigned>(first, end));
}

static Values lowerLinear(nn::LinearOp op, nn::LinearOp::Adaptor in,
                          LinalgBuilder &b) {
  auto type = tensorOf(op.getOutput());
  SmallVector<int64_t> shape(type.getShape());
  auto column = static_cast<unsigned>(type.getRank() - 1), k = column + 1;
  shape.push_back(tensorOf(op.getInput()).getShape().back());
  SmallVector<unsigned> inputDims = range(0, column), weightDims = {k, column};
  inputDims.push_back(k);
  if (op.getTransposed())
    std::swap(weightDims[0], weightDims[1]);
  Value sums = b.reduceTail(
      b.builder.getF32Type(), shape, k,
      {along(in.getInput(), inputDims), along(in.getWeight(), weightDims)},
      LinalgBuilder::Combine::Add, product);
  SmallVector<Input> inputs = {{sums}};
  if (in.getBias())
    inputs.push_back(columns(in.getBias()));
  if (in.getInit())
    inputs.push_back({in.getInit()});
  return {b.map(op.getType(), inputs, [](ScalarBuilder &s, Args x) {
    return x.size() > 1 ? s.add(x[0], x[1]) : x[0];
  })};
}

/// Emits arithmetic on indices, with constants as right operands.
struct IndexMath {
  ScalarBuilder &s;

  Value add(Value x, Value y) { return s.create<arith::AddIOp>(x, y); }
  Value mul(Value x, int64_t by) {
    return s.create<arith::MulIOp>(x, s.index(by));
  }
  Value div(Value x, int64_t by) {
    return s.create<arith::DivUIOp>(x, s.index(by));
  }
  Value rem(Value x, int64_t by) {
    return s.create<arith::RemUIOp>(x, s.index(by));
  }
};

/// As plan::PackedBlock::position, for an output of a panel and a word of a
/// block.
static Value positionInBlock(IndexMath &m, const plan::PackedBlock &block,
                             Value output, Value word) {
  if (block.words == 1)
    return output;
  Value lane = m.add(m.mul(m.rem(output, 8), 4), m.rem(word, 4));
  Value inLane = m.add(m.div(output, 8), m.mul(m.div(word, 4), 2));
  return m.add(m.mul(lane, 4), inLane);
}

/// Returns the element of a packed weight at input `i` and output `o` as f32: a
/// float, or an int4 or int8 code before scales are applied.
static Value unpackWeight(ScalarBuilder &s, nn::PackedLinearOp op, Value weight,
                          Value i, Value o) {
  plan::PackedWeight packed = op.getPacked();
  plan::PackedBlock block = packed.block();
  IndexMath m = {s};
  // As plan::PackedWeight::wordOf.
  Value inGroup = m.rem(i, packed.groupLength());
  Value word = m.add(m.mul(m.div(i, packed.groupLength()), packed.groupWords()),
                     m.div(inGroup, packed.perWord()));
  Value index = m.rem(inGroup, packed.perWord());
  Values at = {m.div(o, block.outputs), m.div(word, block.words),
               positionInBlock(m, block, m.rem(o, block.outputs),
                               m.rem(word, block.words))};
  if (!op.getBits()) {
    at.push_back(index);
    return s.extract(weight, at);
  }
  Value bits = s.extract(weight, at);
  // As plan::PackedWeight::bitOf.
  Value start = packed.bits == 4 ? m.add(m.mul(m.rem(index, 2), 16),
                                         m.mul(m.div(index, 2), 4))
                                 : m.mul(index, packed.bits);
  Value above = s.create<arith::SubIOp>(
      s.i32(32 - packed.bits),
      s.create<arith::IndexCastOp>(s.getI32Type(), start));
  Value high = s.create<arith::ShLIOp>(bits, above);
  Value code = s.create<arith::ShRSIOp>(high, s.i32(32 - packed.bits));
  return s.create<arith::SIToFPOp>(s.getF32Type(), code);
}

/// Rounds `input` to int8 as `input_block` of nn.packed_linear says, and
/// multiplies the integers by their scales. So the f32 result has the rounding
/// errors of int8.
static Value quantizeInput(nn::PackedLinearOp op, Value input,
                           LinalgBuilder &b) {
  constexpr float most = 127, least = 0x1p-100F;
  auto type = tensorOf(op.getInput()).clone(b.builder.getF32Type());
  auto column = static_cast<unsigned>(type.getRank() - 1);
  auto block = static_cast<int64_t>(*op.getInputBlock());
  int64_t length = op.getInputs() / op.getGroups();
  int64_t blocksOfGroup = llvm::divideCeil(length, block);
  SmallVector<int64_t> shape(type.getShape().drop_back());
  shape.append({op.getGroups() * blocksOfGroup, block});
  Value largest = b.reduceLast(
      shape, {b.space(shape)}, LinalgBuilder::Combine::Maximum,
      [&](ScalarBuilder &s, Args) -> Value {
        Values at;
        for (unsigned dim = 0; dim < column; ++dim)
          at.push_back(s.position(dim));
        Value number = s.position(column);
        auto times = [&](Value x, int64_t by) -> Value {
          return s.create<arith::MulIOp>(x, s.index(by));
        };
        Value group = s.create<arith::DivUIOp>(number, s.index(blocksOfGroup));
        Value inGroup =
            s.create<arith::RemUIOp>(number, s.index(blocksOfGroup));
        Value position = s.create<arith::AddIOp>(times(inGroup, block),
                                                 s.position(column + 1));
        Value isThere = s.create<arith::CmpIOp>(arith::CmpIPredicate::ult,
                                                position, s.index(length));
        position = s.create<arith::MinUIOp>(position, s.index(length - 1));
        at.push_back(s.create<arith::AddIOp>(times(group, length), position));
        Value size = s.create<math::AbsFOp>(s.extract(input, at));
        return s.create<arith::SelectOp>(isThere, size, s.f32(0));
      });
  return b.map(type, {{input}}, [&](ScalarBuilder &s, Args x) -> Value {
    Values at;
    for (unsigned dim = 0; dim < column; ++dim)
      at.push_back(s.position(dim));
    Value i = s.position(column);
    Value group = s.create<arith::DivUIOp>(i, s.index(length));
    Value position = s.create<arith::RemUIOp>(i, s.index(length));
    at.push_back(s.create<arith::AddIOp>(
        s.create<arith::MulIOp>(group, s.index(blocksOfGroup)),
        s.create<arith::DivUIOp>(position, s.index(block))));
    Value size =
        s.create<arith::MaximumFOp>(s.extract(largest, at), s.f32(least));
    Value code =
        s.create<math::RoundEvenOp>(s.mul(x[0], s.div(s.f32(most), size)));
    return s.mul(s.div(size, s.f32(most)), code);
  });
}

static Values lowerPackedLinear(nn::PackedLinearOp op,
                                nn::PackedLinearOp::Adaptor in,
                                LinalgBuilder &b) {
  auto type = tensorOf(op.getOutput());
  SmallVector<int64_t> shape(type.getShape());
  auto column = static_cast<unsigned>(type.getRank() - 1), k = column + 1;
  shape.push_back(op.getInputs());
  SmallVector<unsigned> inputDims = range(0, column);
  inputDims.push_back(k);
  int64_t groups = op.getGroups();
  Value input =
      op.getInputBlock() ? quantizeInput(op, in.getInput(), b) : in.getInput();
  auto term = [&](ScalarBuilder &s, Args x) -> Value {
    Value i = s.position(k), o = s.position(column);
    Value w = unpackWeight(s, op, in.getWeight(), i, o);
    if (groups > 0) {
      IndexMath m = {s};
      int64_t width = op.getPacked().block().outputs;
      Values at = {m.div(o, width), m.div(i, op.getInputs() / groups),
                   m.rem(o, width)};
      if (in.getZeros())
        w = s.sub(w, s.extract(in.getZeros(), at));
      w = s.mul(w, s.extract(in.getScales(), at));
    }
    return s.mul(x[0], w);
  };
  Value sums = b.reduceTail(b.builder.getF32Type(), shape, k,
                            {along(input, inputDims), b.space(shape)},
                            LinalgBuilder::Combine::Add, term);
  SmallVector<Input> inputs = {{sums}};
  if (in.getBias())
    inputs.push_back(columns(in.getBias()));
  return {b.map(op.getType(), inputs, [](ScalarBuilder &s, Args x) {
    return x.size() > 1 ? s.add(x[0], x[1]) : x[0];
  })};
}

static Values lowerLinearGradWeight(nn::LinearGradWeightOp op,
                                    nn::LinearGradWeightOp::Adaptor in,
                                    LinalgBuilder &b) {
  ArrayRef<int64_t> rowDims = tensorOf(op.getInput()).getShape().drop_back();
  SmallVector<int64_t> shape(tensorOf(op.getOutput()).getShape());
  llvm::append_range(shape, rowDims);
  auto inputDims = range(2, static_cast<unsigned>(shape.size()));
  auto gradDims = inputDims;
  inputDims.push_back(op.getTransposed() ? 1 : 0);
  gradDims.push_back(op.getTransposed() ? 0 : 1);
  Value sums = b.reduceTail(
      b.builder.getF32Type(), shape, 2,
      {along(in.getInput(), inputDims), along(in.getGrad(), gradDims)},
      LinalgBuilder::Combine::Add, product);
  SmallVector<Input> inputs = {{sums}};
  if (in.getInit())
    inputs.push_back({in.getInit()});
  return {b.map(op.getType(), inputs, [](ScalarBuilder &s, Args x) {
    return x.size() > 1 ? s.add(x[1], x[0]) : x[0];
  })};
}

void attachProductLowerings(MLIRContext *context) {
  attachLinalg<nn::LinearOp, lowerLinear, Generator::Gemm>(context);
  attachLinalg<nn::PackedLinearOp, lowerPackedLinear, Generator::Gemm>(context);
  attachLinalg<nn::LinearGradWeightOp, lowerLinearGradWeight, Generator::Gemm>(
      context);
}

} // namespace heddle::codegen
