//===- MapSigns.cpp - Averages in one bit for each element ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps the operations of NNSignOps.td. Signs
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
#include "SignCode.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;

namespace heddle::gpu {

namespace signs {

/// The rounds in which a warp handles its 32 words in accesses of 16 bytes.
static constexpr int64_t rounds = lanesOfWord;
/// How many words a warp packs between loading and storing elements.
static constexpr int64_t packedAtOnce = 8;

SignTables::SignTables(planir::KernelOp kernel, Operation *op)
    : layout(nn::signLayoutOf(op)), prefix(kernel.getSymName().str()) {
  for (const nn::SignLayout::Tensor &tensor : layout.tensors) {
    begins.push_back(static_cast<int32_t>(tensor.begin / bits));
    offsets.push_back(static_cast<int32_t>(tensor.offset / bits));
    counts.push_back(tensor.count);
  }
  const nn::SignLayout::Tensor &last = layout.tensors.back();
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
SignCode::WordPlace SignCode::placeInChunk(Value inChunk, Value number) {
  WordPlace place;
  place.tensor = offsets.search(numTensors() - 1, inChunk);
  Value before = c.create<arith::MulIOp>(number, lengthOf(place.tensor));
  place.inTensor = c.add(before, c.sub(inChunk, offsets.at(place.tensor)));
  place.valid = validOf(place.tensor, place.inTensor);
  return place;
}

/// Looks up a word of the flat tensor of the bucket.
SignCode::WordPlace SignCode::placeInBucket(Value inBucket) {
  WordPlace place;
  place.tensor = begins.search(numTensors() - 1, inBucket);
  place.inTensor = c.sub(inBucket, begins.at(place.tensor));
  place.valid = validOf(place.tensor, place.inTensor);
  return place;
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// The words that nn.pack_signs writes, and the padding after the last tensor
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
  int64_t padding;  ///< The words after the last tensor of each row.
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
  WordPlace place = placeInChunk(inChunk, number);
  // Words of padding have no elements in the bucket if they are after the end
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
    Value after = c.sub(own, c.constant(sizes.count));
    Value origin =
        c.add(c.mul(c.div(after, sizes.padding), sizes.rowWords),
              c.add(c.rem(after, sizes.padding), tables.begins.back()));
    from = select(isKnown, from, origin);
    valid = select(isKnown, valid, c.constant(0));
  }
  valid = select(less(own, sizes.total()), valid, none);
  Value scale = scaleIn(op.getScales(), c.toIndex(row), place.tensor);
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
  Value scale = scaleIn(op.getScales(), sender, tensor);
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
  WordPlace place =
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
  WordPlace place = placeInBucket(min(ownWord(), c.constant(count - 1)));
  // Padding may be in no chunk. It reads the tensor's first word.
  Value inTensor = select(less(place.valid, 1), c.constant(0), place.inTensor);
  Value length = lengthOf(place.tensor);
  Value chunk = c.toIndex(c.div(inTensor, length));
  Value inChunk = c.add(offsets.at(place.tensor), c.rem(inTensor, length));
  Value word =
      load(op.getWords(), inMatrix(chunk, layout.words(), c.toIndex(inChunk)));
  Value scale = scaleIn(op.getScales(), chunk, place.tensor);
  if (op.getFactors())
    scale = c.create<arith::MulFOp>(scale, load(op.getFactors(), place.tensor));
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
  MappedKernel map(nn::JoinScalesOp op) {
    return finish(
        launch("", dim(op.getScales(), 0), warpSize, [&](SignCode &code) {
          code.emit(op);
          return success();
        }));
  }
  MappedKernel map(nn::PackSignsOp op) {
    return mapWords(op, PackedWords(op, tables).total());
  }
  MappedKernel map(nn::MeanSignsOp op) {
    return mapWords(op, dim(op.getOutput(), 0) / bits);
  }
  MappedKernel map(nn::UnpackSignsOp op) {
    return mapWords(op, dim(op.getOutput(), 0) / bits);
  }

private:
  /// Maps an operation of which each thread looks up one of `words` words.
  template <typename OpT> MappedKernel mapWords(OpT op, int64_t words) {
    if (words > std::numeric_limits<int32_t>::max() - threads)
      return MappedKernel::no("averages of so many elements");
    return finish(launch("", llvm::divideCeil(words, threads), threads,
                         [&](SignCode &code) {
                           code.emit(op);
                           return success();
                         }));
  }
  LogicalResult launch(StringRef suffix, int64_t blocks, int64_t blockThreads,
                       function_ref<LogicalResult(SignCode &)> body);
  MappedKernel finish(LogicalResult result) {
    return failed(result) ? MappedKernel::no(mapped.reason) : mapped;
  }

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  SignTables tables;
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
  for (const nn::SignLayout::Tensor &tensor : tables.layout.tensors) {
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

} // namespace signs

MappedKernel mapSigns(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module) {
  Operation *op = &kernel.getBody().front().front();
  auto isArgument = [](Value value) { return isa<BlockArgument>(value); };
  if (!isa<nn::SignScalesOp, nn::JoinScalesOp, nn::PackSignsOp, nn::MeanSignsOp,
           nn::UnpackSignsOp>(op) ||
      !llvm::all_of(op->getOperands(), isArgument))
    return MappedKernel::no("something other than signs of arguments");
  signs::SignMapper mapper(kernel, module, op);
  return llvm::TypeSwitch<Operation *, MappedKernel>(op)
      .Case<nn::SignScalesOp, nn::JoinScalesOp, nn::PackSignsOp,
            nn::MeanSignsOp, nn::UnpackSignsOp>(
          [&](auto signs) { return mapper.map(signs); });
}

} // namespace heddle::gpu
