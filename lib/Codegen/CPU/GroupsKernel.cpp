//===- GroupsKernel.cpp - Weights that are quantized in training ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of nn.group_maxima, nn.group_sums and nn.fake_quantize.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "dialects/NN/GroupLayout.h"
#include "heddle/Codegen/Common/FakeQuantizer.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;

namespace heddle::cpu {

namespace {

using nn::GroupLayout;

/// Emits operations on the groups of a bucket's tensors. There may be thousands
/// of tensors and groups, so constant tables describe them.
///
/// Each group has a run of elements in each row of a tensor; see
/// GroupLayout::Runs.
class Groups {
public:
  Groups(KernelEmitter &k, Operation *op, Value input, Value first, Value part)
      : k(k), b(k.b), ev(k.evaluator), layout(nn::groupLayoutOf(op)),
        input(input),
        length(cast<RankedTensorType>(input.getType()).getNumElements()) {
    ev.setFlat();
    SmallVector<int64_t> fields, owners;
    for (auto [number, tensor] : llvm::enumerate(layout.tensors)) {
      GroupLayout::Runs runs = GroupLayout::runsOf(tensor);
      fields.append({tensor.begin, runs.rows, runs.columns, tensor.groups,
                     tensor.firstGroup, tensor.groupSize(),
                     tensor.begin + nn::paddedElements(tensor.count()),
                     runs.rowElements, runs.columnElements, runs.rowStep,
                     runs.columnStep, runs.wholeRows, runs.wholeColumns});
      owners.append(tensor.groups, static_cast<int64_t>(number));
      hasPadding |= tensor.isPadded();
    }
    table = k.makeTable(fields, "tensors");
    if (!isa<nn::FakeQuantizeOp>(op))
      tensorOfGroup = k.makeTable(owners, "groups");
    offset = first ? ev.scalarOf(first) : b.constant(0);
    this->part = part ? ev.scalarOf(part) : b.constant(0);
  }

  void emit(nn::GroupMaximaOp op);
  void emit(nn::GroupSumsOp op);
  void emit(nn::FakeQuantizeOp op);

private:
  static constexpr int64_t unit = KernelEmitter::flatUnit;
  enum Field {
    Begin,
    Rows,
    Columns,
    Count,
    FirstGroup,
    Size,
    End,
    RowElements,
    ColumnElements,
    RowStep,
    ColumnStep,
    WholeRows,
    WholeColumns,
    numFields
  };

  Value load(Value of, Value index) {
    Type i64 = b.builder.getI64Type();
    return b.load(i64, b.advance(of, i64, index), sizeof(int64_t));
  }
  Value field(Value tensor, Field which) {
    return load(table, b.add(b.mul(tensor, numFields), which));
  }
  Value clamp(Value x, Value least, Value most) {
    return b.min(b.select(b.less(x, least), least, x), most);
  }
  Value f32(float number) {
    return b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(number));
  }
  Value splat(Value number) {
    return b.create<vector::BroadcastOp>(ev.vectorType(number.getType()),
                                         number);
  }
  Value scalar(Value tensor, Value index) {
    return ev.evaluate(tensor, {{index}}).value;
  }

  /// A tensor, and the numbers that describe it.
  struct Tensor {
    Value begin, rows, columns, count, firstGroup, size, end;
    Value rowElements, columnElements;
    Value firstRow, firstColumn; ///< Of the part in the whole tensor.
    Value width; ///< The columns of the part that are no padding.
    Value wholeRows;
  };
  Tensor tensorAt(Value number) {
    Tensor tensor{field(number, Begin),         field(number, Rows),
                  field(number, Columns),       field(number, Count),
                  field(number, FirstGroup),    field(number, Size),
                  field(number, End),           field(number, RowElements),
                  field(number, ColumnElements)};
    tensor.firstRow = b.mul(part, field(number, RowStep));
    tensor.firstColumn = b.mul(part, field(number, ColumnStep));
    tensor.width = clamp(b.sub(field(number, WholeColumns), tensor.firstColumn),
                         b.constant(0), tensor.columns);
    tensor.wholeRows = field(number, WholeRows);
    return tensor;
  }
  /// The first element of group `group` of the tensor in row `row`, counted
  /// from the begin of the kernel's range, which may be after it.
  Value startOf(const Tensor &tensor, Value row, Value group) {
    Value inWhole = b.add(tensor.firstRow, row);
    Value number =
        b.sub(b.mul(group, tensor.size), b.mul(inWhole, tensor.rowElements));
    number = b.add(number, b.sub(tensor.columnElements, b.constant(1)));
    Value column =
        b.sub(b.create<arith::DivSIOp>(number, tensor.columnElements),
              tensor.firstColumn);
    // A row of padding has no elements.
    Value width = b.select(b.less(inWhole, tensor.wholeRows), tensor.width,
                           b.constant(0));
    column = clamp(column, b.constant(0), width);
    Value inTensor = b.add(b.mul(row, tensor.columns), column);
    return b.sub(b.add(tensor.begin, inTensor), offset);
  }

  using Elements = llvm::function_ref<SmallVector<Value>(
      Value at, Value mask, Value x, ValueRange carried)>;
  /// Emits a loop over the elements from `begin` to `end` of the input.
  SmallVector<Value> forElements(Value begin, Value end, ValueRange init,
                                 Elements body);
  /// Emits `body` for the elements of a group that are in [low, high).
  SmallVector<Value> forGroup(Value group, Value low, Value high,
                              ValueRange init, Elements body);
  /// Writes zeros to the elements from `begin` to `end` of the result.
  void clear(Value output, Value begin, Value end);
  static Type elementOf(Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getElementType();
  }
  void quantizeTensor(nn::FakeQuantizeOp op, const Tensor &tensor, Value begin,
                      Value end);
  void quantizeRun(nn::FakeQuantizeOp op, Value group, Value begin, Value end);

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  GroupLayout layout;
  Value input;
  int64_t length;
  bool hasPadding = false; ///< Whether a tensor may have padding in a part.
  Value table, tensorOfGroup, offset, part;
};

} // namespace

SmallVector<Value> Groups::forElements(Value begin, Value end, ValueRange init,
                                       Elements body) {
  return b.forLoop(begin, end, ev.laneCount(), init,
                   [&](Value at, ValueRange carried) -> SmallVector<Value> {
                     TensorEvaluator::Scope scope(ev);
                     Value mask = b.mask(b.sub(end, at), ev.laneCount());
                     ev.setMask(mask);
                     Point point = {{at, Coordinate::Consecutive}};
                     Value x = b.widen(ev.evaluateVector(input, point));
                     SmallVector<Value> next = body(at, mask, x, carried);
                     ev.setMask({});
                     return next;
                   });
}

SmallVector<Value> Groups::forGroup(Value group, Value low, Value high,
                                    ValueRange init, Elements body) {
  Tensor tensor = tensorAt(load(tensorOfGroup, group));
  Value number = b.sub(group, tensor.firstGroup);
  Value next = b.add(number, 1);
  return b.forLoop(b.constant(0), tensor.rows, 1, init,
                   [&](Value row, ValueRange carried) -> SmallVector<Value> {
                     Value begin =
                         clamp(startOf(tensor, row, number), low, high);
                     Value end = clamp(startOf(tensor, row, next), low, high);
                     return forElements(begin, end, carried, body);
                   });
}

/// Emits nn.group_maxima. One thread finds both numbers of a group in a range.
void Groups::emit(nn::GroupMaximaOp op) {
  int64_t ranges =
      cast<RankedTensorType>(op.getOutput().getType()).getDimSize(0);
  Value least = splat(f32(-std::numeric_limits<float>::infinity()));
  auto [first, last] = k.share(ranges * layout.groups);
  b.forLoop(first, last, 1, [&](Value index) {
    TensorEvaluator::Scope scope(ev);
    Value range = b.div(index, layout.groups);
    Value group = b.rem(index, layout.groups);
    Value low = b.mul(range, length / ranges);
    SmallVector<Value> largest = forGroup(
        group, low, b.add(low, length / ranges), {least, least},
        [&](Value, Value mask, Value x, ValueRange before) {
          Value negative = b.create<arith::NegFOp>(x);
          return SmallVector<Value>{
              b.create<arith::MaximumFOp>(before[0], b.select(mask, x, least)),
              b.create<arith::MaximumFOp>(before[1],
                                          b.select(mask, negative, least))};
        });
    Value at = b.add(b.mul(range, 2 * layout.groups), group);
    for (Value number : largest) {
      ev.store(op.getOutput(), k.results[0], {{at}},
               {b.create<vector::ReductionOp>(vector::CombiningKind::MAXIMUMF,
                                              number)});
      at = b.add(at, layout.groups);
    }
  });
}

/// Emits nn.group_sums. One thread sums a whole group, so the order of
/// additions does not depend on the number of threads.
void Groups::emit(nn::GroupSumsOp op) {
  Type f64 = b.builder.getF64Type();
  auto wide = ev.vectorType(f64);
  Value none = b.zeros(wide);
  Value one = b.create<arith::ConstantOp>(
      DenseElementsAttr::get(wide, b.builder.getF64FloatAttr(1)));
  auto [first, last] = k.share(layout.groups);
  b.forLoop(first, last, 1, [&](Value group) {
    TensorEvaluator::Scope scope(ev);
    Value above = op.getAbove() ? splat(scalar(op.getAbove(), group)) : Value();
    SmallVector<Value> sums = forGroup(
        group, b.constant(0), b.constant(length), {none, none},
        [&](Value, Value mask, Value x, ValueRange before) {
          Value size = b.create<math::AbsFOp>(x);
          if (above)
            mask = b.create<arith::AndIOp>(
                mask, b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, size,
                                              above));
          Value term = b.create<arith::ExtFOp>(wide, size);
          return SmallVector<Value>{
              b.create<arith::AddFOp>(before[0], b.select(mask, term, none)),
              b.create<arith::AddFOp>(before[1], b.select(mask, one, none))};
        });
    for (auto [number, result] : llvm::enumerate(op.getResults())) {
      Value sum = b.create<vector::ReductionOp>(vector::CombiningKind::ADD,
                                                sums[number]);
      ev.store(result, k.results[number], {{group}},
               {b.create<arith::TruncFOp>(b.builder.getF32Type(), sum)});
    }
  });
}

void Groups::clear(Value output, Value begin, Value end) {
  Value zeros = b.zeros(ev.vectorType(elementOf(output)));
  forElements(begin, end, {},
              [&](Value at, Value, Value, ValueRange) -> SmallVector<Value> {
                ev.store(output, k.results[0], {{at, Coordinate::Consecutive}},
                         {zeros, Element::Vector});
                return {};
              });
}

void Groups::quantizeRun(nn::FakeQuantizeOp op, Value group, Value begin,
                         Value end) {
  auto numberOf = [&](Value numbers) {
    return numbers ? scalar(numbers, group) : Value();
  };
  ImplicitLocOpBuilder outside(b.loc, b.builder);
  codegen::FakeQuantizer quantizer(
      outside,
      {scalar(op.getMaxima(), group),
       scalar(op.getMaxima(), b.add(group, layout.groups)),
       ev.evaluate(op.getBits(), {}).value,
       ev.evaluate(op.getRatio(), {}).value, numberOf(op.getMeans()),
       numberOf(op.getLevels())},
      op.getAsymmetric(), ev.vectorType(b.builder.getF32Type()));
  forElements(begin, end, {},
              [&](Value at, Value, Value x, ValueRange) -> SmallVector<Value> {
                ImplicitLocOpBuilder inside(b.loc, b.builder);
                Value rounded = b.narrow(quantizer.quantize(inside, x),
                                         elementOf(op.getOutput()));
                ev.store(op.getOutput(), k.results[0],
                         {{at, Coordinate::Consecutive}},
                         {rounded, Element::Vector});
                return {};
              });
}

/// Emits nn.fake_quantize for the elements of a tensor in [low, high).
void Groups::quantizeTensor(nn::FakeQuantizeOp op, const Tensor &tensor,
                            Value low, Value high) {
  Value begin = b.sub(tensor.begin, offset);
  Value count = b.mul(tensor.rows, tensor.columns);
  auto rowAt = [&](Value element, bool isEnd) {
    Value inTensor = clamp(b.sub(element, begin), b.constant(0), count);
    if (isEnd)
      inTensor = b.add(inTensor, b.sub(tensor.columns, b.constant(1)));
    return b.div(inTensor, tensor.columns);
  };
  b.forLoop(rowAt(low, false), rowAt(high, true), 1, [&](Value row) {
    b.forLoop(b.constant(0), tensor.count, 1, [&](Value number) {
      TensorEvaluator::Scope scope(ev);
      Value from = clamp(startOf(tensor, row, number), low, high);
      Value to = clamp(startOf(tensor, row, b.add(number, 1)), low, high);
      b.ifThen(b.less(from, to), [&] {
        TensorEvaluator::Scope inside(ev);
        quantizeRun(op, b.add(tensor.firstGroup, number), from, to);
      });
    });
  });
  TensorEvaluator::Scope scope(ev);
  clear(op.getOutput(), clamp(b.add(begin, count), low, high),
        clamp(b.sub(tensor.end, offset), low, high));
}

void Groups::emit(nn::FakeQuantizeOp op) {
  auto [first, last] = k.share(length / unit);
  Value low = b.mul(first, unit), high = b.mul(last, unit);
  if (hasPadding)
    clear(op.getOutput(), low, high);
  auto count = static_cast<int64_t>(layout.tensors.size());
  b.forLoop(b.constant(0), b.constant(count), 1, [&](Value number) {
    TensorEvaluator::Scope scope(ev);
    quantizeTensor(op, tensorAt(number), low, high);
  });
  clear(op.getOutput(),
        clamp(b.sub(b.constant(layout.elements), offset), low, high), high);
}

LogicalResult emitGroupsKernel(KernelEmitter &k) {
  Operation *op = &k.kernel.getBody().front().front();
  if (auto maxima = dyn_cast<nn::GroupMaximaOp>(op))
    Groups(k, op, maxima.getInput(), maxima.getFirst(), maxima.getPart())
        .emit(maxima);
  else if (auto sums = dyn_cast<nn::GroupSumsOp>(op))
    Groups(k, op, sums.getInput(), sums.getFirst(), sums.getPart()).emit(sums);
  else if (auto quantize = dyn_cast<nn::FakeQuantizeOp>(op))
    Groups(k, op, quantize.getInput(), quantize.getFirst(), quantize.getPart())
        .emit(quantize);
  else
    return k.kernel.emitError("holds nothing of segments or groups; its "
                              "generator is not \"segments\"");
  return k.finish();
}

} // namespace heddle::cpu
