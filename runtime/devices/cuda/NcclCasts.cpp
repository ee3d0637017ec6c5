//===- NcclCasts.cpp - Collectives in another type ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives that send another type than that of the plan's buffers. NCCL
// sends and adds values of one type. Therefore, data is cast before it is sent
// and after it is received. Staging memory holds the data in the sent type. A
// large collective takes several rounds, each with as much data as the staging
// memory holds. All of this runs on one stream.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/NcclLink.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::nccl;

using plan::CollectiveKind;
using plan::CollectiveShape;
using plan::DType;

int64_t Link::Cast::most() const {
  constexpr int64_t even = 8;
  int64_t most = stagingBytes / wireBytes() / shape.ranks;
  return most < even ? most : most / even * even;
}

bool Link::takes(const CollectiveShape &shape, int64_t stagingBytes) {
  if (shape.type == shape.wire)
    return true;
  bool isKnown = shape.kind == CollectiveKind::AllReduce ||
                 shape.kind == CollectiveKind::ReduceScatter ||
                 shape.kind == CollectiveKind::AllGather;
  bool isTaken = isKnown && cuda::Casts::takes(shape.type) &&
                 cuda::Casts::takes(shape.wire) &&
                 stagingBytes >= shape.ranks * plan::byteSize(shape.wire);
  if (isTaken && !casts)
    casts = std::make_unique<cuda::Casts>(cuda::Driver::get());
  return isTaken;
}

void Link::runCast(const Cast &cast) {
  switch (cast.shape.kind) {
  case CollectiveKind::AllReduce:
    return reduceCast(cast);
  case CollectiveKind::ReduceScatter:
    return scatterCast(cast);
  default:
    return gatherCast(cast);
  }
}

void Link::reduceCast(const Cast &cast) {
  const CollectiveShape &shape = cast.shape;
  int64_t most = cast.most() * shape.ranks;
  for (int64_t done = 0; done < shape.count; done += most) {
    int64_t count = std::min(most, shape.count - done);
    casts->submit(cast.stream, shape.wire, cast.staging, shape.type,
                  cast.source + done * cast.ownBytes(), count);
    void *staged = pointer(cast.staging);
    library.check(library.allReduce(staged, staged, count, typeOf(shape.wire),
                                    Sum, cast.group.comm, cast.stream),
                  "an all_reduce");
    casts->submit(cast.stream, shape.type, cast.target + done * cast.ownBytes(),
                  shape.wire, cast.staging, count);
  }
}

/// Calls `function` for contiguous ranges of elements. Together these ranges
/// are the elements `begin` to `begin` + `count` - 1 of the shard of every
/// rank. `function` gets the index of a range in the whole tensor, its index in
/// staging memory, and its length.
template <typename Function>
static void forEachContiguous(const CollectiveShape &shape, int64_t begin,
                              int64_t count, Function function) {
  for (int64_t part = 0; part < shape.ranks; ++part)
    for (int64_t i = 0; i < count;) {
      auto [whole, together] =
          contiguousFrom(shape.layout, shape, part, begin + i);
      int64_t length = std::min(together, count - i);
      function(whole, part * count + i, length);
      i += length;
    }
}

void Link::scatterCast(const Cast &cast) {
  const CollectiveShape &shape = cast.shape;
  int64_t part = shape.count / shape.ranks, most = cast.most();
  for (int64_t done = 0; done < part; done += most) {
    int64_t count = std::min(most, part - done);
    forEachContiguous(
        shape, done, count, [&](int64_t whole, int64_t staged, int64_t length) {
          casts->submit(cast.stream, shape.wire, cast.staged(staged),
                        shape.type, cast.source + whole * cast.ownBytes(),
                        length);
        });
    Address own = cast.staged(cast.group.position * count);
    library.check(library.reduceScatter(pointer(cast.staging), pointer(own),
                                        count, typeOf(shape.wire), Sum,
                                        cast.group.comm, cast.stream),
                  "a reduce_scatter");
    casts->submit(cast.stream, shape.type, cast.target + done * cast.ownBytes(),
                  shape.wire, own, count);
  }
}

void Link::gatherCast(const Cast &cast) {
  const CollectiveShape &shape = cast.shape;
  int64_t part = shape.count / shape.ranks, most = cast.most();
  for (int64_t done = 0; done < part; done += most) {
    int64_t count = std::min(most, part - done);
    Address own = cast.staged(cast.group.position * count);
    casts->submit(cast.stream, shape.wire, own, shape.type,
                  cast.source + done * cast.ownBytes(), count);
    library.check(library.allGather(pointer(own), pointer(cast.staging), count,
                                    typeOf(shape.wire), cast.group.comm,
                                    cast.stream),
                  "an all_gather");
    forEachContiguous(shape, done, count,
                      [&](int64_t whole, int64_t staged, int64_t length) {
                        casts->submit(cast.stream, shape.type,
                                      cast.target + whole * cast.ownBytes(),
                                      shape.wire, cast.staged(staged), length);
                      });
  }
}
