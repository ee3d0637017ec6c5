//===- CacheKernel.cpp - Attention over a cache of pages ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For a query and one page of keys after the other, from position 0 on:
//
//   s = scale log2(e) sum over d of q[d] K[d, :]    a vector: one lane a key
//   m' = max(m, s), a = 2^(m - m'), p = 2^(s - m')
//   l = a l + p,  O = a O + sum over keys of p[key] V[key, :]
//
// and at the end output = O / sum of the lanes of l: the online softmax of
// Milakov and Gimelshein, arXiv 1805.02867. Nothing of it depends on the number
// of threads or on other queries.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "heddle/Codegen/Common/Attention.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::cpu {

namespace {
using Values = LoopBuilder::Values;

/// The tensors of both operations, by their addresses.
class CacheEmitter {
public:
  template <typename OpT>
  CacheEmitter(KernelEmitter &k, OpT op)
      : k(k), b(k.b), f32(b.builder.getF32Type()),
        heads(op.getHeads().getCount()), kv(op.getHeads().getKv()),
        dims(op.getHeadDim()), pageTokens(op.getPageTokens()),
        rows(typeOf(op.getPositions()).getDimSize(0)),
        tokens(typeOf(op.getPositions()).getDimSize(1)),
        rowPages(typeOf(op.getPages()).getDimSize(1)),
        cacheType(typeOf(op.getKeys()).getElementType()),
        type(typeOf(op.getQkv()[0]).getElementType()),
        keys(k.pointerOf(op.getKeys())), values(k.pointerOf(op.getValues())),
        pages(k.pointerOf(op.getPages())),
        positions(k.pointerOf(op.getPositions())),
        lengths(k.pointerOf(op.getLengths())) {
    int64_t offsets[] = {0, heads * dims, (heads + kv) * dims};
    int64_t packed = (heads + 2 * kv) * dims;
    for (int64_t i = 0; i < 3; ++i)
      qkv[i] =
          op.isPacked()
              ? Rows{b.advance(k.pointerOf(op.getQkv()[0]), type, offsets[i]),
                     packed}
              : Rows{k.pointerOf(op.getQkv()[i]), op.getWidths()[i]};
  }

protected:
  static RankedTensorType typeOf(Value value) {
    return cast<RankedTensorType>(value.getType());
  }
  unsigned bytesOf(Type element) const {
    return element.getIntOrFloatBitWidth() / 8;
  }
  Value loadInt(Value pointer, Value index) {
    Type i32 = b.builder.getI32Type();
    return b.create<arith::ExtSIOp>(
        b.builder.getI64Type(),
        b.load(i32, b.advance(pointer, i32, index), sizeof(int32_t)));
  }

  /// A token of the run: its row, its number among all, and its position.
  struct Token {
    Value row, index, position;
  };
  Value rowOf(Value token) { return b.div(token, tokens); }
  Value isThere(Value token) {
    Value row = rowOf(token);
    return b.less(b.sub(token, b.mul(row, tokens)), loadInt(lengths, row));
  }
  /// The page of a row that has the positions from `number` * N on.
  Value page(Value row, Value number) {
    return loadInt(pages, b.add(b.mul(row, rowPages), number));
  }
  /// Where a head's part of a page begins.
  Value pageOf(Value cache, Value page, Value head) {
    Value place = b.mul(b.add(b.mul(page, kv), head), dims * pageTokens);
    return b.advance(cache, cacheType, place);
  }
  /// Where q, k or v of a token's head begins.
  Value headOf(int64_t which, Value token, Value head) {
    return b.advance(qkv[which].pointer, type,
                     b.add(b.mul(token, qkv[which].stride), b.mul(head, dims)));
  }

  KernelEmitter &k;
  LoopBuilder &b;
  FloatType f32;
  int64_t heads, kv, dims, pageTokens, rows, tokens, rowPages;
  Type cacheType, type;
  Value keys, values, pages, positions, lengths;
  /// q, k and v of a token begin so many elements behind those of the last one.
  struct Rows {
    Value pointer;
    int64_t stride;
  };
  Rows qkv[3];
};

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

class WriteEmitter : public CacheEmitter {
public:
  using CacheEmitter::CacheEmitter;
  void emit();

private:
  void copy(Value from, Value to, int64_t stride);
};
} // namespace

/// Copies the features of a head to places `stride` elements apart.
void WriteEmitter::copy(Value from, Value to, int64_t stride) {
  b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
    Value value = b.load(type, b.advance(from, type, d), bytesOf(type));
    if (type != cacheType)
      value = b.narrow(b.widen(value), cacheType);
    b.store(value, b.advance(to, cacheType, b.mul(d, stride)),
            bytesOf(cacheType));
  });
}

void WriteEmitter::emit() {
  auto [begin, end] = k.share(rows * tokens * kv);
  b.forLoop(begin, end, 1, [&](Value item) {
    Value token = b.div(item, kv);
    Value head = b.sub(item, b.mul(token, kv));
    b.ifThen(isThere(token), [&] {
      Value position = loadInt(positions, token);
      Value number = b.div(position, pageTokens);
      Value slot = b.sub(position, b.mul(number, pageTokens));
      Value in = page(rowOf(token), number);
      copy(headOf(1, token, head),
           b.advance(pageOf(keys, in, head), cacheType, slot), pageTokens);
      copy(headOf(2, token, head),
           b.advance(pageOf(values, in, head), cacheType, b.mul(slot, dims)),
           1);
    });
  });
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
class PagedEmitter : public CacheEmitter {
public:
  PagedEmitter(KernelEmitter &k, nn::PagedAttentionOp op)
      : CacheEmitter(k, op), lanes(k.evaluator.laneCount()),
        headVectors(llvm::divideCeil(dims, lanes)),
        scoreFactor(op.getHeads().getScale().convertToDouble() * M_LOG2E),
        keyVector(VectorType::get(pageTokens, f32)),
        headVector(VectorType::get(lanes, f32)) {}

  void emit(Value output);

private:
  void attend(Value token, Value head, Value target);
  void loadQuery(Value from);
  Value scores(Value keyPage);
  Values addPage(Value row, Value kvHead, Value number, Value count,
                 ValueRange carried);
  Values weighted(Value valuePage, Value count, Values sums);
  Value splat(Value scalar, VectorType type) {
    return b.create<vector::BroadcastOp>(type, scalar);
  }
  Value number(double value) {
    return b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(value));
  }
  /// The lanes of vector `index` of a head that there are; null for all.
  Value maskOf(int64_t index) {
    int64_t left = dims - index * lanes;
    return left >= lanes ? Value() : b.mask(b.constant(left), lanes);
  }

  int64_t lanes, headVectors;
  double scoreFactor;
  VectorType keyVector, headVector;
  Value query, powers; ///< In the thread's scratch.
};
} // namespace

/// The query, times what its scores are multiplied by.
void PagedEmitter::loadQuery(Value from) {
  b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
    Value x = b.widen(b.load(type, b.advance(from, type, d), bytesOf(type)));
    b.store(b.create<arith::MulFOp>(x, number(scoreFactor)),
            b.advance(query, f32, d), sizeof(float));
  });
}

/// The scores of all keys of a page, in units of log 2. Four sums, each of
/// every fourth feature, do not wait for each other.
Value PagedEmitter::scores(Value keyPage) {
  constexpr int64_t chains = 4;
  auto loadType = VectorType::get(pageTokens, cacheType);
  auto step = [&](Value feature, int64_t more, Value sum) -> Value {
    Value d = b.add(feature, more);
    Value k = b.widen(
        b.load(loadType, b.advance(keyPage, cacheType, b.mul(d, pageTokens)),
               bytesOf(cacheType)));
    Value q =
        splat(b.load(f32, b.advance(query, f32, d), sizeof(float)), keyVector);
    return b.create<vector::FMAOp>(k, q, sum);
  };
  int64_t whole = dims / chains * chains;
  Values init(chains, b.zeros(keyVector));
  Values sums =
      b.forLoop(b.constant(0), b.constant(whole), chains, init,
                [&](Value feature, ValueRange carried) {
                  Values next;
                  for (int64_t chain = 0; chain < chains; ++chain)
                    next.push_back(step(feature, chain, carried[chain]));
                  return next;
                });
  for (int64_t rest = 0; rest < dims - whole; ++rest)
    sums[rest] = step(b.constant(whole), rest, sums[rest]);
  Value left = b.create<arith::AddFOp>(sums[0], sums[1]);
  Value right = b.create<arith::AddFOp>(sums[2], sums[3]);
  return b.create<arith::AddFOp>(left, right);
}

/// `sums` + the first `count` values of a page, each times its power.
Values PagedEmitter::weighted(Value valuePage, Value count, Values sums) {
  auto loadType = VectorType::get(lanes, cacheType);
  return b.forLoop(
      b.constant(0), count, 1, sums, [&](Value key, ValueRange carried) {
        Value p = splat(b.load(f32, b.advance(powers, f32, key), sizeof(float)),
                        headVector);
        Value from = b.advance(valuePage, cacheType, b.mul(key, dims));
        Values next;
        for (int64_t i = 0; i < headVectors; ++i) {
          Value v =
              b.widen(b.load(loadType, b.advance(from, cacheType, i * lanes),
                             bytesOf(cacheType), maskOf(i)));
          next.push_back(b.create<vector::FMAOp>(p, v, carried[i]));
        }
        return next;
      });
}

/// What is carried from page to page: m, l, and the vectors of O.
Values PagedEmitter::addPage(Value row, Value kvHead, Value number, Value count,
                             ValueRange carried) {
  Value in = page(row, number);
  Value left = b.sub(count, b.mul(number, pageTokens));
  Value hidden = b.create<arith::ConstantOp>(DenseElementsAttr::get(
      keyVector, -std::numeric_limits<float>::infinity()));
  Value score = b.select(b.mask(left, pageTokens),
                         scores(pageOf(keys, in, kvHead)), hidden);
  Value largest = b.create<vector::ReductionOp>(vector::CombiningKind::MAXNUMF,
                                                score, carried[0]);
  Value shrink = codegen::exp2(b.builder, b.loc,
                               b.create<arith::SubFOp>(carried[0], largest));
  Value power =
      codegen::exp2(b.builder, b.loc,
                    b.create<arith::SubFOp>(score, splat(largest, keyVector)));
  b.store(power, powers, sizeof(float));
  Values next = {largest, b.create<vector::FMAOp>(
                              carried[1], splat(shrink, keyVector), power)};
  Values sums;
  for (Value sum : carried.drop_front(2))
    sums.push_back(b.create<arith::MulFOp>(sum, splat(shrink, headVector)));
  next.append(weighted(pageOf(values, in, kvHead),
                       b.min(left, b.constant(pageTokens)), sums));
  return next;
}

void PagedEmitter::attend(Value token, Value head, Value target) {
  loadQuery(headOf(0, token, head));
  Value kvHead = b.div(head, heads / kv), row = rowOf(token);
  Value count = b.add(loadInt(positions, token), 1);
  Values init = {number(std::numeric_limits<float>::lowest()),
                 b.zeros(keyVector)};
  init.append(headVectors, b.zeros(headVector));
  Values result =
      b.forLoop(b.constant(0), b.ceilDiv(count, pageTokens), 1, init,
                [&](Value number, ValueRange carried) {
                  return addPage(row, kvHead, number, count, carried);
                });
  Value sum =
      b.create<vector::ReductionOp>(vector::CombiningKind::ADD, result[1]);
  Value inverse = b.create<arith::DivFOp>(number(1), sum);
  for (int64_t i = 0; i < headVectors; ++i) {
    Value value =
        b.create<arith::MulFOp>(result[2 + i], splat(inverse, headVector));
    b.store(b.narrow(value, type), b.advance(target, type, i * lanes),
            bytesOf(type), maskOf(i));
  }
}

void PagedEmitter::emit(Value output) {
  query = k.scratch;
  int64_t room = llvm::alignTo<16>(dims);
  powers = b.advance(k.scratch, f32, room);
  k.scratchBytes =
      (room + llvm::alignTo<16>(pageTokens)) * int64_t(sizeof(float));
  // Adjacent heads go to different threads: later tokens see more keys.
  int64_t items = rows * tokens * heads;
  Value count = b.div(b.add(b.sub(b.constant(items - 1), k.thread), k.threads),
                      k.threads);
  b.forLoop(b.constant(0), count, 1, [&](Value turn) {
    Value item = b.add(b.mul(turn, k.threads), k.thread);
    Value token = b.div(item, heads);
    Value head = b.sub(item, b.mul(token, heads));
    Value target = b.advance(output, type, b.mul(item, dims));
    b.ifThen(
        isThere(token), [&] { attend(token, head, target); },
        [&] {
          Value zero = b.create<arith::ConstantOp>(
              b.builder.getZeroAttr(cast<FloatType>(type)));
          b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
            b.store(zero, b.advance(target, type, d), bytesOf(type));
          });
        });
  });
}

LogicalResult emitPagedAttention(KernelEmitter &k, nn::PagedAttentionOp op) {
  PagedEmitter(k, op).emit(k.results[0]);
  return k.finish();
}

LogicalResult emitCacheKernel(KernelEmitter &k) {
  Block &body = k.kernel.getBody().front();
  auto write = dyn_cast<nn::CacheWriteOp>(body.front());
  if (!write || write->getNextNode() != body.getTerminator())
    return k.kernel.emitError(
        "holds no cache alone; its generator is not \"cache\"");
  if (k.results[0] != k.pointerOf(write.getKeys()) ||
      k.results[1] != k.pointerOf(write.getValues()))
    return k.kernel.emitError("does not write its cache in place");
  WriteEmitter(k, write).emit();
  return k.finish();
}

} // namespace heddle::cpu
