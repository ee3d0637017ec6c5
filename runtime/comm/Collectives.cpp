//===- Collectives.cpp - Collectives on host memory -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the collectives by point-to-point messages, in chunks that fit
// into the staging buffers, or by calls of an MPI library.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Collectives.h"

#include "heddle/runtime/comm/Tags.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/OffloadTimes.h"
#include "runtime/comm/Elements.h"

#include <climits>

using namespace heddle;
using namespace heddle::rt;
using plan::CollectiveKind;
using plan::CollectiveShape;
using plan::DType;
using plan::PartLayout;

namespace heddle::rt {
/// One collective while it runs.
class CollectiveRun {
public:
  CollectiveRun(Collectives &owner, const CollectiveCall &call);

  void copyToSelf();
  void allGather();
  void reduceScatter();
  void allReduce();
  void allToAll();
  void rotate();

  /// Versions of the collectives that call the MPI library. They sum in fp32.
  void libraryAllGather();
  void libraryReduceScatter();
  void libraryAllReduce();
  void libraryAllToAll();
  bool useLibrary() const { return library; }

private:
  /// Return the index of the rank that is k after (or before) this rank in the
  /// group, modulo the group's size.
  int after(int k) const { return (self + k) % n; }
  int before(int k) const { return (self + n - k) % n; }

  void exchange(int to, const void *data, int64_t bytes, int from, void *into,
                int64_t intoBytes);
  /// A range of elements in each rank's slice of the buffer, counted from the
  /// slice's beginning. A collective processes one chunk after the other,
  /// because the staging buffer only holds one chunk of each rank.
  struct Chunk {
    int64_t first, count;
  };
  /// Calls function(chunk) for all chunks.
  template <typename Function> void forEachChunk(Function function) const;
  /// Returns how many elements of a chunk are in the slice of `rank` in an
  /// all-reduce. The slices of the last ranks may be shorter than others.
  int64_t countOf(Chunk chunk, int rank) const {
    int64_t left = plan::partElements(shape, rank) - chunk.first;
    return std::clamp<int64_t>(left, 0, chunk.count);
  }
  /// Calls `function(offset, chunkOffset, count)` for each contiguous range of
  /// a chunk of the slice that belongs to rank `part`. The range has `count`
  /// elements, at `offset` in the buffer with the slices of all ranks, and at
  /// `chunkOffset` in the chunk.
  template <typename Function>
  void forEachRun(const PartLayout &layout, int part, Chunk chunk,
                  Function function) const;
  /// takePart copies a chunk of the slice of rank `part` out of `whole`, the
  /// buffer with the slices of all ranks. putPart copies such a chunk into
  /// `whole`.
  void takePart(const PartLayout &layout, int part, Chunk chunk,
                const void *whole, DType wholeType, void *to,
                DType toType) const;
  void putPart(const PartLayout &layout, int part, Chunk chunk,
               const void *from, DType fromType, void *whole,
               DType wholeType) const;
  /// Returns the index of the first element of the slice of rank `part`, in a
  /// buffer in which the ranks' slices follow one another.
  int64_t begin(int part) const {
    return std::min(part * plan::partElements(shape, 0), shape.count);
  }
  static const uint8_t *at(const void *base, int64_t element, DType type) {
    return static_cast<const uint8_t *>(base) + element * plan::byteSize(type);
  }
  static uint8_t *at(void *base, int64_t element, DType type) {
    return static_cast<uint8_t *>(base) + element * plan::byteSize(type);
  }
  void gatherPieces();
  /// Returns the staging buffer for the values that are received from rank
  /// before(k), until addAll adds them to the sum.
  uint8_t *slot(int k) const { return receiveStaging + (k - 1) * slotBytes; }
  /// Sums a chunk over all ranks, in the order of ranks. `sum` holds this
  /// rank's chunk at first, and the sum at the end. The chunks of the other
  /// ranks are in the buffers that `slot` returns.
  void addAll(float *sum, int64_t count) const;

  Collectives &owner;
  Transport &transport;
  const CollectiveShape &shape;
  const Communicator &group;
  const int n, self, tag;
  const bool library;
  void *const destination;
  const void *const source;
  uint8_t *sendStaging, *receiveStaging, *sumStaging;
  int64_t mostInChunk, slotBytes;
};
} // namespace heddle::rt

CollectiveRun::CollectiveRun(Collectives &owner, const CollectiveCall &call)
    : owner(owner), transport(owner.transport), shape(*call.shape),
      group(*call.group), n(group.size()), self(group.position),
      tag(tagOf(shape.kind, group.id)),
      library(owner.useLibrary && shape.kind != CollectiveKind::Rotate &&
              shape.count <= INT_MAX),
      destination(call.destination), source(call.source) {
  if (shape.ranks != n)
    fail("H0922", "a collective over " + std::to_string(shape.ranks) +
                      " ranks in a group of " + std::to_string(n));
  plan::StagingLayout staging =
      library ? plan::libraryStagingLayout(shape) : plan::stagingLayout(shape);
  sendStaging = static_cast<uint8_t *>(call.staging);
  receiveStaging = sendStaging + staging.receive;
  sumStaging = sendStaging + staging.sum;
  mostInChunk = staging.chunk;
  slotBytes = staging.slot;
}

void CollectiveRun::exchange(int to, const void *data, int64_t bytes, int from,
                             void *into, int64_t intoBytes) {
  auto &counter =
      owner.sent.collectives[group.id][static_cast<int>(shape.kind)];
  counter.fetch_add(bytes, std::memory_order_relaxed);
  const uint8_t *out = static_cast<const uint8_t *>(data);
  uint8_t *in = static_cast<uint8_t *>(into);
  while (bytes > 0 || intoBytes > 0) {
    int64_t sends = std::min(bytes, Transport::maxMessageBytes);
    int64_t receives = std::min(intoBytes, Transport::maxMessageBytes);
    Request received, sent;
    if (receives > 0)
      received = transport.irecv(group.ranks[from], tag, in, receives);
    if (sends > 0)
      sent = transport.isend(group.ranks[to], tag, out, sends);
    if (receives > 0)
      transport.wait(received);
    if (sends > 0)
      transport.wait(sent);
    out += sends;
    in += receives;
    bytes -= sends;
    intoBytes -= receives;
  }
}

template <typename Function>
void CollectiveRun::forEachChunk(Function function) const {
  int64_t part = plan::partElements(shape, 0);
  for (int64_t first = 0; first < part; first += mostInChunk)
    function(Chunk{first, std::min(mostInChunk, part - first)});
}

template <typename Function>
void CollectiveRun::forEachRun(const PartLayout &layout, int part, Chunk chunk,
                               Function function) const {
  int64_t row = shape.count / layout.outer, end = chunk.first + chunk.count;
  size_t numSegments = std::max<size_t>(layout.segments.size(), 1);
  int64_t o = row < n ? 0 : chunk.first / (row / n);
  int64_t whole = o * row, own = o * (row / n);
  for (; o < layout.outer && own < end; ++o)
    for (size_t s = 0; s < numSegments; ++s) {
      int64_t segment = layout.segments.empty() ? row : layout.segments[s];
      int64_t run = segment / n;
      int64_t from = std::max(own, chunk.first), to = std::min(own + run, end);
      if (from < to)
        function(whole + part * run + from - own, from - chunk.first,
                 to - from);
      whole += segment;
      own += run;
    }
}

void CollectiveRun::takePart(const PartLayout &layout, int part, Chunk chunk,
                             const void *whole, DType wholeType, void *to,
                             DType toType) const {
  forEachRun(layout, part, chunk,
             [&](int64_t there, int64_t here, int64_t count) {
               convertElements(wholeType, at(whole, there, wholeType), toType,
                               at(to, here, toType), count);
             });
}

void CollectiveRun::putPart(const PartLayout &layout, int part, Chunk chunk,
                            const void *from, DType fromType, void *whole,
                            DType wholeType) const {
  forEachRun(layout, part, chunk,
             [&](int64_t there, int64_t here, int64_t count) {
               convertElements(fromType, at(from, here, fromType), wholeType,
                               at(whole, there, wholeType), count);
             });
}

/// A collective of a group of one rank: copies the source to the destination.
void CollectiveRun::copyToSelf() {
  convertElements(shape.type, source, shape.type, destination, shape.count);
}

void CollectiveRun::allGather() {
  const PartLayout &layout = shape.layout;
  bool converts = shape.type != shape.wire;
  bool inPlace = !converts && layout.isContiguous();
  forEachChunk([&](Chunk chunk) {
    int64_t bytes = chunk.count * plan::byteSize(shape.wire);
    const void *sends = at(source, chunk.first, shape.type);
    if (converts) {
      convertElements(shape.type, sends, shape.wire, sendStaging, chunk.count);
      sends = sendStaging;
    }
    putPart(layout, self, chunk, sends, shape.wire, destination, shape.type);
    for (int k = 1; k < n; ++k) {
      void *into =
          inPlace ? at(destination, begin(before(k)) + chunk.first, shape.type)
                  : receiveStaging;
      exchange(after(k), sends, bytes, before(k), into, bytes);
      if (!inPlace)
        putPart(layout, before(k), chunk, into, shape.wire, destination,
                shape.type);
    }
  });
}

void CollectiveRun::addAll(float *sum, int64_t count) const {
  constexpr int64_t most = 1024;
  float total[most];
  roundElements(sum, shape.wire, count);
  for (int64_t first = 0; first < count; first += most) {
    int64_t added = std::min(most, count - first);
    std::fill_n(total, added, 0.0f);
    for (int rank = 0; rank < n; ++rank)
      if (rank == self)
        addElements(total, DType::F32, sum + first, added);
      else
        addElements(total, shape.wire,
                    at(slot((n + self - rank) % n), first, shape.wire), added);
    std::copy_n(total, added, sum + first);
  }
}

void CollectiveRun::reduceScatter() {
  const PartLayout &layout = shape.layout;
  bool sumsInPlace = shape.type == DType::F32;
  bool sendsInPlace = shape.type == shape.wire && layout.isContiguous();
  forEachChunk([&](Chunk chunk) {
    int64_t bytes = chunk.count * plan::byteSize(shape.wire);
    void *place = at(destination, chunk.first, shape.type);
    float *sum = sumsInPlace ? static_cast<float *>(place)
                             : reinterpret_cast<float *>(sumStaging);
    takePart(layout, self, chunk, source, shape.type, sum, DType::F32);
    for (int k = 1; k < n; ++k) {
      const void *sends = at(source, begin(after(k)) + chunk.first, shape.type);
      if (!sendsInPlace) {
        takePart(layout, after(k), chunk, source, shape.type, sendStaging,
                 shape.wire);
        sends = sendStaging;
      }
      exchange(after(k), sends, bytes, before(k), slot(k), bytes);
    }
    addAll(sum, chunk.count);
    if (!sumsInPlace)
      convertElements(DType::F32, sum, shape.type, place, chunk.count);
  });
}

void CollectiveRun::allReduce() {
  bool sumsInPlace = shape.type == DType::F32;
  int64_t width = plan::byteSize(shape.wire);
  forEachChunk([&](Chunk chunk) {
    int64_t own = countOf(chunk, self);
    void *ownPlace = at(destination, begin(self) + chunk.first, shape.type);
    float *sum = sumsInPlace ? static_cast<float *>(ownPlace)
                             : reinterpret_cast<float *>(sumStaging);
    convertElements(shape.type,
                    at(source, begin(self) + chunk.first, shape.type),
                    DType::F32, sum, own);
    for (int k = 1; k < n; ++k) {
      int64_t piece = countOf(chunk, after(k));
      const void *sends = at(source, begin(after(k)) + chunk.first, shape.type);
      if (shape.type != shape.wire) {
        convertElements(shape.type, sends, shape.wire, sendStaging, piece);
        sends = sendStaging;
      }
      exchange(after(k), sends, piece * width, before(k), slot(k), own * width);
    }
    addAll(sum, own);
    if (shape.wire != shape.type)
      roundElements(sum, shape.wire, own);
    convertElements(DType::F32, sum, shape.type, ownPlace, own);
  });
  gatherPieces();
}

/// The all-gather at the end of an all-reduce. Unlike in other all-gathers, the
/// slices that the ranks contribute may differ in size.
void CollectiveRun::gatherPieces() {
  bool converts = shape.type != shape.wire;
  int64_t width = plan::byteSize(shape.wire);
  forEachChunk([&](Chunk chunk) {
    int64_t own = countOf(chunk, self);
    const void *sends = at(destination, begin(self) + chunk.first, shape.type);
    if (converts) {
      convertElements(shape.type, sends, shape.wire, sendStaging, own);
      sends = sendStaging;
    }
    for (int k = 1; k < n; ++k) {
      int64_t piece = countOf(chunk, before(k));
      void *place = at(destination, begin(before(k)) + chunk.first, shape.type);
      void *into = converts ? receiveStaging : place;
      exchange(after(k), sends, own * width, before(k), into, piece * width);
      if (converts)
        convertElements(shape.wire, into, shape.type, place, piece);
    }
  });
}

void CollectiveRun::allToAll() {
  bool converts = shape.type != shape.wire;
  bool sendsInPlace = !converts && shape.layout.isContiguous();
  bool receivesInPlace = !converts && shape.concat.isContiguous();
  forEachChunk([&](Chunk chunk) {
    int64_t bytes = chunk.count * plan::byteSize(shape.wire);
    for (int k = 0; k < n; ++k) {
      const void *sends = at(source, begin(after(k)) + chunk.first, shape.type);
      if (!sendsInPlace) {
        takePart(shape.layout, after(k), chunk, source, shape.type, sendStaging,
                 shape.wire);
        sends = sendStaging;
      }
      void *into =
          receivesInPlace
              ? at(destination, begin(before(k)) + chunk.first, shape.type)
              : receiveStaging;
      if (k == 0)
        into = const_cast<void *>(sends);
      else
        exchange(after(k), sends, bytes, before(k), into, bytes);
      if (k == 0 || !receivesInPlace)
        putPart(shape.concat, before(k), chunk, into, shape.wire, destination,
                shape.type);
    }
  });
}

void CollectiveRun::rotate() {
  bool converts = shape.type != shape.wire;
  forEachChunk([&](Chunk chunk) {
    int64_t bytes = chunk.count * plan::byteSize(shape.wire);
    const void *sends = at(source, chunk.first, shape.type);
    void *place = at(destination, chunk.first, shape.type);
    void *into = converts ? receiveStaging : place;
    if (converts) {
      convertElements(shape.type, sends, shape.wire, sendStaging, chunk.count);
      sends = sendStaging;
    }
    exchange(after(1), sends, bytes, before(1), into, bytes);
    if (converts)
      convertElements(shape.wire, into, shape.type, place, chunk.count);
  });
}

void CollectiveRun::libraryAllGather() {
  bool converts = shape.type != shape.wire;
  bool inPlace = !converts && shape.layout.isContiguous();
  int64_t part = plan::partElements(shape, self);
  const void *sends = source;
  if (converts) {
    convertElements(shape.type, source, shape.wire, sendStaging, part);
    sends = sendStaging;
  }
  void *into = inPlace ? destination : receiveStaging;
  if (sends == at(into, begin(self), shape.wire))
    sends = nullptr;
  transport.library()->allGather(sends, into, part, plan::byteSize(shape.wire),
                                 group.libraryGroup);
  for (int i = 0; i < n && !inPlace; ++i)
    putPart(shape.layout, i, {0, part}, at(into, begin(i), shape.wire),
            shape.wire, destination, shape.type);
}

void CollectiveRun::libraryReduceScatter() {
  bool sumsInPlace = shape.type == DType::F32;
  int64_t part = plan::partElements(shape, self);
  auto *sends = reinterpret_cast<float *>(sendStaging);
  for (int i = 0; i < n; ++i)
    takePart(shape.layout, i, {0, part}, source, shape.type, sends + i * part,
             DType::F32);
  auto *into = sumsInPlace ? static_cast<float *>(destination)
                           : reinterpret_cast<float *>(receiveStaging);
  transport.library()->reduceScatter(sends, into, part, group.libraryGroup);
  if (!sumsInPlace)
    convertElements(DType::F32, into, shape.type, destination, part);
}

void CollectiveRun::libraryAllReduce() {
  if (shape.type == DType::F32)
    return transport.library()->allReduce(static_cast<const float *>(source),
                                          static_cast<float *>(destination),
                                          shape.count, group.libraryGroup);
  auto *sum = reinterpret_cast<float *>(sendStaging);
  convertElements(shape.type, source, DType::F32, sum, shape.count);
  transport.library()->allReduce(sum, sum, shape.count, group.libraryGroup);
  convertElements(DType::F32, sum, shape.type, destination, shape.count);
}

void CollectiveRun::libraryAllToAll() {
  int64_t part = plan::partElements(shape, self);
  for (int i = 0; i < n; ++i)
    takePart(shape.layout, i, {0, part}, source, shape.type,
             at(sendStaging, i * part, shape.wire), shape.wire);
  transport.library()->allToAll(sendStaging, receiveStaging, part,
                                plan::byteSize(shape.wire), group.libraryGroup);
  for (int i = 0; i < n; ++i)
    putPart(shape.concat, i, {0, part},
            at(receiveStaging, i * part, shape.wire), shape.wire, destination,
            shape.type);
}

Collectives::Collectives(Transport &transport, bool useLibrary)
    : transport(transport), useLibrary(useLibrary) {
  if (useLibrary && transport.size() > 1 && !transport.library())
    fail("H0226",
         std::string("the collectives of the MPI library are asked for, but "
                     "the ranks talk over ") +
             transport.name(),
         "start the job with mpirun, or leave out --collectives library");
}

void Collectives::prepare(Communicator &group) {
  if (useLibrary && group.size() > 1 && group.libraryGroup < 0)
    group.libraryGroup = transport.library()->addGroup(group.ranks);
}

void Collectives::run(const CollectiveCall &call) {
  if (!log || call.group->size() == 1)
    return runUnlogged(call);
  int64_t begin = io::steadyNow();
  runUnlogged(call);
  log->add(*call.shape, call.group->name,
           double(io::steadyNow() - begin) * 1e-9);
}

void Collectives::runUnlogged(const CollectiveCall &call) {
  CollectiveRun run(*this, call);
  if (call.group->size() == 1)
    return run.copyToSelf();
  if (call.shape->count == 0)
    return;
  bool library = run.useLibrary();
  switch (call.shape->kind) {
  case CollectiveKind::AllReduce:
    return library ? run.libraryAllReduce() : run.allReduce();
  case CollectiveKind::ReduceScatter:
    return library ? run.libraryReduceScatter() : run.reduceScatter();
  case CollectiveKind::AllGather:
    return library ? run.libraryAllGather() : run.allGather();
  case CollectiveKind::AllToAll:
    return library ? run.libraryAllToAll() : run.allToAll();
  case CollectiveKind::Rotate:
    return run.rotate();
  }
}

/// Returns the message tag of a channel. Fails if the plan has more channels
/// than there are tags for channels.
static int checkedTag(int channel) {
  if (channel < 0 || channel >= numChannels)
    fail("H0922", "a plan's channel " + std::to_string(channel) +
                      " is not below " + std::to_string(numChannels));
  return channelTag + channel;
}

Request Collectives::send(int peer, int channel, const void *data,
                          int64_t bytes) {
  sent.pointToPoint.fetch_add(bytes, std::memory_order_relaxed);
  return transport.isend(peer, checkedTag(channel), data, bytes);
}

Request Collectives::receive(int peer, int channel, void *data, int64_t bytes) {
  return transport.irecv(peer, checkedTag(channel), data, bytes);
}
