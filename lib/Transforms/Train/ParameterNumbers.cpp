//===- ParameterNumbers.cpp - Numbers of each parameter -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParameterNumbers.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::train;

ParameterNumbers::ParameterNumbers(OpBuilder &builder, nn::BucketOp values,
                                   Value condition)
    : builder(builder), loc(values.getLoc()),
      type(RankedTensorType::get(
          {static_cast<int64_t>(values.getMembers().size())},
          builder.getF32Type())),
      segments(FlatSymbolRefAttr::get(values.getSymNameAttr())),
      condition(condition) {}

Value ParameterNumbers::flat(nn::BucketOp bucket) {
  nn::GetOp &get = flats[bucket];
  if (!get)
    get = builder.create<nn::GetOp>(loc, bucket.getType(), bucket.getSymName());
  return get;
}

Value ParameterNumbers::read(nn::BucketOp bucket) {
  nn::ReadNumbersOp &known = reads[bucket];
  if (!known)
    known =
        builder.create<nn::ReadNumbersOp>(loc, type, flat(bucket), ArrayAttr());
  return known;
}

void ParameterNumbers::write(nn::BucketOp bucket, Value numbers) {
  Value before = flat(bucket);
  Value now = builder.create<nn::WriteNumbersOp>(
      loc, before.getType(), numbers, before, condition, ArrayAttr());
  builder.create<nn::SetOp>(loc, bucket.getSymName(), now);
}

void ParameterNumbers::eraseUnread() {
  for (auto &[bucket, known] : reads)
    if (known->use_empty())
      known.erase();
  for (auto &[bucket, get] : flats)
    if (get->use_empty())
      get.erase();
  reads.clear();
  flats.clear();
}

Value ParameterNumbers::reduce(Reduction::Kind kind, Value flat) {
  if (kind == Reduction::SumOfSquares)
    return builder.create<nn::SegmentSumsOp>(loc, type, flat, Value(), segments,
                                             nullptr, ArrayAttr());
  Value maxima = builder.create<nn::SegmentMaximaOp>(
      loc, type.clone({1, type.getDimSize(0)}), flat, Value(), segments,
      nullptr, ArrayAttr());
  return builder.create<nn::MaxRowsOp>(loc, type, maxima, ArrayAttr());
}

Value ParameterNumbers::rootMeanSquare(Value flat) {
  Value scales = builder.create<nn::SignScalesOp>(
      loc, type.clone({1, type.getDimSize(0)}), flat, condition, Value(),
      UnitAttr(), segments, DenseI64ArrayAttr(), builder.getI64IntegerAttr(1),
      ArrayAttr());
  return builder.create<nn::MaxRowsOp>(loc, type, scales, ArrayAttr());
}

Value ParameterNumbers::scale(Value flat, Value numbers) {
  return builder.create<nn::ScaleSegmentsOp>(loc, flat.getType(), flat, numbers,
                                             Value(), segments, nullptr,
                                             ArrayAttr());
}

SmallVector<Value> ParameterNumbers::compute(ValueRange operands, Body body) {
  Region region;
  Block &block = region.emplaceBlock();
  nn::Scalars s(loc, builder.getContext());
  s.setInsertionPointToEnd(&block);
  for (size_t i = 0; i < operands.size(); ++i)
    block.addArgument(s.getF64Type(), loc);
  SmallVector<Value> arguments(block.getArguments().begin(),
                               block.getArguments().end());
  SmallVector<Value> results = body(s, arguments), computed;
  for (Value result : results)
    if (!isa<BlockArgument>(result))
      computed.push_back(result);
  s.create<nn::ReturnOp>(computed);
  SmallVector<Value> read(operands);
  for (unsigned number = block.getNumArguments(); number-- > 0;) {
    auto argument = block.getArgument(number);
    if (!argument.use_empty())
      continue;
    for (Value &result : results)
      if (result == argument)
        result = operands[number];
    block.eraseArgument(number);
    read.erase(read.begin() + number);
  }
  SmallVector<Type> types(computed.size(), type);
  auto map = builder.create<nn::MapOp>(loc, types, read, nn::FunctionAttr(),
                                       ArrayAttr());
  map.getBody().takeBody(region);
  auto next = map.getOutputs().begin();
  for (Value &result : results) {
    if (auto argument = dyn_cast<BlockArgument>(result);
        argument && argument.getOwner() == &map.getBody().front())
      result = read[argument.getArgNumber()];
    else if (llvm::is_contained(computed, result))
      result = *next++;
  }
  return results;
}
