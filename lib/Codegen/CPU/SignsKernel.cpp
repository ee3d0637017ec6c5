//===- SignsKernel.cpp - Averages in one bit for each element -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of the operations of NNSignOps.td.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "dialects/NN/SignLayout.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::cpu {

namespace {

using nn::SignLayout;

/// A chunk of a tensor, and the part of it that a thread computes. All members
/// are i64 values that count elements, except for `row`, `number` and `tensor`,
/// which are indices.
struct Chunk {
  Value row;
  Value number; ///< Which of the chunks of the row this is.
  Value tensor;
  Value inBucket;   ///< Its first element in the flat tensor of the bucket.
  Value inChunks;   ///< Its first element in the words of all rows and chunks.
  Value begin, end; ///< The elements of the chunk that the thread computes.
  Value count;      ///< How many elements of the chunk are no padding.
};

/// Emits the operations on signs. There may be thousands of tensors, so a
/// constant table describes them. Threads share the units of all chunks, in the
/// order of the words.
class Signs {
public:
  Signs(KernelEmitter &k, Operation *op, Value first)
      : k(k), b(k.b), ev(k.evaluator), layout(nn::signLayoutOf(op)) {
    ev.setFlat();
    SmallVector<int64_t> fields;
    for (const SignLayout::Tensor &tensor : layout.tensors)
      fields.append({tensor.count, tensor.begin, tensor.chunk, tensor.offset});
    table = k.makeTable(fields, "chunks");
    firstRow = first ? ev.scalarOf(first) : b.constant(0);
  }

  void emit(nn::SignScalesOp op);
  void emit(nn::JoinScalesOp op);
  void emit(nn::PackSignsOp op);
  void emit(nn::MeanSignsOp op);
  void emit(nn::UnpackSignsOp op);

private:
  void emitMean(nn::UnpackSignsOp op, int64_t elements);

  static constexpr int64_t unit = SignLayout::unit;
  static constexpr int64_t bits = SignLayout::bitsPerWord;
  enum Field { Count, Begin, Length, Offset, numFields };

  Value field(Value tensor, Field which) {
    Type i64 = b.builder.getI64Type();
    Value at = b.add(b.mul(tensor, numFields), which);
    return b.load(i64, b.advance(table, i64, at), sizeof(int64_t));
  }
  int64_t numTensors() const {
    return static_cast<int64_t>(layout.tensors.size());
  }
  Value clamp(Value x, Value least, Value most) {
    return b.min(b.select(b.less(x, least), least, x), most);
  }
  Value roundDown(Value x) { return b.mul(b.div(x, unit), unit); }

  /// The number of elements that are no padding in the chunk with the number
  /// `number` of all that a tensor has.
  Value countIn(Value tensor, Value number) {
    Value length = field(tensor, Length);
    return clamp(b.sub(field(tensor, Count), b.mul(number, length)),
                 b.constant(0), length);
  }

  /// Emits `body` for the chunks of `rows` rows of `numbers` chunks. With
  /// `isChunked` the row says which chunk of a tensor it has.
  void forChunks(int64_t rows, int64_t numbers, bool isChunked,
                 function_ref<void(const Chunk &)> body);
  /// Emits `whole` for each unit of a chunk that has only elements, `partial`
  /// for one that has elements and padding, and `padding` for others. The
  /// value is the unit's first element in the chunk.
  void forUnits(const Chunk &chunk, function_ref<void(Value)> whole,
                function_ref<void(Value)> partial,
                function_ref<void(Value)> padding);
  /// Emits `unit`(element, isMasked) for each unit of a chunk that has
  /// elements, and `padding` for others.
  void forUnits(const Chunk &chunk,
                function_ref<void(Value, bool isMasked)> unitOf,
                function_ref<void(Value)> padding) {
    forUnits(
        chunk, [&](Value at) { unitOf(at, false); },
        [&](Value at) { unitOf(at, true); }, padding);
  }

  Value scalar(Value tensor, Value index) {
    return ev.evaluate(tensor, {{index}}).value;
  }
  /// The scale of a tensor in row `row` of `scales`, which may have one for all
  /// tensors.
  Value scaleIn(Value scales, Value row, Value tensor) {
    int64_t perRow = cast<RankedTensorType>(scales.getType()).getDimSize(1);
    return scalar(scales,
                  perRow == 1 ? row : b.add(b.mul(row, perRow), tensor));
  }
  /// Whether the tensor of rank 0 is not 0.
  Value isTrue(Value condition) {
    Value number = ev.evaluate(condition, {}).value;
    return b.create<arith::CmpFOp>(
        arith::CmpFPredicate::UNE, number,
        b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(0)));
  }
  Point vectorAt(Value element) { return {{element, Coordinate::Consecutive}}; }
  void store(Value result, unsigned number, Value at, Value vector) {
    ev.store(result, k.results[number], vectorAt(at),
             {vector, Element::Vector});
  }
  /// `vector` where the elements from `at` of the chunk are no padding, zeros
  /// elsewhere.
  Value masked(const Chunk &chunk, Value at, Value vector) {
    return b.select(existing(chunk, at), vector, zeros());
  }
  /// A mask of the lanes whose elements, from `at` of the chunk, are no
  /// padding.
  Value existing(const Chunk &chunk, Value at) {
    return b.mask(b.sub(chunk.count, at), ev.laneCount());
  }
  Value zeros() { return b.zeros(ev.vectorType(b.builder.getF32Type())); }
  Value splat(Value number) {
    return b.create<vector::BroadcastOp>(ev.vectorType(b.builder.getF32Type()),
                                         number);
  }
  Value negated(Value number) { return b.create<arith::NegFOp>(number); }
  /// The address of the word that holds the element `element` of all chunks.
  Value wordAt(Value words, Value element) {
    return b.advance(words, b.builder.getI32Type(), b.div(element, bits));
  }
  Value loadWord(Value words, Value element) {
    return b.load(b.builder.getI32Type(), wordAt(words, element), 4);
  }
  /// A mask with the bits of `word` from `bit` on, one for each lane.
  Value maskOf(Value word, int64_t bit);
  /// A word with the lanes of `mask` as bits from `bit` on.
  Value bitsOf(Value mask, int64_t bit);
  /// `scale` or `-scale` in each lane, by the bits of `word` from `bit` on.
  Value signedBy(Value word, int64_t bit, Value scale, Value negative) {
    return b.create<arith::SelectOp>(maskOf(word, bit), scale, negative);
  }

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  SignLayout layout;
  Value table, firstRow;
};

} // namespace

Value Signs::maskOf(Value word, int64_t bit) {
  int64_t lanes = ev.laneCount();
  Type i32 = b.builder.getI32Type();
  Value moved =
      b.create<arith::ShRUIOp>(word, b.create<arith::ConstantIntOp>(bit, i32));
  if (lanes < bits)
    moved = b.create<arith::TruncIOp>(
        b.builder.getIntegerType(static_cast<unsigned>(lanes)), moved);
  return b.create<LLVM::BitcastOp>(ev.vectorType(b.builder.getI1Type()), moved);
}

Value Signs::bitsOf(Value mask, int64_t bit) {
  int64_t lanes = ev.laneCount();
  Type i32 = b.builder.getI32Type();
  Value number = b.create<LLVM::BitcastOp>(
      b.builder.getIntegerType(static_cast<unsigned>(lanes)), mask);
  if (lanes < bits)
    number = b.create<arith::ExtUIOp>(i32, number);
  return b.create<arith::ShLIOp>(number,
                                 b.create<arith::ConstantIntOp>(bit, i32));
}

void Signs::forChunks(int64_t rows, int64_t numbers, bool isChunked,
                      function_ref<void(const Chunk &)> body) {
  int64_t length = layout.elements;
  auto [firstUnit, lastUnit] = k.share(rows * numbers * length / unit);
  Value first = b.mul(firstUnit, unit), last = b.mul(lastUnit, unit);
  // Rows and chunks outside of the thread's share have no loop over tensors.
  Value begin = b.div(first, length), end = b.ceilDiv(last, length);
  b.forLoop(begin, end, 1, [&](Value index) {
    Chunk chunk;
    chunk.row = b.div(index, numbers);
    chunk.number = b.rem(index, numbers);
    Value base = b.mul(index, length);
    b.forLoop(b.constant(0), b.constant(numTensors()), 1, [&](Value tensor) {
      TensorEvaluator::Scope scope(ev);
      Value size = field(tensor, Length), none = b.constant(0);
      chunk.tensor = tensor;
      chunk.inChunks = b.add(base, field(tensor, Offset));
      chunk.inBucket = b.add(field(tensor, Begin), b.mul(chunk.number, size));
      chunk.begin = clamp(b.sub(first, chunk.inChunks), none, size);
      chunk.end = clamp(b.sub(last, chunk.inChunks), none, size);
      chunk.count = countIn(tensor, isChunked ? b.add(firstRow, chunk.row)
                                              : chunk.number);
      body(chunk);
    });
  });
}

void Signs::forUnits(const Chunk &chunk, function_ref<void(Value)> whole,
                     function_ref<void(Value)> partial,
                     function_ref<void(Value)> padding) {
  auto within = [&](Value x) { return clamp(x, chunk.begin, chunk.end); };
  Value full = within(roundDown(chunk.count));
  Value covered = within(b.mul(b.ceilDiv(chunk.count, unit), unit));
  auto loop = [&](Value from, Value to, function_ref<void(Value)> body) {
    b.forLoop(from, to, unit, [&](Value at) {
      TensorEvaluator::Scope scope(ev);
      body(at);
    });
  };
  loop(chunk.begin, full, whole);
  loop(full, covered, partial);
  loop(covered, chunk.end, padding);
}

/// Emits nn.sign_scales. One thread sums all elements that share a scale, so
/// the order of additions does not depend on the number of threads.
void Signs::emit(nn::SignScalesOp op) {
  auto input = cast<RankedTensorType>(op.getInput().getType());
  int64_t rows = cast<RankedTensorType>(op.getScales().getType()).getDimSize(0);
  int64_t row = input.getNumElements() / rows;
  Type f32 = b.builder.getF32Type(), f64 = b.builder.getF64Type();
  Value updates = isTrue(op.getCondition());
  auto [first, last] = k.share(rows * numTensors());
  b.forLoop(first, last, 1, [&](Value index) {
    TensorEvaluator::Scope scope(ev);
    Value tensor = b.rem(index, numTensors());
    Value number = b.div(index, numTensors());
    Value count = op.getChunked() ? countIn(tensor, b.add(firstRow, number))
                                  : field(tensor, Count);
    Value begin = b.add(b.mul(number, row),
                        field(tensor, op.getChunked() ? Offset : Begin));
    Value end = b.add(begin, b.mul(b.ceilDiv(count, unit), unit));
    Value sum = k.sumOfSquares(op.getInput(), begin, end);
    Value least = b.constant(1);
    Value mean = b.create<arith::DivFOp>(
        sum, b.create<arith::SIToFPOp>(
                 f64, b.select(b.less(count, least), least, count)));
    Value scale = b.create<arith::TruncFOp>(f32, b.create<math::SqrtOp>(mean));
    Value zero = b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(0));
    ev.store(op.getScales(), k.results[0], {{index}},
             {b.create<arith::SelectOp>(updates, scale, zero)});
  });
}

/// Emits nn.join_scales. There are few rows and tensors, so one thread computes
/// a row.
void Signs::emit(nn::JoinScalesOp op) {
  int64_t rows = cast<RankedTensorType>(op.getScales().getType()).getDimSize(0);
  Type f32 = b.builder.getF32Type(), f64 = b.builder.getF64Type();
  Value zero = b.create<arith::ConstantOp>(b.builder.getF64FloatAttr(0));
  auto [first, last] = k.share(rows);
  b.forLoop(first, last, 1, [&](Value row) {
    TensorEvaluator::Scope scope(ev);
    SmallVector<Value> sums = b.forLoop(
        b.constant(0), b.constant(numTensors()), 1, {zero, zero},
        [&](Value tensor, ValueRange before) -> SmallVector<Value> {
          TensorEvaluator::Scope inside(ev);
          Value count = op.getChunked() ? countIn(tensor, b.add(firstRow, row))
                                        : field(tensor, Count);
          Value elements = b.create<arith::SIToFPOp>(f64, count);
          Value scale = b.create<arith::ExtFOp>(
              f64,
              scalar(op.getScales(), b.add(b.mul(row, numTensors()), tensor)));
          Value squares = b.create<arith::MulFOp>(
              b.create<arith::MulFOp>(scale, scale), elements);
          return {b.create<arith::AddFOp>(before[0], squares),
                  b.create<arith::AddFOp>(before[1], elements)};
        });
    for (auto [number, result] : llvm::enumerate(op.getResults()))
      ev.store(result, k.results[number], {{row}},
               {b.create<arith::TruncFOp>(f32, sums[number])});
  });
}

void Signs::emit(nn::PackSignsOp op) {
  auto words = cast<RankedTensorType>(op.getWords().getType());
  auto input = cast<RankedTensorType>(op.getInput().getType());
  int64_t row = input.getNumElements() / words.getDimSize(0);
  bool isChunked = op.getChunked();
  Value none = b.create<arith::ConstantIntOp>(0, b.builder.getI32Type());
  auto storeWord = [&](const Chunk &chunk, Value at, Value word) {
    b.store(word, wordAt(k.results[0], b.add(chunk.inChunks, at)), 4);
  };
  auto chunkOf = [&](const Chunk &chunk) {
    Value scale = splat(scaleIn(op.getScales(), chunk.row, chunk.tensor));
    Value negative = negated(scale);
    Value origin = isChunked ? chunk.inChunks
                             : b.add(b.mul(chunk.row, row), chunk.inBucket);
    auto unitOf = [&](Value at, bool isMasked) {
      for (int64_t base = 0; base < unit; base += bits) {
        Value word = none;
        for (int64_t bit = 0; bit < bits; bit += ev.laneCount()) {
          Value here = b.add(at, base + bit), element = b.add(origin, here);
          Value x = ev.evaluateVector(op.getInput(), vectorAt(element));
          Value isPositive =
              b.create<arith::CmpFOp>(arith::CmpFPredicate::OGE, x, zeros());
          Value sent = b.create<arith::SelectOp>(isPositive, scale, negative);
          Value error = b.create<arith::SubFOp>(x, sent);
          if (isMasked) {
            Value exists = existing(chunk, here);
            error = b.select(exists, error, zeros());
            isPositive = b.create<arith::AndIOp>(isPositive, exists);
          }
          store(op.getError(), 1, element, error);
          word = b.create<arith::OrIOp>(word, bitsOf(isPositive, bit));
        }
        storeWord(chunk, b.add(at, base), word);
      }
    };
    forUnits(chunk, unitOf, [&](Value at) {
      for (int64_t base = 0; base < unit; base += bits)
        storeWord(chunk, b.add(at, base), none);
      for (int64_t lane = 0; isChunked && lane < unit; lane += ev.laneCount())
        store(op.getError(), 1, b.add(b.add(origin, at), lane), zeros());
    });
  };
  forChunks(words.getDimSize(0), words.getDimSize(1), isChunked, chunkOf);
}

void Signs::emit(nn::MeanSignsOp op) {
  int64_t rows = cast<RankedTensorType>(op.getWords().getType()).getDimSize(1);
  Value words = k.pointerOf(op.getWords());
  Value share = splat(b.create<arith::ConstantOp>(
      b.builder.getF32FloatAttr(1.0F / static_cast<float>(layout.parts))));
  int64_t perSender = rows * layout.elements, lanes = ev.laneCount();
  auto chunkOf = [&](const Chunk &chunk) {
    auto unitOf = [&](Value at, bool isMasked) {
      Value element = b.add(chunk.inChunks, at);
      SmallVector<Value> sums(unit / lanes, zeros());
      sums = b.forLoop(
          b.constant(0), b.constant(layout.parts), 1, sums,
          [&](Value sender, ValueRange before) {
            TensorEvaluator::Scope scope(ev);
            Value scale = splat(scaleIn(op.getScales(), sender, chunk.tensor));
            Value negative = negated(scale);
            Value place = b.add(b.mul(sender, perSender), element);
            SmallVector<Value> next;
            for (int64_t bit = 0; bit < unit; bit += lanes) {
              Value word = loadWord(words, b.add(place, bit / bits * bits));
              next.push_back(b.create<arith::AddFOp>(
                  before[bit / lanes],
                  signedBy(word, bit % bits, scale, negative)));
            }
            return next;
          });
      for (auto [number, sum] : llvm::enumerate(sums)) {
        auto lane = static_cast<int64_t>(number) * lanes;
        Value here = b.add(element, lane);
        Value error = ev.evaluateVector(op.getError(), vectorAt(here));
        Value y =
            b.create<arith::AddFOp>(error, b.create<arith::MulFOp>(sum, share));
        if (isMasked)
          y = masked(chunk, b.add(at, lane), y);
        store(op.getOutput(), 0, here, y);
      }
    };
    forUnits(chunk, unitOf, [&](Value at) {
      for (int64_t lane = 0; lane < unit; lane += lanes)
        store(op.getOutput(), 0, b.add(b.add(chunk.inChunks, at), lane),
              zeros());
    });
  };
  forChunks(rows, 1, /*isChunked=*/true, chunkOf);
}

void Signs::emit(nn::UnpackSignsOp op) {
  int64_t elements =
      cast<RankedTensorType>(op.getOutput().getType()).getNumElements();
  // Only one of the two is done, so that a mean does not read what was before.
  auto keep = [&] {
    auto [from, to] = k.share(elements / unit);
    b.forLoop(b.mul(from, unit), b.mul(to, unit), ev.laneCount(),
              [&](Value at) {
                TensorEvaluator::Scope scope(ev);
                store(op.getOutput(), 0, at,
                      ev.evaluateVector(op.getBefore(), vectorAt(at)));
              });
  };
  b.ifThen(
      isTrue(op.getCondition()), [&] { emitMean(op, elements); }, keep);
}

/// Emits the flat tensor of which nn.unpack_signs has signs and scales.
void Signs::emitMean(nn::UnpackSignsOp op, int64_t elements) {
  TensorEvaluator::Scope scope(ev);
  Value words = k.pointerOf(op.getWords());
  int64_t lanes = ev.laneCount();
  auto chunkOf = [&](const Chunk &chunk) {
    Value number = scaleIn(op.getScales(), chunk.number, chunk.tensor);
    if (op.getFactors())
      number = b.create<arith::MulFOp>(number,
                                       scalar(op.getFactors(), chunk.tensor));
    Value scale = splat(number);
    Value negative = negated(scale);
    auto unitOf = [&](Value at, bool isMasked) {
      for (int64_t bit = 0; bit < unit; bit += lanes) {
        Value here = b.add(at, bit);
        Value word = loadWord(
            words, b.add(chunk.inChunks, b.add(at, bit / bits * bits)));
        Value x = signedBy(word, bit % bits, scale, negative);
        if (isMasked)
          x = masked(chunk, here, x);
        store(op.getOutput(), 0, b.add(chunk.inBucket, here), x);
      }
    };
    forUnits(chunk, unitOf, [](Value) {});
  };
  forChunks(1, layout.parts, /*isChunked=*/false, chunkOf);
  // The padding after the last tensor.
  const SignLayout::Tensor &last = layout.tensors.back();
  int64_t end = last.begin + last.slot;
  auto [from, to] = k.share((elements - end) / unit);
  b.forLoop(b.mul(from, unit), b.mul(to, unit), lanes, [&](Value at) {
    TensorEvaluator::Scope scope(ev);
    store(op.getOutput(), 0, b.add(at, end), zeros());
  });
}

LogicalResult emitSignsKernel(KernelEmitter &k) {
  Operation *op = &k.kernel.getBody().front().front();
  if (auto scales = dyn_cast<nn::SignScalesOp>(op))
    Signs(k, op, scales.getFirst()).emit(scales);
  else if (auto joined = dyn_cast<nn::JoinScalesOp>(op))
    Signs(k, op, joined.getFirst()).emit(joined);
  else if (auto packed = dyn_cast<nn::PackSignsOp>(op))
    Signs(k, op, packed.getFirst()).emit(packed);
  else if (auto mean = dyn_cast<nn::MeanSignsOp>(op))
    Signs(k, op, mean.getFirst()).emit(mean);
  else if (auto unpacked = dyn_cast<nn::UnpackSignsOp>(op))
    Signs(k, op, Value()).emit(unpacked);
  else
    return k.kernel.emitError("holds nothing of signs; its generator is not "
                              "\"signs\"");
  return k.finish();
}

} // namespace heddle::cpu
