//===- MapSigns.cpp - Averages in one bit for each element ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps nn.sign_scales, nn.pack_signs, nn.mean_signs and nn.unpack_signs. Signs
// are bits of 32-bit words, so that the code counts offsets in words of 32
// elements, which fit 32 bits. Constant tables hold the word at which each
// tensor begins in the bucket and in the chunks.
//
// Scales take two launches: in the first, one block sums each piece of a row of
// a tensor; in the second, one warp adds the sums of the pieces. In the other
// kernels a warp computes 32 adjacent words. Each lane looks up the tensor of
// one of them. The warp then computes the words one after the other (packing),
// or four at a time, and gets what a lane knows about its word by shuffles. So
// there is one search for 32 words, all accesses of a warp are adjacent, and
// the words of a warp may be of any number of tensors.
//
// No kernel relies on padding of its inputs.
//
//===----------------------------------------------------------------------===//

#include "BlockReduce.h"
#include "ConstantTable.h"
#include "ThreadCode.h"
#include "dialects/NN/SignLayout.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

namespace {

using nn::SignLayout;

constexpr int64_t threads = 256;
constexpr int64_t bits = SignLayout::bitsPerWord;
static_assert(bits == warpSize, "a ballot of a warp is a word");
/// The elements of an access of 16 bytes.
constexpr int64_t width = 4;
/// The lanes that share a word when each has `width` of its elements.
constexpr int64_t lanesOfWord = bits / width;
/// The rounds in which a warp handles its 32 words in such accesses.
constexpr int64_t rounds = lanesOfWord;
/// How many words a warp packs between loading and storing elements.
constexpr int64_t packedAtOnce = 8;
/// The length in words of a piece of a tensor that a block sums.
constexpr int64_t pieceWords = 2048;

int64_t dim(Value tensor, int64_t number) {
  return cast<RankedTensorType>(tensor.getType()).getDimSize(number);
}

/// What is known when kernels are compiled.
struct SignTables {
  SignTables(planir::KernelOp kernel, Operation *op);

  SignLayout layout;
  std::string prefix; ///< Of the names of tables.
  /// For each tensor, its first word in the bucket (`begins`) and in the chunks
  /// of a replica (`offsets`), and at last the end of all.
  SmallVector<int32_t> begins, offsets;
  SmallVector<int64_t> counts; ///< The elements of each tensor.
};

/// Emits the code of a thread. Integers are i32 and count words, unless stated
/// otherwise.
class SignCode {
public:
  SignCode(KernelFrame &f, const SignTables &tables)
      : f(f), b(f.builder), c(f.builder, f.loc), layout(tables.layout),
        tables(tables), begins(f, tables.prefix + "_begins", tables.begins),
        offsets(f, tables.prefix + "_offsets", tables.offsets),
        counts(f, tables.prefix + "_counts", tables.counts) {}

  /// `pieces` has the first piece of each tensor, and the end of all.
  LogicalResult emitPieces(nn::SignScalesOp op, ArrayRef<int32_t> pieces);
  LogicalResult emitScales(nn::SignScalesOp op, ArrayRef<int32_t> pieces);
  void emit(nn::PackSignsOp op);
  void emit(nn::MeanSignsOp op);
  void emit(nn::UnpackSignsOp op);

private:
  /// The place of a word in its tensor.
  struct Place {
    Value tensor;   ///< Of type index.
    Value inTensor; ///< The word's index in the tensor.
    Value valid;    ///< How many elements of the word are no padding.
  };

  int64_t numTensors() const {
    return static_cast<int64_t>(layout.tensors.size());
  }
  Value next(Value tensor) { return f.add(tensor, 1); }
  /// The words of each chunk of a tensor.
  Value lengthOf(Value tensor) {
    return c.sub(offsets.at(next(tensor)), offsets.at(tensor));
  }
  Value min(Value x, Value y) { return c.create<arith::MinSIOp>(x, y); }
  Value less(Value x, int64_t y) { return c.less(x, y); }
  Value select(Value condition, Value x, Value y) {
    return c.create<arith::SelectOp>(condition, x, y);
  }
  /// The index, of type index, of a word's first element.
  Value elementOf(Value word) { return f.mul(c.toIndex(word), bits); }
  /// The index row * `columns` + column of a matrix, of type index.
  Value inMatrix(Value row, int64_t columns, Value column) {
    return f.add(f.mul(row, columns), column);
  }
  Value bufferOf(Value tensor) { return f.argumentBuffer(tensor); }
  Value load(Value tensor, Value index) {
    return b.create<memref::LoadOp>(f.loc, bufferOf(tensor), ValueRange(index));
  }
  /// The number of the chunk that a rank's row has.
  Value numberOf(Value first, Value row) {
    if (!first)
      return row;
    return c.add(
        c.create<arith::TruncIOp>(b.getI32Type(), f.argumentScalar(first)),
        row);
  }
  /// The word that a lane looks up.
  Value ownWord() {
    return c.add(c.mul(c.blockId(mlir::gpu::Dimension::x), threads),
                 c.threadId());
  }
  Value lane() { return c.rem(c.threadId(), warpSize); }
  Value isTrue(Value condition) {
    Value number = b.create<memref::LoadOp>(f.loc, bufferOf(condition));
    return c.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, number,
                                   c.zero(b.getF32Type()));
  }
  /// The value that lane `from` of the warp has.
  Value fromLane(Value value, Value from) {
    return b
        .create<mlir::gpu::ShuffleOp>(f.loc, value, from, c.constant(warpSize),
                                      mlir::gpu::ShuffleMode::IDX)
        .getShuffleResult();
  }
  Value negated(Value x) { return c.create<arith::NegFOp>(x); }
  Value isPositive(Value x) {
    return c.create<arith::CmpFOp>(arith::CmpFPredicate::OGE, x,
                                   c.zero(b.getF32Type()));
  }

  Value validOf(Value tensor, Value inTensor);
  Place placeInChunk(Value inChunk, Value number);
  Place placeInBucket(Value inBucket);
  void packWords(nn::PackSignsOp op, Value from, Value valid, Value scale,
                 Value &word);
  SmallVector<Value> addSenders(nn::MeanSignsOp op, Value word, Value tensor);

  /// The word of which this lane has `width` elements in a round, as the lane
  /// that has looked it up.
  Value lookedUpBy(int64_t round) {
    return c.add(c.div(lane(), lanesOfWord), round * width);
  }
  /// The bit of the first of these elements.
  Value firstBit() { return c.mul(c.rem(lane(), lanesOfWord), width); }
  /// Emits, for the `width` elements of a lane, `scale` or -`scale`, as the
  /// bits of `word` from 0 on say.
  SmallVector<Value> signedBy(Value word, Value scale);
  /// Stores those of the elements as one access that are no padding, and zeros
  /// for others, in round `round`, if the words are among the `count` first.
  void storeRound(int64_t round, int64_t count, Value valid, Value buffer,
                  function_ref<SmallVector<Value>(Value element)> values);

  KernelFrame &f;
  OpBuilder &b;
  ThreadCode c;
  const SignLayout &layout;
  const SignTables &tables;
  ConstantTable begins, offsets, counts;
};

} // namespace

SignTables::SignTables(planir::KernelOp kernel, Operation *op)
    : layout(nn::signLayoutOf(op)), prefix(kernel.getSymName().str()) {
  for (const SignLayout::Tensor &tensor : layout.tensors) {
    begins.push_back(static_cast<int32_t>(tensor.begin / bits));
    offsets.push_back(static_cast<int32_t>(tensor.offset / bits));
    counts.push_back(tensor.count);
  }
  const SignLayout::Tensor &last = layout.tensors.back();
  begins.push_back(static_cast<int32_t>((last.begin + last.slot) / bits));
  offsets.push_back(static_cast<int32_t>(layout.words()));
}

/// Returns how many of a word's elements are no padding. The number of elements
/// of a tensor may have more than 32 bits.
Value SignCode::validOf(Value tensor, Value inTensor) {
  Type i64 = b.getI64Type();
  auto number = [&](int64_t value) -> Value {
    return b.create<arith::ConstantIntOp>(f.loc, value, i64);
  };
  Value rest = c.sub(counts.at(tensor), c.mul(c.wide(inTensor), bits));
  rest = c.create<arith::MaxSIOp>(min(rest, number(bits)), number(0));
  return c.create<arith::TruncIOp>(b.getI32Type(), rest);
}

/// Looks up word `inChunk` of the chunks `number` of all tensors.
SignCode::Place SignCode::placeInChunk(Value inChunk, Value number) {
  Place place;
  place.tensor = offsets.search(numTensors() - 1, inChunk);
  Value before = c.create<arith::MulIOp>(number, lengthOf(place.tensor));
  place.inTensor = c.add(before, c.sub(inChunk, offsets.at(place.tensor)));
  place.valid = validOf(place.tensor, place.inTensor);
  return place;
}

/// Looks up a word of the flat tensor of the bucket.
SignCode::Place SignCode::placeInBucket(Value inBucket) {
  Place place;
  place.tensor = begins.search(numTensors() - 1, inBucket);
  place.inTensor = c.sub(inBucket, begins.at(place.tensor));
  place.valid = validOf(place.tensor, place.inTensor);
  return place;
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Emits the number of elements of tensor `tensor` in row `row`, as an i64.
/// With `chunked`, a row has only one chunk of each tensor.
static Value countInRow(KernelFrame &f, ThreadCode &c, Value count,
                        Value length, Value number) {
  OpBuilder &b = f.builder;
  length = c.mul(c.wide(length), bits);
  Value before = c.create<arith::MulIOp>(c.wide(number), length);
  Value rest =
      c.create<arith::MaxSIOp>(c.sub(count, before), c.zero(b.getI64Type()));
  return c.create<arith::MinSIOp>(rest, length);
}

/// Sums the squares of a piece of a row of a tensor.
LogicalResult SignCode::emitPieces(nn::SignScalesOp op,
                                   ArrayRef<int32_t> pieces) {
  Type i64 = b.getI64Type(), f64 = b.getF64Type();
  int64_t rows = dim(op.getScales(), 0);
  Value slots = f.addWorkgroup({threads / warpSize}, f64);
  ConstantTable firstPieces(f, tables.prefix + "_pieces", pieces);
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value row = f.div(block, pieces.back());
  Value piece = c.toI32(f.rem(block, pieces.back()));
  Value tensor = firstPieces.search(numTensors() - 1, piece);
  Value count = counts.at(tensor);
  if (op.getChunked())
    count = countInRow(f, c, count, lengthOf(tensor),
                       numberOf(op.getFirst(), c.toI32(row)));
  constexpr int64_t elements = pieceWords * bits;
  Value begin = c.mul(c.wide(c.sub(piece, firstPieces.at(tensor))), elements);
  Value end = b.create<arith::ConstantIntOp>(f.loc, elements, i64);
  begin = min(begin, count);
  end = min(c.add(begin, end), count);
  Value origin = inMatrix(
      row, dim(op.getInput(), 0) / rows,
      elementOf(op.getChunked() ? offsets.at(tensor) : begins.at(tensor)));
  auto element = [&](Value inTensor) {
    return f.add(origin,
                 c.create<arith::IndexCastOp>(b.getIndexType(), inTensor));
  };
  // A piece that does not exist has no elements, but the first of them would
  // not be aligned.
  auto sums = forChunks(
      f, element(begin), element(end), /*isWhole=*/false, {width, threads},
      c.zero(f64), [&](const Chunk &chunk, ValueRange carried) {
        return sumSquares(f, op.getInput(), chunk, carried[0]);
      });
  if (failed(sums))
    return failure();
  Value total =
      acrossBlock(f, sums->front(), threads, slots,
                  [&](Value x, Value y) { return addFloats(f, x, y); });
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(total, f.scratch(0, {rows * pieces.back()}, f64), block);
  return success();
}

/// Adds the sums of the pieces of a row of a tensor, which a block of one warp
/// does.
LogicalResult SignCode::emitScales(nn::SignScalesOp op,
                                   ArrayRef<int32_t> pieces) {
  Type f32 = b.getF32Type(), f64 = b.getF64Type();
  int64_t rows = dim(op.getScales(), 0);
  ConstantTable firstPieces(f, tables.prefix + "_pieces", pieces);
  Value sums = f.scratch(0, {rows * pieces.back()}, f64);
  Value block = f.blockId(mlir::gpu::Dimension::x);
  Value row = f.div(block, numTensors()), tensor = f.rem(block, numTensors());
  auto bound = [&](Value of) {
    return inMatrix(row, pieces.back(), c.toIndex(firstPieces.at(of)));
  };
  auto total = forChunks(
      f, bound(tensor), bound(next(tensor)), /*isWhole=*/true, {1, warpSize},
      c.zero(f64), [&](const Chunk &chunk, ValueRange carried) {
        Value sum =
            b.create<memref::LoadOp>(f.loc, sums, ValueRange(chunk.base));
        return FailureOr<SmallVector<Value>>({addFloats(f, carried[0], sum)});
      });
  Value sum = acrossBlock(f, total->front(), warpSize, {},
                          [&](Value x, Value y) { return addFloats(f, x, y); });
  Value count = counts.at(tensor);
  if (op.getChunked())
    count = countInRow(f, c, count, lengthOf(tensor),
                       numberOf(op.getFirst(), c.toI32(row)));
  Value one = b.create<arith::ConstantIntOp>(f.loc, 1, b.getI64Type());
  count = c.create<arith::MaxSIOp>(count, one);
  Value mean =
      c.create<arith::DivFOp>(sum, c.create<arith::SIToFPOp>(f64, count));
  Value scale = c.narrow(b.create<math::SqrtOp>(f.loc, mean), f32);
  InsideIf once(f, f.compare(arith::CmpIPredicate::eq, f.threadId(), 0));
  f.store(c.orZero(isTrue(op.getCondition()), scale), f.outputBuffer(0), block);
  return success();
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// The words that nn.pack_signs writes, and the padding behind the last tensor
/// of a row, of which it writes only the errors.
namespace {
struct PackedWords {
  explicit PackedWords(nn::PackSignsOp op, const SignTables &tables)
      : rows(dim(op.getWords(), 0)), chunks(dim(op.getWords(), 1)),
        rowWords(dim(op.getInput(), 0) / rows / bits),
        count(rows * chunks * tables.layout.words()),
        padding(op.getChunked() ? 0 : rowWords - tables.begins.back()) {}

  int64_t total() const { return count + rows * padding; }

  int64_t rows, chunks;
  int64_t rowWords; ///< The words of the elements of a row.
  int64_t count;    ///< The words of the result.
  int64_t padding;  ///< The words behind the last tensor of each row.
};
} // namespace

void SignCode::emit(nn::PackSignsOp op) {
  PackedWords sizes(op, tables);
  Value own = ownWord(), none = c.constant(-1);
  Value known = min(own, c.constant(sizes.count - 1));
  Value chunk = c.div(known, layout.words());
  Value inChunk = c.rem(known, layout.words());
  Value row = c.div(chunk, sizes.chunks), number = c.rem(chunk, sizes.chunks);
  if (op.getChunked())
    number = numberOf(op.getFirst(), row);
  Place place = placeInChunk(inChunk, number);
  // Words of padding have no elements in the bucket if they are behind the end
  // of the tensor's range.
  Value inRow = inChunk, valid = place.valid;
  if (!op.getChunked()) {
    Value begin = begins.at(place.tensor);
    inRow = c.add(begin, place.inTensor);
    valid = select(c.less(inRow, begins.at(next(place.tensor))), valid, none);
  }
  Value from = c.add(c.mul(row, sizes.rowWords), inRow);
  if (sizes.padding > 0) {
    Value isKnown = less(own, sizes.count);
    Value behind = c.sub(own, c.constant(sizes.count));
    Value origin =
        c.add(c.mul(c.div(behind, sizes.padding), sizes.rowWords),
              c.add(c.rem(behind, sizes.padding), tables.begins.back()));
    from = select(isKnown, from, origin);
    valid = select(isKnown, valid, c.constant(0));
  }
  valid = select(less(own, sizes.total()), valid, none);
  Value scale = load(op.getScales(),
                     inMatrix(c.toIndex(row), numTensors(), place.tensor));
  Value word;
  packWords(op, from, valid, scale, word);
  InsideIf isWord(f, less(own, sizes.count));
  f.store(word, f.outputBuffer(0), c.toIndex(own));
}

/// Packs the 32 words that the lanes have looked up: lane i gets the word i.
/// `from` is the word's place in the input, `valid` how many elements are no
/// padding, or -1 if the word has no elements in the input.
void SignCode::packWords(nn::PackSignsOp op, Value from, Value valid,
                         Value scale, Value &word) {
  Type f32 = b.getF32Type();
  Value zero = c.zero(f32), own = lane(), all = c.constant(-1);
  struct Step {
    Value lane, valid, scale, element, x, hasElements;
  };
  auto loop = b.create<scf::ForOp>(f.loc, f.constant(0), f.constant(warpSize),
                                   f.constant(packedAtOnce), c.constant(0));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  word = loop.getRegionIterArg(0);
  Value first = c.toI32(loop.getInductionVar());
  SmallVector<Step> steps(packedAtOnce);
  // The error may overwrite the input. All loads of several words come first,
  // so that they do not wait for stores.
  for (auto [number, step] : llvm::enumerate(steps)) {
    step.lane = c.add(first, static_cast<int64_t>(number));
    step.valid = fromLane(valid, step.lane);
    step.scale = fromLane(scale, step.lane);
    step.element = f.add(elementOf(fromLane(from, step.lane)), c.toIndex(own));
    step.hasElements = c.less(all, step.valid);
    auto read = b.create<scf::IfOp>(f.loc, f32, step.hasElements,
                                    /*withElseRegion=*/true);
    step.x = read.getResult(0);
    OpBuilder::InsertionGuard inside(b);
    b.setInsertionPointToStart(read.thenBlock());
    b.create<scf::YieldOp>(f.loc, load(op.getInput(), step.element));
    b.setInsertionPointToStart(read.elseBlock());
    b.create<scf::YieldOp>(f.loc, zero);
  }
  for (const Step &step : steps) {
    Value exists = c.less(own, step.valid), positive = isPositive(step.x);
    Value ballot = b.create<NVVM::VoteBallotOp>(f.loc, b.getI32Type(), all,
                                                c.both(positive, exists));
    Value isOwn =
        c.create<arith::CmpIOp>(arith::CmpIPredicate::eq, own, step.lane);
    word = select(isOwn, ballot, word);
    Value sent = select(positive, step.scale, negated(step.scale));
    Value error = c.orZero(exists, c.create<arith::SubFOp>(step.x, sent));
    InsideIf hasElements(f, step.hasElements);
    f.store(error, f.outputBuffer(1), step.element);
  }
  b.create<scf::YieldOp>(f.loc, word);
  word = loop.getResult(0);
}

//===----------------------------------------------------------------------===//
// Means and unpacking
//===----------------------------------------------------------------------===//

SmallVector<Value> SignCode::signedBy(Value word, Value scale) {
  SmallVector<Value> values;
  Value negative = negated(scale);
  for (int64_t i = 0; i < width; ++i) {
    Value bit = c.create<arith::AndIOp>(word, c.constant(int64_t(1) << i));
    Value isSet =
        c.create<arith::CmpIOp>(arith::CmpIPredicate::ne, bit, c.constant(0));
    values.push_back(select(isSet, scale, negative));
  }
  return values;
}

void SignCode::storeRound(
    int64_t round, int64_t count, Value valid, Value buffer,
    function_ref<SmallVector<Value>(Value element)> values) {
  Value from = lookedUpBy(round);
  Value existing = fromLane(valid, from);
  Value word = c.add(c.sub(ownWord(), lane()), from);
  InsideIf exists(f, less(word, count));
  Value bit = firstBit();
  Value element = f.add(elementOf(word), c.toIndex(bit));
  SmallVector<Value> stored;
  for (auto [i, value] : llvm::enumerate(values(element)))
    stored.push_back(
        c.orZero(c.less(c.add(bit, static_cast<int64_t>(i)), existing), value));
  f.store(stored, buffer, element);
}

/// Adds what the senders have sent for the elements of a warp's 32 words, in
/// the order of senders. `word` is the word that this lane has looked up,
/// `tensor` its tensor.
SmallVector<Value> SignCode::addSenders(nn::MeanSignsOp op, Value word,
                                        Value tensor) {
  int64_t perSender = dim(op.getWords(), 1) * layout.words();
  SmallVector<Value> none(bits, c.zero(b.getF32Type()));
  auto loop = b.create<scf::ForOp>(
      f.loc, f.constant(0), f.constant(layout.parts), f.constant(1), none);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value sender = loop.getInductionVar();
  Value sent =
      load(op.getWords(), inMatrix(sender, perSender, c.toIndex(word)));
  Value scale = load(op.getScales(), inMatrix(sender, numTensors(), tensor));
  SmallVector<Value> sums(loop.getRegionIterArgs());
  for (int64_t round = 0; round < rounds; ++round) {
    Value from = lookedUpBy(round);
    Value mine = c.create<arith::ShRUIOp>(fromLane(sent, from), firstBit());
    for (auto [i, term] :
         llvm::enumerate(signedBy(mine, fromLane(scale, from)))) {
      Value &sum = sums[round * width + static_cast<int64_t>(i)];
      sum = addFloats(f, sum, term);
    }
  }
  b.create<scf::YieldOp>(f.loc, sums);
  return SmallVector<Value>(loop.getResults());
}

void SignCode::emit(nn::MeanSignsOp op) {
  int64_t count = dim(op.getWords(), 1) * layout.words();
  Type f32 = b.getF32Type();
  Value known = min(ownWord(), c.constant(count - 1));
  Value row = c.div(known, layout.words());
  Place place =
      placeInChunk(c.rem(known, layout.words()), numberOf(op.getFirst(), row));
  SmallVector<Value> sums = addSenders(op, known, place.tensor);
  Value share = b.create<arith::ConstantOp>(
      f.loc, b.getF32FloatAttr(1.0F / static_cast<float>(layout.parts)));
  for (int64_t round = 0; round < rounds; ++round)
    storeRound(round, count, place.valid, f.outputBuffer(0), [&](Value at) {
      Value errors = b.create<vector::LoadOp>(
          f.loc, VectorType::get({width}, f32), bufferOf(op.getError()), at);
      SmallVector<Value> values = c.elements(errors);
      for (auto [i, value] : llvm::enumerate(values)) {
        Value sum = sums[round * width + static_cast<int64_t>(i)];
        value = addFloats(f, value, c.create<arith::MulFOp>(sum, share));
      }
      return values;
    });
}

void SignCode::emit(nn::UnpackSignsOp op) {
  int64_t count = dim(op.getOutput(), 0) / bits;
  Type f32 = b.getF32Type();
  Value output = f.outputBuffer(0), before = bufferOf(op.getBefore());
  bool isTied = output == before;
  auto branch = b.create<scf::IfOp>(f.loc, isTrue(op.getCondition()),
                                    /*withElseRegion=*/!isTied);
  OpBuilder::InsertionGuard guard(b);
  if (!isTied) {
    b.setInsertionPointToStart(branch.elseBlock());
    for (int64_t round = 0; round < rounds; ++round)
      storeRound(round, count, c.constant(bits), output, [&](Value at) {
        return c.elements(b.create<vector::LoadOp>(
            f.loc, VectorType::get({width}, f32), before, at));
      });
  }
  b.setInsertionPointToStart(branch.thenBlock());
  Place place = placeInBucket(min(ownWord(), c.constant(count - 1)));
  // Padding may be in no chunk. It reads the tensor's first word.
  Value inTensor = select(less(place.valid, 1), c.constant(0), place.inTensor);
  Value length = lengthOf(place.tensor);
  Value chunk = c.toIndex(c.div(inTensor, length));
  Value inChunk = c.add(offsets.at(place.tensor), c.rem(inTensor, length));
  Value word =
      load(op.getWords(), inMatrix(chunk, layout.words(), c.toIndex(inChunk)));
  Value scale =
      load(op.getScales(), inMatrix(chunk, numTensors(), place.tensor));
  for (int64_t round = 0; round < rounds; ++round) {
    Value from = lookedUpBy(round);
    Value mine = c.create<arith::ShRUIOp>(fromLane(word, from), firstBit());
    SmallVector<Value> values = signedBy(mine, fromLane(scale, from));
    storeRound(round, count, place.valid, output,
               [&](Value) { return values; });
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
class SignMapper {
public:
  SignMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
             Operation *op)
      : kernel(kernel), module(module), tables(kernel, op) {}

  MappedKernel map(nn::SignScalesOp op);
  /// Maps an operation of which each thread looks up one of `words` words.
  template <typename OpT> MappedKernel map(OpT op, int64_t words) {
    return finish(launch("", llvm::divideCeil(words, threads), threads,
                         [&](SignCode &code) {
                           code.emit(op);
                           return success();
                         }));
  }

  SignTables tables;

private:
  LogicalResult launch(StringRef suffix, int64_t blocks, int64_t blockThreads,
                       function_ref<LogicalResult(SignCode &)> body);
  MappedKernel finish(LogicalResult result) {
    return failed(result) ? MappedKernel::no(mapped.reason) : mapped;
  }

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  MappedKernel mapped;
};
} // namespace

LogicalResult SignMapper::launch(StringRef suffix, int64_t blocks,
                                 int64_t blockThreads,
                                 function_ref<LogicalResult(SignCode &)> body) {
  FrameOptions options;
  options.flat = true;
  options.suffix = suffix.str();
  return addLaunch(mapped, kernel, module, options, {blocks}, blockThreads,
                   [&](KernelFrame &f) {
                     SignCode code(f, tables);
                     return body(code);
                   });
}

MappedKernel SignMapper::map(nn::SignScalesOp op) {
  int64_t rows = dim(op.getScales(), 0);
  SmallVector<int32_t> pieces(1, 0);
  for (const SignLayout::Tensor &tensor : tables.layout.tensors) {
    int64_t words = (op.getChunked() ? tensor.chunk : tensor.slot) / bits;
    auto count = static_cast<int32_t>(llvm::divideCeil(words, pieceWords));
    pieces.push_back(pieces.back() + count);
  }
  int64_t sums = rows * pieces.back();
  mapped.scratchBytes = sums * static_cast<int64_t>(sizeof(double));
  LogicalResult result = launch("", sums, threads, [&](SignCode &code) {
    return code.emitPieces(op, pieces);
  });
  if (succeeded(result))
    result = launch(
        "_sum", dim(op.getScales(), 0) * dim(op.getScales(), 1), warpSize,
        [&](SignCode &code) { return code.emitScales(op, pieces); });
  return finish(result);
}

MappedKernel mapSigns(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module) {
  Operation *op = &kernel.getBody().front().front();
  auto isArgument = [](Value value) { return isa<BlockArgument>(value); };
  if (!isa<nn::SignScalesOp, nn::PackSignsOp, nn::MeanSignsOp,
           nn::UnpackSignsOp>(op) ||
      !llvm::all_of(op->getOperands(), isArgument))
    return MappedKernel::no("something other than signs of arguments");
  SignMapper mapper(kernel, module, op);
  if (auto scales = dyn_cast<nn::SignScalesOp>(op))
    return mapper.map(scales);
  if (auto packed = dyn_cast<nn::PackSignsOp>(op))
    return mapper.map(packed, PackedWords(packed, mapper.tables).total());
  if (auto mean = dyn_cast<nn::MeanSignsOp>(op))
    return mapper.map(mean, dim(mean.getOutput(), 0) / bits);
  auto unpacked = cast<nn::UnpackSignsOp>(op);
  return mapper.map(unpacked, dim(unpacked.getOutput(), 0) / bits);
}

} // namespace heddle::gpu
