//===- NcclLink.cpp - Communication of GPUs through NCCL ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads NCCL, makes communicators, and submits collectives and messages to
// streams.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/NcclLink.h"
#include "heddle/runtime/devices/cuda/Driver.h"
#include "heddle/runtime/devices/cuda/Libraries.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <chrono>
#include <cstdlib>
#include <dlfcn.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::nccl;

using plan::CollectiveKind;
using plan::CollectiveShape;
using plan::DType;
using plan::PartLayout;

/// The lowest supported version, in the number format of NCCL: 2.18.0.
static constexpr int lowestVersion = 21800;

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

/// Formats a version number of NCCL, for example as "2.18.0".
static std::string versionText(int version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

[[noreturn]] static void failMissing(const std::string &what) {
  fail("H0286",
       "several ranks with GPUs talk through NCCL, and there is none: " + what,
       "install NCCL 2.18 or newer where the loader finds it "
       "(LD_LIBRARY_PATH), or compile with --collectives fixed, which goes "
       "through the host's memory");
}

static Library loadLibrary() {
  // From version 2.22 on, NCCL connects ranks during their first collective,
  // which could be while a graph is captured. This variable makes NCCL connect
  // ranks when the communicator is made, unless the user has set it otherwise.
  setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  void *handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    failMissing(reason ? reason : "libnccl.so.2 is not there");
  }
  Library library;
#define HEDDLE_FIND(RESULT, NAME, SYMBOL, PARAMETERS)                          \
  library.NAME =                                                               \
      reinterpret_cast<decltype(library.NAME)>(dlsym(handle, #SYMBOL));        \
  if (!library.NAME)                                                           \
    failMissing("libnccl.so.2 is too old, it has no " #SYMBOL);
  HEDDLE_NCCL_CALLS(HEDDLE_FIND)
#undef HEDDLE_FIND
  int version = 0;
  library.check(library.version(&version), "asking for its version");
  if (version < lowestVersion)
    failMissing("libnccl.so.2 is too old, version " + versionText(version));
  return library;
}

const Library &Library::get() {
  // The library is never unloaded, since its state in this process could not be
  // restored.
  static const Library library = loadLibrary();
  return library;
}

FoundLibrary heddle::rt::findNccl() {
  try {
    const Library &library = Library::get();
    int version = 0;
    library.check(library.version(&version), "asking for its version");
    auto *place = reinterpret_cast<void *>(library.version);
    return {versionText(version), cuda::pathOfLibrary(place), ""};
  } catch (const UserError &error) {
    return {"", "", error.diagnostic.message};
  }
}

void Library::check(Result result, const std::string &doing) const {
  // InProgress is no error: the work of a communicator may continue after the
  // call.
  if (result == Success || result == InProgress)
    return;
  fail("H0441",
       "NCCL failed, as seen in " + doing + ": " + errorText(result) + " (" +
           std::to_string(result) + ")",
       "run it again with NCCL_DEBUG=WARN, which says more, then go on from "
       "the last checkpoint with --resume");
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

Link::Link(const Library &library, Streams streams)
    : library(library), streams(std::move(streams)),
      watcher([this] { watch(); }) {}

Link::~Link() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isEnding = true;
  }
  ending.notify_all();
  watcher.join();
  for (const Group &group : groups)
    if (!isAborted)
      library.destroy(group.comm);
}

void Link::watch() {
  constexpr std::chrono::milliseconds pause(100);
  std::unique_lock<std::mutex> lock(mutex);
  while (!ending.wait_for(lock, pause, [&] { return isEnding; })) {
    for (const Group &group : groups) {
      Result now = Success;
      if (isAborted || library.asyncError(group.comm, &now) != Success)
        break;
      if (now != Success && now != InProgress)
        found = now;
    }
    if (found == Success || isAborted)
      continue;
    // Aborting the communicator ends operations that hang, so that the host no
    // longer waits for them and sees the error.
    isAborted = true;
    for (const Group &group : groups)
      library.abort(group.comm);
  }
}

void Link::abort() {
  std::lock_guard<std::mutex> lock(mutex);
  if (isAborted)
    return;
  isAborted = true;
  for (const Group &group : groups)
    library.abort(group.comm);
}

void Link::check() const {
  // The process calls `abort` when it reports an error, and ends within ten
  // seconds. Sleep until the process ends, so that this thread does not report
  // a second error.
  constexpr std::chrono::seconds parting(10);
  std::unique_lock<std::mutex> lock(mutex);
  bool isLost = isAborted && found == Success;
  Result result = isLost ? RemoteError : found;
  lock.unlock();
  if (isLost)
    std::this_thread::sleep_for(parting);
  library.check(result, "work that a stream did");
}

/// Returns a new unique id of NCCL, as hexadecimal digits.
std::string Link::nameGroup() {
  UniqueId id;
  library.check(library.newId(&id), "making a communicator's id");
  constexpr const char *digits = "0123456789abcdef";
  std::string name;
  for (unsigned char byte : id.internal)
    name += {digits[byte >> 4], digits[byte & 15]};
  return name;
}

int Link::join(const std::string &name, int ranks, int position) {
  UniqueId id = {};
  for (size_t i = 0; i < sizeof id.internal && 2 * i + 1 < name.size(); ++i)
    id.internal[i] = char(std::stoi(name.substr(2 * i, 2), nullptr, 16));
  Group group = {nullptr, ranks, position};
  library.check(library.initRank(&group.comm, ranks, id, position),
                "making a communicator of " + std::to_string(ranks) + " ranks");
  std::lock_guard<std::mutex> lock(mutex);
  groups.push_back(group);
  return int(groups.size()) - 1;
}

/// Sends one byte in each direction between ranks that will exchange messages.
/// NCCL connects two ranks at their first message, and blocks the host of each
/// until the other one has submitted that message too. The ranks capture their
/// steps in different orders. Without this exchange they could therefore wait
/// for each other forever.
void Link::connect(int number, const std::vector<int> &to,
                   const std::vector<int> &from) {
  if (to.empty() && from.empty())
    return;
  const cuda::Driver &driver = cuda::Driver::get();
  const Group &group = groups[number];
  StreamHandle stream = streams.find(Stream::Communication);
  cuda::DevicePointer bytes = 0;
  cuda::check(driver.allocate(&bytes, to.size() + from.size()),
              "memory for the first messages");
  Address next(bytes);
  cuda::check(driver.fill(bytes, 0, to.size() + from.size(), stream), "a fill");
  together([&] {
    for (int peer : to) {
      moveOut(group, stream, peer, next, 1);
      next = next + 1;
    }
    for (int peer : from) {
      moveIn(group, stream, peer, next, 1);
      next = next + 1;
    }
  });
  cuda::check(driver.finishStream(stream), "the first messages");
  cuda::check(driver.release(bytes), "memory for the first messages");
  check();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

DataType nccl::typeOf(DType type) {
  switch (type) {
  case DType::F32:
    return Float32;
  case DType::BF16:
    return Bfloat16;
  case DType::F16:
    return Float16;
  case DType::F64:
    return Float64;
  case DType::I32:
    return Int32;
  case DType::I64:
    return Int64;
  case DType::U8:
    return Uint8;
  }
  return Uint8;
}

void *nccl::pointer(Address address) {
  return reinterpret_cast<void *>(address.value());
}

/// The whole tensor is a sequence of segments, and each rank has an equal share
/// of every segment. Calls `function` for each segment, with its index in the
/// whole tensor, and with its index and length in the shard of each rank.
template <typename Function>
static void forEachSegment(const CollectiveShape &shape, Function function) {
  const PartLayout &layout = shape.layout;
  int64_t row = shape.count / layout.outer, n = shape.ranks, whole = 0;
  std::vector<int64_t> segments = layout.segments;
  if (segments.empty())
    segments.push_back(row);
  for (int64_t o = 0; o < layout.outer; ++o)
    for (int64_t segment : segments) {
      if (segment > 0)
        function(whole, whole / n, segment / n);
      whole += segment;
    }
}

std::pair<int64_t, int64_t> nccl::contiguousFrom(const PartLayout &layout,
                                                 const CollectiveShape &shape,
                                                 int64_t part,
                                                 int64_t element) {
  int64_t n = shape.ranks, row = shape.count / layout.outer;
  int64_t whole = element / (row / n) * row, left = element % (row / n);
  std::vector<int64_t> segments = layout.segments;
  if (segments.empty())
    segments.push_back(row);
  for (int64_t segment : segments) {
    int64_t run = segment / n;
    if (left < run)
      return {whole + part * run + left, run - left};
    left -= run;
    whole += segment;
  }
  return {whole, 0};
}

void Link::together(const std::function<void()> &calls) const {
  library.check(library.groupStart(), "the begin of a group of calls");
  calls();
  library.check(library.groupEnd(), "a group of calls");
}

void Link::moveOut(const Group &group, StreamHandle stream, int peer,
                   Address from, int64_t bytes) const {
  library.check(
      library.send(pointer(from), bytes, Uint8, peer, group.comm, stream),
      "a send");
}

void Link::moveIn(const Group &group, StreamHandle stream, int peer, Address to,
                  int64_t bytes) const {
  library.check(
      library.receive(pointer(to), bytes, Uint8, peer, group.comm, stream),
      "a receive");
}

/// Elements that are contiguous in the layout of the sender may not be
/// contiguous in that of the receiver. Therefore each message has only elements
/// that are contiguous in both.
void Link::allToAll(const Group &group, StreamHandle stream,
                    const CollectiveShape &shape, Address target,
                    Address source) const {
  int64_t width = plan::byteSize(shape.type);
  int64_t part = shape.count / shape.ranks;
  for (int peer = 0; peer < group.ranks; ++peer)
    for (int64_t i = 0; i < part;) {
      auto [there, together] = contiguousFrom(shape.layout, shape, peer, i);
      auto [here, alike] = contiguousFrom(shape.concat, shape, peer, i);
      int64_t length = std::min({together, alike, part - i});
      moveOut(group, stream, peer, source + there * width, length * width);
      moveIn(group, stream, peer, target + here * width, length * width);
      i += length;
    }
}

void Link::rotate(const Group &group, StreamHandle stream,
                  const CollectiveShape &shape, Address target,
                  Address source) const {
  int n = group.ranks, self = group.position;
  int64_t bytes = shape.count * plan::byteSize(shape.type);
  moveOut(group, stream, (self + 1) % n, source, bytes);
  moveIn(group, stream, (self + n - 1) % n, target, bytes);
}

void Link::run(Stream on, int number, const CollectiveShape &shape,
               Address target, Address source, Address staging,
               int64_t stagingBytes) {
  check();
  const Group &group = groups[number];
  StreamHandle stream = streams.find(on);
  if (shape.type != shape.wire)
    return runCast(
        {group, stream, shape, target, source, staging, stagingBytes});
  DataType type = typeOf(shape.type);
  int64_t width = plan::byteSize(shape.type);
  auto called = [&](Result result) {
    library.check(result, std::string("an ") + plan::nameOf(shape.kind));
  };
  switch (shape.kind) {
  case CollectiveKind::AllReduce:
    return called(library.allReduce(pointer(source), pointer(target),
                                    shape.count, type, Sum, group.comm,
                                    stream));
  case CollectiveKind::ReduceScatter:
    return together([&] {
      forEachSegment(shape, [&](int64_t whole, int64_t own, int64_t run) {
        called(library.reduceScatter(pointer(source + whole * width),
                                     pointer(target + own * width), run, type,
                                     Sum, group.comm, stream));
      });
    });
  case CollectiveKind::AllGather:
    return together([&] {
      forEachSegment(shape, [&](int64_t whole, int64_t own, int64_t run) {
        called(library.allGather(pointer(source + own * width),
                                 pointer(target + whole * width), run, type,
                                 group.comm, stream));
      });
    });
  case CollectiveKind::AllToAll:
    return together([&] { allToAll(group, stream, shape, target, source); });
  case CollectiveKind::Rotate:
    return together([&] { rotate(group, stream, shape, target, source); });
  }
}

void Link::send(Stream stream, int group, int peer, Address data,
                int64_t bytes) {
  check();
  moveOut(groups[group], streams.find(stream), peer, data, bytes);
}

void Link::receive(Stream stream, int group, int peer, Address data,
                   int64_t bytes) {
  check();
  moveIn(groups[group], streams.find(stream), peer, data, bytes);
}
