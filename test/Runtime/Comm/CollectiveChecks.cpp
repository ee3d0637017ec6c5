//===- CollectiveChecks.cpp - Collectives against a reference -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Runtime/Comm/CollectiveChecks.h"
#include "../Meshes.h"

#include "heddle/runtime/comm/Executor.h"
#include "heddle/runtime/io/Float.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

using namespace heddle;
using namespace heddle::rt;
using plan::CollectiveKind;
using plan::CollectiveShape;
using plan::DType;
using plan::PartLayout;

using Bytes = std::vector<uint8_t>;

static double load(DType type, const uint8_t *at) {
  uint16_t half;
  int32_t whole;
  float single;
  switch (type) {
  case DType::F32:
    std::memcpy(&single, at, 4);
    return single;
  case DType::I32:
    std::memcpy(&whole, at, 4);
    return whole;
  case DType::BF16:
    std::memcpy(&half, at, 2);
    return io::bf16ToFloat(half);
  default:
    std::memcpy(&half, at, 2);
    return io::f16ToFloat(half);
  }
}

static void store(DType type, uint8_t *at, double value) {
  float single = static_cast<float>(value);
  int32_t whole = static_cast<int32_t>(value);
  uint16_t half =
      type == DType::BF16 ? io::floatToBF16(single) : io::floatToF16(single);
  if (type == DType::F32)
    std::memcpy(at, &single, 4);
  else if (type == DType::I32)
    std::memcpy(at, &whole, 4);
  else
    std::memcpy(at, &half, 2);
}

static double rounded(DType type, double value) {
  uint8_t bytes[4];
  store(type, bytes, value);
  return load(type, bytes);
}

/// Element `i` of rank `rank`'s source: small integers, or in [-1, 1).
static double sourceValue(bool random, int rank, int64_t i) {
  if (!random)
    return (rank * 31 + i * 7) % 17 - 8;
  uint64_t bits = (uint64_t(rank) * 1000003 + i + 1) * 0x9E3779B97F4A7C15;
  bits = (bits ^ bits >> 29) * 0xBF58476D1CE4E5B9;
  return double(bits >> 40) / double(1 << 23) - 1;
}

static int64_t sourceCount(const CollectiveShape &shape) {
  return shape.kind == CollectiveKind::AllGather ? shape.count / shape.ranks
                                                 : shape.count;
}

static int64_t resultCount(const CollectiveShape &shape) {
  return shape.kind == CollectiveKind::ReduceScatter ? shape.count / shape.ranks
                                                     : shape.count;
}

static std::vector<double> sourceOf(const CollectiveShape &shape, bool random,
                                    int rank) {
  std::vector<double> values(sourceCount(shape));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = rounded(shape.type, sourceValue(random, rank, i));
  return values;
}

/// For each rank, the elements of the whole that are its part, in order.
static std::vector<std::vector<int64_t>> partsOf(const CollectiveShape &shape,
                                                 const PartLayout &layout) {
  std::vector<std::vector<int64_t>> parts(shape.ranks);
  std::vector<int64_t> segments = layout.segments;
  if (segments.empty())
    segments = {shape.count / layout.outer};
  int64_t next = 0;
  for (int64_t row = 0; row < layout.outer; ++row)
    for (int64_t segment : segments)
      for (std::vector<int64_t> &part : parts)
        for (int64_t i = 0; i < segment / shape.ranks; ++i)
          part.push_back(next++);
  return parts;
}

/// In the order of the ranks, with what is added rounded, in `Sum`.
template <typename Sum>
static double sumFor(const CollectiveShape &shape, int64_t element,
                     const std::vector<std::vector<double>> &sources) {
  if (shape.ranks == 1)
    return sources[0][element];
  Sum sum = 0;
  for (const std::vector<double> &source : sources)
    sum += static_cast<Sum>(rounded(shape.wire, source[element]));
  return sum;
}

/// What rank `self` must hold, sums taken in `Sum`.
template <typename Sum>
static std::vector<double>
expected(const CollectiveShape &shape, int self,
         const std::vector<std::vector<double>> &sources) {
  std::vector<double> result(resultCount(shape));
  int n = static_cast<int>(shape.ranks);
  bool travels = n > 1;
  if (shape.kind == CollectiveKind::AllReduce) {
    for (int64_t i = 0; i < shape.count; ++i) {
      double sum = sumFor<Sum>(shape, i, sources);
      result[i] = travels ? rounded(shape.type, rounded(shape.wire, sum)) : sum;
    }
    return result;
  }
  if (shape.kind == CollectiveKind::Rotate) {
    for (int64_t i = 0; i < shape.count; ++i) {
      double value = sources[(self + n - 1) % n][i];
      result[i] =
          travels ? rounded(shape.type, rounded(shape.wire, value)) : value;
    }
    return result;
  }
  std::vector<std::vector<int64_t>> parts = partsOf(shape, shape.layout);
  for (size_t i = 0; i < parts[self].size(); ++i) {
    if (shape.kind == CollectiveKind::ReduceScatter) {
      double sum = sumFor<Sum>(shape, parts[self][i], sources);
      result[i] = travels ? rounded(shape.type, sum) : sum;
      continue;
    }
    for (int from = 0; from < n; ++from) {
      bool gathers = shape.kind == CollectiveKind::AllGather;
      double value = gathers ? sources[from][i] : sources[from][parts[self][i]];
      int64_t place =
          gathers ? parts[from][i] : partsOf(shape, shape.concat)[from][i];
      result[place] =
          travels ? rounded(shape.type, rounded(shape.wire, value)) : value;
    }
  }
  return result;
}

static std::string describe(const CollectiveShape &shape) {
  static const char *const kinds[] = {"all_reduce", "reduce_scatter",
                                      "all_gather", "all_to_all", "rotate"};
  std::ostringstream text;
  text << kinds[static_cast<int>(shape.kind)] << " of " << shape.count << " "
       << plan::nameOf(shape.type) << " over " << plan::nameOf(shape.wire)
       << ", rows " << shape.layout.outer << "/" << shape.concat.outer
       << ", segments " << shape.layout.segments.size() << "/"
       << shape.concat.segments.size();
  return text.str();
}

static uint8_t *alignedStart(Bytes &bytes) {
  return reinterpret_cast<uint8_t *>(
      (reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
}

/// Fills the source, runs the collective and gives the destination's bytes.
/// What lies behind the buffers must stay as it was.
static std::string runOne(Collectives &collectives,
                          const CollectiveShape &shape,
                          const Communicator &group, bool random,
                          bool useLibrary, Bytes &result) {
  constexpr size_t guard = 64;
  int64_t width = plan::byteSize(shape.type);
  std::vector<double> values =
      sourceOf(shape, random, group.ranks[group.position]);
  Bytes source(values.size() * width + guard, 0xA5);
  for (size_t i = 0; i < values.size(); ++i)
    store(shape.type, &source[i * width], values[i]);
  size_t resultBytes = resultCount(shape) * width;
  int64_t stagingBytes = plan::stagingBytes(shape, useLibrary);
  result.assign(resultBytes + guard, 0xA5);
  Bytes staging(stagingBytes + 64 + guard, 0xA5);
  uint8_t *aligned = alignedStart(staging);
  Bytes before = source;
  collectives.run({&shape, &group, result.data(), source.data(), aligned});
  for (size_t i = 0; i < guard; ++i)
    if (result[resultBytes + i] != 0xA5 || aligned[stagingBytes + i] != 0xA5)
      return describe(shape) + ": wrote past the end of a buffer";
  if (source != before)
    return describe(shape) + ": changed its source";
  result.resize(resultBytes);
  return "";
}

static std::string compare(const CollectiveShape &shape, bool bitwise,
                           bool exact, const Bytes &result,
                           const std::vector<double> &inDouble,
                           const std::vector<double> &inOrder) {
  int64_t width = plan::byteSize(shape.type);
  bool narrow = shape.type != DType::F32 || shape.wire != DType::F32;
  double tolerance = exact ? 0 : narrow ? 0.02 : 1e-6;
  for (size_t i = 0; i < inDouble.size(); ++i) {
    double value = load(shape.type, &result[i * width]);
    std::ostringstream text;
    text.precision(9);
    text << describe(shape) << ": element " << i << " is " << value;
    if (std::abs(value - inDouble[i]) > tolerance * shape.ranks)
      return text.str() + ", not " + std::to_string(inDouble[i]);
    if (bitwise && value != inOrder[i])
      return text.str() + ", not the sum in the documented order";
  }
  return "";
}

static void addLayouts(std::vector<CollectiveShape> &shapes,
                       CollectiveShape shape) {
  int64_t n = shape.ranks;
  PartLayout rows{3, {}}, segments{1, {2 * n, 4 * n}},
      both{3, {5 * n, n, 2 * n}};
  for (int64_t part : {0, 1, 37}) {
    shape.count = part * n;
    shape.layout = shape.concat = {};
    shapes.push_back(shape);
  }
  struct {
    PartLayout layout;
    int64_t count;
  } cases[] = {{rows, 15 * n}, {segments, 6 * n}, {both, 24 * n}};
  for (const auto &each : cases) {
    shape.count = each.count;
    shape.layout = each.layout;
    shape.concat = {};
    shapes.push_back(shape);
    if (shape.kind != CollectiveKind::AllToAll)
      continue;
    shape.concat = {6, {}};
    shape.count = 30 * n * each.layout.outer;
    if (each.layout.segments.empty())
      shapes.push_back(shape);
    shape.count = each.count;
    std::swap(shape.layout, shape.concat);
    shape.layout = {};
    shapes.push_back(shape);
  }
}

std::vector<CollectiveShape> test::collectiveShapes(int ranks) {
  using Pair = std::pair<DType, DType>;
  std::vector<CollectiveShape> shapes;
  for (Pair types :
       {Pair(DType::F32, DType::F32), Pair(DType::F32, DType::BF16),
        Pair(DType::BF16, DType::BF16), Pair(DType::F16, DType::F16),
        Pair(DType::F32, DType::F16), Pair(DType::BF16, DType::F32),
        Pair(DType::I32, DType::I32)})
    for (int kind = 0; kind < plan::numCollectiveKinds; ++kind) {
      CollectiveShape shape;
      shape.kind = static_cast<CollectiveKind>(kind);
      shape.type = types.first;
      shape.wire = types.second;
      shape.ranks = ranks;
      bool sums = kind <= static_cast<int>(CollectiveKind::ReduceScatter);
      if (sums && shape.type == DType::I32)
        continue;
      if (shape.kind != CollectiveKind::AllReduce &&
          shape.kind != CollectiveKind::Rotate) {
        addLayouts(shapes, shape);
        continue;
      }
      for (int64_t count : {0, 1, 2, 3, 4, 7, 16, 1001}) {
        shape.count = count;
        shapes.push_back(shape);
      }
    }
  // The same in pieces, where staging is for sends, for receives and for sums.
  for (size_t i = 0, size = shapes.size(); i < size; ++i)
    if (shapes[i].wire == DType::BF16 && shapes[i].count > 7 * ranks) {
      shapes.push_back(shapes[i]);
      shapes.back().mostStaged = 7;
    }
  return shapes;
}

static std::string checkOne(Collectives &collectives,
                            const CollectiveShape &shape,
                            const Communicator &group, bool random,
                            bool useLibrary) {
  auto &counter =
      collectives.traffic().collectives[group.id][static_cast<int>(shape.kind)];
  int64_t before = counter;
  Bytes result;
  std::string problem =
      runOne(collectives, shape, group, random, useLibrary, result);
  if (!problem.empty())
    return problem;
  std::vector<std::vector<double>> sources;
  for (int rank : group.ranks)
    sources.push_back(sourceOf(shape, random, rank));
  problem = compare(shape, !useLibrary, !random, result,
                    expected<double>(shape, group.position, sources),
                    expected<float>(shape, group.position, sources));
  if (!problem.empty())
    return problem;
  int64_t sent = counter - before;
  // No MPI library has a collective that rotates.
  bool byLibrary = useLibrary && shape.kind != CollectiveKind::Rotate;
  int64_t planned = byLibrary ? 0 : plan::bytesSent(shape, group.position);
  if (sent != planned)
    return describe(shape) + ": sent " + std::to_string(sent) +
           " bytes, planned " + std::to_string(planned);
  return "";
}

/// The same result where source and destination share memory, for those kinds
/// that allow it.
static std::string checkInPlace(Collectives &collectives,
                                const CollectiveShape &shape,
                                const Communicator &group, bool useLibrary) {
  using Kind = CollectiveKind;
  if (shape.kind == Kind::AllToAll || shape.kind == Kind::Rotate ||
      (shape.kind != Kind::AllReduce && !shape.layout.isContiguous()))
    return "";
  Bytes apart;
  std::string problem =
      runOne(collectives, shape, group, /*random=*/true, useLibrary, apart);
  if (!problem.empty())
    return problem;
  int64_t width = plan::byteSize(shape.type);
  std::vector<double> values =
      sourceOf(shape, true, group.ranks[group.position]);
  Bytes whole(shape.count * width + 1);
  uint8_t *part =
      whole.data() + shape.count / shape.ranks * group.position * width;
  uint8_t *source = shape.kind == Kind::AllGather ? part : whole.data();
  uint8_t *result = shape.kind == Kind::ReduceScatter ? part : whole.data();
  for (size_t i = 0; i < values.size(); ++i)
    store(shape.type, source + i * width, values[i]);
  Bytes staging(plan::stagingBytes(shape, useLibrary) + 64);
  collectives.run({&shape, &group, result, source, alignedStart(staging)});
  if (!std::equal(apart.begin(), apart.end(), result))
    return describe(shape) + ": another result in place";
  return "";
}

/// All ranks in one group: those along data.
static Communicator worldGroup(const Transport &transport) {
  plan::Mesh mesh = test::meshOf(1, transport.size());
  return makeCommunicator(mesh, {"data"}, transport.rank());
}

std::string test::checkCollectives(Transport &transport, bool useLibrary) {
  Collectives collectives(transport, useLibrary);
  Communicator group = worldGroup(transport);
  collectives.prepare(group);
  std::string first;
  // All shapes are run, so that no other rank waits for this one.
  for (const CollectiveShape &shape : collectiveShapes(transport.size()))
    for (bool random : {false, true}) {
      std::string problem =
          checkOne(collectives, shape, group, random, useLibrary);
      if (problem.empty())
        problem = checkInPlace(collectives, shape, group, useLibrary);
      if (first.empty())
        first = problem;
    }
  return first;
}

std::string test::digestCollectives(Transport &transport) {
  Collectives collectives(transport);
  Communicator group = worldGroup(transport);
  Bytes all, result;
  for (const CollectiveShape &shape : collectiveShapes(transport.size())) {
    runOne(collectives, shape, group, /*random=*/true, false, result);
    if (shape.kind == CollectiveKind::AllReduce ||
        shape.kind == CollectiveKind::AllGather)
      all.insert(all.end(), result.begin(), result.end());
  }
  return plan::hashBytes(all.data(), all.size());
}

std::string test::checkGroups(Transport &transport, const plan::Mesh &mesh,
                              bool threaded) {
  Collectives collectives(transport);
  Executor executor(collectives, transport, threaded);
  int self = transport.rank();
  std::vector<Communicator> groups;
  for (const std::vector<std::string> &axes :
       std::vector<std::vector<std::string>>{
           {"data"}, {"tensor"}, {"seq", "tensor"}, {"data", "seq"}, {"pipe"}})
    groups.push_back(makeCommunicator(mesh, axes, self));
  constexpr int64_t count = 1013;
  int next = (self + 1) % transport.size();
  int previous = (self + transport.size() - 1) % transport.size();
  for (int round = 0; round < 5; ++round) {
    std::vector<std::vector<float>> sums(groups.size());
    std::vector<Bytes> stagings(groups.size());
    std::vector<CollectiveShape> shapes(groups.size());
    Executor::Ticket last = 0;
    int32_t token = self * 100 + round, received[2] = {-1, -1};
    Request into[2], out[2];
    for (int channel : {0, 1})
      into[channel] = collectives.receive(previous, channel, &received[channel],
                                          sizeof token);
    for (size_t i = 0; i < groups.size(); ++i) {
      shapes[i].ranks = groups[i].size();
      shapes[i].count = count;
      sums[i].assign(count, static_cast<float>(self + round));
      stagings[i].resize(plan::stagingBytes(shapes[i]) + 64);
      last = executor.start({&shapes[i], &groups[i], sums[i].data(),
                             sums[i].data(), alignedStart(stagings[i])});
      // The channels in another order than the receives.
      if (i < 2)
        out[1 - i] = collectives.send(next, static_cast<int>(1 - i), &token,
                                      sizeof token);
    }
    executor.wait(last);
    for (int channel : {0, 1}) {
      collectives.wait(into[channel]);
      collectives.wait(out[channel]);
      if (received[channel] != previous * 100 + round)
        return "received another message than was sent";
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      float sum = 0;
      for (int rank : groups[i].ranks)
        sum += static_cast<float>(rank + round);
      for (float value : sums[i])
        if (value != sum)
          return "a wrong sum over " + groups[i].name;
    }
  }
  if (collectives.traffic().pointToPoint != 5 * 2 * 4)
    return "sends are not counted";
  return "";
}
