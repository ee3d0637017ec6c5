//===- FetchParameters.cpp - Fetches offloaded parameters -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-fetch-parameters`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "FetchRanges.h"
#include "Layers.h"
#include "StateTiles.h"
#include "dialects/Dist/ByteSize.h"
#include "dialects/Pipe/PipeDialect.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include <list>

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace heddle {
#define GEN_PASS_DEF_SPMDFETCHPARAMETERS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// Two states are fetched with one transfer if at most this many bytes are
/// between them. The bytes between them are then transferred too, which costs
/// at most as much as a second transfer.
constexpr int64_t mostBetween = 16 * pageBytes;

/// A transfer, and the last operation found so far that reads the fetched
/// value.
struct Fetched {
  FetchRange run;
  Operation *lastReader = nullptr;
};

/// Inserts the fetches for those operations of one MLIR block that read
/// offloaded parameters.
class Fetcher {
public:
  Fetcher(Block &block, const BucketOffsets &offsets,
          const dist::Strategy &strategy)
      : block(block), offsets(offsets), strategy(strategy),
        builder(block.getParent()),
        isUpdate(isa<nn::StepOp>(block.getParentOp()) &&
                 !block.getOps<nn::UpdateOp>().empty()) {}

  /// Returns the number of fetches.
  size_t run() {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto embedding = dyn_cast<nn::EmbeddingOp>(op);
          embedding && fetchRows(embedding))
        continue;
      SmallVector<OpOperand *> reads = readsOf(op);
      if (isa<nn::CallOp>(op))
        forgetBut(reads);
      if (!reads.empty())
        fetch(op, reads);
      auto set = dyn_cast<nn::SetOp>(op);
      if (set && isOffloaded(set.getState()) &&
          !isa_and_nonnull<nn::UpdateOp>(set.getValue().getDefiningOp()))
        store(set);
    }
    return runs.size() + numEmbeddings;
  }

private:
  bool isOffloaded(StringRef state) const { return offsets.count(state) > 0; }

  /// The operands of an operation that are offloaded parameters. Empty for
  /// optimizer updates and the element-wise operations that belong to them:
  /// `spmd-stream-states` fetches their operands.
  SmallVector<OpOperand *> readsOf(Operation &op) {
    SmallVector<OpOperand *> reads;
    if (isa<nn::UpdateOp>(op) || (isUpdate && op.hasTrait<nn::Elementwise>()))
      return reads;
    for (OpOperand &operand : op.getOpOperands())
      if (auto get = operand.get().getDefiningOp<nn::GetOp>())
        if (isOffloaded(get.getState()))
          reads.push_back(&operand);
    return reads;
  }

  /// Fetches only the rows of a table that an embedding reads, if these have
  /// fewer bytes than the table. Returns whether it did.
  bool fetchRows(nn::EmbeddingOp embedding) {
    auto get = embedding.getTable().getDefiningOp<nn::GetOp>();
    if (!get || !isOffloaded(get.getState()))
      return false;
    BucketOffset place = offsets.lookup(get.getState());
    if (!fetchesRows(embedding, place.first))
      return false;
    auto output = cast<RankedTensorType>(embedding.getType());
    Location loc = embedding.getLoc();
    Value ids = embedding.getIds(), part = embedding.getFirst();
    builder.setInsertionPoint(beginning(*embedding));
    for (Value read : {ids, part})
      goAfter(read);
    auto fetch = builder.create<dist::FetchRowsOp>(
        loc, output, place.bucket.getSymName(), place.first,
        embedding.getTable().getType().getDimSize(0), ids, part,
        /*pending=*/true);
    builder.setInsertionPoint(embedding);
    embedding.replaceAllUsesWith(
        builder.create<dist::WaitOp>(loc, output, fetch.getOutput())
            .getOutput());
    if (first == embedding)
      first = fetch;
    embedding.erase();
    ++numEmbeddings;
    return true;
  }

  /// Moves the insertion point to after the operation that computes `value`, if
  /// that operation comes later in the block than the insertion point.
  void goAfter(Value value) {
    Operation *made = value ? value.getDefiningOp() : nullptr;
    if (made && made->getBlock() == &block &&
        !made->isBeforeInBlock(&*builder.getInsertionPoint()))
      builder.setInsertionPointAfter(made);
  }

  /// Forgets the fetched parameters that the next layer does not read, so that
  /// their memory becomes free.
  void forgetBut(ArrayRef<OpOperand *> reads) {
    llvm::StringMap<std::pair<Value, Fetched *>> kept;
    for (OpOperand *read : reads)
      if (StringRef state = stateOf(*read); here.count(state))
        kept[state] = here[state];
    here = std::move(kept);
  }

  static StringRef stateOf(OpOperand &read) {
    return read.get().getDefiningOp<nn::GetOp>().getState();
  }

  void fetch(Operation &op, ArrayRef<OpOperand *> reads) {
    llvm::StringMap<nn::GetOp> missing;
    for (OpOperand *read : reads)
      if (!here.count(stateOf(*read)))
        missing[stateOf(*read)] = read->get().getDefiningOp<nn::GetOp>();
    for (FetchRange &run : fetchRangesOf(missing, offsets, mostBetween)) {
      runs.push_back({std::move(run)});
      fetch(op, runs.back());
    }
    for (OpOperand *read : reads) {
      auto &[value, fetched] = here[stateOf(*read)];
      read->set(value);
      fetched->lastReader = &op;
    }
  }

  /// Returns the number of fetched elements that are in memory at `op`. These
  /// were fetched before `op`, and are read by `op` or by a later operation. If
  /// `op` is null, returns the number of all fetched elements that any
  /// operation reads.
  int64_t elementsAt(Operation *op) {
    int64_t elements = 0;
    for (const auto &[run, lastReader] : runs)
      if (lastReader && (!op || !lastReader->isBeforeInBlock(op)))
        elements += run.end - run.first;
    return elements;
  }

  /// Fetches a range of parameters for `reader`. If the user's limits on
  /// fetched parameters allow it, the fetch starts one layer earlier than the
  /// reader.
  void fetch(Operation &reader, Fetched &fetched) {
    FetchRange &run = fetched.run;
    auto flat = cast<RankedTensorType>(run.bucket.getType());
    // Fetch from the beginning of a page, because direct I/O requires it.
    int64_t page = pageBytes / dist::byteSize(flat.getElementType());
    int64_t lead = run.first % page;
    auto type = flat.clone({lead + run.end - run.first});
    nn::CallOp previous = neighbour(&reader, /*before=*/true);
    int64_t size = run.end - run.first;
    // In the MLIR block with the optimizer updates (`isUpdate`), after all
    // forward and backward passes, there is no layer with which a fetch could
    // overlap. So fetches do not start early there.
    bool isEarly = !isUpdate && size <= strategy.prefetchBucketSize &&
                   (strategy.maxLiveParameters == dist::Strategy::noLimit ||
                    size + elementsAt(previous) <= strategy.maxLiveParameters);
    if (!isEarly)
      builder.setInsertionPoint(&reader);
    else if (previous)
      builder.setInsertionPoint(previous);
    else
      builder.setInsertionPoint(beginning(reader));
    Location loc = reader.getLoc();
    auto fetch = builder.create<dist::FetchOp>(
        loc, type, run.bucket.getSymName(), run.first - lead, /*pending=*/true);
    builder.setInsertionPoint(&reader);
    Value whole = builder.create<dist::WaitOp>(loc, type, fetch.getOutput());
    SmallVector<Value> members =
        unpack(builder, loc, run, offsets, whole, run.first - lead);
    for (auto [get, member] : llvm::zip(run.members, members))
      here[get.getState()] = {member, &fetched};
  }

  /// Returns the operation before which a fetch starts if no layer precedes the
  /// reader of the fetched value. It is at the beginning of the MLIR block,
  /// after the fetches that start there already, so that fetches have the same
  /// order as their readers.
  Operation *beginning(Operation &reader) {
    if (!first)
      first = &block.front();
    return first->isBeforeInBlock(&reader) ? first : &reader;
  }

  /// Replaces the write of a bucket, which was updated and then all-gathered,
  /// by a store to the bucket's offloaded memory.
  void store(nn::SetOp set) {
    builder.setInsertionPoint(set);
    builder.create<dist::StoreOp>(set.getLoc(), set.getState(), 0,
                                  set.getValue());
    builder.create<dist::FlushOp>(set.getLoc(), 0);
    // Fetched copies of the bucket are out of date after the store, so forget
    // them.
    nn::BucketOp bucket = offsets.lookup(set.getState()).bucket;
    for (const auto &entry : offsets)
      if (entry.second.bucket == bucket)
        here.erase(entry.first());
    set.erase();
  }

  Block &block;
  const BucketOffsets &offsets;
  const dist::Strategy &strategy;
  OpBuilder builder;
  size_t numEmbeddings = 0;
  /// Whether the MLIR block holds the optimizer updates after all forward and
  /// backward passes.
  bool isUpdate;
  std::list<Fetched> runs;
  /// For each state whose fetched value is in memory: the value, and the
  /// transfer that fetched it.
  llvm::StringMap<std::pair<Value, Fetched *>> here;
  /// The first operation that the MLIR block had before fetches were inserted.
  Operation *first = nullptr;
};

struct FetchParameters
    : heddle::impl::SpmdFetchParametersBase<FetchParameters> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    SymbolTable symbols(model);
    BucketOffsets offsets =
        bucketOffsetsOf(model, symbols, /*gradients=*/false);
    if (offsets.empty())
      return;
    for (auto step : model.getOps<nn::StepOp>()) {
      for (Block *block : blocksOf(step))
        numFetched +=
            Fetcher(*block, offsets, model.getStrategy().getValue()).run();
      eraseUnusedReads(step);
    }
  }
};

} // namespace
