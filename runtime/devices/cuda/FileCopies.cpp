//===- FileCopies.cpp - Copies between files and a GPU --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies between files and a GPU through rings of pinned memory.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/FileCopies.h"
#include "heddle/runtime/core/Arena.h"

#include <algorithm>
#include <utility>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

void FileCopies::open(Ring &ring) {
  if (ring.memory)
    return;
  void *place = nullptr;
  Result result =
      driver.allocateHost(&place, plan::stagingRingBytes, hostAllocPortable);
  if (result == OutOfMemory)
    Arena::refuse(plan::stagingRingBytes,
                  "copies between files and the device");
  check(result, "an allocation of pinned memory");
  ring.memory = static_cast<char *>(place);
}

void FileCopies::stage(int64_t bytes) {
  for (Ring *ring : {&readers, &writers})
    if ((bytes -= plan::stagingRingBytes) >= 0)
      open(*ring);
}

int64_t FileCopies::stagedBytes() const {
  return plan::stagingRingBytes *
         ((readers.memory ? 1 : 0) + (writers.memory ? 1 : 0));
}

Address FileCopies::allocate(const MemoryRequest &request) {
  open(readers);
  open(writers);
  return swap.allocate(request);
}

void FileCopies::close() {
  if (writers.memory)
    try { // The last writes may still be running.
      swap.await(swap.started());
    } catch (const UserError &) {
    }
  for (Ring *ring : {&readers, &writers})
    if (char *memory = std::exchange(ring->memory, nullptr))
      driver.releaseHost(memory);
}

/// A copy of `bytes` bytes is divided into chunks of `pieceBytes`. Returns the
/// size of the chunk with the index `piece`: the last chunk may be smaller.
static int64_t sizeOf(int64_t piece, int64_t pieceBytes, int64_t bytes) {
  return std::min(pieceBytes, bytes - piece * pieceBytes);
}

void FileCopies::startRead(Address source, int64_t bytes, int64_t piece) {
  readers.transferOf(piece) =
      swap.startRead(readers.slotOf(piece), source + piece * pieceBytes,
                     sizeOf(piece, pieceBytes, bytes));
}

void FileCopies::startWrite(Address target, int64_t bytes, int64_t piece,
                            io::OffloadTime *time) {
  writers.transferOf(piece) =
      swap.startWrite(target + piece * pieceBytes, writers.slotOf(piece),
                      sizeOf(piece, pieceBytes, bytes), time);
}

void FileCopies::read(StreamHandle stream, DevicePointer target, Address source,
                      int64_t bytes, bool repeats) {
  int64_t pieces = (bytes + pieceBytes - 1) / pieceBytes;
  io::OffloadTime *of = repeats ? nullptr : times.next();
  for (int64_t piece = 0; piece < pieces; ++piece) {
    auto prepare = [=] {
      if (of && piece == 0)
        of->begin = io::steadyNow();
      // This host function runs when the chunks before `piece` are on the GPU.
      // Their slots of pinned memory are therefore free. Start to read the next
      // chunks of the file into these slots, and then wait for the chunk
      // `piece`.
      int64_t begin = piece == 0 ? 0 : piece - 1 + numSlots;
      for (int64_t next = begin; next < std::min(pieces, piece + numSlots);
           ++next)
        startRead(source, bytes, next);
      swap.await(readers.transferOf(piece));
    };
    readers.tasks.add(stream, prepare, repeats);
    check(driver.copyIn(target + piece * pieceBytes, readers.slotOf(piece),
                        sizeOf(piece, pieceBytes, bytes), stream),
          "a copy");
  }
  if (of)
    readers.tasks.add(
        stream, [=] { of->end = io::steadyNow(); }, repeats);
}

void FileCopies::write(StreamHandle stream, Address target,
                       DevicePointer source, int64_t bytes, bool repeats) {
  int64_t pieces = (bytes + pieceBytes - 1) / pieceBytes;
  io::OffloadTime *of = repeats ? nullptr : times.next();
  for (int64_t piece = 0; piece < pieces; ++piece) {
    auto makeRoom = [=] {
      if (of && piece == 0)
        of->begin = io::steadyNow();
      if (piece > 0)
        startWrite(target, bytes, piece - 1);
      swap.await(writers.transferOf(piece));
    };
    writers.tasks.add(stream, makeRoom, repeats);
    check(driver.copyOut(writers.slotOf(piece), source + piece * pieceBytes,
                         sizeOf(piece, pieceBytes, bytes), stream),
          "a copy");
  }
  auto end = [=] { startWrite(target, bytes, pieces - 1, of); };
  writers.tasks.add(stream, end, repeats);
}
