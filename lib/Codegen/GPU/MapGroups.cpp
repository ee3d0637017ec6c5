//===- MapGroups.cpp - Weights that are quantized in training -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps nn.group_maxima, nn.group_sums and nn.fake_quantize. A block reduces a
// group, of which each row of the weight in memory has a run of elements (see
// lib/Codegen/CPU/GroupsKernel.cpp). A thread quantizes single elements: it
// looks up the tensor of the element, and computes the group from the element's
// row and column. Constant tables describe the tensors, of which there may be
// thousands.
//
//===----------------------------------------------------------------------===//

#include "BlockReduce.h"
#include "ConstantTable.h"
#include "dialects/NN/GroupLayout.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Codegen/Common/FakeQuantizer.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <limits>

using namespace mlir;

namespace heddle::gpu {

namespace {
using nn::GroupLayout;

constexpr int64_t threads = 256;
/// The number of elements that each thread quantizes.
constexpr int64_t elementsToQuantize = 8;

class GroupMapper {
public:
  GroupMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
              Operation *op, Value input, Value first, Value part)
      : kernel(kernel), module(module), layout(nn::groupLayoutOf(op)),
        input(input), first(first), part(part),
        length(cast<RankedTensorType>(input.getType()).getNumElements()) {}

  MappedKernel map(nn::GroupMaximaOp op);
  MappedKernel map(nn::GroupSumsOp op);
  MappedKernel map(nn::FakeQuantizeOp op);

private:
  /// What a table has of each tensor. Rows and columns, and the fields after
  /// them, are those of GroupLayout::Runs.
  enum Field {
    Begin,
    FirstGroup,
    Size,
    Count,
    Rows,
    Columns,
    RowElements,
    ColumnElements,
    RowStep,
    ColumnStep,
    WholeRows,
    WholeColumns
  };
  using Elements = llvm::function_ref<FailureOr<SmallVector<Value>>(
      Value element, Value x, ValueRange carried)>;

  static int64_t fieldOf(const GroupLayout::Tensor &tensor, Field field) {
    GroupLayout::Runs runs = GroupLayout::runsOf(tensor);
    int64_t numbers[] = {
        tensor.begin,     tensor.firstGroup,   tensor.groupSize(),
        tensor.count(),   runs.rows,           runs.columns,
        runs.rowElements, runs.columnElements, runs.rowStep,
        runs.columnStep,  runs.wholeRows,      runs.wholeColumns};
    return numbers[field];
  }
  ConstantTable table(KernelFrame &f, Field field) {
    SmallVector<int64_t> numbers;
    for (const GroupLayout::Tensor &tensor : layout.tensors)
      numbers.push_back(fieldOf(tensor, field));
    return {f, (kernel.getSymName() + "_field" + Twine(int(field))).str(),
            ArrayRef<int64_t>(numbers)};
  }
  /// A field of the tensor with the index `tensor`, as i64.
  Value load(KernelFrame &f, Field field, Value tensor) {
    return table(f, field).at(tensor);
  }
  int64_t last() const {
    return static_cast<int64_t>(layout.tensors.size()) - 1;
  }

  Value wide(KernelFrame &f, Value index) {
    return f.builder.create<arith::IndexCastOp>(f.loc, f.builder.getI64Type(),
                                                index);
  }
  Value index(KernelFrame &f, Value number) {
    return f.builder.create<arith::IndexCastOp>(f.loc, f.builder.getIndexType(),
                                                number);
  }
  Value i64(KernelFrame &f, int64_t value) {
    return f.builder.create<arith::ConstantIntOp>(f.loc, value, 64);
  }
  template <typename Op> Value make(KernelFrame &f, Value a, Value b) {
    return f.builder.create<Op>(f.loc, a, b);
  }
  /// The index of the kernel's first element in the whole flat tensor, as i64.
  Value offset(KernelFrame &f) {
    return first ? f.argumentScalar(first) : i64(f, 0);
  }
  /// What the number of the rank's part adds to rows or columns of the tensor.
  Value step(KernelFrame &f, Field field, Value tensor) {
    return part ? make<arith::MulIOp>(f, f.argumentScalar(part),
                                      load(f, field, tensor))
                : i64(f, 0);
  }
  Value less(KernelFrame &f, Value a, Value b) {
    return f.builder.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::slt, a,
                                           b);
  }
  /// `x`, or the nearer end of [least, most].
  Value clamp(KernelFrame &f, Value x, Value least, Value most) {
    return make<arith::MinSIOp>(f, make<arith::MaxSIOp>(f, x, least), most);
  }

  FailureOr<SmallVector<Value>> forGroup(KernelFrame &f, Value group, Value low,
                                         Value high, ValueRange init,
                                         Elements body);
  LogicalResult emit(KernelFrame &f, nn::GroupMaximaOp op);
  LogicalResult emit(KernelFrame &f, nn::GroupSumsOp op);
  LogicalResult emit(KernelFrame &f, nn::FakeQuantizeOp op);
  LogicalResult quantize(KernelFrame &f, nn::FakeQuantizeOp op, Value element);

  template <typename OpT> MappedKernel launch(OpT op, int64_t blocks) {
    FrameOptions options;
    options.flat = true;
    if (failed(addLaunch(mapped, kernel, module, options, {blocks}, threads,
                         [&](KernelFrame &f) { return emit(f, op); })))
      return MappedKernel::no(mapped.reason);
    return mapped;
  }

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  GroupLayout layout;
  Value input, first, part;
  int64_t length;
  MappedKernel mapped;
};
} // namespace

/// Emits `body` for the elements of a group in [low, high) that this thread
/// handles: those of each row.
FailureOr<SmallVector<Value>> GroupMapper::forGroup(KernelFrame &f, Value group,
                                                    Value low, Value high,
                                                    ValueRange init,
                                                    Elements body) {
  OpBuilder &b = f.builder;
  Value number = wide(f, group);
  Value tensor = table(f, FirstGroup).search(last(), number);
  number = make<arith::SubIOp>(f, number, load(f, FirstGroup, tensor));
  Value columns = load(f, Columns, tensor), size = load(f, Size, tensor);
  Value firstRow = step(f, RowStep, tensor);
  Value firstColumn = step(f, ColumnStep, tensor);
  Value rowElements = load(f, RowElements, tensor);
  Value columnElements = load(f, ColumnElements, tensor);
  Value wholeRows = load(f, WholeRows, tensor), none = i64(f, 0);
  // The columns of the part that are no padding.
  Value width = clamp(
      f, make<arith::SubIOp>(f, load(f, WholeColumns, tensor), firstColumn),
      none, columns);
  Value begin = make<arith::SubIOp>(f, load(f, Begin, tensor), offset(f));
  Value next = make<arith::AddIOp>(f, number, i64(f, 1));
  auto loop = b.create<scf::ForOp>(f.loc, f.constant(0),
                                   index(f, load(f, Rows, tensor)),
                                   f.constant(1), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value row = wide(f, loop.getInductionVar());
  Value inWhole = make<arith::AddIOp>(f, firstRow, row);
  Value end = b.create<arith::SelectOp>(f.loc, less(f, inWhole, wholeRows),
                                        width, none);
  auto startOf = [&](Value of) -> Value {
    Value number =
        make<arith::SubIOp>(f, make<arith::MulIOp>(f, of, size),
                            make<arith::MulIOp>(f, inWhole, rowElements));
    number = make<arith::AddIOp>(
        f, number, make<arith::SubIOp>(f, columnElements, i64(f, 1)));
    Value column = make<arith::SubIOp>(
        f, make<arith::DivSIOp>(f, number, columnElements), firstColumn);
    Value inTensor = make<arith::AddIOp>(
        f, make<arith::MulIOp>(f, row, columns), clamp(f, column, none, end));
    return clamp(f, index(f, make<arith::AddIOp>(f, begin, inTensor)), low,
                 high);
  };
  auto results =
      forChunks(f, startOf(number), startOf(next), /*isWhole=*/true,
                {1, threads}, loop.getRegionIterArgs(),
                [&](const Chunk &chunk,
                    ValueRange carried) -> FailureOr<SmallVector<Value>> {
                  FailureOr<Value> x = f.emitter.element(input, chunk.base);
                  if (failed(x))
                    return failure();
                  return body(chunk.base, *x, carried);
                });
  if (failed(results))
    return failure();
  b.create<scf::YieldOp>(f.loc, *results);
  return SmallVector<Value>(loop.getResults());
}

LogicalResult GroupMapper::emit(KernelFrame &f, nn::GroupMaximaOp op) {
  OpBuilder &b = f.builder;
  int64_t ranges =
      cast<RankedTensorType>(op.getOutput().getType()).getDimSize(0);
  Value slots[] = {f.addWorkgroup({threads / warpSize}, b.getF32Type()),
                   f.addWorkgroup({threads / warpSize}, b.getF32Type())};
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value range = f.div(block, layout.groups);
  Value group = f.rem(block, layout.groups);
  Value low = f.mul(range, length / ranges);
  Value least = b.create<arith::ConstantOp>(
      f.loc, b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
  auto largest =
      forGroup(f, group, low, f.add(low, length / ranges), {least, least},
               [&](Value, Value x, ValueRange before) {
                 Value negative = b.create<arith::NegFOp>(f.loc, x);
                 return FailureOr<SmallVector<Value>>(
                     {make<arith::MaximumFOp>(f, before[0], x),
                      make<arith::MaximumFOp>(f, before[1], negative)});
               });
  if (failed(largest))
    return failure();
  SmallVector<Value> all;
  for (auto [value, slot] : llvm::zip(*largest, slots))
    all.push_back(acrossBlock(f, value, threads, slot, [&](Value x, Value y) {
      return make<arith::MaximumFOp>(f, x, y);
    }));
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  Value at = f.add(f.mul(range, 2 * layout.groups), group);
  f.store(all[0], f.outputBuffer(0), at);
  f.store(all[1], f.outputBuffer(0), f.add(at, layout.groups));
  return success();
}

LogicalResult GroupMapper::emit(KernelFrame &f, nn::GroupSumsOp op) {
  OpBuilder &b = f.builder;
  Type f64 = b.getF64Type();
  Value slots[] = {f.addWorkgroup({threads / warpSize}, f64),
                   f.addWorkgroup({threads / warpSize}, f64)};
  Value group = f.blockId(mlir::gpu::Dimension::x);
  Value above;
  if (op.getAbove()) {
    FailureOr<Value> limit = f.emitter.element(op.getAbove(), group);
    if (failed(limit))
      return failure();
    above = *limit;
  }
  auto real = [&](double value) -> Value {
    return b.create<arith::ConstantOp>(f.loc, b.getF64FloatAttr(value));
  };
  Value zero = real(0), one = real(1);
  auto sums = forGroup(
      f, group, f.constant(0), f.constant(length), {zero, zero},
      [&](Value, Value x, ValueRange before) {
        Value size = b.create<math::AbsFOp>(f.loc, x);
        Value term = b.create<arith::ExtFOp>(f.loc, f64, size), count = one;
        if (above) {
          Value isAbove = b.create<arith::CmpFOp>(
              f.loc, arith::CmpFPredicate::OGT, size, above);
          term = b.create<arith::SelectOp>(f.loc, isAbove, term, zero);
          count = b.create<arith::SelectOp>(f.loc, isAbove, one, zero);
        }
        return FailureOr<SmallVector<Value>>(
            {addFloats(f, before[0], term), addFloats(f, before[1], count)});
      });
  if (failed(sums))
    return failure();
  SmallVector<Value> all;
  for (auto [value, slot] : llvm::zip(*sums, slots))
    all.push_back(acrossBlock(f, value, threads, slot, [&](Value x, Value y) {
      return addFloats(f, x, y);
    }));
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  for (auto [number, value] : llvm::enumerate(all))
    f.store(Value(b.create<arith::TruncFOp>(f.loc, b.getF32Type(), value)),
            f.outputBuffer(static_cast<unsigned>(number)), group);
  return success();
}

/// Quantizes one element of the kernel's range, or clears it if it is padding.
LogicalResult GroupMapper::quantize(KernelFrame &f, nn::FakeQuantizeOp op,
                                    Value element) {
  OpBuilder &b = f.builder;
  Value place = make<arith::AddIOp>(f, wide(f, element), offset(f));
  Value tensor = table(f, Begin).search(last(), place);
  Value inTensor = make<arith::SubIOp>(f, place, load(f, Begin, tensor));
  Value exists = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ult,
                                         inTensor, load(f, Count, tensor));
  Value safe = b.create<arith::SelectOp>(f.loc, exists, inTensor, i64(f, 0));
  Value columns = load(f, Columns, tensor);
  Value row = make<arith::AddIOp>(f, make<arith::DivUIOp>(f, safe, columns),
                                  step(f, RowStep, tensor));
  Value column = make<arith::AddIOp>(f, make<arith::RemUIOp>(f, safe, columns),
                                     step(f, ColumnStep, tensor));
  exists =
      make<arith::AndIOp>(f, exists, less(f, row, load(f, WholeRows, tensor)));
  exists = make<arith::AndIOp>(f, exists,
                               less(f, column, load(f, WholeColumns, tensor)));
  Value number = make<arith::AddIOp>(
      f, make<arith::MulIOp>(f, row, load(f, RowElements, tensor)),
      make<arith::MulIOp>(f, column, load(f, ColumnElements, tensor)));
  number = b.create<arith::SelectOp>(f.loc, exists, number, i64(f, 0));
  number = make<arith::DivUIOp>(f, number, load(f, Size, tensor));
  Value group =
      index(f, make<arith::AddIOp>(f, number, load(f, FirstGroup, tensor)));
  bool isKnown = true;
  auto numberOf = [&](Value numbers, ElementEmitter::Indices where) -> Value {
    if (!numbers)
      return {};
    FailureOr<Value> number = f.emitter.element(numbers, where);
    isKnown &= succeeded(number);
    return isKnown ? *number : Value();
  };
  codegen::FakeQuantizer::Group numbers = {
      numberOf(op.getMaxima(), group),
      numberOf(op.getMaxima(), f.add(group, layout.groups)),
      numberOf(op.getBits(), {}),
      numberOf(op.getRatio(), {}),
      numberOf(op.getMeans(), group),
      numberOf(op.getLevels(), group)};
  Value x = numberOf(input, element);
  if (!isKnown)
    return failure();
  ImplicitLocOpBuilder inner(f.loc, b);
  codegen::FakeQuantizer quantizer(inner, numbers, op.getAsymmetric(),
                                   b.getF32Type());
  Value rounded = quantizer.quantize(inner, x);
  Value zero = inner.create<arith::ConstantOp>(b.getF32FloatAttr(0));
  rounded = inner.create<arith::SelectOp>(exists, rounded, zero);
  if (Type type = getElementTypeOrSelf(op.getType()); !type.isF32())
    rounded = inner.create<arith::TruncFOp>(type, rounded);
  b.setInsertionPoint(inner.getInsertionBlock(), inner.getInsertionPoint());
  f.store(rounded, f.outputBuffer(0), element);
  return success();
}

LogicalResult GroupMapper::emit(KernelFrame &f, nn::FakeQuantizeOp op) {
  int64_t part = threads * elementsToQuantize;
  Value begin = f.mul(f.blockId(mlir::gpu::Dimension::x), part);
  Value end = make<arith::MinUIOp>(f, f.add(begin, part), f.constant(length));
  return forChunks(
      f, begin, end, /*isWhole=*/true, {1, threads}, {},
      [&](const Chunk &chunk, ValueRange) -> FailureOr<SmallVector<Value>> {
        if (failed(quantize(f, op, chunk.base)))
          return failure();
        return SmallVector<Value>();
      });
}

MappedKernel GroupMapper::map(nn::GroupMaximaOp op) {
  return launch(
      op,
      cast<RankedTensorType>(op.getOutput().getType()).getNumElements() / 2);
}
MappedKernel GroupMapper::map(nn::GroupSumsOp op) {
  return launch(op, layout.groups);
}
MappedKernel GroupMapper::map(nn::FakeQuantizeOp op) {
  return launch(op, llvm::divideCeil(length, threads * elementsToQuantize));
}

MappedKernel mapGroups(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module) {
  Operation *op = &kernel.getBody().front().front();
  auto mapOne = [&](auto one) {
    return GroupMapper(kernel, module, op, one.getInput(), one.getFirst(),
                       one.getPart())
        .map(one);
  };
  if (auto maxima = dyn_cast<nn::GroupMaximaOp>(op))
    return mapOne(maxima);
  if (auto sums = dyn_cast<nn::GroupSumsOp>(op))
    return mapOne(sums);
  if (auto quantize = dyn_cast<nn::FakeQuantizeOp>(op))
    return mapOne(quantize);
  return MappedKernel::no("something other than segments and groups");
}

} // namespace heddle::gpu
