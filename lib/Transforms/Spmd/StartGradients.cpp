//===- StartGradients.cpp - Adds first gradients to zeros -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-start-gradients`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "FetchRanges.h"
#include "MicroBatches.h"
#include "heddle/Settings/LayerDrop.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace heddle {
#define GEN_PASS_DEF_SPMDSTARTGRADIENTS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// Lists the reads of gradients in the body of a loop. A read of a bucket
/// covers several gradients. The class therefore counts, for each read, the
/// covered gradients that the body has written before the read.
class FirstReads {
public:
  FirstReads(Block &body, const SymbolTable &symbols) : symbols(symbols) {
    for (Operation &op : body) {
      if (auto get = dyn_cast<nn::GetOp>(op))
        reads.push_back({get, numWritten(get.getState())});
      if (auto set = dyn_cast<nn::SetOp>(op))
        for (StringRef state : statesOf(symbols, set.getState()))
          written.insert(state);
    }
  }

  /// Whether the loop's body can use zeros where it reads the state `name` (a
  /// gradient, or a bucket of gradients) before writing it. There are two
  /// conditions. The body must write every gradient of `name`. At each read of
  /// gradients of `name`, the body must have written either all or none of the
  /// gradients that are read.
  bool canStart(StringRef name) const {
    return numWritten(name) == statesOf(symbols, name).size() &&
           llvm::all_of(reads, [&](const Read &read) {
             return !isOf(read.get, name) || read.written == 0 ||
                    read.written ==
                        statesOf(symbols, read.get.getState()).size();
           });
  }

  /// Collects in `gets` the reads of the state `name` or its members that come
  /// before any write of the gradients that are read.
  void appendTo(llvm::SetVector<Operation *> &gets, StringRef name) const {
    for (const Read &read : reads)
      if (read.written == 0 && isOf(read.get, name))
        gets.insert(read.get);
  }

private:
  struct Read {
    mutable nn::GetOp get;
    /// How many of the gradients that `get` reads are written earlier in the
    /// loop's body.
    size_t written;
  };

  size_t numWritten(StringRef name) const {
    return llvm::count_if(statesOf(symbols, name), [&](StringRef state) {
      return written.contains(state);
    });
  }
  bool isOf(nn::GetOp get, StringRef name) const {
    return llvm::is_contained(statesOf(symbols, name),
                              statesOf(symbols, get.getState()).front());
  }

  const SymbolTable &symbols;
  llvm::StringSet<> written;
  std::vector<Read> reads;
};

struct StartGradients : heddle::impl::SpmdStartGradientsBase<StartGradients> {
  void runOnOperation() override {
    // The first micro-batch of a dropped layer adds nothing, so it would not
    // store the zeros that it begins with.
    if (config::dropsLayers(getOperation().getStrategy().getValue()))
      return;
    SymbolTable symbols(getOperation());
    BucketOffsets offsets =
        bucketOffsetsOf(getOperation(), symbols, /*gradients=*/true);
    if (!offsets.empty())
      for (auto step : getOperation().getOps<nn::StepOp>())
        start(step, symbols, offsets);
  }

private:
  void start(nn::StepOp step, const SymbolTable &symbols,
             const BucketOffsets &offsets) {
    auto loops = step.getBody().getOps<nn::MicroBatchesOp>();
    if (loops.empty() || keepsValues(step))
      return;
    nn::MicroBatchesOp loop = *loops.begin();
    FirstReads reads(loop->getRegion(0).front(), symbols);
    SmallVector<nn::SetOp> zeros;
    for (auto set : step.getBody().getOps<nn::SetOp>())
      if (set->isBeforeInBlock(loop) && offsets.count(set.getState()) &&
          isZero(set.getValue()) && reads.canStart(set.getState()))
        zeros.push_back(set);
    if (zeros.empty())
      return;
    if (loop.getCount() > 1)
      loop = splitFirst(loop, 1);
    FirstReads first(loop->getRegion(0).front(), symbols);
    // A bucket and its members may both be filled with zeros before the loop.
    // `gets` is a set, because a read of a member is then found twice: for the
    // bucket and for the member.
    llvm::SetVector<Operation *> gets;
    for (nn::SetOp set : zeros)
      first.appendTo(gets, set.getState());
    for (Operation *get : gets)
      addToZeros(cast<nn::GetOp>(get));
    numStarted += zeros.size();
    for (nn::SetOp set : zeros) {
      Operation *fill = set.getValue().getDefiningOp();
      set.erase();
      if (fill->use_empty())
        fill->erase();
    }
  }

  static bool isZero(Value value) {
    auto fill = value.getDefiningOp<nn::FillOp>();
    return fill && fill.getValue().isZero() && !fill.getValue().isNegative();
  }

  /// Replaces the gradients that `get` reads by zeros. Each operation that uses
  /// the gradients gets its own tensor of zeros, whose memory is free after
  /// that operation.
  static void addToZeros(nn::GetOp get) {
    for (OpOperand &use :
         llvm::make_early_inc_range(get.getValue().getUses())) {
      OpBuilder builder(use.getOwner());
      use.set(builder.create<nn::FillOp>(get.getLoc(), get.getValue().getType(),
                                         builder.getF64FloatAttr(0), nullptr));
    }
    get.erase();
  }
};

} // namespace
