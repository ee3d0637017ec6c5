//===- CacheEmitter.h - Addresses in the paged cache ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes addresses in the paged key-value cache, for the kernels of
// nn.cache_write and nn.paged_attention on x86-64.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_CACHEEMITTER_H
#define HEDDLE_LIB_CODEGEN_CPU_CACHEEMITTER_H

#include "KernelEmitter.h"
#include "heddle/Codegen/Common/IntBuilder.h"

namespace heddle::cpu {

/// The tokens that one launch of a serving program computes, as a matrix [rows,
/// tokens]: each row has tokens of one sequence. Tokens are numbered row by
/// row.
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
  codegen::IntBuilder integers() {
    return codegen::IntBuilder(b.builder, b.loc, b.builder.getI64Type());
  }
  Value largerOf(Value x, Value y) { return b.select(b.less(x, y), y, x); }
  Value loadInt(Value pointer, Value index) {
    Type i32 = b.builder.getI32Type();
    return b.create<mlir::arith::ExtSIOp>(
        b.builder.getI64Type(),
        b.load(i32, b.advance(pointer, i32, index), sizeof(int32_t)));
  }
  /// The row of the launch that holds token number `token`. Each row has room
  /// for `tokens` tokens.
  Value rowOf(Value token) { return b.div(token, tokens); }
  /// Whether the token exists. A row of the launch may have fewer than `tokens`
  /// tokens.
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

/// The addresses of the operands of an nn.cache_write or nn.paged_attention.
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
  /// Reads entry `number` of a row's page table. The entry is the index of a
  /// page of the cache: the page with this row's positions from `number` *
  /// pageTokens on.
  Value page(Value row, Value number) {
    return loadInt(pages, b.add(b.mul(row, rowPages), number));
  }
  /// The address of a head's keys or values in a page; `cache` is `keys` or
  /// `values`.
  Value pageOf(Value cache, Value page, Value head) {
    Value place = b.mul(b.add(b.mul(page, kv), head), dims * pageTokens);
    return b.advance(cache, cacheType, place);
  }
  /// The address of the scales of a head's int8 keys in a page. In memory, the
  /// scales of the head's values follow them.
  Value scalesOf(Value page, Value head) {
    Value place = b.mul(b.add(b.mul(page, kv), head), 2 * pageTokens);
    return b.advance(scales, scaleType, place);
  }
  /// The address of q, k or v (`which` is 0, 1 or 2) of a token's head.
  Value headOf(int64_t which, Value token, Value head) {
    return b.advance(qkv[which].pointer, type,
                     b.add(b.mul(token, qkv[which].stride), b.mul(head, dims)));
  }

  bool packed; ///< Whether one tensor holds q, k and v.
  int64_t heads, kv, dims, pageTokens, rowPages;
  Type cacheType, type;
  Value keys, values;
  Type scaleType; ///< Null, like `scales`, if the cache holds floats.
  Value scales;
  Value pages;
  /// The rows of q, k or v: one for each token, `stride` elements apart.
  struct TokenRows {
    Value pointer;
    int64_t stride;
  };
  TokenRows qkv[3];
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_CACHEEMITTER_H
