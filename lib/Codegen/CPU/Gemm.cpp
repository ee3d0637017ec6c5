//===- Gemm.cpp - Matrix products for x86-64 ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the outer loops of a matrix product: the distribution over threads, the
// loop over blocks of K, and the loops over packed panels. The packed panels of
// one operand stay in a cache (resident) while those of the other operand are
// packed one by one (streamed).
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/Gemm.h"
#include "AmxTiles.h"
#include "GemmEmitter.h"
#include "dialects/Dist/ComputeType.h"
#include "heddle/Codegen/CPU/WorkShares.h"

using namespace mlir;

namespace heddle::cpu {

GemmEmitter::GemmEmitter(LoopBuilder &builder, const GemmSpec &spec,
                         const CpuTarget &target, EpilogueFn epilogue,
                         InitFn init)
    : b(builder), spec(spec), blocking(spec, target),
      emulatesAmx(target.emulatesAmx), epilogue(epilogue), init(init),
      vectorType(VectorType::get(blocking.lanes, builder.builder.getF32Type())),
      ldc(spec.ldc ? spec.ldc : spec.n) {}

void GemmEmitter::emit(Value a, Value bMatrix, Value cMatrix, Value scratch,
                       Value thread, Value threads) {
  Type i8 = b.builder.getI8Type();
  bool fullRows = blocking.rowExtra == 0 && blocking.rowBase == blocking.mr;
  operandA = {b.pointerTo(a),
              spec.aType,
              spec.lda ? spec.lda : (spec.transA ? spec.m : spec.k),
              !spec.transA,
              spec.m,
              blocking.mr,
              !fullRows,
              blocking.directA};
  operandB = {b.pointerTo(bMatrix),
              spec.bType,
              spec.ldb ? spec.ldb : (spec.transB ? spec.k : spec.n),
              spec.transB,
              spec.n,
              blocking.nr,
              spec.n % blocking.nr != 0,
              blocking.fewRows};
  c = b.pointerTo(cMatrix);
  Value base = b.pointerTo(scratch);
  tiles = b.advance(base, i8, blocking.tilesAt);
  residentBuffer = b.advance(base, i8, blocking.residentAt);
  streamBuffer = b.advance(base, i8, blocking.streamAt);

  if (blocking.fewRows) {
    LaunchThread self = {b.toI64(thread), b.toI64(threads), nullptr};
    auto [begin, end] = self.share(b, b.constant(blocking.panels));
    emitFewRows({begin, end});
    return;
  }
  AmxTiles amx(b, emulatesAmx);
  if (blocking.amx)
    amx.configure(tiles);
  auto [rows, columns] = partition(b.toI64(thread), b.toI64(threads));
  Range resident = blocking.residentA ? rows : columns;
  Range stream = blocking.residentA ? columns : rows;
  auto perBlock = [&](Range range, int64_t step,
                      llvm::function_ref<void(Range)> body) {
    b.forLoop(range.begin, range.end, step, [&](Value begin) {
      body({begin, b.min(b.add(begin, step), range.end)});
    });
  };
  perBlock(stream, blocking.streamBlock, [&](Range streamBlock) {
    perBlock(resident, blocking.residentBlock, [&](Range residentBlock) {
      Value zero = b.constant(0);
      if (blocking.kBlocks == 1) {
        emitBlock(streamBlock, residentBlock, {zero, b.constant(spec.k)},
                  nullptr, nullptr);
        return;
      }
      b.forLoop(zero, b.constant(spec.k), blocking.kBlock, [&](Value k) {
        Value left = b.sub(b.constant(spec.k), k);
        Value isLast = b.less(left, b.constant(blocking.kBlock + 1));
        emitBlock(streamBlock, residentBlock,
                  {k, b.min(left, b.constant(blocking.kBlock))},
                  b.equal(k, zero), isLast);
      });
    });
  });
  if (blocking.amx)
    amx.release();
}

/// Returns the row blocks and the column panels that a thread computes. The
/// rows and the columns of C are cut into parts, and a thread computes one part
/// of the rows times one part of the columns. The emitted code chooses the
/// numbers of parts so that the slowest thread has the least cost. The cost
/// counts multiplications and packing; packing an element costs as much as
/// about 32 multiplications.
std::pair<GemmEmitter::Range, GemmEmitter::Range>
GemmEmitter::partition(Value thread, Value threads) {
  constexpr int64_t packingCost = 32;
  Value one = b.constant(1);
  auto ceilDiv = [&](int64_t count, Value parts) {
    return b.div(b.sub(b.add(parts, count), one), parts);
  };
  Value worst = b.constant(INT64_MAX);
  auto best = b.forLoop(
      one, b.add(threads, 1), 1, {worst, one},
      [&](Value across, ValueRange carried) -> LoopBuilder::Values {
        Value rows = b.mul(ceilDiv(blocking.rowBlocks, across), blocking.mr);
        Value columns = b.mul(ceilDiv(blocking.panels, b.div(threads, across)),
                              blocking.nr);
        Value cost = b.add(b.mul(rows, columns),
                           b.mul(b.add(rows, columns), packingCost));
        Value better = b.less(cost, carried[0]);
        return {b.select(better, cost, carried[0]),
                b.select(better, across, carried[1])};
      });
  Value rowParts = best[1];
  Value columnParts = b.div(threads, rowParts);
  Value rowPart = b.div(thread, columnParts);
  Value columnPart = b.sub(thread, b.mul(rowPart, columnParts));
  // There may be more threads than pairs of a row part and a column part. The
  // threads that are left over get an empty range of rows.
  auto boundary = [&](int64_t count, Value part, Value parts) {
    return b.min(b.div(b.mul(part, count), parts), b.constant(count));
  };
  auto range = [&](int64_t count, Value part, Value parts) -> Range {
    return {boundary(count, part, parts),
            boundary(count, b.add(part, 1), parts)};
  };
  return {range(blocking.rowBlocks, rowPart, rowParts),
          range(blocking.panels, columnPart, columnParts)};
}

/// Computes a block of C: packs the micro-panels of the operand that stays in a
/// cache (resident), then packs and multiplies the micro-panels of the other
/// operand one by one.
void GemmEmitter::emitBlock(Range stream, Range resident, KRange k,
                            Value isFirstK, Value isLastK) {
  if (!residentOperand().direct)
    b.forLoop(resident.begin, resident.end, 1, [&](Value panel) {
      loadPanel(residentOperand(), panel, k,
                residentPointer(b.sub(panel, resident.begin)));
    });
  b.forLoop(stream.begin, stream.end, 1, [&](Value panel) {
    emitStreamPanel(panel, stream, resident, k, isFirstK, isLastK);
  });
}

/// Packs one micro-panel of the streamed operand. Multiplies it by all
/// micro-panels of the resident operand, which are already packed and in a
/// cache. Meanwhile it prefetches the cache lines of the next streamed
/// micro-panel.
void GemmEmitter::emitStreamPanel(Value streamed, Range stream, Range resident,
                                  KRange k, Value isFirstK, Value isLastK) {
  MicroPanel moving = loadPanel(streamOperand(), streamed, k, streamBuffer);
  Value next = b.min(b.add(streamed, 1), b.sub(stream.end, b.constant(1)));
  Value source =
      sourceOf(streamOperand(), firstOuter(streamOperand(), next), k);
  Value count = b.sub(resident.end, resident.begin);
  Value steps =
      b.add(b.div(prefetchSteps(streamOperand(), k.length), count), 1);
  b.forLoop(resident.begin, resident.end, 1, [&](Value panel) {
    Value index = b.sub(panel, resident.begin);
    MicroPanel kept =
        packedAt(residentOperand(), panel, k, residentPointer(index));
    Value tile = tilePointer(b.sub(streamed, stream.begin), index);
    Prefetch prefetch = {source, b.mul(index, steps), steps};
    Value rowBlock = blocking.residentA ? panel : streamed;
    Value column = blocking.residentA ? streamed : panel;
    emitTile(rowBlock, column, blocking.residentA ? kept : moving,
             blocking.residentA ? moving : kept, k.length, prefetch, tile,
             isFirstK);
    if (blocking.kBlocks == 1)
      emitStore(rowBlock, column, tile);
    else
      b.ifThen(isLastK, [&] { emitStore(rowBlock, column, tile); });
  });
}

Value GemmEmitter::residentPointer(Value index) {
  return b.advance(residentBuffer, b.builder.getI8Type(),
                   b.mul(index, blocking.residentPanelBytes()));
}

/// The index of the first row of A, or of the first column of B, in micro-panel
/// `index`.
Value GemmEmitter::firstOuter(const GemmOperand &operand, Value index) {
  return &operand == &operandA ? firstRow(index) : b.mul(index, blocking.nr);
}

Value GemmEmitter::firstRow(Value rowBlock) {
  Value row = b.mul(rowBlock, blocking.rowBase);
  if (blocking.rowExtra == 0)
    return row;
  return b.add(row, b.min(rowBlock, b.constant(blocking.rowExtra)));
}

/// The address of the memory for the partial sums of a tile of C. If K has
/// several blocks, each tile of the current block of C needs memory of its own,
/// which keeps its sums for the next block of K. Otherwise all tiles use the
/// same memory.
Value GemmEmitter::tilePointer(Value streamIndex, Value residentIndex) {
  if (blocking.kBlocks == 1)
    return tiles;
  Value index =
      b.add(b.mul(streamIndex, blocking.residentBlock), residentIndex);
  return b.advance(tiles, b.builder.getI8Type(),
                   b.mul(index, blocking.tileBytes));
}

LogicalResult emitGemm(OpBuilder &builder, Location loc, const GemmSpec &spec,
                       const CpuTarget &target, Value a, Value b, Value c,
                       Value scratch, Value thread, Value threads,
                       EpilogueFn epilogue, InitFn init) {
  if (spec.m <= 0 || spec.n <= 0 || spec.k <= 0)
    return emitError(loc, "matrix product of an empty shape ")
           << spec.m << "x" << spec.n << "x" << spec.k;
  for (Type type : {spec.aType, spec.bType, spec.cType})
    if (!dist::findComputeType(type))
      return emitError(loc, "matrix product of ")
             << type << "; f32, bf16 and f16 are multiplied";
  LoopBuilder loops(builder, loc);
  GemmEmitter(loops, spec, target, epilogue, init)
      .emit(a, b, c, scratch, thread, threads);
  return success();
}

} // namespace heddle::cpu
