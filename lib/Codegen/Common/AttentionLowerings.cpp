//===- AttentionLowerings.cpp - Attention as linalg loops -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers attention and its gradient to linalg with all scores as a tensor [B,
// heads, queries, keys]. This plain form is slow. Code generators have their
// own algorithms for attention, and the compiled program's command `check`
// compares their results with those of the plain form.
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"
#include "heddle/Codegen/Common/Attention.h"
#include <limits>

using namespace mlir;

namespace heddle::codegen {

namespace {
using Args = ValueRange;
using Combine = LinalgBuilder::Combine;

/// Builds the linalg operations of one attention or gradient. Their iteration
/// spaces are [batch, head, query, key] unless a comment says otherwise.
class AttentionLoops {
public:
  AttentionLoops(nn::AttentionOpInterface op, LinalgBuilder &b)
      : op(op), spec(op), b(b), f32(b.builder.getF32Type()),
        pairs({spec.batch, spec.heads, spec.seq, spec.seq}),
        pairType(RankedTensorType::get(pairs, f32)) {}

  Values forward(Type outputType);
  Values gradient(Value grad, Value forward, Value lse, TypeRange types);

private:
  enum Operand { Q, K, V };

  Value element(ScalarBuilder &s, Operand which, Value batch, Value position,
                Value head, Value feature);
  Value kvHead(ScalarBuilder &s, Value head) {
    return s.create<arith::DivUIOp>(head, s.index(spec.heads / spec.kvHeads));
  }
  VisibleKeys keysOf(ScalarBuilder &s);
  Value isVisible(ScalarBuilder &s);
  Value isInLayout(ScalarBuilder &s, VisibleKeys &keys, Value query, Value key);
  Value dropFactor(ScalarBuilder &s);
  Value dotProducts(llvm::function_ref<Value(ScalarBuilder &)> term);
  Value scores();
  Value probabilities(Value scores, Value lse, bool isDropped);
  Value gradOf(Operand which, Value weights, Value grad);
  Values split(Value column, ScalarBuilder &s) {
    return {s.create<arith::DivUIOp>(column, s.index(spec.headDim)),
            s.create<arith::RemUIOp>(column, s.index(spec.headDim))};
  }
  Value headColumn(ScalarBuilder &s, Value head, Value feature) {
    return s.create<arith::AddIOp>(
        s.create<arith::MulIOp>(head, s.index(spec.headDim)), feature);
  }

  nn::AttentionOpInterface op;
  AttentionSpec spec;
  LinalgBuilder &b;
  Type f32;
  SmallVector<int64_t> pairs;
  RankedTensorType pairType;
};
} // namespace

Value AttentionLoops::element(ScalarBuilder &s, Operand which, Value batch,
                              Value position, Value head, Value feature) {
  AttentionSpec::HeadColumns columns = spec.headColumns()[which];
  Value column = s.create<arith::AddIOp>(headColumn(s, head, feature),
                                         s.index(columns.offset));
  Value operand = op.getQkv()[spec.packed ? 0 : which];
  return s.extract(operand, {batch, position, column});
}

VisibleKeys AttentionLoops::keysOf(ScalarBuilder &s) {
  IntBuilder ints(s, s.getLoc(), s.getI64Type());
  VisibleKeys keys(spec, ints, op.getSequenceShard(), op.getRingStep());
  Value length;
  if (op.getLengths())
    length = s.extract(op.getLengths(), s.position(0));
  keys.beginRow(length);
  return keys;
}

Value AttentionLoops::isVisible(ScalarBuilder &s) {
  IntBuilder ints(s, s.getLoc(), s.getI64Type());
  VisibleKeys keys = keysOf(s);
  Value query = ints.from(s.position(2)), key = ints.from(s.position(3));
  Value sees = keys.sees(query, key);
  return spec.block ? ints.both(sees, isInLayout(s, keys, query, key)) : sees;
}

/// Whether the layout has the blocks of `query` and `key`, which are indices
/// among the rank's queries and keys.
Value AttentionLoops::isInLayout(ScalarBuilder &s, VisibleKeys &keys,
                                 Value query, Value key) {
  IntBuilder ints(s, s.getLoc(), s.getI64Type());
  Value head = ints.from(s.position(1));
  Value row = keys.layoutRow(head, query, op.getPart());
  Value bit = ints.add(ints.div(key, spec.block), keys.firstKeyBlock());
  auto index = [&](Value value) -> Value {
    return s.create<arith::IndexCastOp>(s.getIndexType(), value);
  };
  Value word =
      s.extract(op.getLayout(), {index(ints.div(row, spec.layoutBlocks)),
                                 index(ints.rem(row, spec.layoutBlocks)),
                                 index(ints.div(bit, 32))});
  Value shift = s.create<arith::TruncIOp>(s.getI32Type(), ints.rem(bit, 32));
  Value moved = s.create<arith::ShRUIOp>(word, shift);
  return s.create<arith::TruncIOp>(s.getI1Type(), moved);
}

/// The factor of dropout for the probability of this iteration: 0 or
/// 1 / (1 - p).
Value AttentionLoops::dropFactor(ScalarBuilder &s) {
  IntBuilder ints(s, s.getLoc(), s.getI64Type());
  Value first = firstProbability(spec, keysOf(s), ints, op.getMicroBatch(),
                                 op.getPart(), s.position(0), s.position(1));
  Value row = ints.mul(ints.from(s.position(2)), spec.wholeSeq());
  Value at = ints.add(first, ints.add(row, ints.from(s.position(3))));
  Value keep = keepsElement(s, op.getRng(), at, op.getLayer(),
                            static_cast<uint32_t>(spec.site), spec.p);
  return s.create<arith::SelectOp>(keep, s.f32(1 / (1 - spec.p)), s.f32(0));
}

/// Sums `term` over the features of a head. The iteration space is [batch,
/// head, query, key, feature].
Value AttentionLoops::dotProducts(
    llvm::function_ref<Value(ScalarBuilder &)> term) {
  SmallVector<int64_t> shape(pairs);
  shape.push_back(spec.headDim);
  return b.reduceTail(f32, shape, 4, {b.space(shape)}, Combine::Add,
                      [&](ScalarBuilder &s, Args) { return term(s); });
}

/// The scaled scores. They are minus infinity for keys that a query does not
/// see.
Value AttentionLoops::scores() {
  Value products = dotProducts([&](ScalarBuilder &s) {
    Value head = s.position(1), feature = s.position(4);
    Value q = element(s, Q, s.position(0), s.position(2), head, feature);
    Value k =
        element(s, K, s.position(0), s.position(3), kvHead(s, head), feature);
    return s.mul(q, k);
  });
  return b.map(pairType, {{products}}, [&](ScalarBuilder &s, Args x) -> Value {
    Value score = s.mul(x[0], s.f32(spec.scale));
    if (spec.softcap > 0) {
      Value share = s.div(score, s.f32(spec.softcap));
      score = s.mul(s.f32(spec.softcap), s.create<math::TanhOp>(share));
    }
    return s.create<arith::SelectOp>(
        isVisible(s), score, s.f32(-std::numeric_limits<double>::infinity()));
  });
}

Value AttentionLoops::probabilities(Value scores, Value lse, bool isDropped) {
  return b.map(pairType, {{scores}, rows(lse)},
               [&](ScalarBuilder &s, Args x) -> Value {
                 Value p = s.exp(s.sub(x[0], x[1]));
                 if (isDropped && spec.p > 0)
                   p = s.mul(p, dropFactor(s));
                 return s.create<arith::SelectOp>(isVisible(s), p, s.f32(0));
               });
}

Values AttentionLoops::forward(Type outputType) {
  Value all = scores();
  Value largest = b.reduceLast(pairs, {{all}}, Combine::Maximum,
                               [](ScalarBuilder &, Args x) { return x[0]; });
  Value sum =
      b.reduceLast(pairs, {{all}, rows(largest)}, Combine::Add,
                   [&](ScalarBuilder &s, Args x) -> Value {
                     return s.create<arith::SelectOp>(
                         isVisible(s), s.exp(s.sub(x[0], x[1])), s.f32(0));
                   });
  Value lse = b.map(
      sum.getType(), {{largest}, {sum}}, [](ScalarBuilder &s, Args x) -> Value {
        Value seesNone =
            s.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, x[1], s.f32(0));
        return s.create<arith::SelectOp>(
            seesNone, s.f32(std::numeric_limits<float>::lowest()),
            s.add(x[0], s.create<math::LogOp>(x[1])));
      });
  Value weights = probabilities(all, lse, /*isDropped=*/true);
  int64_t shape[] = {spec.batch, spec.seq, spec.heads * spec.headDim, spec.seq};
  Value sums = b.reduceLast(
      shape, {b.space(shape)}, Combine::Add, [&](ScalarBuilder &s, Args) {
        Value batch = s.position(0), key = s.position(3);
        Values column = split(s.position(2), s);
        Value p = s.extract(weights, {batch, column[0], s.position(1), key});
        return s.mul(
            p, element(s, V, batch, key, kvHead(s, column[0]), column[1]));
      });
  return {
      b.map(outputType, {{sums}}, [](ScalarBuilder &, Args x) { return x[0]; }),
      lse};
}

/// Computes the gradient of q, k or v. For q it is the product of `weights` and
/// k, for k the product of `weights` and q, and for v the product of `weights`
/// and the output's gradient `grad`. `weights` [B, heads, queries, keys] are
/// the gradients of the scores or, for v, the probabilities.
Value AttentionLoops::gradOf(Operand which, Value weights, Value grad) {
  int64_t group = spec.heads / spec.kvHeads;
  int64_t columns = (which == Q ? spec.heads : spec.kvHeads) * spec.headDim;
  SmallVector<int64_t> shape = {spec.batch, spec.seq, columns, spec.seq};
  if (which != Q)
    shape.push_back(group);
  return b.reduceTail(
      f32, shape, 3, {b.space(shape)}, Combine::Add,
      [&](ScalarBuilder &s, Args) {
        Value batch = s.position(0), mine = s.position(1),
              other = s.position(3);
        Values column = split(s.position(2), s);
        if (which == Q) {
          Value w = s.extract(weights, {batch, column[0], mine, other});
          return s.mul(
              w, element(s, K, batch, other, kvHead(s, column[0]), column[1]));
        }
        Value head = s.create<arith::AddIOp>(
            s.create<arith::MulIOp>(column[0], s.index(group)), s.position(4));
        Value w = s.extract(weights, {batch, head, other, mine});
        if (which == K)
          return s.mul(w, element(s, Q, batch, other, head, column[1]));
        return s.mul(
            w, s.extract(grad, {batch, other, headColumn(s, head, column[1])}));
      });
}

Values AttentionLoops::gradient(Value grad, Value forward, Value lse,
                                TypeRange types) {
  Value all = scores();
  Value ofValues = dotProducts([&](ScalarBuilder &s) {
    Value head = s.position(1), feature = s.position(4);
    Value g = s.extract(
        grad, {s.position(0), s.position(2), headColumn(s, head, feature)});
    return s.mul(g, element(s, V, s.position(0), s.position(3), kvHead(s, head),
                            feature));
  });
  int64_t rowShape[] = {spec.batch, spec.heads, spec.seq, spec.headDim};
  Value inner = b.reduceLast(
      rowShape, {b.space(rowShape)}, Combine::Add, [&](ScalarBuilder &s, Args) {
        Values at = {s.position(0), s.position(2),
                     headColumn(s, s.position(1), s.position(3))};
        return s.mul(s.extract(grad, at), s.extract(forward, at));
      });
  Value kept = probabilities(all, lse, /*isDropped=*/true);
  Value whole = probabilities(all, lse, /*isDropped=*/false);
  Value ofScores =
      b.map(pairType, {{whole}, {ofValues}, rows(inner), {all}},
            [&](ScalarBuilder &s, Args x) -> Value {
              Value product = spec.p > 0 ? s.mul(x[1], dropFactor(s)) : x[1];
              Value result =
                  s.mul(s.mul(x[0], s.f32(spec.scale)), s.sub(product, x[2]));
              if (spec.softcap == 0)
                return result;
              // A key that a query does not see has the score minus infinity,
              // for which the soft cap's derivative (`slope`) is not finite. So
              // select a zero gradient instead of multiplying by zero.
              Value share = s.div(x[3], s.f32(spec.softcap));
              Value slope = s.sub(s.f32(1), s.mul(share, share));
              return s.create<arith::SelectOp>(isVisible(s),
                                               s.mul(result, slope), s.f32(0));
            });
  Values sums = {gradOf(Q, ofScores, grad), gradOf(K, ofScores, grad),
                 gradOf(V, kept, grad)};
  auto same = [](ScalarBuilder &, Args x) { return x[0]; };
  if (!spec.packed)
    return {b.map(types[0], {{sums[0]}}, same),
            b.map(types[1], {{sums[1]}}, same),
            b.map(types[2], {{sums[2]}}, same)};
  return {b.map(types[0], {}, [&](ScalarBuilder &s, Args) -> Value {
    Value result;
    for (auto [columns, sum] : llvm::zip(spec.headColumns(), sums)) {
      Value column =
          s.create<arith::SubIOp>(s.position(2), s.index(columns.offset));
      Value isHere =
          s.create<arith::CmpIOp>(arith::CmpIPredicate::ult, column,
                                  s.index(tensorOf(sum).getDimSize(2)));
      column = s.create<arith::SelectOp>(isHere, column, s.index(0));
      Value value = s.extract(sum, {s.position(0), s.position(1), column});
      result =
          result ? s.create<arith::SelectOp>(isHere, value, result).getResult()
                 : value;
    }
    return result;
  })};
}

static Values lowerAttention(nn::AttentionOp op, nn::AttentionOp::Adaptor,
                             LinalgBuilder &b) {
  return AttentionLoops(op, b).forward(op.getOutput().getType());
}

static Values lowerAttentionGrad(nn::AttentionGradOp op,
                                 nn::AttentionGradOp::Adaptor in,
                                 LinalgBuilder &b) {
  return AttentionLoops(op, b).gradient(in.getGrad(), in.getForward(),
                                        in.getLse(), op.getResultTypes());
}

void attachAttentionLowerings(MLIRContext *context) {
  attachLinalg<nn::AttentionOp, lowerAttention, Generator::Attention>(context);
  attachLinalg<nn::AttentionGradOp, lowerAttentionGrad, Generator::Attention>(
      context);
}

} // namespace heddle::codegen
