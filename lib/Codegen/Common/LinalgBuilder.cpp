//===- LinalgBuilder.cpp - Builds linalg operations -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include <limits>

using namespace mlir;

namespace heddle::codegen {

//===----------------------------------------------------------------------===//
// ScalarBuilder
//===----------------------------------------------------------------------===//

Value ScalarBuilder::f32(double value) {
  return create<arith::ConstantOp>(getF32FloatAttr(static_cast<float>(value)));
}

Value ScalarBuilder::i32(uint32_t value) {
  return create<arith::ConstantOp>(
      getI32IntegerAttr(static_cast<int32_t>(value)));
}

Value ScalarBuilder::i64(int64_t value) {
  return create<arith::ConstantOp>(getI64IntegerAttr(value));
}

Value ScalarBuilder::index(int64_t value) {
  return create<arith::ConstantIndexOp>(value);
}

Value ScalarBuilder::add(Value a, Value b) {
  return create<arith::AddFOp>(a, b);
}
Value ScalarBuilder::sub(Value a, Value b) {
  return create<arith::SubFOp>(a, b);
}
Value ScalarBuilder::mul(Value a, Value b) {
  return create<arith::MulFOp>(a, b);
}
Value ScalarBuilder::div(Value a, Value b) {
  return create<arith::DivFOp>(a, b);
}
Value ScalarBuilder::exp(Value x) { return create<math::ExpOp>(x); }

Value ScalarBuilder::sigmoid(Value x) {
  Value e = exp(create<arith::NegFOp>(x));
  return div(f32(1), add(f32(1), e));
}

Value ScalarBuilder::position(int64_t dim) {
  return create<linalg::IndexOp>(dim);
}

Value ScalarBuilder::widen(Value value) {
  if (isa<FloatType>(value.getType()) &&
      value.getType().getIntOrFloatBitWidth() < 32)
    return create<arith::ExtFOp>(getF32Type(), value);
  return value;
}

Value ScalarBuilder::extract(Value tensor, ValueRange at) {
  return widen(create<tensor::ExtractOp>(tensor, at));
}

//===----------------------------------------------------------------------===//
// LinalgBuilder
//===----------------------------------------------------------------------===//

static Value narrow(ScalarBuilder &b, Value value, Type type) {
  if (value.getType() == type)
    return value;
  return b.create<arith::TruncFOp>(type, value);
}

AffineMap LinalgBuilder::mapOf(const Input &input, unsigned rank) {
  MLIRContext *context = builder.getContext();
  switch (input.kind) {
  case Input::Full:
    return AffineMap::getMultiDimIdentityMap(rank, context);
  case Input::Rows:
    return AffineMap::getMultiDimIdentityMap(rank, context)
        .getMajorSubMap(rank - 1);
  case Input::Columns:
    return AffineMap::getMinorIdentityMap(rank, 1, context);
  case Input::Scalar:
    return AffineMap::get(rank, 0, context);
  case Input::Along:
    return AffineMap::getMultiDimMapWithTargets(rank, input.dims, context);
  }
  llvm_unreachable("all kinds handled");
}

Value LinalgBuilder::filled(RankedTensorType type, double value) {
  Value empty = builder.create<tensor::EmptyOp>(loc, type.getShape(),
                                                type.getElementType());
  Value constant = builder.create<arith::ConstantOp>(
      loc, builder.getFloatAttr(type.getElementType(), value));
  return builder.create<linalg::FillOp>(loc, constant, empty).getResult(0);
}

Values LinalgBuilder::map(TypeRange types, ArrayRef<Input> inputs, Body body) {
  auto first = cast<RankedTensorType>(types[0]);
  auto rank = static_cast<unsigned>(first.getRank());
  SmallVector<AffineMap> maps;
  Values operands, outs;
  for (const Input &input : inputs) {
    operands.push_back(input.value);
    maps.push_back(mapOf(input, rank));
  }
  for (Type type : types) {
    auto tensor = cast<RankedTensorType>(type);
    outs.push_back(builder.create<tensor::EmptyOp>(loc, tensor.getShape(),
                                                   tensor.getElementType()));
    maps.push_back(builder.getMultiDimIdentityMap(rank));
  }
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  auto generic = builder.create<linalg::GenericOp>(
      loc, types, operands, outs, maps, iterators,
      [&](OpBuilder &nested, Location nestedLoc, ValueRange args) {
        ScalarBuilder b(nestedLoc, nested);
        Values widened;
        for (Value arg : args.take_front(inputs.size()))
          widened.push_back(b.widen(arg));
        Values results = body(b, widened);
        for (auto [result, type] : llvm::zip(results, types))
          result = narrow(b, result, getElementTypeOrSelf(type));
        b.create<linalg::YieldOp>(results);
      });
  return Values(generic.getResults());
}

Value LinalgBuilder::map(Type type, ArrayRef<Input> inputs, Body1 body) {
  return map(TypeRange(type), inputs,
             [&](ScalarBuilder &b, ValueRange args) -> Values {
               return {body(b, args)};
             })[0];
}

Value LinalgBuilder::reduce(ArrayRef<Input> inputs, Value init,
                            AffineMap outMap, unsigned rank, Combine combine,
                            Body1 term) {
  SmallVector<AffineMap> maps;
  Values operands;
  for (const Input &input : inputs) {
    operands.push_back(input.value);
    maps.push_back(mapOf(input, rank));
  }
  maps.push_back(outMap);
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::reduction);
  for (AffineExpr expr : outMap.getResults())
    iterators[cast<AffineDimExpr>(expr).getPosition()] =
        utils::IteratorType::parallel;
  auto generic = builder.create<linalg::GenericOp>(
      loc, TypeRange(init.getType()), operands, ValueRange(init), maps,
      iterators, [&](OpBuilder &nested, Location nestedLoc, ValueRange args) {
        ScalarBuilder b(nestedLoc, nested);
        Values widened;
        for (Value arg : args.drop_back())
          widened.push_back(b.widen(arg));
        Value next = term(b, widened);
        Value result;
        if (combine == Combine::Add)
          result = b.create<arith::AddFOp>(args.back(), next);
        else
          result = b.create<arith::MaximumFOp>(args.back(), next);
        b.create<linalg::YieldOp>(result);
      });
  return generic.getResult(0);
}

Value LinalgBuilder::reduceLast(ArrayRef<int64_t> shape, ArrayRef<Input> inputs,
                                Combine combine, Body1 term) {
  return reduceTail(builder.getF32Type(), shape, shape.size() - 1, inputs,
                    combine, term);
}

Value LinalgBuilder::reduceTail(Type type, ArrayRef<int64_t> shape,
                                unsigned kept, ArrayRef<Input> inputs,
                                Combine combine, Body1 term) {
  auto rank = static_cast<unsigned>(shape.size());
  double neutral =
      combine == Combine::Add ? 0.0 : -std::numeric_limits<double>::infinity();
  Value init =
      filled(RankedTensorType::get(shape.take_front(kept), type), neutral);
  AffineMap outMap = AffineMap::getMultiDimIdentityMap(rank, type.getContext())
                         .getMajorSubMap(kept);
  return reduce(inputs, init, outMap, rank, combine, term);
}

Input LinalgBuilder::space(ArrayRef<int64_t> shape) {
  return {builder.create<tensor::EmptyOp>(loc, shape, builder.getF32Type())};
}

Value LinalgBuilder::sumRows(Type type, ArrayRef<int64_t> shape,
                             ArrayRef<Input> inputs, Value init, Body1 term) {
  auto rank = static_cast<unsigned>(shape.size());
  if (rank == 1) { // There is one row, so nothing to sum.
    SmallVector<Input> terms(inputs);
    if (init)
      terms.push_back({init});
    return map(type, terms, [&](ScalarBuilder &b, ValueRange args) {
      Value sum = term(b, args.take_front(inputs.size()));
      return init ? b.add(args.back(), sum) : sum;
    });
  }
  auto wide = RankedTensorType::get({shape.back()}, builder.getF32Type());
  auto same = [](ScalarBuilder &, ValueRange args) { return args[0]; };
  if (!init)
    init = filled(wide, 0.0);
  else if (init.getType() != wide)
    init = map(wide, {{init}}, same);
  AffineMap outMap =
      AffineMap::getMinorIdentityMap(rank, 1, builder.getContext());
  Value sum = reduce(inputs, init, outMap, rank, Combine::Add, term);
  return type == wide ? sum : map(type, {{sum}}, same);
}

Value LinalgBuilder::sumAll(ArrayRef<Input> inputs, Body1 term) {
  auto type = cast<RankedTensorType>(inputs.front().value.getType());
  auto rank = static_cast<unsigned>(type.getRank());
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  auto wideTerm = [&](ScalarBuilder &b, ValueRange args) -> Value {
    Values wide;
    for (Value arg : args) {
      if (isa<FloatType>(arg.getType()))
        arg = b.create<arith::ExtFOp>(b.getF64Type(), arg);
      wide.push_back(arg);
    }
    return term(b, wide);
  };
  if (rank == 0) // There is one term, so nothing to sum.
    return map(scalar, inputs, wideTerm);
  AffineMap outMap = AffineMap::get(rank, 0, builder.getContext());
  return reduce(inputs, filled(scalar, 0.0), outMap, rank, Combine::Add,
                wideTerm);
}

} // namespace heddle::codegen
