//===- GroupLowerings.cpp - Weights that are quantized in training --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers the operations of NNGroupOps.td to plain loops.
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"
#include "dialects/NN/GroupLayout.h"
#include "heddle/Codegen/Common/FakeQuantizer.h"
#include <limits>

using namespace mlir;

namespace heddle::codegen {

using nn::GroupLayout;
using Args = ValueRange;

namespace {

/// Computes, in 64 bits, to which group an element of the flat tensor belongs.
class GroupPlaces {
  using Tensor = GroupLayout::Tensor;

public:
  GroupPlaces(ScalarBuilder &s, const GroupLayout &layout)
      : s(s), layout(layout) {}

  struct Element {
    Value group;
    Value exists; ///< Whether the element is in a group.
  };

  /// The group of element `element` of a range of the flat tensor, which begins
  /// at `first`; null: at 0. `part` is the number of the rank's part of
  /// tensors; null: 0.
  Element of(Value element, Value first, Value part) {
    Value at = first ? add(element, wide(first)) : element;
    Value tensor = s.i64(0);
    for (const Tensor &next : ArrayRef(layout.tensors).drop_front())
      tensor =
          add(tensor, s.create<arith::ExtUIOp>(
                          s.getI64Type(), compare(arith::CmpIPredicate::sge, at,
                                                  s.i64(next.begin))));
    auto pick = [&](function_ref<int64_t(const Tensor &)> member) {
      Value value = s.i64(member(layout.tensors[0]));
      for (auto [number, candidate] : llvm::enumerate(layout.tensors))
        if (number > 0)
          value = select(compare(arith::CmpIPredicate::sge, tensor,
                                 s.i64(static_cast<int64_t>(number))),
                         s.i64(member(candidate)), value);
      return value;
    };
    Value inTensor = s.create<arith::SubIOp>(
        at, pick([](const Tensor &tensor) { return tensor.begin; }));
    Value count = pick([](const Tensor &tensor) { return tensor.count(); });
    Value exists = compare(arith::CmpIPredicate::ult, inTensor, count);
    Value safe = select(exists, inTensor, s.i64(0));
    Value columns = pick([](const Tensor &tensor) { return tensor.columns; });
    Value row = s.create<arith::DivUIOp>(safe, columns);
    Value column = s.create<arith::RemUIOp>(safe, columns);
    if (part) {
      auto step = [&](GroupLayout::Split split) {
        Value size = pick([&](const Tensor &tensor) {
          return tensor.split != split        ? 0
                 : split == GroupLayout::Rows ? tensor.rows
                                              : tensor.columns;
        });
        return mul(wide(part), size);
      };
      row = add(row, step(GroupLayout::Rows));
      column = add(column, step(GroupLayout::Columns));
    }
    Value rows = pick([](const Tensor &tensor) { return tensor.wholeRows; });
    Value width =
        pick([](const Tensor &tensor) { return tensor.wholeColumns; });
    for (auto [place, end] : {std::pair{row, rows}, {column, width}})
      exists = s.create<arith::AndIOp>(
          exists, compare(arith::CmpIPredicate::ult, place, end));
    Value isTurned =
        compare(arith::CmpIPredicate::ne,
                pick([](const Tensor &tensor) { return tensor.outputsLast; }),
                s.i64(0));
    Value inWeight = select(isTurned, add(mul(column, rows), row),
                            add(mul(row, width), column));
    inWeight = select(exists, inWeight, s.i64(0));
    Value size = pick([](const Tensor &tensor) { return tensor.groupSize(); });
    Value group =
        add(s.create<arith::DivUIOp>(inWeight, size),
            pick([](const Tensor &tensor) { return tensor.firstGroup; }));
    return {group, exists};
  }

  Value wide(Value index) {
    return s.create<arith::IndexCastOp>(s.getI64Type(), index);
  }
  Value index(Value x) {
    return s.create<arith::IndexCastOp>(s.getIndexType(), x);
  }
  Value add(Value a, Value b) { return s.create<arith::AddIOp>(a, b); }
  Value mul(Value a, Value b) { return s.create<arith::MulIOp>(a, b); }
  Value compare(arith::CmpIPredicate which, Value a, Value b) {
    return s.create<arith::CmpIOp>(which, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return s.create<arith::SelectOp>(condition, a, b);
  }

private:
  ScalarBuilder &s;
  const GroupLayout &layout;
};

} // namespace

static Values lowerGroupMaxima(nn::GroupMaximaOp op,
                               nn::GroupMaximaOp::Adaptor in,
                               LinalgBuilder &b) {
  GroupLayout layout = nn::groupLayoutOf(op);
  auto output = tensorOf(op.getOutput());
  int64_t range =
      tensorOf(op.getInput()).getNumElements() / output.getDimSize(0);
  int64_t shape[] = {output.getDimSize(0), output.getDimSize(1), range};
  return {b.reduceTail(
      b.builder.getF32Type(), shape, 2, {b.space(shape)},
      LinalgBuilder::Combine::Maximum, [&](ScalarBuilder &s, Args) -> Value {
        GroupPlaces places(s, layout);
        Value at = places.add(
            s.create<arith::MulIOp>(places.wide(s.position(0)), s.i64(range)),
            places.wide(s.position(2)));
        auto place = places.of(at, in.getFirst(), in.getPart());
        Value number = places.wide(s.position(1)),
              groups = s.i64(layout.groups);
        Value isNegative =
            places.compare(arith::CmpIPredicate::sge, number, groups);
        Value mine = places.select(
            isNegative, s.create<arith::SubIOp>(number, groups), number);
        Value isMine = s.create<arith::AndIOp>(
            place.exists,
            places.compare(arith::CmpIPredicate::eq, place.group, mine));
        Value x = s.extract(in.getInput(), places.index(at));
        x = places.select(isNegative, s.create<arith::NegFOp>(x), x);
        return places.select(isMine, x,
                             s.f32(-std::numeric_limits<float>::infinity()));
      })};
}

static Values lowerGroupSums(nn::GroupSumsOp op, nn::GroupSumsOp::Adaptor in,
                             LinalgBuilder &b) {
  GroupLayout layout = nn::groupLayoutOf(op);
  int64_t shape[] = {layout.groups, tensorOf(op.getInput()).getNumElements()};
  Type f64 = b.builder.getF64Type();
  auto sum = [&](Value result, bool isCount) {
    Value total = b.reduceTail(
        f64, shape, 1, {b.space(shape), along(in.getInput(), {1})},
        LinalgBuilder::Combine::Add, [&](ScalarBuilder &s, Args x) -> Value {
          GroupPlaces places(s, layout);
          auto place = places.of(places.wide(s.position(1)), in.getFirst(),
                                 in.getPart());
          Value counts = s.create<arith::AndIOp>(
              place.exists,
              places.compare(arith::CmpIPredicate::eq, place.group,
                             places.wide(s.position(0))));
          Value magnitude = s.create<math::AbsFOp>(x[1]);
          if (in.getAbove())
            counts = s.create<arith::AndIOp>(
                counts, s.create<arith::CmpFOp>(
                            arith::CmpFPredicate::OGT, magnitude,
                            s.extract(in.getAbove(), s.position(0))));
          auto real = [&](double value) -> Value {
            return s.create<arith::ConstantOp>(s.getF64FloatAttr(value));
          };
          Value term = isCount ? real(1)
                               : Value(s.create<arith::ExtFOp>(f64, magnitude));
          return places.select(counts, term, real(0));
        });
    return b.map(result.getType(), {{total}},
                 [](ScalarBuilder &, Args x) { return x[0]; });
  };
  return {sum(op.getTotals(), false), sum(op.getCounts(), true)};
}

static Values lowerFakeQuantize(nn::FakeQuantizeOp op,
                                nn::FakeQuantizeOp::Adaptor in,
                                LinalgBuilder &b) {
  GroupLayout layout = nn::groupLayoutOf(op);
  return {b.map(op.getType(),
                {{in.getInput()}, scalar(in.getBits()), scalar(in.getRatio())},
                [&](ScalarBuilder &s, Args x) -> Value {
                  GroupPlaces places(s, layout);
                  auto place = places.of(places.wide(s.position(0)),
                                         in.getFirst(), in.getPart());
                  Value group = places.index(place.group);
                  Value negative = places.index(
                      places.add(place.group, s.i64(layout.groups)));
                  auto numberOf = [&](Value numbers) {
                    return numbers ? s.extract(numbers, group) : Value();
                  };
                  FakeQuantizer quantizer(s,
                                          {s.extract(in.getMaxima(), group),
                                           s.extract(in.getMaxima(), negative),
                                           x[1], x[2], numberOf(in.getMeans()),
                                           numberOf(in.getLevels())},
                                          op.getAsymmetric(), s.getF32Type());
                  return places.select(place.exists,
                                       quantizer.quantize(s, x[0]), s.f32(0));
                })};
}

void attachGroupLowerings(MLIRContext *context) {
  attachLinalg<nn::GroupMaximaOp, lowerGroupMaxima, Generator::Segments>(
      context);
  attachLinalg<nn::GroupSumsOp, lowerGroupSums, Generator::Segments>(context);
  attachLinalg<nn::FakeQuantizeOp, lowerFakeQuantize, Generator::Segments>(
      context);
}

} // namespace heddle::codegen
