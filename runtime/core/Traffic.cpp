//===- Traffic.cpp - Counts sends and copies of a program -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Traffic.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>

using namespace heddle;
using namespace heddle::rt;

using plan::Command;

plan::CollectiveShape heddle::rt::shapeOf(const plan::Collective &collective,
                                          int64_t ranks, int64_t targetBytes,
                                          int64_t sourceBytes) {
  using Kind = plan::Collective::Kind;
  plan::CollectiveShape shape;
  shape.kind = collective.kind;
  shape.type = collective.type;
  shape.wire = collective.wire;
  shape.ranks = ranks;
  bool gathers = collective.kind == Kind::AllGather;
  shape.count =
      (gathers ? targetBytes : sourceBytes) / plan::byteSize(collective.type);
  bool splitsAndGathers = collective.kind == Kind::AllToAll;
  shape.layout.outer =
      splitsAndGathers ? collective.splitOuter : collective.outer;
  shape.layout.segments =
      splitsAndGathers ? collective.splitSegments : collective.segments;
  shape.concat.outer = collective.outer;
  shape.concat.segments = collective.segments;
  return shape;
}

namespace {

/// Walks the command sequences of a program and counts messages and copies. A
/// sequence in a loop is walked once, and its bytes are multiplied by the
/// number of iterations.
class TrafficCounter {
public:
  TrafficCounter(const plan::Plan &plan, int64_t rank)
      : plan(plan), rank(rank) {}

  /// Counts one run of the program.
  void count(const plan::Program &program) {
    countSequence(program.sequence, 1, 0);
    if (left.empty())
      return await(begun);
    // Discard the counts of the program's first run, and count its second run,
    // which is like all later ones: each of them begins with asynchronous work
    // that the run before it has left.
    for (auto &[kinds, line] : moves)
      line = MoveLine();
    lines.clear();
    host = HostUpdates();
    countSequence(program.sequence, 1, 0);
  }
  std::map<std::tuple<std::string, std::string, std::string, plan::DType>,
           TrafficLine>
      lines;
  std::map<std::pair<plan::MemoryKind, plan::MemoryKind>, MoveLine> moves;
  HostUpdates host;

private:
  void countSequence(int64_t number, int64_t times, int depth);
  void countCommand(const Command &command, int64_t times, int depth);
  void addCollective(const Command &command,
                     const plan::command::Collective &start, int64_t times);
  void addCopy(const Command &command, const plan::command::Copy &copy,
               int64_t times);
  void addMove(const Command &command, const plan::Ref &target,
               const plan::Ref &source, int64_t bytes, int64_t times);
  void add(const Command &command, const std::string &axes,
           const std::string &kind, plan::DType wire, int64_t times,
           int64_t bytes);

  /// The work that is done at some time. For each stream: how many of its
  /// asynchronous copies and of its optimizer updates on the host's cores are
  /// done. They end in the order of submission.
  struct Point {
    std::array<int64_t, std::size(plan::streams)> done = {};
    int64_t &of(plan::Stream stream) { return done[size_t(stream)]; }
    void extend(const Point &other) {
      for (size_t stream = 0; stream < done.size(); ++stream)
        done[stream] = std::max(done[stream], other.done[stream]);
    }
  };
  /// For the event of each Record command, the work that is done when the event
  /// completes. The key is the index of the command in its command sequence.
  using Points = std::map<int64_t, Point>;
  /// For each event for which the next run of the program waits, the work that
  /// is done when the event completes. The key is Record::carried, the number
  /// by which the next run names the event.
  Points left;
  void order(const Command &command, int64_t number, Points &points);
  void await(const Point &point);

  /// An asynchronous copy, or an optimizer update on the host's cores, that has
  /// begun, and for whose end no kernel has waited so far.
  struct Work {
    /// For a copy, the line of the traffic report to which its bytes are added.
    /// Null for an optimizer update, which copies nothing.
    MoveLine *line;
    int64_t amount; ///< The bytes of a copy, or the elements of an update.
    int64_t times;
    /// `TrafficCounter::launches` when this copy or update began.
    int64_t launches;
  };
  void begin(plan::Stream stream, MoveLine *line, int64_t amount,
             int64_t times);

  const plan::Plan &plan;
  int64_t rank;
  /// On a CPU everything except copies from and to files is synchronous.
  bool isCpu() const { return plan.device == plan::DeviceKind::Cpu; }

  /// The number of kernel launches counted so far. In a plan for a GPU, kernels
  /// on the host's cores do not count. A copy overlaps with kernels if this
  /// number grows between the begin and the end of the copy.
  int64_t launches = 0;
  std::array<std::deque<Work>, std::size(plan::streams)> open;
  Point begun; ///< For each stream, how much work has begun so far.
  /// For each stream, the work of all streams that is certainly done when the
  /// stream runs its next command, because the stream has waited for it.
  std::array<Point, std::size(plan::streams)> known;
  std::map<MoveLine *, int64_t> underWay;
};

} // namespace

void TrafficCounter::add(const Command &command, const std::string &axes,
                         const std::string &kind, plan::DType wire,
                         int64_t times, int64_t bytes) {
  TrafficLine &line = lines[{axes, kind, command.path, wire}];
  line.axes = axes;
  line.kind = kind;
  line.reason = command.path;
  line.wire = wire;
  line.calls += times;
  line.bytesSent += times * bytes;
}

void TrafficCounter::addCollective(const Command &command,
                                   const plan::command::Collective &start,
                                   int64_t times) {
  const plan::Collective &collective = start.collective;
  int64_t ranks = plan.mesh.groupSize(collective.axes);
  if (ranks == 1)
    return;
  std::string axes;
  for (const std::string &axis : collective.axes)
    axes += (axes.empty() ? "" : ",") + axis;
  plan::CollectiveShape shape =
      shapeOf(collective, ranks, start.target.bytes, start.source.bytes);
  add(command, axes, plan::nameOf(collective.kind), collective.wire, times,
      plan::bytesSent(shape, plan.mesh.coordinate(rank, collective.axes)));
}

/// The kind of memory in which an operand is. The arguments of a command
/// sequence are always in the device's memory: all layers share one sequence,
/// which cannot depend on where a layer's states are offloaded.
static plan::MemoryKind memoryOf(const plan::Ref &ref) {
  return ref.space == plan::Space::Arg ? plan::MemoryKind::Device : ref.memory;
}

const plan::State *heddle::rt::stateAt(const plan::Plan &plan,
                                       plan::MemoryKind memory,
                                       int64_t offset) {
  const plan::State *found = nullptr;
  for (const plan::State &state : plan.states)
    if (state.memory == memory && state.offset <= offset &&
        (!found || found->offset < state.offset))
      found = &state;
  return found;
}

/// The state that contains the operand, or null.
static const plan::State *stateIn(const plan::Plan &plan,
                                  const plan::Ref &ref) {
  return ref.space == plan::Space::Persistent
             ? stateAt(plan, ref.memory, ref.offset)
             : nullptr;
}

int64_t heddle::rt::bytesMoved(const plan::command::CopyRows &copy) {
  if (copy.rowBytes < 1) // A plan with such a copy cannot be loaded.
    return 0;
  int64_t rows = copy.target.bytes / copy.rowBytes;
  bool isFile = memoryOf(copy.source) == plan::MemoryKind::File;
  return rows * (isFile ? io::OffloadFile::bytesForRow(copy.source.offset,
                                                       copy.rowBytes)
                        : copy.rowBytes);
}

/// Records the beginning of asynchronous work.
void TrafficCounter::begin(plan::Stream stream, MoveLine *line, int64_t amount,
                           int64_t times) {
  open[size_t(stream)].push_back({line, amount, times, launches});
  ++begun.of(stream);
  if (!line)
    return;
  int64_t &now = underWay[line];
  now += amount;
  line->mostUnderWay = std::max(line->mostUnderWay, now);
}

/// Called when kernels wait until the work that `point` counts is done. This
/// work does not overlap with later kernels.
void TrafficCounter::await(const Point &point) {
  for (size_t stream = 0; stream < open.size(); ++stream)
    for (std::deque<Work> &all = open[stream];
         begun.done[stream] - int64_t(all.size()) < point.done[stream];
         all.pop_front()) {
      const Work &work = all.front();
      if (work.line)
        underWay[work.line] -= work.amount;
      if (work.launches < launches)
        (work.line ? work.line->besideKernels : host.besideKernels) +=
            work.amount * work.times;
    }
}

void TrafficCounter::addCopy(const Command &command,
                             const plan::command::Copy &copy, int64_t times) {
  plan::MemoryKind from = memoryOf(copy.source), to = memoryOf(copy.target);
  bool isFile = from == plan::MemoryKind::File || to == plan::MemoryKind::File;
  int64_t block = isFile ? fileBlock : 1;
  addMove(command, copy.target, copy.source,
          (copy.target.bytes + block - 1) / block * block, times);
}

void TrafficCounter::addMove(const Command &command, const plan::Ref &target,
                             const plan::Ref &source, int64_t bytes,
                             int64_t times) {
  plan::MemoryKind from = memoryOf(source), to = memoryOf(target);
  if (from == to)
    return;
  MoveLine &line = moves[{from, to}];
  line.from = from;
  line.to = to;
  line.copies += times;
  bool isFile = from == plan::MemoryKind::File || to == plan::MemoryKind::File;
  if (plan::copiesBeside(command.stream)) {
    if (!isCpu() || (isFile && command.as<plan::command::Copy>()))
      begin(command.stream, &line, bytes, times);
    else
      await(begun);
  }
  bytes *= times;
  line.bytes += bytes;
  const auto *rows = command.as<plan::command::CopyRows>();
  line.bytesOfParts += rows && rows->first ? bytes : 0;
  // A frame is the memory of a command sequence's own values. If a buffer in it
  // is outside of the device's memory, it holds a tile (a range of elements) of
  // an offloaded state, which a kernel on the host's cores updates.
  auto isStateTile = [](const plan::Ref &ref) {
    return ref.space == plan::Space::Frame &&
           ref.memory != plan::MemoryKind::Device;
  };
  host.toHost += isStateTile(target) ? bytes : 0;
  host.toDevice += isStateTile(source) ? bytes : 0;
  // Attribute the bytes of this copy to a state. One end of the copy is outside
  // of the device's memory: if it is a state, use that state. It may instead be
  // a temporary buffer of a kernel on the host's cores: then use the state on
  // the device, at the other end.
  bool leaves = from == plan::MemoryKind::Device;
  const plan::State *state = stateIn(plan, leaves ? target : source);
  if (!state)
    state = stateIn(plan, leaves ? source : target);
  if (state)
    line.bytesOf[state->role] += bytes;
  else if (isStateTile(source))
    // Neither end of the copy is a state: the host has updated these values,
    // and the ranks all-gather them next. Attribute the bytes to the state that
    // receives the gathered values: the parameter, or its bf16 copy.
    line.bytesOf[plan.precision == "fp32" ? plan::StateRole::Parameter
                                          : plan::StateRole::Derived] += bytes;
}

void TrafficCounter::countCommand(const Command &command, int64_t times,
                                  int depth) {
  for (plan::SequenceRuns runs : runsOf(command))
    countSequence(runs.sequence, times * runs.times, depth + 1);
  command.visit(
      [&](const plan::command::Collective &start) {
        addCollective(command, start, times);
      },
      [&](const plan::command::Copy &copy) { addCopy(command, copy, times); },
      [&](const plan::command::CopyRows &copy) {
        addMove(command, copy.target, copy.source, bytesMoved(copy), times);
      },
      [&](const plan::command::Launch &launch) {
        bool isOnHost = command.stream == plan::Stream::Host;
        launches += !isOnHost || isCpu();
        if (!isOnHost)
          return;
        // The first operand of an optimizer update is its parameter, in fp32.
        int64_t elements = times * launch.refs.front().bytes /
                           plan::byteSize(plan::DType::F32);
        host.elements += elements;
        host.bytes += double(times) * plan.kernels.at(launch.kernel).bytes;
        if (!isCpu())
          begin(command.stream, nullptr, elements, 1);
      },
      [&](const plan::command::Send &send) {
        add(command, send.channel.axis, send.name, plan::DType::U8, times,
            send.data.bytes);
      },
      [&](const plan::command::Receive &receive) {
        add(command, receive.channel.axis, receive.name, plan::DType::U8, times,
            0);
      },
      [](const auto &) {});
}

/// Updates `known`, which says for which work each stream has waited. The
/// command is a Record, a Wait, or a Settle (a wait for an event that may be of
/// the previous run).
void TrafficCounter::order(const Command &command, int64_t number,
                           Points &points) {
  Point &waitedFor = known[size_t(command.stream)];
  if (const auto *record = command.as<plan::command::Record>()) {
    Point &point = points[number] = waitedFor;
    point.of(command.stream) = begun.of(command.stream);
    if (record->carried >= 0)
      left[record->carried] = point;
  }
  if (const auto *wait = command.as<plan::command::Wait>())
    waitedFor.extend(points[wait->command]);
  else if (const auto *settle = command.as<plan::command::Settle>())
    waitedFor.extend(left[settle->number]); // Nothing in the first run.
  else
    return;
  // Only a wait of the stream that runs kernels ends the overlap of a copy with
  // kernels. While another stream waits, kernels continue.
  if (command.stream == plan::Stream::Compute ||
      (isCpu() && !plan::copiesBeside(command.stream)))
    await(waitedFor);
}

void TrafficCounter::countSequence(int64_t number, int64_t times, int depth) {
  if (depth > 64) // A plan with such depth cannot be loaded.
    return;
  Points points;
  const std::vector<Command> &commands = plan.sequences.at(number).commands;
  for (size_t i = 0; i < commands.size(); ++i) {
    order(commands[i], i, points);
    countCommand(commands[i], times, depth);
  }
}

std::vector<TrafficLine> heddle::rt::countTraffic(const plan::Plan &plan,
                                                  const plan::Program &program,
                                                  int64_t rank) {
  TrafficCounter counter(plan, rank);
  counter.count(program);
  std::vector<TrafficLine> lines;
  for (const auto &[key, line] : counter.lines)
    lines.push_back(line);
  return lines;
}

std::vector<TrafficLine>
heddle::rt::sumByKind(const std::vector<TrafficLine> &lines) {
  std::vector<TrafficLine> sums;
  for (const TrafficLine &line : lines) {
    if (sums.empty() || sums.back().axes != line.axes ||
        sums.back().kind != line.kind) {
      sums.emplace_back();
      sums.back().axes = line.axes;
      sums.back().kind = line.kind;
    }
    sums.back().calls += line.calls;
    sums.back().bytesSent += line.bytesSent;
  }
  return sums;
}

std::vector<MoveLine> heddle::rt::countMoves(const plan::Plan &plan,
                                             const plan::Program &program) {
  TrafficCounter counter(plan, /*rank=*/0);
  counter.count(program);
  std::vector<MoveLine> lines;
  for (const auto &[kinds, line] : counter.moves)
    lines.push_back(line);
  return lines;
}

HostUpdates heddle::rt::countHostUpdates(const plan::Plan &plan,
                                         const plan::Program &program) {
  TrafficCounter counter(plan, /*rank=*/0);
  counter.count(program);
  return counter.host;
}
