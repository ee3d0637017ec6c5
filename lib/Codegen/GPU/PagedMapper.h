//===- PagedMapper.h - Attention over the paged cache -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mapping of nn.paged_attention. A block has some of the queries of a row
// that read the same key head. It computes attention over one part of the keys
// at a time:
//
//   S = Q K^T                 int8 codes: times the scales of the keys
//   m = max(S) factor         in units of log 2
//   P = 2^(S factor - m), l = sum of P
//   O = P V                   int8 codes: P times the scales of the values
//
// With `in_parts` each block has one part, whose results it stores. Otherwise a
// block goes over all parts that its queries see, and combines their results in
// the same way as nn.paged_attention_join.
//
// With a soft cap c, S is tanh(Q K^T scale / c), and the factor is c log2(e).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_PAGEDMAPPER_H
#define HEDDLE_LIB_CODEGEN_GPU_PAGEDMAPPER_H

#include "PagedLoader.h"
#include "heddle/Codegen/Common/Attention.h"

namespace heddle::gpu {

/// A tile of keys or of values, which is copied to shared memory at a time:
/// some features of all keys of a part, or all features of some values.
struct PagedStep {
  bool isOfKeys;
  int64_t first, count, bytes;
};

/// Maps one nn.paged_attention.
class PagedMapper {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Values = PagedTiles::Values;

  /// `write` is the nn.cache_write in the same kernel; null if there is none.
  PagedMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
              nn::PagedAttentionOp op, nn::CacheWriteOp write);

  /// Fails if the kernel cannot compute q, k or v; `reason` says why.
  mlir::FailureOr<MappedLaunch> emit(const Chip &chip);
  std::string reason() const { return f.emitter.reason(); }

private:
  PagedShape chooseShape();
  void chooseSteps();
  void allocate(const Chip &chip);
  int64_t mostRingBytes(const Chip &chip);
  Value reserve(int64_t bytes);
  void findQueries(Value ofRow, Value tile);
  /// The tiles of the queries of a row that read the same key head.
  int64_t queryTiles() const {
    return llvm::divideCeil(a.tokens * group, shape.queries);
  }
  Value acrossWarp(Value value, llvm::function_ref<Value(Value, Value)> body);
  PartKeys keysOf(Value part);
  Value bitsOf(Value part);
  bool isResident() const { return stages == int64_t(steps.size()); }

  mlir::LogicalResult writeTokens(Value part);
  Values attend(const PartKeys &part);
  void startStep(const PartKeys &part, size_t step);
  Value tileOf(size_t step);
  Value isChunkSeen(const PartKeys &part);
  Values guarded(Value condition, Values before,
                 llvm::function_ref<void(Values &)> body);
  void addValues(const PartKeys &part, size_t step, Values &sums);
  void finishScores(const PartKeys &part, Values &scores);
  void capScores(Values &scores);
  void hide(const PartKeys &part, Values &scores);
  Values scalesOf(Value scales);
  Value shareMaxima(const Values &scores, int64_t i);
  void storePowers(Values &scores, llvm::ArrayRef<Value> maxima);
  Values resultOf(const Values &sums, int64_t row);

  mlir::LogicalResult emitWhole();
  mlir::LogicalResult emitParts(const Chip &chip);
  Value countParts();
  Values attendAll();
  Value outputPointer();
  void storePart(const Values &sums, Value part);
  int64_t resultFloats() const;
  void copyPart(Value part);
  void storeOutput(const Values &state);
  void forRows(llvm::function_ref<void(int64_t i, Value token, Value head)>);
  void storeRow(llvm::ArrayRef<Value> features, Value to, Type type,
                int64_t align);

  Value number(double value) {
    return c.create<mlir::arith::ConstantOp>(
        c.builder.getF32FloatAttr(static_cast<float>(value)));
  }
  Value largerOf(Value x, Value y) {
    return c.create<mlir::arith::MaxNumFOp>(x, y);
  }
  Value sumOf(Value x, Value y) { return c.create<mlir::arith::AddFOp>(x, y); }
  Value loadFloat(Value array, Value index) {
    return c.load(c.builder.getF32Type(), c.at(array, c.mul(index, 4)));
  }
  void storeFloat(Value value, Value array, Value index) {
    c.store(value, c.at(array, c.mul(index, 4)));
  }

  nn::PagedAttentionOp op;
  nn::CacheWriteOp write;
  codegen::AttentionSpec spec; ///< Only factors.
  codegen::CachedKeys seen;
  KernelFrame f;
  ThreadCode c;
  CacheAddresses a;
  codegen::IntBuilder &i32;
  PagedShape shape;
  std::unique_ptr<PagedTiles> tiles;
  int64_t group, partTokens, partPages, numParts;
  llvm::SmallVector<PagedStep> steps;
  int64_t stages = 0; ///< The steps under way at the same time.
  int64_t sharedBytes = 0;
  Value memory; ///< The begin of shared memory.
  Value queryTile, powers, ring, pageNumbers, keyScales, valueScales;
  Value queryNorms; ///< The results of the norms of all queries.
  /// For each row: the maximum of the scores. For each warp and each row: the
  /// maximum of the warp's scores, and the sum of its powers.
  Value maxima, chunkMaxima, chunkSums;
  std::optional<PagedLoader> loader;
  Value thread, warp, lane, row, kvHead, firstQuery;
  /// The keys that the lane's query sees; a null `keyBegin` is 0. With a
  /// layout: the first word of the query's row, and its bits in the part.
  Value keyEnd, keyBegin, words, keyBits;
  Value blockEnd, blockBegin; ///< The keys that some query of the block sees.
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_PAGEDMAPPER_H
