//===- MapPagedAttention.cpp - Attention over the paged cache -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps nn.paged_attention: chooses the sizes of blocks and tiles, finds the
// queries of a block, and stores results. PagedPart.cpp computes attention over
// one part of the keys.
//
//===----------------------------------------------------------------------===//

#include "CacheWriter.h"
#include "MultiplyUnit.h"
#include "PagedJoin.h"
#include "PagedMapper.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// The most bytes of keys and values under way in a block: of a block that goes
/// over all parts, and of a block that computes single parts. With more bytes,
/// a multiprocessor would run fewer blocks, and nothing would be fetched while
/// one of them multiplies.
constexpr int64_t ringBytes = 56 * 1024, ringBytesOfPart = 92 * 1024;
/// The most blocks of a multiprocessor that compute single parts, and share
/// these out among them.
constexpr int64_t mostBlocks = 8;
/// The most bytes of a tile of values.
constexpr int64_t maxValueBytes = 36 * 1024;
/// The most warps of a block.
constexpr int64_t maxWarps = 16;

} // namespace

PagedMapper::PagedMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                         nn::PagedAttentionOp op, nn::CacheWriteOp write)
    : op(op), write(write), seen(op),
      // Operations that compute elements need the dimensions of the buffers.
      f(kernel, module, FrameOptions{/*flat=*/isAlone(op)}),
      c(f.builder, f.loc), a(f, c, op), i32(a.i32), group(a.heads / a.kv),
      partTokens(op.getPartPages() * a.pageTokens),
      partPages(op.getPartPages()), numParts(op.getNumParts()) {
  spec.scale = op.getHeads().getScale().convertToDouble();
  spec.softcap = op.getHeads().getSoftcap().convertToDouble();
  shape = chooseShape();
}

PagedShape PagedMapper::chooseShape() {
  PagedShape chosen;
  // Tensor cores multiply the cache as it is, or its int8 codes, which are
  // exact in every type.
  bool isNarrow = !a.type.isF32() && (a.scales || a.cacheType == a.type);
  chosen.element = isNarrow ? a.type : c.builder.getF32Type();
  chosen.stored = isNarrow ? a.cacheType : chosen.element;
  int64_t queries = a.tokens * group;
  if (isNarrow)
    queries =
        static_cast<int64_t>(llvm::alignTo(queries, queries > 8 ? 16 : 8));
  chosen.queries =
      std::min(isNarrow ? mostMmaQueries : mostFmaQueries, queries);
  chosen.dims = a.dims;
  chosen.warps = llvm::divideCeil(
      std::min(partTokens, a.rowPages * a.pageTokens), chunkKeys);
  return chosen;
}

void PagedMapper::chooseSteps() {
  for (int64_t first = 0; first < shape.scoreFeatures();
       first += sliceFeatures) {
    int64_t count = std::min(sliceFeatures, shape.scoreFeatures() - first);
    steps.push_back({true, first, count, count * shape.keyBytes()});
  }
  int64_t count = chunkKeys;
  while (count > 16 && count * shape.valueBytes() > maxValueBytes)
    count /= 2;
  for (int64_t first = 0; first < shape.keys(); first += count)
    steps.push_back({false, first, count, count * shape.valueBytes()});
}

Value PagedMapper::reserve(int64_t bytes) {
  Value place = c.at(memory, sharedBytes);
  sharedBytes += llvm::alignTo(bytes, accessBytes);
  return place;
}

/// The most bytes of the ring, which follows other shared memory. Of blocks
/// that compute single parts, two fit into a multiprocessor.
int64_t PagedMapper::mostRingBytes(const Chip &chip) {
  if (!op.getInParts())
    return std::min(ringBytes, chip.blockBytes() - sharedBytes);
  return std::min(ringBytesOfPart, chip.halfBytes() - sharedBytes);
}

/// Divides shared memory. If all keys and values of a part fit, they are
/// fetched at once; otherwise a ring of tiles holds some of them.
void PagedMapper::allocate(const Chip &chip) {
  memory = c.sharedMemory();
  constexpr int64_t word = sizeof(float);
  queryTile = reserve(shape.queries * shape.queryBytes());
  powers = reserve(shape.queries * shape.powerBytes());
  maxima = reserve(shape.queries * word);
  chunkMaxima = reserve(shape.warps * shape.queries * word);
  chunkSums = reserve(shape.warps * shape.queries * word);
  pageNumbers = reserve(PagedLoader::numPageNumbers(shape, a) * word);
  queryNorms = reserve(shape.queries * a.normsOf(0).count() * word);
  if (a.scales) {
    keyScales = reserve(shape.keys() * word);
    valueScales = reserve(shape.keys() * word);
  }
  int64_t total = 0, largest = 0, limit = mostRingBytes(chip);
  for (const PagedStep &step : steps) {
    total += step.bytes;
    largest = std::max(largest, step.bytes);
  }
  stages = total <= limit ? int64_t(steps.size())
                          : std::min(std::max<int64_t>(limit / largest, 2),
                                     int64_t(steps.size()) - 1);
  int64_t ringSize = isResident() ? total : stages * largest;
  if (op.getInParts())
    ringSize = std::max(ringSize, shape.queries * resultFloats() * word);
  ring = reserve(ringSize);
}

Value PagedMapper::acrossWarp(Value value,
                              function_ref<Value(Value, Value)> body) {
  return acrossLanes(c.builder, c.loc, value, warpSize, body);
}

/// Finds the queries of the block, and the keys that they see. Lane i of each
/// warp does so for the query in row i of the tile.
void PagedMapper::findQueries(Value ofRow, Value tile) {
  int64_t queries = a.tokens * group;
  row = ofRow;
  kvHead = c.div(tile, queryTiles());
  firstQuery = c.mul(c.rem(tile, queryTiles()), shape.queries);
  Value query = c.add(firstQuery, lane);
  Value exists = c.both(c.less(lane, shape.queries), c.less(query, queries));
  keyEnd = a.countKeys(row, c.div(query, group), exists);
  blockEnd =
      acrossWarp(keyEnd, [&](Value x, Value y) { return i32.max(x, y); });
  blockBegin = c.constant(0);
  if (seen.hasLayout()) {
    Value head = c.add(c.mul(kvHead, group), c.rem(query, group));
    Value shard = op.getPart() ? f.argumentScalar(op.getPart()) : Value();
    words = seen.firstWord(i32, head, keyEnd, shard);
  }
  keyBegin = seen.firstOf(i32, keyEnd);
  if (!keyBegin)
    return;
  Value first = i32.select(c.less(c.constant(0), keyEnd), keyBegin, blockEnd);
  blockBegin =
      acrossWarp(first, [&](Value x, Value y) { return i32.min(x, y); });
}

/// The bits of part `part` in the row of the lane's query; 0 if it sees no key.
Value PagedMapper::bitsOf(Value part) {
  Value index = i32.add(words, seen.wordOf(i32, part));
  Value word = a.loadInt(a.pointerOf(op.getLayout()), index);
  return i32.select(c.less(c.constant(0), keyEnd), seen.bitsOf(i32, word, part),
                    c.constant(0));
}

PartKeys PagedMapper::keysOf(Value part) {
  PartKeys keys;
  keys.row = row;
  keys.kvHead = kvHead;
  keys.firstPage = c.mul(part, partPages);
  Value first = c.mul(part, partTokens);
  keys.begin = i32.max(i32.sub(blockBegin, first), 0);
  keys.end = i32.min(i32.sub(blockEnd, first), partTokens);
  if (seen.hasLayout()) {
    keyBits = bitsOf(part);
    keys.bits = acrossWarp(keyBits, [&](Value x, Value y) -> Value {
      return c.create<arith::OrIOp>(x, y);
    });
  }
  return keys;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Goes over all parts that a query of the block sees. Returns their joined
/// results, row by row.
PagedMapper::Values PagedMapper::attendAll() {
  PagedJoin join(c);
  int64_t perRow = 2 + tiles->sumColumns();
  Values none;
  for (int64_t i = 0; i < tiles->sumRows(); ++i)
    none.append(join.none(tiles->sumColumns()));
  auto loop = c.builder.create<scf::ForOp>(
      c.loc, i32.div(blockBegin, partTokens),
      i32.div(i32.add(blockEnd, partTokens - 1), partTokens), c.constant(1),
      none, [&](OpBuilder &b, Location loc, Value part, ValueRange carried) {
        PartKeys keys = keysOf(part);
        auto joinPart = [&](Values &state) {
          Values sums = attend(keys), next;
          for (int64_t i = 0; i < tiles->sumRows(); ++i)
            next.append(join.join(ArrayRef(state).slice(i * perRow, perRow),
                                  resultOf(sums, i)));
          state = next;
        };
        // All threads of the block take the same branch.
        Values state(carried);
        if (keys.bits)
          state = guarded(c.less(c.constant(0), keys.bits), state, joinPart);
        else
          joinPart(state);
        b.create<scf::YieldOp>(loc, state);
      });
  return Values(loop.getResults());
}

/// Emits `body` for each of the thread's rows whose query exists.
void PagedMapper::forRows(
    function_ref<void(int64_t i, Value token, Value head)> body) {
  for (int64_t i = 0; i < tiles->sumRows(); ++i) {
    Value query = c.add(firstQuery, tiles->sumRow(i));
    InsideIf exists(
        c, c.both(c.less(query, a.tokens * group), tiles->sumRowExists(i)));
    body(i, c.div(query, group),
         c.add(c.mul(kvHead, group), c.rem(query, group)));
  }
}

/// Stores the thread's features of a row. The address of the row is a multiple
/// of `align` elements.
void PagedMapper::storeRow(ArrayRef<Value> features, Value to, Type type,
                           int64_t align) {
  int64_t width = tiles->sumChunk();
  while (a.dims % width || align % width)
    width /= 2;
  for (int64_t j = 0; j < int64_t(features.size()); j += width) {
    Value feature = tiles->sumFeature(j);
    InsideIf exists(c, c.less(feature, a.dims));
    Values rounded;
    for (Value each : features.slice(j, width))
      rounded.push_back(c.narrow(each, type));
    c.storeVector(rounded, a.advance(to, type, feature));
  }
}

Value PagedMapper::outputPointer() {
  for (unsigned i = 0; i < f.numOutputs(); ++i)
    if (f.yielded(i) == op.getOutput())
      return c.globalPointer(f.outputBuffer(i));
  llvm_unreachable("attention without its output");
}

/// The floats from one row of results of a part in shared memory to the next:
/// rows in which lanes store `sumChunk` floats in the same cycle are in other
/// banks.
int64_t PagedMapper::resultFloats() const {
  constexpr int64_t banks = 32;
  int64_t floats = 4 * tiles->sumChunk();
  while (floats < a.dims + 2)
    floats += banks;
  return floats;
}

/// Stores the results of a part. The threads first exchange them through shared
/// memory, in place of keys and values: rows of D + 2 floats begin anywhere in
/// a sector, so that a warp should store consecutive floats of all heads.
void PagedMapper::storePart(const Values &sums, Value part) {
  Type f32 = c.builder.getF32Type();
  c.barrier();
  forRows([&](int64_t i, Value, Value) {
    Values result = resultOf(sums, i);
    Value to =
        c.at(ring, c.mul(tiles->sumRow(i), resultFloats() * sizeof(float)));
    storeRow(ArrayRef(result).drop_front(2), to, f32, resultFloats());
    InsideIf isFirst(c, c.less(tiles->sumFeature(0), 1));
    storeFloat(result[1], to, c.constant(a.dims));
    storeFloat(result[0], to, c.constant(a.dims + 1));
  });
  c.barrier();
  copyPart(part);
}

/// Copies the results of a part from shared memory to the output.
void PagedMapper::copyPart(Value part) {
  Type f32 = c.builder.getF32Type();
  Value output = outputPointer();
  int64_t size = a.dims + 2, width = size % 2 ? 1 : 2, perRow = size / width;
  int64_t queries = a.tokens * group;
  loader->forAccesses(
      std::min(shape.queries, queries) * perRow, [&](Value access) {
        Value inTile = c.div(access, perRow);
        Value query = c.add(firstQuery, inTile);
        InsideIf exists(c, c.less(query, queries));
        Value index = c.add(c.mul(row, a.tokens), c.div(query, group));
        index = c.add(c.mul(index, numParts), part);
        Value head = c.add(c.mul(kvHead, group), c.rem(query, group));
        index = c.add(c.mul(index, a.heads), head);
        Value column = c.mul(c.rem(access, perRow), width);
        Value from = c.add(c.mul(inTile, resultFloats()), column);
        Value to = a.advance(output, f32, c.mul(c.wide(index), size));
        c.store(c.loadVector(f32, width, a.advance(ring, f32, from)),
                a.advance(to, f32, column));
      });
}

void PagedMapper::storeOutput(const Values &state) {
  Value output = outputPointer();
  int64_t perRow = 2 + tiles->sumColumns();
  PagedJoin join(c);
  forRows([&](int64_t i, Value token, Value head) {
    ArrayRef<Value> joined = ArrayRef(state).slice(i * perRow, perRow);
    Value isThere = a.isThere(row, token);
    if (seen.maySeeNoKey())
      isThere = c.both(isThere, join.isAny(joined[1]));
    Values features;
    for (Value sum : joined.drop_front(2))
      features.push_back(join.outputOf(sum, joined[1], isThere));
    Value index = c.add(c.mul(row, a.tokens), token);
    index = c.add(c.mul(index, a.heads), head);
    storeRow(features, a.advance(output, a.type, c.mul(c.wide(index), a.dims)),
             a.type, a.dims);
  });
}

/// If the kernel also writes the cache: writes the tokens of the row whose
/// positions are in the part, or with a null `part` all tokens. No other block
/// reads or writes these keys of the head.
LogicalResult PagedMapper::writeTokens(Value part) {
  if (!write)
    return success();
  CacheWriter writer(a);
  bool isKnown = true;
  c.builder.create<scf::ForOp>(
      c.loc, warp, c.constant(2 * a.tokens), c.constant(shape.warps),
      ValueRange(), [&](OpBuilder &b, Location loc, Value item, ValueRange) {
        Value token = c.div(item, 2);
        Value number = i32.add(i32.mul(row, a.tokens), token);
        Value position = a.loadInt(a.positions, number);
        Value isMine = a.isThere(row, token);
        if (part)
          isMine = c.both(
              isMine, c.create<arith::CmpIOp>(arith::CmpIPredicate::eq, part,
                                              c.div(position, partTokens)));
        {
          InsideIf writes(c, isMine);
          isKnown &= succeeded(
              writer.writeItem(c.rem(item, 2), row, token, kvHead, position));
        }
        b.create<scf::YieldOp>(loc);
      });
  return success(isKnown);
}

/// Computes the output of a tile of queries.
LogicalResult PagedMapper::emitWhole() {
  findQueries(c.blockId(mlir::gpu::Dimension::y),
              c.blockId(mlir::gpu::Dimension::x));
  if (failed(writeTokens(/*part=*/{})) ||
      failed(loader->loadQueries(row, kvHead, firstQuery, queryTile)))
    return failure();
  storeOutput(attendAll());
  f.finish({a.kv * queryTiles(), a.rows}, shape.warps * warpSize, sharedBytes);
  return success();
}

/// The number of parts that some token of the launch sees.
Value PagedMapper::countParts() {
  int64_t count = a.rows * a.tokens;
  auto loop = c.builder.create<scf::ForOp>(
      c.loc, c.constant(0), c.constant(count), c.constant(warpSize),
      ValueRange{c.constant(0)},
      [&](OpBuilder &b, Location loc, Value base, ValueRange carried) {
        Value number = i32.min(c.add(base, lane), count - 1);
        Value keys = a.countKeys(c.div(number, a.tokens),
                                 c.rem(number, a.tokens), /*exists=*/{});
        b.create<scf::YieldOp>(loc, i32.max(carried[0], keys));
      });
  Value most = acrossWarp(loop.getResult(0),
                          [&](Value x, Value y) { return i32.max(x, y); });
  return i32.div(i32.add(most, partTokens - 1), partTokens);
}

/// Computes the results of single parts. A fixed number of blocks shares out
/// those that exist: parts that no request has cost nothing. Which block
/// computes a part does not change its result.
LogicalResult PagedMapper::emitParts(const Chip &chip) {
  int64_t ofPart = a.rows * a.kv * queryTiles();
  int64_t perMultiprocessor = std::clamp<int64_t>(
      chip.sharedBytes / (sharedBytes + Chip::reservedBytes), 1, mostBlocks);
  int64_t blocks =
      std::min(ofPart * numParts, chip.multiprocessors * perMultiprocessor);
  LogicalResult result = success();
  c.builder.create<scf::ForOp>(
      c.loc, c.blockId(mlir::gpu::Dimension::x), c.mul(countParts(), ofPart),
      c.constant(blocks), ValueRange(),
      [&](OpBuilder &b, Location loc, Value item, ValueRange) {
        Value part = c.div(item, ofPart), inPart = c.rem(item, ofPart);
        findQueries(c.div(inPart, a.kv * queryTiles()),
                    c.rem(inPart, a.kv * queryTiles()));
        PartKeys keys = keysOf(part);
        {
          InsideIf isSeen(c, c.less(keys.begin, keys.end));
          if (failed(writeTokens(part)) ||
              failed(loader->loadQueries(row, kvHead, firstQuery, queryTile)))
            result = failure();
          storePart(attend(keys), part);
        }
        b.create<scf::YieldOp>(loc);
      });
  f.finish({blocks}, shape.warps * warpSize, sharedBytes);
  return result;
}

FailureOr<MappedLaunch> PagedMapper::emit(const Chip &chip) {
  chooseSteps();
  thread = c.threadId();
  warp = c.div(thread, warpSize);
  lane = c.rem(thread, warpSize);
  tiles = unitFor(shape.element, shape.element, config::Matmul::Ieee)
              .createPagedTiles(c, shape);
  allocate(chip);
  loader.emplace(a, seen, shape, *tiles, pageNumbers, queryNorms);
  if (failed(op.getInParts() ? emitParts(chip) : emitWhole()))
    return failure();
  return f.launch();
}

MappedKernel mapPagedAttention(planir::KernelOp kernel,
                               mlir::gpu::GPUModuleOp module,
                               nn::PagedAttentionOp op, const Chip &chip) {
  Block &body = kernel.getBody().front();
  auto write = op.getKeys().getDefiningOp<nn::CacheWriteOp>();
  int64_t keys = op.getPartPages() * op.getPageTokens();
  int64_t queries = op.getPositions().getType().getDimSize(1) *
                    op.getHeads().getCount() / op.getHeads().getKv();
  if (keys > maxWarps * chunkKeys)
    return MappedKernel::no("pages of more than 1024 positions");
  // Several blocks would write the same keys, and compute the same queries.
  if (!isAlone(op) && queries > mostQueriesOfWrites)
    return MappedKernel::no("attention of many tokens with other operations");
  if (op->getNextNode() != body.getTerminator())
    return MappedKernel::no("operations after attention");
  if (write && !isWrittenInPlace(kernel, write))
    return MappedKernel::no("a cache that is not written in place");
  if (!llvm::is_contained(body.getTerminator()->getOperands(), op.getOutput()))
    return MappedKernel::no("attention without its output");
  PagedMapper mapper(kernel, module, op, write);
  FailureOr<MappedLaunch> launch = mapper.emit(chip);
  if (failed(launch))
    return noCacheKernel(mapper.reason());
  MappedKernel mapped;
  mapped.launches.push_back(*launch);
  return mapped;
}

} // namespace heddle::gpu
