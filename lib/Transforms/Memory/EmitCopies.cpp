//===- EmitCopies.cpp - Emits copies between kinds of memory --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmitSequence.h"
#include "heddle/Transforms/Common/States.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

/// Returns a reference to the bytes of a state or bucket, from element
/// `element` on. If `slot` is given, the state has a slot for each of several
/// micro-batches, and the reference is to this slot.
Value SequenceEmitter::stateRangeOf(Location loc, StringRef state,
                                    int64_t element, Value slot, Type type) {
  Root whole;
  whole.kind = Root::Kind::State;
  whole.name = state;
  whole.type = cast<RankedTensorType>(
      symbols.lookup(state)->getAttrOfType<TypeAttr>("type").getValue());
  Value bytes = bufferOf(whole);
  if (slot)
    bytes = slice(loc, bytes, scalars.lookup(slot),
                  RankedTensorType::get(whole.type.getShape().drop_front(),
                                        whole.type.getElementType()));
  if (whole.type == type)
    return bytes;
  return builder.create<planir::ViewOp>(
      loc, dist::memoryOf(cast<RankedTensorType>(type)), bytes, element);
}

/// Emits an asynchronous copy on `stream`. The copy starts when all kernels
/// that were launched before it are done, and overlaps with later kernels. If
/// `rows` is set, the source is an embedding table, and only the rows that
/// `rows` looks up are copied. Returns the token that is signaled when the copy
/// is done.
Value SequenceEmitter::copyBeside(Location loc, planir::Stream stream,
                                  Value target, Value source,
                                  dist::FetchRowsOp rows) {
  auto token = planir::TokenType::get(builder.getContext());
  auto ready =
      builder.create<planir::RecordOp>(loc, token, planir::Stream::Compute);
  builder.create<planir::WaitOp>(loc, ready, stream);
  if (rows)
    builder.create<planir::CopyRowsOp>(
        loc, target, source, valueFor(rows.getIds()),
        rows.getFirst() ? valueFor(rows.getFirst()) : Value(), stream);
  else
    builder.create<planir::CopyOp>(loc, target, source, stream);
  return builder.create<planir::RecordOp>(loc, token, stream);
}

/// Lets the stream wait for the token. The wait is skipped whenever the command
/// is that makes the token.
void SequenceEmitter::waitFor(Location loc, Value token,
                              planir::Stream stream) {
  auto wait = builder.create<planir::WaitOp>(loc, token, stream);
  planir::setGuard(wait, planir::guardOf(token.getDefiningOp()));
}

/// Orders a new copy on `stream` after copies on another stream. Fetches use
/// the stream `Copy`, and stores the stream `Store`. `run` has the bytes of the
/// new copy. A new fetch waits for the last store whose bytes may overlap with
/// `run`, and a new store for the last fetch whose bytes may overlap with
/// `run`. If `isAtOnce` is true, the new copy waits for the last copy on the
/// other stream, whatever its bytes. Copies on one stream need no wait, because
/// they are executed in order. A copy that steps may skip can be the last one
/// only in some steps, so the new copy also waits for the copy before it.
void SequenceEmitter::waitForOthers(Location loc, planir::Stream stream,
                                    const StateRange &run, bool isAtOnce) {
  for (UnderWay &other :
       llvm::reverse(stream == planir::Stream::Copy ? stores : fetches))
    if (other.token.getParentBlock() == builder.getInsertionBlock() &&
        (isAtOnce || overlap(other.run, run))) {
      waitFor(loc, other.token, stream);
      if (!planir::guardOf(other.token.getDefiningOp()))
        return;
    }
}

/// Whether the step waits for a fetch immediately after its start, which it
/// does if memory is scarce. Pending stores must finish before such a fetch,
/// because the fetch may overwrite the memory that the stores read.
static bool isAtOnce(dist::FetchOp fetch) {
  return !fetch.getPending() ||
         llvm::is_contained(fetch->getUsers(), fetch->getNextNode());
}

void SequenceEmitter::emitFetch(dist::FetchOp fetch) {
  Location loc = fetch.getLoc();
  StateRange run = memory::rangeOf(fetch);
  Value source = stateRangeOf(loc, fetch.getState(), fetch.getElement(),
                              fetch.getSlot(), fetch.getOutput().getType());
  waitForOthers(loc, planir::Stream::Copy, run, isAtOnce(fetch));
  begin(fetch, run,
        copyBeside(loc, planir::Stream::Copy, valueFor(fetch.getOutput()),
                   source));
}

void SequenceEmitter::emitFetchRows(dist::FetchRowsOp fetch) {
  Location loc = fetch.getLoc();
  auto output = cast<RankedTensorType>(fetch.getOutput().getType());
  StateRange run = memory::rangeOf(fetch);
  int64_t rows = fetch.getRows();
  Value table = stateRangeOf(loc, fetch.getState(), fetch.getElement(), Value(),
                             output.clone({rows, output.getShape().back()}));
  waitForOthers(loc, planir::Stream::Copy, run);
  begin(fetch, run,
        copyBeside(loc, planir::Stream::Copy, valueFor(fetch.getOutput()),
                   table, fetch));
}

/// Registers a fetch, which begins with the copy that was just emitted. The
/// token `done` is signaled when the copy is done. If the fetch is marked as
/// pending, `done` is kept until the dist.wait of the fetch is emitted.
/// Otherwise a wait for `done` is emitted immediately.
void SequenceEmitter::begin(Operation *fetch, const StateRange &run,
                            Value done) {
  started[fetch] = done.getDefiningOp()->getPrevNode();
  if (fetch->hasAttr("pending")) {
    tokens[fetch->getResult(0)] = done;
    fetches.push_back({run, done});
  } else
    builder.create<planir::WaitOp>(fetch->getLoc(), done);
}

void SequenceEmitter::emitStore(dist::StoreOp store) {
  Location loc = store.getLoc();
  StateRange run = memory::rangeOf(store);
  Value target = stateRangeOf(loc, store.getState(), store.getElement(),
                              store.getSlot(), store.getValue().getType());
  waitForOthers(loc, planir::Stream::Store, run);
  stores.push_back({run, copyBeside(loc, planir::Stream::Store, target,
                                    valueFor(store.getValue()))});
}

void SequenceEmitter::emitFlush(dist::FlushOp flush) {
  for (; stores.size() > flush.getLeft(); stores.pop_front())
    waitFor(flush.getLoc(), stores.front().token);
}

/// Gives consecutive numbers to the last stores (copies from the device to
/// offloaded states), which `carry` lets continue during the next step. The
/// next step waits for each store by its number.
void SequenceEmitter::emitCarry(dist::CarryOp carry) {
  stores.erase(stores.begin(), stores.end() - carry.getStores());
  for (auto [number, store] : llvm::enumerate(stores))
    store.token.getDefiningOp<planir::RecordOp>().setCarried(number);
  stores.clear();
}

/// Emits a copy between the host's memory and the device. If the source is in
/// the host's memory, a kernel on the host computes it, and the copy waits for
/// this kernel.
void SequenceEmitter::emitMove(dist::MoveOp move) {
  Location loc = move.getLoc();
  planir::Stream reader = planir::Stream::Host;
  planir::Stream stream = planir::Stream::Store;
  if (!move.getToHost()) {
    reader = planir::Stream::Compute;
    stream = planir::Stream::Copy;
    auto made = builder.create<planir::RecordOp>(
        loc, planir::TokenType::get(builder.getContext()),
        planir::Stream::Host);
    builder.create<planir::WaitOp>(loc, made, stream);
  }
  Value done = copyBeside(loc, stream, valueFor(move.getOutput()),
                          valueFor(move.getInput()));
  if (move.getPending())
    tokens[move.getOutput()] = done;
  else
    builder.create<planir::WaitOp>(loc, done, reader);
}

/// Emits the wait for an asynchronous transfer or computation. If the data was
/// moved to the host, only the stream of the host's kernels waits.
void SequenceEmitter::emitWait(dist::WaitOp wait) {
  Value token = tokens.lookup(wait.getInput());
  llvm::erase_if(fetches,
                 [&](const UnderWay &fetch) { return fetch.token == token; });
  auto move = wait.getInput().getDefiningOp<dist::MoveOp>();
  waitFor(wait.getLoc(), token,
          move && move.getToHost() ? planir::Stream::Host
                                   : planir::Stream::Compute);
}
