//===- CacheEmitter.h - Addresses in a cache of pages -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_CACHEEMITTER_H
#define HEDDLE_LIB_CODEGEN_CPU_CACHEEMITTER_H

#include "KernelEmitter.h"

namespace heddle::cpu {

/// The tokens of a run, [rows, tokens].
class TokenEmitter {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Values = LoopBuilder::Values;

  template <typename OpT>
  TokenEmitter(KernelEmitter &k, OpT op)
      : k(k), b(k.b), f32(b.builder.getF32Type()),
        rows(typeOf(op.getPositions()).getDimSize(0)),
        tokens(typeOf(op.getPositions()).getDimSize(1)),
        positions(k.pointerOf(op.getPositions())),
        lengths(k.pointerOf(op.getLengths())) {}

protected:
  static mlir::RankedTensorType typeOf(Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType());
  }
  static unsigned bytesOf(Type element) {
    return element.getIntOrFloatBitWidth() / 8;
  }
  Value number(double value) {
    return b.create<mlir::arith::ConstantOp>(
        b.builder.getF32FloatAttr(static_cast<float>(value)));
  }
  Value largerOf(Value x, Value y) { return b.select(b.less(x, y), y, x); }
  Value loadInt(Value pointer, Value index) {
    Type i32 = b.builder.getI32Type();
    return b.create<mlir::arith::ExtSIOp>(
        b.builder.getI64Type(),
        b.load(i32, b.advance(pointer, i32, index), sizeof(int32_t)));
  }
  /// The row of a token, by its number among all.
  Value rowOf(Value token) { return b.div(token, tokens); }
  Value isThere(Value token) {
    Value row = rowOf(token);
    return b.less(b.sub(token, b.mul(row, tokens)), loadInt(lengths, row));
  }

  KernelEmitter &k;
  LoopBuilder &b;
  mlir::FloatType f32;
  int64_t rows, tokens;
  Value positions, lengths;
};

/// The tensors of both operations, by their addresses.
class CacheEmitter : public TokenEmitter {
public:
  template <typename OpT>
  CacheEmitter(KernelEmitter &k, OpT op)
      : TokenEmitter(k, op), packed(op.isPacked()),
        heads(op.getHeads().getCount()), kv(op.getHeads().getKv()),
        dims(op.getHeadDim()), pageTokens(op.getPageTokens()),
        rowPages(typeOf(op.getPages()).getDimSize(1)),
        cacheType(typeOf(op.getKeys()).getElementType()),
        type(typeOf(op.getQkv()[0]).getElementType()),
        keys(k.pointerOf(op.getKeys())), values(k.pointerOf(op.getValues())),
        scaleType(op.getScales() ? typeOf(op.getScales()).getElementType()
                                 : Type()),
        scales(op.getScales() ? k.pointerOf(op.getScales()) : Value()),
        pages(k.pointerOf(op.getPages())) {
    int64_t offsets[] = {0, heads * dims, (heads + kv) * dims};
    int64_t width = (heads + 2 * kv) * dims;
    for (int64_t i = 0; i < 3; ++i)
      qkv[i] = packed
                   ? TokenRows{b.advance(k.pointerOf(op.getQkv()[0]), type,
                                         offsets[i]),
                               width}
                   : TokenRows{k.pointerOf(op.getQkv()[i]), op.getWidths()[i]};
  }

protected:
  /// The page of a row that has the positions from `number` * N on.
  Value page(Value row, Value number) {
    return loadInt(pages, b.add(b.mul(row, rowPages), number));
  }
  /// Where a head's part of a page begins.
  Value pageOf(Value cache, Value page, Value head) {
    Value place = b.mul(b.add(b.mul(page, kv), head), dims * pageTokens);
    return b.advance(cache, cacheType, place);
  }
  /// The scales of a head's keys in a page; those of its values stand behind.
  Value scalesOf(Value page, Value head) {
    Value place = b.mul(b.add(b.mul(page, kv), head), 2 * pageTokens);
    return b.advance(scales, scaleType, place);
  }
  /// Where q, k or v of a token's head begins.
  Value headOf(int64_t which, Value token, Value head) {
    return b.advance(qkv[which].pointer, type,
                     b.add(b.mul(token, qkv[which].stride), b.mul(head, dims)));
  }

  bool packed; ///< One tensor has q, k and v.
  int64_t heads, kv, dims, pageTokens, rowPages;
  Type cacheType, type;
  Value keys, values;
  Type scaleType; ///< Null, as `scales`, where the cache holds numbers.
  Value scales;
  Value pages;
  /// q, k and v of a token begin so many elements behind those of the last one.
  struct TokenRows {
    Value pointer;
    int64_t stride;
  };
  TokenRows qkv[3];
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_CACHEEMITTER_H
