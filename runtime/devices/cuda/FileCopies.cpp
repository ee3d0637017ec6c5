//===- FileCopies.cpp - Copies between files and a GPU --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/FileCopies.h"
#include "heddle/runtime/core/Arena.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

Address FileCopies::allocate(const MemoryRequest &request) {
  if (!ring) {
    void *place = nullptr;
    Result result =
        driver.allocateHost(&place, pieceBytes * numSlots, hostAllocPortable);
    if (result == OutOfMemory)
      Arena::refuse(pieceBytes * numSlots, request.owner);
    check(result, "an allocation of pinned memory");
    ring = static_cast<char *>(place);
  }
  return swap.allocate(request);
}

void FileCopies::close() {
  if (!ring)
    return;
  try { // The last writes may be on their way.
    swap.await(swap.started());
  } catch (const UserError &) {
  }
  driver.releaseHost(ring);
  ring = nullptr;
}

/// The bytes of a piece of a copy.
static int64_t sizeOf(int64_t piece, int64_t pieceBytes, int64_t bytes) {
  return std::min(pieceBytes, bytes - piece * pieceBytes);
}

void FileCopies::startRead(Address source, int64_t bytes, int64_t piece) {
  swap.startRead(slotOf(piece), source + piece * pieceBytes,
                 sizeOf(piece, pieceBytes, bytes));
  transferOf(piece) = swap.started();
}

void FileCopies::startWrite(Address target, int64_t bytes, int64_t piece,
                            io::SwapTime *time) {
  swap.startWrite(target + piece * pieceBytes, slotOf(piece),
                  sizeOf(piece, pieceBytes, bytes), time);
  transferOf(piece) = swap.started();
}

void FileCopies::read(StreamHandle stream, DevicePointer target, Address source,
                      int64_t bytes, bool repeats) {
  int64_t pieces = (bytes + pieceBytes - 1) / pieceBytes;
  io::SwapTime *of = repeats ? nullptr : times.next();
  for (int64_t piece = 0; piece < pieces; ++piece) {
    auto prepare = [=] {
      if (of && piece == 0)
        of->begin = io::steadyNow();
      // The slots of the pieces before this one are free again.
      int64_t begin = piece == 0 ? 0 : piece - 1 + numSlots;
      for (int64_t next = begin; next < std::min(pieces, piece + numSlots);
           ++next)
        startRead(source, bytes, next);
      swap.await(transferOf(piece));
    };
    tasks.add(stream, prepare, repeats);
    check(driver.copyIn(target + piece * pieceBytes, slotOf(piece),
                        sizeOf(piece, pieceBytes, bytes), stream),
          "a copy");
  }
  if (of)
    tasks.add(
        stream, [=] { of->end = io::steadyNow(); }, repeats);
}

void FileCopies::write(StreamHandle stream, Address target,
                       DevicePointer source, int64_t bytes, bool repeats) {
  int64_t pieces = (bytes + pieceBytes - 1) / pieceBytes;
  io::SwapTime *of = repeats ? nullptr : times.next();
  for (int64_t piece = 0; piece < pieces; ++piece) {
    auto makeRoom = [=] {
      if (of && piece == 0)
        of->begin = io::steadyNow();
      if (piece > 0)
        startWrite(target, bytes, piece - 1);
      swap.await(transferOf(piece));
    };
    tasks.add(stream, makeRoom, repeats);
    check(driver.copyOut(slotOf(piece), source + piece * pieceBytes,
                         sizeOf(piece, pieceBytes, bytes), stream),
          "a copy");
  }
  auto end = [=] { startWrite(target, bytes, pieces - 1, of); };
  tasks.add(stream, end, repeats);
}
