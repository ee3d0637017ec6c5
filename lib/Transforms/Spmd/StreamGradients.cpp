//===- StreamGradients.cpp - Moves offloaded gradients --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-stream-gradients`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "FetchRanges.h"
#include "Layers.h"
#include "Slices.h"
#include "StateTiles.h"
#include "dialects/Dist/ByteSize.h"
#include "dialects/Pipe/PipeDialect.h"
#include "heddle/Transforms/Common/Norms.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace heddle {
#define GEN_PASS_DEF_SPMDSTREAMGRADIENTS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// Adjacent gradients of a bucket that were just computed, and the value that
/// contains them.
struct GradientRange {
  nn::BucketOp bucket;
  int64_t first = 0, end = 0; ///< The elements [first, end) of the bucket.
  /// The value that contains the gradients, from its element `lead` on.
  Value flat;
  int64_t lead = 0;
};

/// The pages of offloaded buckets to which a step has already written
/// something. A page is given by its bucket and its index in the bucket's file.
/// The index `everyPage` means all pages of a bucket.
using Pages = std::set<std::pair<StringRef, int64_t>>;
constexpr int64_t everyPage = -1;

/// Inserts the fetches and stores for the gradients of one MLIR block.
class Streamer {
public:
  /// If `block` fills a bucket with zeros, each transfer stores about `tile`
  /// zeros. `written` has the pages to which earlier MLIR blocks have written.
  /// The pages that `block` writes are added to `written`.
  Streamer(Block &block, const SymbolTable &symbols,
           const BucketOffsets &offsets, int64_t tile, Pages &written)
      : block(block), symbols(symbols), offsets(offsets), tile(tile),
        written(written), isStep(isa<nn::StepOp>(block.getParentOp())),
        builder(block.getParent()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      // In a loop, stores (transfers of gradients to offload memory) start
      // before the next layer, to overlap with it. Outside of loops they start
      // before the next operation, because it may fetch the stored gradients.
      bool isEnd = &op == block.getTerminator();
      if (isStep || isEnd || isa<nn::CallOp>(op))
        storeBefore(&op);
      if (SmallVector<OpOperand *> reads = readsOf(op); !reads.empty())
        fetch(op, reads);
      if (auto set = dyn_cast<nn::SetOp>(op);
          set && offsets.count(set.getState()))
        sets.push_back(set);
    }
    waitForStores(block, stores);
  }

  int64_t numStored = 0, numFetched = 0;

private:
  static nn::GetOp getOf(OpOperand &read) {
    return read.get().getDefiningOp<nn::GetOp>();
  }

  /// Whether `state` is the name of a bucket, and not of a member of one.
  bool isWhole(StringRef state) const {
    return offsets.lookup(state).bucket.getSymName() == state;
  }

  /// The operands of `op` that are offloaded gradients, except those that
  /// `spmd-stream-states` fetches in tiles.
  SmallVector<OpOperand *> readsOf(Operation &op) {
    SmallVector<OpOperand *> reads;
    for (OpOperand &operand : op.getOpOperands()) {
      nn::GetOp get = getOf(operand);
      if (!get || !offsets.count(get.getState()))
        continue;
      bool byTiles =
          isStep && isWhole(get.getState()) &&
          (isa<nn::SquareSumsOp>(op) || op.hasTrait<nn::Elementwise>());
      if (!byTiles)
        reads.push_back(&operand);
    }
    return reads;
  }

  static RankedTensorType typeOf(nn::BucketOp bucket) {
    return cast<RankedTensorType>(bucket.getType());
  }

  /// The unit of a transfer, in elements: the offset and the length of the
  /// transfer must be multiples of it. It is a page for files, and 1 for the
  /// host's memory.
  int64_t pageOf(nn::BucketOp bucket) const {
    if (memoryOf(symbols, bucket.getSymName()) != nn::MemoryKind::File)
      return 1;
    return pageBytes / dist::byteSize(typeOf(bucket).getElementType());
  }

  //===--------------------------------------------------------------------===//
  // Fetches
  //===--------------------------------------------------------------------===//

  /// Fetches the gradients `reads` for the operation `reader`. The fetch starts
  /// one layer before the reader.
  void fetch(Operation &reader, ArrayRef<OpOperand *> reads) {
    llvm::StringMap<nn::GetOp> gets;
    for (OpOperand *read : reads)
      gets[getOf(*read).getState()] = getOf(*read);
    Operation *previous = &reader;
    if (nn::CallOp layer = neighbour(&reader, /*before=*/true);
        layer && !isStep)
      previous = layer;
    Location loc = reader.getLoc();
    for (FetchRange &run : fetchRangesOf(gets, offsets, /*mostBetween=*/0)) {
      int64_t page = pageOf(run.bucket);
      int64_t first = llvm::alignDown(run.first, page);
      int64_t end =
          std::min<int64_t>(llvm::alignTo(run.end, page), endOf(run.bucket));
      auto type = typeOf(run.bucket).clone({end - first});
      builder.setInsertionPoint(previous);
      auto fetch = builder.create<dist::FetchOp>(
          loc, type, run.bucket.getSymName(), first, /*pending=*/true);
      builder.setInsertionPoint(&reader);
      Value whole = builder.create<dist::WaitOp>(loc, type, fetch.getOutput());
      for (auto [get, member] : llvm::zip(
               run.members, unpack(builder, loc, run, offsets, whole, first)))
        fetched[get.getState()] = member;
      ++numFetched;
    }
    for (OpOperand *read : reads)
      read->set(fetched[getOf(*read).getState()]);
  }

  //===--------------------------------------------------------------------===//
  // Stores
  //===--------------------------------------------------------------------===//

  /// Stores, before `op`, the gradients that were computed since the last call
  /// of this function.
  void storeBefore(Operation *op) {
    if (!sets.empty()) {
      builder.setInsertionPoint(op);
      storeSets();
    }
    if (!isStep && op != block.getTerminator())
      return;
    builder.setInsertionPoint(op);
    for (auto &[page, pieces] : edges)
      storeAmong(page.second, pieces);
    edges.clear();
    if (isStep && !stores.empty()) {
      builder.create<dist::FlushOp>(op->getLoc(), 0);
      stores.clear();
    }
  }

  /// Replaces the writes (nn.set) of offloaded gradients by stores (transfers
  /// to offload memory). Adjacent members of a bucket are stored with one
  /// transfer, unless their old values were fetched with different transfers. A
  /// bucket that is written as a whole is stored by `storeWhole`.
  void storeSets() {
    auto offsetOf = [&](nn::SetOp set) {
      return offsets.lookup(set.getState());
    };
    llvm::sort(sets, [&](nn::SetOp a, nn::SetOp b) {
      return std::pair(offsetOf(a).bucket.getSymName(), offsetOf(a).first) <
             std::pair(offsetOf(b).bucket.getSymName(), offsetOf(b).first);
    });
    SmallVector<nn::SetOp> group;
    BucketOffset next;
    auto finish = [&] {
      if (!group.empty())
        store(pieceOf(group));
      group.clear();
    };
    for (nn::SetOp set : sets) {
      BucketOffset place = offsetOf(set);
      bool follows =
          place.bucket == next.bucket && place.first == next.first &&
          fetchedAs(set) == fetchedAs(group.empty() ? set : group.back());
      if (isWhole(set.getState()) || !follows)
        finish();
      if (isWhole(set.getState())) {
        storeWhole(place.bucket, set.getValue());
        continue;
      }
      group.push_back(set);
      int64_t elements = elementsOf(set.getValue().getType());
      next = {place.bucket, place.first + nn::paddedElements(elements)};
    }
    finish();
    for (nn::SetOp set : sets) {
      auto fill = set.getValue().getDefiningOp<nn::FillOp>();
      set.erase();
      if (fill && fill.use_empty())
        fill.erase();
    }
    sets.clear();
  }

  /// Stores a whole bucket. If the bucket is filled with zeros, a buffer with
  /// one tile of zeros is stored once for each tile of the bucket, which needs
  /// less memory than a buffer for the whole bucket.
  void storeWhole(nn::BucketOp bucket, Value value) {
    auto fill = value.getDefiningOp<nn::FillOp>();
    if (!fill)
      return write(bucket, 0, value);
    int64_t elements = typeOf(bucket).getNumElements();
    int64_t size = llvm::alignTo(tile, pageOf(bucket));
    size = std::min(size, elements);
    written.insert({bucket.getSymName(), everyPage});
    Value filled =
        builder.create<nn::FillOp>(fill.getLoc(), typeOf(bucket).clone({size}),
                                   fill.getValueAttr(), nullptr);
    for (int64_t first = 0; first < elements; first += size)
      write(bucket, first,
            cutFlat(builder, fill.getLoc(), filled,
                    {std::min(size, elements - first)})
                .front());
  }

  /// If the old value of a written gradient was fetched, returns the nn.unpack
  /// that splits the fetched range; otherwise null.
  nn::UnpackOp fetchedAs(nn::SetOp set) const {
    Value member = fetched.lookup(set.getState());
    return member ? member.getDefiningOp<nn::UnpackOp>() : nn::UnpackOp();
  }

  /// Whether the writes in `group` cover all gradients that one transfer
  /// fetched.
  bool isWhole(ArrayRef<nn::SetOp> group, nn::UnpackOp parts) const {
    return group.size() == size_t(llvm::count_if(fetched, [&](auto &entry) {
             return entry.second.getDefiningOp() == parts;
           }));
  }

  /// Makes one flat value from adjacent gradients. If one transfer fetched the
  /// gradients, they are adjacent in memory already. Otherwise they are packed
  /// after `lead` unused elements, so that each page of the file is written
  /// from the beginning of a page of memory.
  GradientRange pieceOf(ArrayRef<nn::SetOp> group) {
    nn::SetOp begin = group.front();
    Location loc = begin.getLoc();
    auto [bucket, first] = offsets.lookup(begin.getState());
    GradientRange piece = {bucket, first, first, Value(),
                           first % pageOf(bucket)};
    SmallVector<Value> members;
    for (nn::SetOp set : group) {
      members.push_back(set.getValue());
      piece.end += nn::paddedElements(elementsOf(set.getValue().getType()));
    }
    auto type = typeOf(bucket).clone({piece.lead + piece.end - piece.first});
    if (nn::UnpackOp parts = fetchedAs(begin); parts && isWhole(group, parts)) {
      members = llvm::to_vector<4>(ValueRange(parts.getMembers()));
      type = cast<RankedTensorType>(parts.getFlat().getType());
      for (nn::SetOp set : group)
        *llvm::find(members, fetched.lookup(set.getState())) = set.getValue();
    } else if (piece.lead > 0) {
      members.insert(members.begin(), builder.create<nn::FillOp>(
                                          loc, type.clone({piece.lead}),
                                          builder.getF64FloatAttr(0), nullptr));
    }
    piece.flat = members[0].getType() == type
                     ? members[0]
                     : builder.create<nn::PackOp>(loc, type, members);
    return piece;
  }

  /// Stores those pages of the file that a range covers completely. If the
  /// range covers only a part of its first or last page, this part is kept
  /// until the rest of the page has been computed.
  void store(const GradientRange &piece) {
    int64_t page = pageOf(piece.bucket);
    int64_t first =
        std::min<int64_t>(llvm::alignTo(piece.first, page), piece.end);
    int64_t end = piece.end == endOf(piece.bucket)
                      ? piece.end
                      : llvm::alignDown(piece.end, page);
    end = std::max(first, end);
    SmallVector<Value> parts = cutFlat(
        builder, piece.flat.getLoc(), piece.flat,
        {piece.lead, first - piece.first, end - first, piece.end - end});
    if (parts[1])
      storeEdge({piece.bucket, piece.first, first, parts[1]});
    if (parts[2])
      write(piece.bucket, first, parts[2]);
    if (parts[3])
      storeEdge({piece.bucket, end, piece.end, parts[3]});
  }

  /// Stores a page of the file. The operations of `block` have computed only
  /// the parts `pieces` of the page. The other parts are fetched from the file,
  /// or are zeros if nothing was stored to the page before.
  void storeAmong(int64_t number, ArrayRef<GradientRange> pieces) {
    nn::BucketOp bucket = pieces.front().bucket;
    Location loc = pieces.front().flat.getLoc();
    int64_t page = pageOf(bucket), begin = number * page, next = begin;
    auto type = typeOf(bucket).clone({std::min(page, endOf(bucket) - begin)});
    SmallVector<int64_t> sizes;
    for (const GradientRange &piece : pieces) {
      sizes.append({piece.first - next, piece.end - piece.first});
      next = piece.end;
    }
    sizes.push_back(begin + type.getNumElements() - next);
    StringRef name = bucket.getSymName();
    // Whether the bucket's file already has the other parts of this page. In
    // the step's own body (`isStep`), a part of a page is stored only after all
    // loops, which have written the other parts.
    bool isThere = isStep || !written.insert({name, number}).second ||
                   written.count({name, everyPage}) > 0;
    Value rest;
    if (isThere)
      rest = builder.create<dist::FetchOp>(loc, type, name, begin,
                                           /*pending=*/false);
    else
      rest = builder.create<nn::FillOp>(loc, type, builder.getF64FloatAttr(0),
                                        nullptr);
    SmallVector<Value> parts = cutFlat(builder, loc, rest, sizes);
    for (auto [place, piece] : llvm::enumerate(pieces))
      parts[2 * place + 1] = piece.flat;
    llvm::erase_if(parts, [](Value part) { return !part; });
    write(bucket, begin, builder.create<nn::PackOp>(loc, type, parts));
    numFetched += isThere;
  }

  /// Keeps a part of a page of the file until the other parts are computed, and
  /// then stores the page. The part is copied, because its memory may be reused
  /// in between.
  void storeEdge(GradientRange edge) {
    Location loc = edge.flat.getLoc();
    int64_t page = pageOf(edge.bucket), number = edge.first / page;
    edge.flat = builder.create<nn::PackOp>(loc, edge.flat.getType(), edge.flat);
    auto &pieces = edges[{edge.bucket.getSymName(), number}];
    pieces.push_back(edge);
    llvm::sort(pieces, [](const GradientRange &a, const GradientRange &b) {
      return a.first < b.first;
    });
    int64_t begin = number * page, elements = 0;
    SmallVector<Value> values;
    for (const GradientRange &piece : pieces) {
      values.push_back(piece.flat);
      elements += piece.end - piece.first;
    }
    if (begin + elements < std::min(begin + page, endOf(edge.bucket)))
      return;
    write(edge.bucket, begin,
          builder.create<nn::PackOp>(loc, typeOf(edge.bucket).clone({elements}),
                                     values));
    edges.erase({edge.bucket.getSymName(), number});
  }

  void write(nn::BucketOp bucket, int64_t first, Value part) {
    stores.push_back(builder.create<dist::StoreOp>(
        part.getLoc(), bucket.getSymName(), first, part));
    ++numStored;
  }

  static int64_t endOf(nn::BucketOp bucket) {
    return typeOf(bucket).getNumElements();
  }

  Block &block;
  const SymbolTable &symbols;
  const BucketOffsets &offsets;
  int64_t tile;
  Pages &written;
  /// Whether the MLIR block is the body of the step itself, outside of loops.
  bool isStep;
  OpBuilder builder;
  /// For each state that was fetched, its value.
  llvm::StringMap<Value> fetched;
  SmallVector<nn::SetOp> sets; ///< Writes that are not stored yet.
  /// The parts, computed so far, of each page that is not complete. The key is
  /// the bucket and the index of the page.
  std::map<std::pair<StringRef, int64_t>, SmallVector<GradientRange>> edges;
  SmallVector<Operation *> stores; ///< Stores that nothing waits for yet.
};

struct StreamGradients
    : heddle::impl::SpmdStreamGradientsBase<StreamGradients> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    SymbolTable symbols(model);
    BucketOffsets offsets = bucketOffsetsOf(model, symbols, /*gradients=*/true);
    if (offsets.empty())
      return;
    int64_t total = 0;
    for (auto &entry : offsets)
      if (entry.second.bucket.getSymName() == entry.first())
        total += elementsOf(entry.second.bucket.getType());
    int64_t tile =
        tileElements(model.getStrategy().getValue().subGroupSize, total);
    for (auto step : model.getOps<nn::StepOp>())
      stream(step, symbols, offsets, tile);
  }

private:
  void stream(nn::StepOp step, const SymbolTable &symbols,
              const BucketOffsets &offsets, int64_t tile) {
    // The gradient norm is computed from sums of squares of blocks of fixed
    // size, in a fixed order. So it has the same bits in every plan.
    for (auto norm :
         llvm::make_early_inc_range(step.getBody().getOps<nn::GlobalNormOp>()))
      splitNorm(norm);
    Pages written;
    for (Block *block : blocksOf(step)) {
      Streamer streamer(*block, symbols, offsets, tile, written);
      streamer.run();
      numStored += streamer.numStored;
      numFetched += streamer.numFetched;
    }
    eraseUnusedReads(step);
  }
};

} // namespace
