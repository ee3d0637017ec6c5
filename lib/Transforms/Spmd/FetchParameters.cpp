//===- FetchParameters.cpp - Brings parameters where they are used --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layers.h"
#include "Windows.h"
#include "dialects/Dist/ByteSize.h"
#include "dialects/Pipe/PipeDialect.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "llvm/ADT/StringMap.h"
#include <list>

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace heddle {
#define GEN_PASS_DEF_SPMDFETCHPARAMETERS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// Bytes between two states that are read along: a request costs as much.
constexpr int64_t mostBetween = 16 * pageBytes;

int64_t elementsOf(Type type) {
  return cast<RankedTensorType>(type).getNumElements();
}

/// The element of a flat state that a state begins at.
struct Place {
  nn::BucketOp bucket;
  int64_t first = 0;
};
using Places = llvm::StringMap<Place>;

/// States that stand side by side, and are fetched at once.
struct Run {
  nn::BucketOp bucket;
  int64_t first = 0, end = 0;      ///< Elements of the bucket.
  SmallVector<nn::GetOp> members;  ///< One, of the bucket; or by their places.
  Operation *lastReader = nullptr; ///< So far.
};

/// The operations of one block that read what is elsewhere.
class Fetcher {
public:
  Fetcher(Block &block, const Places &places, const dist::Strategy &strategy)
      : block(block), places(places), strategy(strategy),
        builder(block.getParent()),
        isUpdate(isa<nn::StepOp>(block.getParentOp()) &&
                 !block.getOps<nn::UpdateOp>().empty()) {}

  /// Returns how many runs are fetched.
  size_t run() {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      SmallVector<OpOperand *> reads = readsOf(op);
      if (isa<nn::CallOp>(op))
        forgetBut(reads);
      if (!reads.empty())
        fetch(op, reads);
      auto set = dyn_cast<nn::SetOp>(op);
      if (set && isElsewhere(set.getState()) &&
          !isa_and_nonnull<nn::UpdateOp>(set.getValue().getDefiningOp()))
        store(set);
    }
    return runs.size();
  }

private:
  bool isElsewhere(StringRef state) const { return places.count(state) > 0; }

  /// What the operation reads of what is elsewhere. What is updated element by
  /// element is for spmd-stream-states.
  SmallVector<OpOperand *> readsOf(Operation &op) {
    SmallVector<OpOperand *> reads;
    if (isa<nn::UpdateOp>(op) || (isUpdate && op.hasTrait<nn::Elementwise>()))
      return reads;
    for (OpOperand &operand : op.getOpOperands())
      if (auto get = operand.get().getDefiningOp<nn::GetOp>())
        if (isElsewhere(get.getState()))
          reads.push_back(&operand);
    return reads;
  }

  /// Between two layers what neither of them reads is not kept.
  void forgetBut(ArrayRef<OpOperand *> reads) {
    llvm::StringMap<std::pair<Value, Run *>> kept;
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
    for (Run &run : runsOf(missing)) {
      runs.push_back(std::move(run));
      fetch(op, runs.back());
    }
    for (OpOperand *read : reads) {
      auto &[value, run] = here[stateOf(*read)];
      read->set(value);
      run->lastReader = &op;
    }
  }

  /// Whether a state stands so close behind a run that it is fetched with it.
  static bool isNear(Run &run, Place place) {
    Type element = getElementTypeOrSelf(run.bucket.getType());
    return run.bucket == place.bucket &&
           (place.first - run.end) * dist::byteSize(element) <= mostBetween;
  }

  /// Those that stand side by side, together.
  std::vector<Run> runsOf(const llvm::StringMap<nn::GetOp> &gets) {
    SmallVector<nn::GetOp> order;
    for (auto &entry : gets)
      order.push_back(entry.second);
    auto placeOf = [&](nn::GetOp get) { return places.lookup(get.getState()); };
    llvm::sort(order, [&](nn::GetOp a, nn::GetOp b) {
      return std::pair(placeOf(a).bucket.getSymName(), placeOf(a).first) <
             std::pair(placeOf(b).bucket.getSymName(), placeOf(b).first);
    });
    std::vector<Run> found;
    for (nn::GetOp get : order) {
      Place place = placeOf(get);
      int64_t elements = elementsOf(get.getValue().getType());
      int64_t end = place.first + nn::paddedElements(elements);
      if (place.bucket.getSymName() == get.getState())
        end = elements;
      else if (!found.empty() && isNear(found.back(), place)) {
        found.back().end = end;
        found.back().members.push_back(get);
        continue;
      }
      found.push_back({place.bucket, place.first, end, {get}});
    }
    return found;
  }

  /// Elements that are fetched before an operation, and read by it or behind
  /// it; all that are here where there is none.
  int64_t elementsAt(Operation *op) {
    int64_t elements = 0;
    for (const Run &run : runs)
      if (run.lastReader && (!op || !run.lastReader->isBeforeInBlock(op)))
        elements += run.end - run.first;
    return elements;
  }

  /// Fetches a run for `reader`, while the layer before that is computed.
  void fetch(Operation &reader, Run &run) {
    auto flat = cast<RankedTensorType>(run.bucket.getType());
    // Requests begin at pages.
    int64_t page = pageBytes / dist::byteSize(flat.getElementType());
    int64_t lead = run.first % page;
    auto type = flat.clone({lead + run.end - run.first});
    nn::CallOp previous = neighbour(&reader, /*before=*/true);
    int64_t size = run.end - run.first;
    // All passes stand before the updates behind them.
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
    auto fetched = builder.create<dist::FetchOp>(
        loc, type, run.bucket.getSymName(), run.first - lead, /*pending=*/true);
    builder.setInsertionPoint(&reader);
    Value whole = builder.create<dist::WaitOp>(loc, type, fetched.getOutput());
    unpack(loc, run, whole, run.first - lead);
  }

  /// What is read before the first layer is fetched at the block's beginning,
  /// in the order in which it is read.
  Operation *beginning(Operation &reader) {
    if (!first)
      first = &block.front();
    return first->isBeforeInBlock(&reader) ? first : &reader;
  }

  /// Hands out the members of a run that is here, `first` being its first
  /// element. What is between them is a member too, which nothing reads.
  void unpack(Location loc, Run &run, Value whole, int64_t first) {
    auto flat = cast<RankedTensorType>(whole.getType());
    SmallVector<Type> types;
    SmallVector<unsigned> numbers;
    for (nn::GetOp get : run.members) {
      int64_t place = places.lookup(get.getState()).first;
      if (place > first)
        types.push_back(flat.clone({place - first}));
      numbers.push_back(types.size());
      types.push_back(get.getValue().getType());
      first = place + nn::paddedElements(elementsOf(types.back()));
    }
    if (types == SmallVector<Type>{flat}) {
      here[run.members[0].getState()] = {whole, &run};
      return;
    }
    auto parts = builder.create<nn::UnpackOp>(loc, types, whole, nullptr);
    for (auto [get, number] : llvm::zip(run.members, numbers))
      here[get.getState()] = {parts.getResult(number), &run};
  }

  /// Stores what was gathered of an update's parts.
  void store(nn::SetOp set) {
    builder.setInsertionPoint(set);
    builder.create<dist::StoreOp>(set.getLoc(), set.getState(), 0,
                                  set.getValue());
    builder.create<dist::FlushOp>(set.getLoc(), 0);
    // What was fetched of it before is old.
    nn::BucketOp bucket = places.lookup(set.getState()).bucket;
    for (const auto &entry : places)
      if (entry.second.bucket == bucket)
        here.erase(entry.first());
    set.erase();
  }

  Block &block;
  const Places &places;
  const dist::Strategy &strategy;
  OpBuilder builder;
  bool isUpdate; ///< The block is what updates behind all passes.
  std::list<Run> runs;
  llvm::StringMap<std::pair<Value, Run *>> here; ///< By state.
  Operation *first = nullptr; ///< Of the block, before anything was fetched.
};

struct FetchParameters
    : heddle::impl::SpmdFetchParametersBase<FetchParameters> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      SymbolTable symbols(model);
      Places places = placesOf(model, symbols);
      if (places.empty())
        continue;
      for (auto step : model.getOps<nn::StepOp>()) {
        SmallVector<Block *> blocks = {&step.getBody().front()};
        for (size_t i = 0; i < blocks.size(); ++i)
          for (Operation &op : *blocks[i])
            if (isa<nn::MicroBatchesOp, pipe::FragmentsOp>(op))
              for (Region &region : op.getRegions())
                blocks.push_back(&region.front());
        for (Block *block : blocks)
          numFetched +=
              Fetcher(*block, places, model.getStrategy().getValue()).run();
        step.walk([](nn::GetOp get) {
          if (get.getValue().use_empty())
            get.erase();
        });
      }
    }
  }

private:
  /// Of the flat states of parameters that are not in the device's memory, and
  /// of their members.
  static Places placesOf(nn::ModelOp model, const SymbolTable &symbols) {
    Places places;
    for (auto bucket : model.getOps<nn::BucketOp>()) {
      if (memoryOf(symbols, bucket.getSymName()) == nn::MemoryKind::Device)
        continue;
      places[bucket.getSymName()] = {bucket, 0};
      int64_t first = 0;
      for (StringRef member : statesOf(symbols, bucket.getSymName())) {
        places.try_emplace(member, Place{bucket, first});
        first += nn::paddedElements(
            elementsOf(symbols.lookup<nn::StateOp>(member).getType()));
      }
    }
    return places;
  }
};

} // namespace
