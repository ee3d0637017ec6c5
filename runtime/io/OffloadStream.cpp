//===- OffloadStream.cpp - Asynchronous transfers of offload files --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits transfers into requests, keeps several in flight on a BlockQueue, and
// orders transfers that overlap.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/OffloadStream.h"
#include "heddle/runtime/io/RoundUp.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

using namespace heddle;
using namespace heddle::io;

/// The maximum numbers of transfers that wait in the queue, and of transfers
/// that are in progress at the same time.
static constexpr int64_t mostWaiting = 1024, mostActive = 32;

/// A request fails after more than this many consecutive results of less than a
/// page, which the system returns for example if the file was truncated.
static constexpr int64_t mostStalled = 16;

OffloadStream::Detour::Detour(int64_t bytes) {
  void *memory = nullptr;
  if (posix_memalign(&memory, OffloadFile::pageBytes, bytes) != 0)
    throw std::bad_alloc();
  data = static_cast<char *>(memory);
}

OffloadStream::Detour::~Detour() { free(data); }

OffloadStream::OffloadStream(std::unique_ptr<BlockQueue> given,
                             const OffloadShape &shape)
    : queue(std::move(given)), shape(shape), waiting(mostWaiting),
      slots(shape.depth) {
  active.reserve(mostActive);
  thread = std::thread([this] { work(); });
}

OffloadStream::~OffloadStream() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  startedOne.notify_one();
  thread.join();
}

//===----------------------------------------------------------------------===//
// Functions that users of the stream call (on their threads)
//===----------------------------------------------------------------------===//

OffloadPoint OffloadStream::start(const OffloadTransfer &transfer) {
  return start(transfer,
               transfer.isWrite ? OffloadLane::Write : OffloadLane::Read);
}

OffloadPoint OffloadStream::start(const OffloadTransfer &transfer,
                                  OffloadLane lane) {
  OffloadPoint point;
  {
    std::unique_lock<std::mutex> lock(mutex);
    finishedSome.wait(lock, [&] { return offered - taken < mostWaiting; });
    point[lane] = ++offeredOf[lane];
    waiting[offered++ % mostWaiting] = {transfer, {lane, point[lane]}};
  }
  startedOne.notify_one();
  return point;
}

OffloadPoint OffloadStream::started() const {
  std::lock_guard<std::mutex> lock(mutex);
  return offeredOf;
}

void OffloadStream::await(const OffloadPoint &point) {
  std::unique_lock<std::mutex> lock(mutex);
  finishedSome.wait(lock, [&] { return point.isDone(done) || failure; });
  if (failure)
    throw UserError(*failure);
}

void OffloadStream::moveNow(const OffloadTransfer &transfer) {
  await(start(transfer, OffloadLane::Now));
}

char *OffloadStream::detour() {
  if (!around)
    around.emplace(detourBytes());
  return around->data;
}

template <typename F>
void OffloadStream::forEachPiece(int64_t offset, int64_t bytes, F visit) const {
  for (int64_t end = offset + bytes; offset < end;) {
    int64_t page = offset / OffloadFile::pageBytes * OffloadFile::pageBytes;
    int64_t count = std::min(end, page + detourBytes()) - offset;
    visit(page, offset - page, count);
    offset += count;
  }
}

static int64_t toPages(int64_t bytes) {
  return roundUp(bytes, OffloadFile::pageBytes);
}

void OffloadStream::read(OffloadFile &file, int64_t offset, void *target,
                         int64_t bytes) {
  std::lock_guard<std::mutex> lock(detouring);
  char *to = static_cast<char *>(target), *pages = detour();
  forEachPiece(offset, bytes, [&](int64_t page, int64_t first, int64_t count) {
    moveNow({false, &file, page, pages, toPages(first + count)});
    memcpy(to, pages + first, count);
    to += count;
  });
}

void OffloadStream::write(OffloadFile &file, int64_t offset, const void *source,
                          int64_t bytes) {
  std::lock_guard<std::mutex> lock(detouring);
  const char *from = static_cast<const char *>(source);
  char *pages = detour();
  forEachPiece(offset, bytes, [&](int64_t page, int64_t first, int64_t count) {
    int64_t whole = toPages(first + count);
    if (first + count != whole || first != 0)
      moveNow({false, &file, page, pages, whole});
    memcpy(pages + first, from, count);
    moveNow({true, &file, page, pages, whole});
    from += count;
  });
}

void OffloadStream::readRows(OffloadFile &file, int64_t offset, char *target,
                             const RowChoice &choice) {
  int64_t span =
      std::min(OffloadFile::bytesForRow(offset, choice.rowBytes), file.size());
  int64_t atOnce = std::max<int64_t>(1, detourBytes() / span);
  for (int64_t first = 0; first < choice.count; first += atOnce)
    readSomeRows(file, offset, target + first * choice.rowBytes, span,
                 choice.part(first, atOnce));
}

/// Reads the rows that `choice` names by their ids. Rows are not aligned to
/// pages, so the file's pages with these rows are first read into the detour
/// buffer: the pages of all rows at the same time. The caller passes as many
/// rows as fit into that buffer. If even one row does not fit, it is read chunk
/// by chunk. `span` is the number of bytes that are read for a row.
void OffloadStream::readSomeRows(OffloadFile &file, int64_t offset,
                                 char *target, int64_t span,
                                 const RowChoice &choice) {
  auto rowOf = [&](int64_t number) {
    return offset + choice.rowOf(choice.ids[number]) * choice.rowBytes;
  };
  auto pageOf = [&](int64_t number) {
    int64_t row = rowOf(number);
    return std::min(row - row % OffloadFile::pageBytes, file.size() - span);
  };
  bool fits = span <= detourBytes();
  std::unique_lock<std::mutex> lock(detouring);
  char *pages = detour();
  OffloadPoint there;
  for (int64_t t = 0; fits && t < choice.count; ++t)
    if (choice.has(choice.ids[t]))
      there = start({false, &file, pageOf(t), pages + t * span, span},
                    OffloadLane::Now);
  await(there);
  if (!fits)
    lock.unlock();
  for (int64_t t = 0; t < choice.count; ++t, target += choice.rowBytes)
    if (!choice.has(choice.ids[t]))
      choice.fillWithout(target);
    else if (fits)
      memcpy(target, pages + t * span + rowOf(t) - pageOf(t), choice.rowBytes);
    else
      read(file, rowOf(t), target, choice.rowBytes);
}

void OffloadStream::fill(OffloadFile &file, int64_t offset, unsigned char value,
                         int64_t bytes) {
  std::vector<unsigned char> values(std::min(bytes, detourBytes()), value);
  for (int64_t at = 0; at < bytes; at += values.size())
    write(file, offset + at, values.data(),
          std::min<int64_t>(values.size(), bytes - at));
}

OffloadTraffic OffloadStream::traffic() const {
  return {readBytes, writtenBytes, requests};
}

//===----------------------------------------------------------------------===//
// The stream's thread
//===----------------------------------------------------------------------===//

void OffloadStream::work() {
  while (take()) {
    try {
      issue();
      if (underWay > 0)
        finish(awaitOne());
    } catch (const UserError &error) {
      if (!failing)
        failing = error.diagnostic;
    }
    announce();
  }
}

BlockResult OffloadStream::awaitOne() {
  try {
    return queue->wait();
  } catch (const UserError &) {
    underWay = 0; // The queue is broken, so these requests will never end.
    throw;
  }
}

/// Moves transfers from the queue to the active ones, as many as there is room
/// for. Waits for a transfer if none is active. Returns false when the stream
/// ends.
bool OffloadStream::take() {
  std::unique_lock<std::mutex> lock(mutex);
  if (underWay == 0 && active.empty())
    startedOne.wait(lock, [&] { return stopping || offered > taken; });
  if (failing)
    taken = offered;
  while (taken < offered && int64_t(active.size()) < mostActive) {
    Active next;
    const Waiting &one = waiting[taken++ % mostWaiting];
    next.transfer = one.transfer;
    next.position = one.position;
    next.number = taken;
    takenOf[one.position.lane] = one.position.number;
    active.push_back(next);
  }
  return underWay > 0 || !active.empty() || !stopping;
}

static bool overlap(int64_t a, int64_t aBytes, int64_t b, int64_t bBytes) {
  return a < b + bBytes && b < a + aBytes;
}

/// Whether `later` must wait until `earlier` is done, because they use the same
/// bytes of a file or of memory and at least one of them changes these bytes.
static bool follows(const OffloadTransfer &later,
                    const OffloadTransfer &earlier) {
  bool inFile =
      later.file == earlier.file &&
      overlap(later.offset, later.bytes, earlier.offset, earlier.bytes);
  bool inMemory = overlap(int64_t(later.memory), later.bytes,
                          int64_t(earlier.memory), earlier.bytes);
  return (inFile && (later.isWrite || earlier.isWrite)) ||
         (inMemory && !(later.isWrite && earlier.isWrite));
}

void OffloadStream::issue() {
  for (size_t i = 0; i < active.size() && !failing; ++i) {
    Active &next = active[i];
    auto waitsFor = [&](const Active &earlier) {
      return follows(next.transfer, earlier.transfer);
    };
    if (std::any_of(active.begin(), active.begin() + i, waitsFor))
      continue;
    for (size_t slot = 0;
         slot < slots.size() && next.issued < next.transfer.bytes; ++slot)
      if (slots[slot].number == 0)
        issuePart(next, slot);
  }
}

void OffloadStream::issuePart(Active &next, int64_t slot) {
  const OffloadTransfer &transfer = next.transfer;
  BlockRequest &request = slots[slot].request;
  request.isWrite = transfer.isWrite;
  request.descriptor = transfer.file->descriptor();
  request.offset = transfer.offset + next.issued;
  request.memory = transfer.memory + next.issued;
  request.bytes = std::min(shape.requestBytes, transfer.bytes - next.issued);
  request.tag = slot;
  if (request.isWrite)
    transfer.file->note(request.offset, request.memory, request.bytes);
  if (transfer.time && transfer.time->begin == 0)
    transfer.time->begin = steadyNow();
  slots[slot].number = next.number;
  slots[slot].stalled = 0;
  next.issued += request.bytes;
  ++underWay;
  queue->submit(request);
}

OffloadStream::Active &OffloadStream::activeOf(int64_t number) {
  return *std::find_if(active.begin(), active.end(),
                       [&](const Active &one) { return one.number == number; });
}

void OffloadStream::finish(const BlockResult &result) {
  --underWay;
  ++requests;
  if (!failing)
    return finishPart(result);
  slots[result.tag].number = 0;
}

/// Processes the result of a request. If the request moved only some of its
/// bytes, requests the rest.
void OffloadStream::finishPart(const BlockResult &result) {
  Slot &slot = slots[result.tag];
  BlockRequest &request = slot.request;
  Active &of = activeOf(slot.number);
  OffloadFile &file = *of.transfer.file;
  bool again = result.moved == -EINTR || result.moved == -EAGAIN;
  if (result.moved <= 0 && !again) {
    slot.number = 0;
    file.failRequest(request.isWrite, request.offset, request.bytes,
                     int(-result.moved));
  }
  int64_t moved = again ? 0 : result.moved;
  (request.isWrite ? writtenBytes : readBytes) += moved;
  if (moved < request.bytes) {
    // Requests cover whole pages only.
    int64_t pages = moved / OffloadFile::pageBytes * OffloadFile::pageBytes;
    slot.stalled = pages > 0 || again ? 0 : slot.stalled + 1;
    if (slot.stalled > mostStalled) {
      slot.number = 0;
      file.failRequest(request.isWrite, request.offset, request.bytes, EIO);
    }
    of.moved += pages;
    request.offset += pages;
    request.memory += pages;
    request.bytes -= pages;
    ++underWay;
    return queue->submit(request);
  }
  of.moved += moved;
  slot.number = 0;
  if (of.moved < of.transfer.bytes)
    return;
  if (!of.transfer.isWrite)
    file.verify(of.transfer.offset, of.transfer.memory, of.transfer.bytes);
  if (of.transfer.time)
    of.transfer.time->end = steadyNow();
  active.erase(active.begin() + (&of - active.data()));
}

/// Publishes which transfers are done.
void OffloadStream::announce() {
  if (failing && underWay > 0)
    return;
  if (failing)
    active.clear();
  std::lock_guard<std::mutex> lock(mutex);
  done = takenOf;
  for (const Active &one : active) // Sorted by number.
    done[one.position.lane] =
        std::min(done[one.position.lane], one.position.number - 1);
  if (failing && !failure)
    failure = failing;
  finishedSome.notify_all();
}
