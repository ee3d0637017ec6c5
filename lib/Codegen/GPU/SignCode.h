//===- SignCode.h - Averages in one bit for each element --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The code of the kernels of NNSignOps.td; see MapSigns.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_SIGNCODE_H
#define HEDDLE_LIB_CODEGEN_GPU_SIGNCODE_H

#include "ConstantTable.h"
#include "KernelFrame.h"
#include "ThreadCode.h"
#include "dialects/NN/NNDialect.h"
#include "dialects/NN/SignLayout.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace heddle::gpu::signs {

/// The threads of a block that computes words.
constexpr int64_t threads = 256;
constexpr int64_t bits = nn::SignLayout::bitsPerWord;
static_assert(bits == warpSize, "a ballot of a warp is a word");
/// The elements of an access of 16 bytes.
constexpr int64_t width = 4;
/// The lanes that share a word when each has `width` of its elements.
constexpr int64_t lanesOfWord = bits / width;

inline int64_t dim(mlir::Value tensor, int64_t number) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType())
      .getDimSize(number);
}
/// The length in words of a piece of a tensor that a block sums.
constexpr int64_t pieceWords = 2048;

/// What is known when kernels are compiled.
struct SignTables {
  SignTables(planir::KernelOp kernel, mlir::Operation *op);

  nn::SignLayout layout;
  std::string prefix; ///< Of the names of tables.
  /// For each tensor, its first word in the bucket (`begins`) and in the chunks
  /// of a replica (`offsets`), and at last the end of all.
  llvm::SmallVector<int32_t> begins, offsets;
  llvm::SmallVector<int64_t> counts; ///< The elements of each tensor.
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

  /// Sums pieces of tensors. `pieces` has the first piece of each tensor, and
  /// the end of all.
  mlir::LogicalResult emitPieces(nn::SignScalesOp op,
                                 llvm::ArrayRef<int32_t> pieces);
  /// Adds the sums of the pieces.
  mlir::LogicalResult emitScales(nn::SignScalesOp op,
                                 llvm::ArrayRef<int32_t> pieces);
  void emit(nn::JoinScalesOp op);
  void emit(nn::PackSignsOp op);
  void emit(nn::MeanSignsOp op);
  void emit(nn::UnpackSignsOp op);

private:
  /// The place of a word in its tensor.
  struct WordPlace {
    mlir::Value tensor;   ///< Of type index.
    mlir::Value inTensor; ///< The word's index in the tensor.
    mlir::Value valid;    ///< How many elements of the word are no padding.
  };

  int64_t numTensors() const {
    return static_cast<int64_t>(layout.tensors.size());
  }
  mlir::Value next(mlir::Value tensor) { return f.add(tensor, 1); }
  /// The words of each chunk of a tensor.
  mlir::Value lengthOf(mlir::Value tensor) {
    return c.sub(offsets.at(next(tensor)), offsets.at(tensor));
  }
  mlir::Value min(mlir::Value x, mlir::Value y) {
    return c.create<mlir::arith::MinSIOp>(x, y);
  }
  mlir::Value less(mlir::Value x, int64_t y) { return c.less(x, y); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return c.create<mlir::arith::SelectOp>(condition, x, y);
  }
  /// The index, of type index, of a word's first element.
  mlir::Value elementOf(mlir::Value word) {
    return f.mul(c.toIndex(word), bits);
  }
  /// The index row * `columns` + column of a matrix, of type index.
  mlir::Value inMatrix(mlir::Value row, int64_t columns, mlir::Value column) {
    return f.add(f.mul(row, columns), column);
  }
  mlir::Value bufferOf(mlir::Value tensor) { return f.argumentBuffer(tensor); }
  mlir::Value load(mlir::Value tensor, mlir::Value index) {
    return b.create<mlir::memref::LoadOp>(f.loc, bufferOf(tensor),
                                          mlir::ValueRange(index));
  }
  /// The scale of a tensor in row `row` of `scales`, which may have one for all
  /// tensors.
  mlir::Value scaleIn(mlir::Value scales, mlir::Value row, mlir::Value tensor) {
    return load(scales, dim(scales, 1) == 1
                            ? row
                            : inMatrix(row, numTensors(), tensor));
  }
  /// The number of the chunk that a rank's row has.
  mlir::Value numberOf(mlir::Value first, mlir::Value row) {
    if (!first)
      return row;
    return c.add(c.create<mlir::arith::TruncIOp>(b.getI32Type(),
                                                 f.argumentScalar(first)),
                 row);
  }
  /// The word that a lane looks up.
  mlir::Value ownWord() {
    return c.add(c.mul(c.blockId(mlir::gpu::Dimension::x), threads),
                 c.threadId());
  }
  mlir::Value lane() { return c.rem(c.threadId(), warpSize); }
  mlir::Value isTrue(mlir::Value condition) {
    mlir::Value number =
        b.create<mlir::memref::LoadOp>(f.loc, bufferOf(condition));
    return c.create<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::UNE,
                                         number, c.zero(b.getF32Type()));
  }
  /// The value that lane `from` of the warp has.
  mlir::Value fromLane(mlir::Value value, mlir::Value from) {
    return b
        .create<mlir::gpu::ShuffleOp>(f.loc, value, from, c.constant(warpSize),
                                      mlir::gpu::ShuffleMode::IDX)
        .getShuffleResult();
  }
  mlir::Value negated(mlir::Value x) {
    return c.create<mlir::arith::NegFOp>(x);
  }
  mlir::Value isPositive(mlir::Value x) {
    return c.create<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OGE, x,
                                         c.zero(b.getF32Type()));
  }

  mlir::Value validOf(mlir::Value tensor, mlir::Value inTensor);
  WordPlace placeInChunk(mlir::Value inChunk, mlir::Value number);
  WordPlace placeInBucket(mlir::Value inBucket);
  void packWords(nn::PackSignsOp op, mlir::Value from, mlir::Value valid,
                 mlir::Value scale, mlir::Value &word);
  llvm::SmallVector<mlir::Value>
  addSenders(nn::MeanSignsOp op, mlir::Value word, mlir::Value tensor);

  /// The word of which this lane has `width` elements in a round, as the lane
  /// that has looked it up.
  mlir::Value lookedUpBy(int64_t round) {
    return c.add(c.div(lane(), lanesOfWord), round * width);
  }
  /// The bit of the first of these elements.
  mlir::Value firstBit() { return c.mul(c.rem(lane(), lanesOfWord), width); }
  /// Emits, for the `width` elements of a lane, `scale` or -`scale`, as the
  /// bits of `word` from 0 on say.
  llvm::SmallVector<mlir::Value> signedBy(mlir::Value word, mlir::Value scale);
  /// Stores those of the elements as one access that are no padding, and zeros
  /// for others, in round `round`, if the words are among the `count` first.
  void storeRound(
      int64_t round, int64_t count, mlir::Value valid, mlir::Value buffer,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value element)>
          values);

  KernelFrame &f;
  mlir::OpBuilder &b;
  ThreadCode c;
  const nn::SignLayout &layout;
  const SignTables &tables;
  ConstantTable begins, offsets, counts;
};

} // namespace heddle::gpu::signs

#endif // HEDDLE_LIB_CODEGEN_GPU_SIGNCODE_H
