//===- CacheLowerings.cpp - Attention over the cache as loops -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers the operations on the paged key-value cache to linalg. The keys of a
// row are cut into parts of a fixed number of positions. Attention computes a
// tensor of all scores, [R, T, parts, heads, positions of a part]. A write to
// the cache searches, for each position of the cache, for the token that writes
// it. This plain form is slow. Code generators have their own algorithms, and
// the compiled program's command `check` compares their results with those of
// the plain form.
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"
#include "heddle/Codegen/Common/CachedKeys.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"
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

/// 2^x. Not every target has an instruction or a function for math.exp2.
Value exp2(ScalarBuilder &s, Value x) {
  return s.exp(s.mul(x, s.f32(llvm::numbers::ln2)));
}

/// Builds code that reads elements of the operands of `op`, which is an
/// nn.cache_write or an nn.paged_attention.
template <typename OpT> struct CacheLoops {
  CacheLoops(OpT op, typename OpT::Adaptor in)
      : in(in), packed(op.isPacked()), heads(op.getHeads().getCount()),
        kv(op.getHeads().getKv()), dims(op.getHeadDim()),
        pageTokens(op.getPageTokens()),
        rows(tensorOf(op.getPositions()).getDimSize(0)),
        tokens(tensorOf(op.getPositions()).getDimSize(1)) {}

  /// An element of q, k or v (`which` is 0, 1 or 2).
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
  /// A feature of a key (`which` is 0) or value (1) in the cache, as f32.
  Value cached(ScalarBuilder &s, int64_t which, Value page, Value head,
               Value feature, Value slot) {
    Value found = which == 0
                      ? s.extract(in.getKeys(), {page, head, feature, slot})
                      : s.extract(in.getValues(), {page, head, slot, feature});
    if (!in.getScales())
      return found;
    Value scale = s.extract(in.getScales(), {page, head, s.index(which), slot});
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

/// A tensor [pages, positions of a page] that says which token writes each
/// position of the cache: 1 + (row * tokens + token), or 0 if no token writes
/// the position.
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

/// Returns the scales of the keys (`which` is 1) or values (2) that are
/// written, as [R, T, kv]: R rows (requests), T tokens, kv heads of keys and
/// values.
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

/// Rounds a feature to an int8 code.
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
  /// `write` returns the tensor `old` with new elements at the positions that a
  /// token writes. `make` computes a new element from the token's row and the
  /// token's index in that row.
  using Make =
      llvm::function_ref<Value(ScalarBuilder &, Value row, Value token)>;
  auto write = [&](Value old, int64_t dim, Make make) {
    return b.map(
        old.getType(), {{old}}, [&](ScalarBuilder &s, Args x) -> Value {
          Value found = s.extract(writers, {s.position(0), s.position(dim)});
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
  auto writeKeysOrValues = [&](Value old, int64_t which, int64_t feature,
                               int64_t dim) {
    if (in.getScales())
      scales[which] = scalesOf(loops, which + 1, b);
    return write(old, dim, [&](ScalarBuilder &s, Value row, Value token) {
      Value head = s.position(1);
      Value written =
          loops.element(s, which + 1, row, token, head, s.position(feature));
      return scales[which]
                 ? codeOf(s, written,
                          s.extract(scales[which], {row, token, head}))
                 : written;
    });
  };
  Values written = {writeKeysOrValues(in.getKeys(), 0, 2, 3),
                    writeKeysOrValues(in.getValues(), 1, 3, 2)};
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

namespace {
/// Builds the partial results of nn.paged_attention: one for each part of the
/// keys. All parts have the same number of positions. Iteration spaces are [row
/// (request), token, part, head, position in the part]. An operation that also
/// iterates over features has the dimension of features too.
class PartialAttentionLowering {
public:
  PartialAttentionLowering(nn::PagedAttentionOp op,
                           nn::PagedAttentionOp::Adaptor in, LinalgBuilder &b)
      : op(op), loops(op, in), seen(op), b(b),
        length(op.getPartPages() * loops.pageTokens),
        shape({loops.rows, loops.tokens, op.getNumParts(), loops.heads,
               length}) {}

  Value lower();

private:
  Value isVisible(ScalarBuilder &s, Value inPart);
  Value isInLayout(ScalarBuilder &s, Value count, Value inPart);
  Value scores();
  Value kvHead(ScalarBuilder &s, Value head) {
    return quotient(s, head, loops.heads / loops.kv);
  }
  Value keyOf(ScalarBuilder &s, Value part, Value inPart) {
    return plus(s, times(s, part, length), inPart);
  }
  /// Returns the position of a key in its request's sequence. The key has the
  /// index `inPart` in part `part` of the cached keys. The position is clamped
  /// to the last one that a request's page table covers, so that reads are in
  /// bounds.
  Value knownKey(ScalarBuilder &s, Value part, Value inPart) {
    int64_t context = tensorOf(op.getPages()).getDimSize(1) * loops.pageTokens;
    return s.create<arith::MinUIOp>(keyOf(s, part, inPart),
                                    s.index(context - 1));
  }

  nn::PagedAttentionOp op;
  CacheLoops<nn::PagedAttentionOp> loops;
  CachedKeys seen;
  LinalgBuilder &b;
  int64_t length; ///< The number of positions of a part.
  SmallVector<int64_t> shape;
};
} // namespace

/// Whether the token of this iteration exists and sees the key with index
/// `inPart` of the part.
Value PartialAttentionLowering::isVisible(ScalarBuilder &s, Value inPart) {
  IntBuilder ints(s, s.getLoc(), s.getIndexType());
  Value row = s.position(0), token = s.position(1);
  Value count = s.create<arith::SelectOp>(
      loops.isThere(s, row, token),
      plus(s, loops.position(s, row, token), s.index(1)), s.index(0));
  Value key = keyOf(s, s.position(2), inPart);
  Value sees = ints.less(key, count);
  if (Value first = seen.firstOf(ints, count))
    sees = ints.both(sees, ints.less(first, plus(s, key, s.index(1))));
  return seen.hasLayout() ? ints.both(sees, isInLayout(s, count, inPart))
                          : sees;
}

/// Whether the token, whose keys end at `count`, sees the block of the key with
/// index `inPart` of the part.
Value PartialAttentionLowering::isInLayout(ScalarBuilder &s, Value count,
                                           Value inPart) {
  IntBuilder ints(s, s.getLoc(), s.getIndexType());
  Value part = s.position(2);
  Value number =
      plus(s, seen.firstWord(ints, s.position(3), count, loops.in.getPart()),
           seen.wordOf(ints, part));
  ArrayRef<int64_t> shape = tensorOf(op.getLayout()).getShape();
  Value row = quotient(s, number, shape[2]);
  Value word =
      s.extract(loops.in.getLayout(),
                {quotient(s, row, shape[1]), remainder(s, row, shape[1]),
                 remainder(s, number, shape[2])});
  Value bits = seen.bitsOf(
      ints, s.create<arith::IndexCastUIOp>(s.getIndexType(), word), part);
  Value ofKey = seen.bitsOfKeys(ints, bits, inPart, /*keys=*/1);
  return ints.less(s.index(0), ofKey);
}

/// The scores times log2(e). The score of a key that the query does not see is
/// the lowest f32.
Value PartialAttentionLowering::scores() {
  double scale = op.getHeads().getScale().convertToDouble();
  double cap = op.getHeads().getSoftcap().convertToDouble();
  SmallVector<int64_t> terms(shape);
  terms.push_back(loops.dims);
  Value products = b.reduceTail(
      b.builder.getF32Type(), terms, 5, {b.space(terms)}, Combine::Add,
      [&](ScalarBuilder &s, Args) -> Value {
        Value row = s.position(0), head = s.position(3), d = s.position(5);
        Value key = knownKey(s, s.position(2), s.position(4));
        Value q = loops.element(s, 0, row, s.position(1), head, d);
        Value k = loops.cached(s, 0, loops.page(s, row, key), kvHead(s, head),
                               d, remainder(s, key, loops.pageTokens));
        return s.mul(q, k);
      });
  return b.map(products.getType(), {{products}},
               [&](ScalarBuilder &s, Args x) -> Value {
                 Value score = s.mul(x[0], s.f32(scale));
                 if (cap > 0) {
                   Value share = s.div(score, s.f32(cap));
                   score = s.mul(s.f32(cap), s.create<math::TanhOp>(share));
                 }
                 return s.create<arith::SelectOp>(
                     isVisible(s, s.position(4)),
                     s.mul(score, s.f32(llvm::numbers::log2e)),
                     s.f32(std::numeric_limits<float>::lowest()));
               });
}

Value PartialAttentionLowering::lower() {
  Value all = scores();
  auto self = [](ScalarBuilder &, Args x) { return x[0]; };
  Value largest = b.reduceLast(shape, {{all}}, Combine::Maximum, self);
  Value powers = b.map(all.getType(), {{all}, rows(largest)},
                       [&](ScalarBuilder &s, Args x) -> Value {
                         return s.create<arith::SelectOp>(
                             isVisible(s, s.position(4)),
                             exp2(s, s.sub(x[0], x[1])), s.f32(0));
                       });
  Value sum = b.reduceLast(shape, {{powers}}, Combine::Add, self);
  SmallVector<int64_t> terms(ArrayRef<int64_t>(shape).drop_back());
  terms.append({loops.dims, length});
  Value sums = b.reduceLast(
      terms, {b.space(terms)}, Combine::Add,
      [&](ScalarBuilder &s, Args) -> Value {
        Value row = s.position(0), token = s.position(1);
        Value part = s.position(2), head = s.position(3),
              inPart = s.position(5);
        Value key = knownKey(s, part, inPart);
        Value v =
            loops.cached(s, 1, loops.page(s, row, key), kvHead(s, head),
                         s.position(4), remainder(s, key, loops.pageTokens));
        Value p = s.extract(powers, {row, token, part, head, inPart});
        return s.create<arith::SelectOp>(isVisible(s, inPart), s.mul(p, v),
                                         s.f32(0));
      });
  RankedTensorType type = op.getPartsType();
  return b.map(
      type, {b.space(type.getShape())}, [&](ScalarBuilder &s, Args) -> Value {
        SmallVector<Value> at = {s.position(0), s.position(1), s.position(2),
                                 s.position(3)};
        Value d = s.position(4), last = s.index(loops.dims - 1);
        Value isSum =
            compare(s, arith::CmpIPredicate::eq, d, s.index(loops.dims));
        Value isFeature = compare(s, arith::CmpIPredicate::ule, d, last);
        Value rest = s.create<arith::SelectOp>(isSum, s.extract(sum, at),
                                               s.extract(largest, at));
        at.push_back(s.create<arith::MinUIOp>(d, last));
        return s.create<arith::SelectOp>(isFeature, s.extract(sums, at), rest);
      });
}

/// Combines partial results of attention to its output. `parts` is [R, T,
/// parts, heads, D + 2], for R requests of T tokens. A partial result covers
/// one part of the keys, `length` positions. Its D + 2 values are D weighted
/// sums of values, the sum of the weights, and the largest score.
static Value lowerJoin(Value parts, Value positions, Value lengths,
                       const CachedKeys &keys, int64_t length,
                       RankedTensorType type, LinalgBuilder &b) {
  ArrayRef<int64_t> shape = tensorOf(parts).getShape();
  int64_t numParts = shape[2], heads = shape[3], dims = shape[4] - 2;
  auto isSeen = [&](ScalarBuilder &s, Value row, Value token,
                    Value part) -> Value {
    IntBuilder ints(s, s.getLoc(), s.getIndexType());
    Value count =
        plus(s, asIndex(s, s.extract(positions, {row, token})), s.index(1));
    Value begin = times(s, part, length);
    Value seen = ints.less(begin, count);
    if (Value first = keys.firstOf(ints, count))
      seen = ints.both(seen, ints.less(first, ints.add(begin, length)));
    return seen;
  };
  int64_t lowest[] = {shape[0], shape[1], heads, numParts};
  Value largest = b.reduceLast(
      lowest, {b.space(lowest)}, Combine::Maximum,
      [&](ScalarBuilder &s, Args) -> Value {
        Value row = s.position(0), token = s.position(1), part = s.position(3);
        Value found = s.extract(
            parts, {row, token, part, s.position(2), s.index(dims + 1)});
        return s.create<arith::SelectOp>(
            isSeen(s, row, token, part), found,
            s.f32(std::numeric_limits<float>::lowest()));
      });
  int64_t terms[] = {shape[0], shape[1], heads, dims + 1, numParts};
  Value sums = b.reduceLast(
      terms, {b.space(terms)}, Combine::Add,
      [&](ScalarBuilder &s, Args) -> Value {
        Value row = s.position(0), token = s.position(1), head = s.position(2),
              part = s.position(4);
        auto number = [&](Value index) {
          return s.extract(parts, {row, token, part, head, index});
        };
        Value most = s.extract(largest, {row, token, head});
        Value weight = exp2(s, s.sub(number(s.index(dims + 1)), most));
        return s.create<arith::SelectOp>(isSeen(s, row, token, part),
                                         s.mul(weight, number(s.position(3))),
                                         s.f32(0));
      });
  return b.map(
      type, {b.space(type.getShape())}, [&](ScalarBuilder &s, Args) -> Value {
        Value row = s.position(0), token = s.position(1);
        Value head = quotient(s, s.position(2), dims);
        Value d = remainder(s, s.position(2), dims);
        Value weights = s.extract(sums, {row, token, head, s.index(dims)});
        Value share = s.div(s.extract(sums, {row, token, head, d}), weights);
        if (keys.maySeeNoKey())
          share = s.create<arith::SelectOp>(
              s.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, weights,
                                      s.f32(0)),
              share, s.f32(0));
        Value length = asIndex(s, s.extract(lengths, {row}));
        return s.create<arith::SelectOp>(
            compare(s, arith::CmpIPredicate::slt, token, length), share,
            s.f32(0));
      });
}

static Values lowerPagedAttention(nn::PagedAttentionOp op,
                                  nn::PagedAttentionOp::Adaptor in,
                                  LinalgBuilder &b) {
  Value parts = PartialAttentionLowering(op, in, b).lower();
  if (op.getInParts())
    return {parts};
  return {lowerJoin(parts, in.getPositions(), in.getLengths(), CachedKeys(op),
                    op.getPartPages() * op.getPageTokens(), op.getType(), b)};
}

static Values lowerPagedAttentionJoin(nn::PagedAttentionJoinOp op,
                                      nn::PagedAttentionJoinOp::Adaptor in,
                                      LinalgBuilder &b) {
  return {lowerJoin(in.getParts(), in.getPositions(), in.getLengths(),
                    CachedKeys(op), static_cast<int64_t>(op.getPartTokens()),
                    op.getType(), b)};
}

void attachCacheLowerings(MLIRContext *context) {
  attachLinalg<nn::CacheWriteOp, lowerCacheWrite, Generator::Cache>(context);
  attachLinalg<nn::PagedAttentionOp, lowerPagedAttention, Generator::Attention>(
      context);
  attachLinalg<nn::PagedAttentionJoinOp, lowerPagedAttentionJoin,
               Generator::Attention>(context);
}

} // namespace heddle::codegen
