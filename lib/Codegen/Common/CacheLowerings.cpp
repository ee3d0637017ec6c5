//===- CacheLowerings.cpp - Attention over a cache as loops ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the operations mean, not how they are computed fast: all scores as a
// tensor [R, heads, T, positions], and for each place of the cache the token
// that writes it.
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;

namespace heddle::codegen {

namespace {
using Args = ValueRange;
using Combine = LinalgBuilder::Combine;

Value asIndex(ScalarBuilder &s, Value value) {
  return s.create<arith::IndexCastOp>(s.getIndexType(), value);
}
Value plus(ScalarBuilder &s, Value a, Value b) {
  return s.create<arith::AddIOp>(a, b);
}
Value times(ScalarBuilder &s, Value a, int64_t b) {
  return s.create<arith::MulIOp>(a, s.index(b));
}
Value quotient(ScalarBuilder &s, Value a, int64_t b) {
  return s.create<arith::DivUIOp>(a, s.index(b));
}
Value remainder(ScalarBuilder &s, Value a, int64_t b) {
  return s.create<arith::RemUIOp>(a, s.index(b));
}
Value compare(ScalarBuilder &s, arith::CmpIPredicate predicate, Value a,
              Value b) {
  return s.create<arith::CmpIOp>(predicate, a, b);
}

/// Reads the tensors of one of the operations.
template <typename OpT> struct CacheLoops {
  CacheLoops(OpT op, typename OpT::Adaptor in)
      : in(in), packed(op.isPacked()), heads(op.getHeads().getCount()),
        kv(op.getHeads().getKv()), dims(op.getHeadDim()),
        pageTokens(op.getPageTokens()),
        rows(tensorOf(op.getPositions()).getDimSize(0)),
        tokens(tensorOf(op.getPositions()).getDimSize(1)) {}

  /// Of q, k and v.
  Value element(ScalarBuilder &s, int64_t which, Value row, Value token,
                Value head, Value feature) {
    int64_t offsets[] = {0, heads * dims, (heads + kv) * dims};
    Value column = plus(s, times(s, head, dims), feature);
    if (packed)
      column = plus(s, column, s.index(offsets[which]));
    return s.extract(in.getQkv()[packed ? 0 : which], {row, token, column});
  }
  Value position(ScalarBuilder &s, Value row, Value token) {
    return asIndex(s, s.extract(in.getPositions(), {row, token}));
  }
  Value page(ScalarBuilder &s, Value row, Value position) {
    return asIndex(
        s, s.extract(in.getPages(), {row, quotient(s, position, pageTokens)}));
  }
  /// A feature of a key, 0, or of a value, 1, that the cache holds.
  Value cached(ScalarBuilder &s, int64_t which, Value page, Value head,
               Value feature, Value place) {
    Value found = which == 0
                      ? s.extract(in.getKeys(), {page, head, feature, place})
                      : s.extract(in.getValues(), {page, head, place, feature});
    if (!in.getScales())
      return found;
    Value scale =
        s.extract(in.getScales(), {page, head, s.index(which), place});
    return s.mul(s.create<arith::SIToFPOp>(s.getF32Type(), found), scale);
  }
  Value isThere(ScalarBuilder &s, Value row, Value token) {
    Value length = asIndex(s, s.extract(in.getLengths(), {row}));
    return compare(s, arith::CmpIPredicate::slt, token, length);
  }

  typename OpT::Adaptor in;
  bool packed;
  int64_t heads, kv, dims, pageTokens, rows, tokens;
};
} // namespace

/// For each place of a page 1 + the number of the token that writes it, or 0.
static Value writersOf(CacheLoops<nn::CacheWriteOp> &loops, int64_t pages,
                       LinalgBuilder &b) {
  int64_t shape[] = {pages, loops.pageTokens, loops.rows, loops.tokens};
  return b.reduceTail(
      b.builder.getF32Type(), shape, 2, {b.space(shape)}, Combine::Maximum,
      [&](ScalarBuilder &s, Args) -> Value {
        Value row = s.position(2), token = s.position(3);
        Value position = loops.position(s, row, token);
        auto equal = arith::CmpIPredicate::eq;
        Value isHere =
            compare(s, equal, loops.page(s, row, position), s.position(0));
        Value inPage = remainder(s, position, loops.pageTokens);
        isHere = s.create<arith::AndIOp>(
            isHere, compare(s, equal, inPage, s.position(1)));
        isHere = s.create<arith::AndIOp>(isHere, loops.isThere(s, row, token));
        Value number =
            plus(s, plus(s, times(s, row, loops.tokens), token), s.index(1));
        Value index = s.create<arith::IndexCastOp>(s.getI32Type(), number);
        return s.create<arith::SelectOp>(
            isHere, s.create<arith::SIToFPOp>(s.getF32Type(), index), s.f32(0));
      });
}

/// The scale of each head of a token: [R, T, kv].
static Value scalesOf(CacheLoops<nn::CacheWriteOp> &loops, int64_t which,
                      LinalgBuilder &b) {
  int64_t shape[] = {loops.rows, loops.tokens, loops.kv, loops.dims};
  Value largest = b.reduceLast(shape, {b.space(shape)}, Combine::Maximum,
                               [&](ScalarBuilder &s, Args) -> Value {
                                 return s.create<math::AbsFOp>(loops.element(
                                     s, which, s.position(0), s.position(1),
                                     s.position(2), s.position(3)));
                               });
  auto type = cast<RankedTensorType>(largest.getType());
  return b.map(
      type.clone(getElementTypeOrSelf(loops.in.getScales())), {{largest}},
      [](ScalarBuilder &s, Args x) { return s.div(x[0], s.f32(127)); });
}

/// A feature as a code of 8 bits.
static Value codeOf(ScalarBuilder &s, Value feature, Value scale) {
  Value isAny =
      s.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, scale, s.f32(0));
  Value code =
      s.create<arith::SelectOp>(isAny, s.div(feature, scale), s.f32(0));
  code = s.create<arith::MinimumFOp>(
      s.create<arith::MaximumFOp>(code, s.f32(-127)), s.f32(127));
  return s.create<arith::FPToSIOp>(s.getI8Type(),
                                   s.create<math::RoundEvenOp>(code));
}

static Values lowerCacheWrite(nn::CacheWriteOp op, nn::CacheWriteOp::Adaptor in,
                              LinalgBuilder &b) {
  CacheLoops loops(op, in);
  Value writers = writersOf(loops, tensorOf(op.getValues()).getDimSize(0), b);
  /// `old`, but where a token writes what `make` gives of its row and number.
  using Make =
      llvm::function_ref<Value(ScalarBuilder &, Value row, Value token)>;
  auto write = [&](Value old, int64_t place, Make make) {
    return b.map(
        old.getType(), {{old}}, [&](ScalarBuilder &s, Args x) -> Value {
          Value found = s.extract(writers, {s.position(0), s.position(place)});
          Value isNew = s.create<arith::CmpFOp>(arith::CmpFPredicate::OGT,
                                                found, s.f32(0));
          Value number =
              asIndex(s, s.create<arith::FPToSIOp>(
                             s.getI32Type(),
                             s.create<arith::SelectOp>(
                                 isNew, s.sub(found, s.f32(1)), s.f32(0))));
          Value written = make(s, quotient(s, number, loops.tokens),
                               remainder(s, number, loops.tokens));
          return s.create<arith::SelectOp>(isNew, written, x[0]);
        });
  };
  Value scales[2];
  auto writeNumbers = [&](Value old, int64_t which, int64_t feature,
                          int64_t place) {
    if (in.getScales())
      scales[which] = scalesOf(loops, which + 1, b);
    return write(old, place, [&](ScalarBuilder &s, Value row, Value token) {
      Value head = s.position(1);
      Value written =
          loops.element(s, which + 1, row, token, head, s.position(feature));
      return scales[which]
                 ? codeOf(s, written,
                          s.extract(scales[which], {row, token, head}))
                 : written;
    });
  };
  Values written = {writeNumbers(in.getKeys(), 0, 2, 3),
                    writeNumbers(in.getValues(), 1, 3, 2)};
  if (in.getScales())
    written.push_back(write(
        in.getScales(), 3,
        [&](ScalarBuilder &s, Value row, Value token) -> Value {
          Value ofKey = s.extract(scales[0], {row, token, s.position(1)});
          Value ofValue = s.extract(scales[1], {row, token, s.position(1)});
          Value isKey =
              compare(s, arith::CmpIPredicate::eq, s.position(2), s.index(0));
          return s.create<arith::SelectOp>(isKey, ofKey, ofValue);
        }));
  return written;
}

static Values lowerPagedAttention(nn::PagedAttentionOp op,
                                  nn::PagedAttentionOp::Adaptor in,
                                  LinalgBuilder &b) {
  CacheLoops loops(op, in);
  int64_t context = tensorOf(op.getPages()).getDimSize(1) * loops.pageTokens;
  Type f32 = b.builder.getF32Type();
  double scale = op.getHeads().getScale().convertToDouble();
  double cap = op.getHeads().getSoftcap().convertToDouble();
  int64_t window = op.getMask().getWindow();
  auto kvHead = [&](ScalarBuilder &s, Value head) {
    return quotient(s, head, loops.heads / loops.kv);
  };
  // Bodies have the dimensions row, head, token, position.
  auto isVisible = [&](ScalarBuilder &s, Value row, Value token, Value key) {
    Value position = loops.position(s, row, token);
    Value sees = compare(s, arith::CmpIPredicate::ule, key, position);
    if (window)
      sees = s.create<arith::AndIOp>(
          sees, compare(s, arith::CmpIPredicate::ult, position,
                        plus(s, key, s.index(window))));
    return s.create<arith::AndIOp>(sees, loops.isThere(s, row, token))
        .getResult();
  };
  SmallVector<int64_t> pairs = {loops.rows, loops.heads, loops.tokens, context};
  SmallVector<int64_t> terms = pairs;
  terms.push_back(loops.dims);
  Value products = b.reduceTail(
      f32, terms, 4, {b.space(terms)}, Combine::Add,
      [&](ScalarBuilder &s, Args) -> Value {
        Value row = s.position(0), key = s.position(3), d = s.position(4);
        Value q = loops.element(s, 0, row, s.position(2), s.position(1), d);
        Value k = loops.cached(s, 0, loops.page(s, row, key),
                               kvHead(s, s.position(1)), d,
                               remainder(s, key, loops.pageTokens));
        return s.mul(q, k);
      });
  Value all = b.map(
      products.getType(), {{products}}, [&](ScalarBuilder &s, Args x) -> Value {
        Value score = s.mul(x[0], s.f32(scale));
        if (cap > 0) {
          Value share = s.div(score, s.f32(cap));
          score = s.mul(s.f32(cap), s.create<math::TanhOp>(share));
        }
        return s.create<arith::SelectOp>(
            isVisible(s, s.position(0), s.position(2), s.position(3)), score,
            s.f32(std::numeric_limits<float>::lowest()));
      });
  auto self = [](ScalarBuilder &, Args x) { return x[0]; };
  Value largest = b.reduceLast(pairs, {{all}}, Combine::Maximum, self);
  Value powers =
      b.map(all.getType(), {{all}, rows(largest)},
            [&](ScalarBuilder &s, Args x) -> Value {
              return s.create<arith::SelectOp>(
                  isVisible(s, s.position(0), s.position(2), s.position(3)),
                  s.exp(s.sub(x[0], x[1])), s.f32(0));
            });
  Value sum = b.reduceLast(pairs, {{powers}}, Combine::Add, self);
  int64_t shape[] = {loops.rows, loops.tokens, loops.heads * loops.dims,
                     context};
  Value sums = b.reduceLast(
      shape, {b.space(shape)}, Combine::Add,
      [&](ScalarBuilder &s, Args) -> Value {
        Value row = s.position(0), key = s.position(3);
        Value head = quotient(s, s.position(2), loops.dims);
        Value v = loops.cached(s, 1, loops.page(s, row, key), kvHead(s, head),
                               remainder(s, s.position(2), loops.dims),
                               remainder(s, key, loops.pageTokens));
        Value p = s.extract(powers, {row, head, s.position(1), key});
        return s.create<arith::SelectOp>(isVisible(s, row, s.position(1), key),
                                         s.mul(p, v), s.f32(0));
      });
  return {b.map(op.getType(), {{sums}}, [&](ScalarBuilder &s, Args x) -> Value {
    Value head = quotient(s, s.position(2), loops.dims);
    Value whole = s.extract(sum, {s.position(0), head, s.position(1)});
    return s.create<arith::SelectOp>(
        loops.isThere(s, s.position(0), s.position(1)), s.div(x[0], whole),
        s.f32(0));
  })};
}

void attachCacheLowerings(MLIRContext *context) {
  attachLinalg<nn::CacheWriteOp, lowerCacheWrite, Generator::Cache>(context);
  attachLinalg<nn::PagedAttentionOp, lowerPagedAttention, Generator::Attention>(
      context);
}

} // namespace heddle::codegen
