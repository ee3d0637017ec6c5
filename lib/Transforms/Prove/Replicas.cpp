//===- Replicas.cpp - Checks that replicas stay equal ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `checkReplicas`: see Traces.h.
//
//===----------------------------------------------------------------------===//

#include "ByteMap.h"
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <tuple>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// What the check knows about the bytes of a value.
struct Known {
  /// The mesh axes along which ranks may have different bytes.
  Axes axes = 0;
  /// Two pipeline stages have the same bytes if this number is the same and not
  /// 0. 0: nothing is known.
  uint64_t same = 0;

  bool operator==(const Known &other) const {
    return axes == other.axes && same == other.same;
  }
  bool operator<(const Known &other) const {
    return std::tie(axes, same) < std::tie(other.axes, other.same);
  }
};

uint64_t combine(uint64_t a, uint64_t b) {
  uint64_t mixed =
      (a ^ (b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccd;
  return (mixed ^ (mixed >> 33)) | 1;
}
uint64_t combine(uint64_t a, const std::string &text) {
  return combine(a, std::hash<std::string>()(text));
}

/// Records for each byte of memory along which mesh axes ranks may have
/// different values of it.
class Memory : public ByteMap<Known> {
public:
  /// Handles a write of some unknown bytes of the range. The written value
  /// differs along `axes`.
  void blend(Range range, Axes axes) {
    update(range, [&](Known &known) { known = {Axes(known.axes | axes), 0}; });
  }

  Known get(Range range) const {
    auto piece = std::prev(pieces.upper_bound(range.begin));
    auto next = std::next(piece);
    Known known = piece->second;
    if (piece->first != range.begin ||
        (next != pieces.end() && next->first != range.end))
      known.same = 0;
    for (; next != pieces.end() && next->first < range.end; ++next)
      known.axes |= next->second.axes;
    return known;
  }

  /// Merges adjacent pieces (ranges of bytes) with equal values of Known. Does
  /// not merge pieces with a number Known::same, because the number describes
  /// exactly the bytes of one piece.
  void normalize() {
    merge([](const Known &known) { return known.same == 0; });
  }
};

/// What stages learn from each other during the check. For each message, and
/// for each collective that several stages run together: the mesh axes along
/// which the sent data may differ.
struct Exchange {
  std::map<std::string, Axes> axes;
  bool grew = false;

  void put(const std::string &key, Axes more) {
    Axes &known = axes[key];
    grew |= (known | more) != known;
    known |= more;
  }
};

/// Executes the trace of one stage, and tracks which values are equal on which
/// ranks.
class Stage {
public:
  /// Persistent memory and temporary memory.
  using Memories = std::array<Memory, 2>;

  Stage(const plan::Mesh &mesh, const Trace &trace, Exchange &exchange)
      : mesh(mesh), trace(trace), exchange(exchange),
        sharedNumber(trace.collectives.size(), -1) {
    int64_t count = 0;
    for (size_t number = 0; number < trace.collectives.size(); ++number)
      if (axisBits(trace.collectives[number].what.axes) & pipeAxis)
        sharedNumber[number] = count++;
  }

  /// Executes the step. Returns the memory after it.
  Memories run() {
    Memories memory;
    for (const State &state : trace.states)
      memory[int(Space::Persistent)].set(state.range,
                                         {state.lasts ? state.axes : Axes(0)});
    std::map<Memories, int64_t> numbers;
    std::vector<const Memories *> known;
    auto intern = [&](Memories memories) {
      for (Memory &each : memories)
        each.normalize();
      auto [entry, isNew] =
          numbers.try_emplace(std::move(memories), known.size());
      if (isNew)
        known.push_back(&entry->first);
      return entry->second;
    };
    // Results of earlier executions of bodies (commands of a loop, for
    // example). If the memory before a body is the same as before one of its
    // earlier executions, the body need not be executed again. The key is the
    // body and the memory before it, and the value is the memory after it.
    std::map<std::pair<int32_t, int64_t>, int64_t> transitions;
    int64_t state = intern(std::move(memory));
    for (const BodyRun &run : trace.runs) {
      auto [next, isNew] = transitions.try_emplace({run.body, state}, 0);
      if (isNew) {
        Memories after = *known[state];
        isRepeated = run.iteration >= 0;
        executeBody(trace.bodies[run.body], after);
        next->second = intern(std::move(after));
      }
      state = next->second;
    }
    return *known[state];
  }

private:
  static constexpr Axes pipeAxis = 1;

  /// Whether an access is only to the current micro-batch's slot (its entry in
  /// a state that saves values).
  static bool isInOwnSlot(const Access &access) {
    return access.perSlot != 0 && access.perIteration == 0;
  }

  /// Returns all bytes that an access may touch. The slot (entry of a state) of
  /// the current micro-batch is represented by the state's first slot.
  static Range rangeOf(const Access &access) {
    if (isInOwnSlot(access))
      return {access.begin, access.begin + access.spread + access.bytes};
    bool chosen = access.varies() || access.rankTerm != 0;
    return chosen ? access.choices
                  : Range{access.begin, access.begin + access.bytes};
  }

  /// Returns the map that records what the check knows about the bytes of an
  /// access: `ownSlots` if the access is to the current micro-batch's slot,
  /// otherwise the map of the access's address space.
  Memory &memoryOf(const Access &access, Memories &memory) {
    return isInOwnSlot(access) ? ownSlots : memory[int(access.space)];
  }

  Known read(const Access &access, Memories &memory) {
    Known known = memoryOf(access, memory).get(rangeOf(access));
    known.axes |= access.rankAxes;
    return known;
  }

  void write(const Access &access, Known known, Memories &memory) {
    Memory &space = memoryOf(access, memory);
    // In a loop, forget which stages have the same bytes. Otherwise each
    // iteration would give the written bytes a new number Known::same, and
    // `run` could never reuse the result of an earlier iteration.
    if (isRepeated)
      known.same = 0;
    if (access.perIteration != 0 || access.rankTerm != 0)
      space.blend(rangeOf(access), known.axes | access.rankAxes);
    else
      space.set(rangeOf(access), known);
  }

  /// Executes a body. During the execution, the slot (entry of a state) of the
  /// current micro-batch is tracked in `ownSlots`, apart from the other slots,
  /// because a body often writes a partial sum to the slot before the final
  /// value. Afterwards any slot of the state may hold what this slot holds,
  /// because the check does not know which slot is the current one.
  void executeBody(const Body &body, Memories &memory) {
    auto forEachInOwnSlot = [&](auto visit) {
      for (const Event &event : body)
        for (const Access &access : event.accesses)
          if (isInOwnSlot(access))
            visit(access, memory[int(access.space)]);
    };
    ownSlots = {};
    forEachInOwnSlot([&](const Access &access, const Memory &slots) {
      ownSlots.set(rangeOf(access), {slots.get(access.choices).axes});
    });
    for (const Event &event : body)
      execute(event, memory);
    forEachInOwnSlot([&](const Access &access, Memory &slots) {
      if (access.writes)
        slots.blend(access.choices, ownSlots.get(rangeOf(access)).axes);
    });
  }

  /// Returns what is known about a result that a command computes from some of
  /// its operands. `from` lists these operands. If `from` is null, the result
  /// depends on all operands that the command reads.
  Known readAll(const Event &event, const std::vector<int16_t> *from,
                Memories &memory) {
    Known known;
    bool reads = false, isSame = event.rankAxes == 0;
    uint64_t made = 1;
    for (const Access &access : event.accesses) {
      if (access.writes || event.kind == Event::Kind::Fresh)
        continue;
      if (from &&
          std::find(from->begin(), from->end(), access.operand) == from->end())
        continue;
      Known operand = read(access, memory);
      known.axes |= operand.axes;
      reads = true;
      isSame &= operand.same != 0;
      made = combine(made, operand.same);
    }
    known.same = reads && isSame ? made : 0;
    return known;
  }

  /// Executes a launch. The trace says for each result of a kernel from which
  /// operands it is computed. In traces that tests write by hand this
  /// information is missing, and a result then depends on all operands.
  void launch(const Event &event, Memories &memory) {
    static const Kernel unknown;
    const Kernel &kernel =
        event.kernel < 0 ? unknown : trace.kernels[event.kernel];
    std::vector<std::pair<const Access *, Known>> results;
    for (const Access &access : event.accesses) {
      if (!access.writes)
        continue;
      auto sources = kernel.sources.find(access.operand);
      bool isKnown =
          sources != kernel.sources.end() && !sources->second.empty();
      Known known =
          readAll(event, isKnown ? &sources->second : nullptr, memory);
      known.axes |= event.rankAxes;
      if (known.same)
        known.same = combine(combine(known.same, kernel.code), access.operand);
      results.emplace_back(&access, known);
    }
    for (const auto &[access, known] : results)
      write(*access, known, memory);
  }

  void execute(const Event &event, Memories &memory) {
    if (event.kind == Event::Kind::Launch)
      return launch(event, memory);
    Known known = readAll(event, nullptr, memory);
    known.axes |= event.rankAxes;
    switch (event.kind) {
    case Event::Kind::Start:
      return collective(event, known, memory);
    case Event::Kind::Send:
      exchange.put(keyOf(event, true), known.axes);
      return;
    case Event::Kind::Receive:
      known = {exchange.axes[keyOf(event, false)]};
      break;
    case Event::Kind::Fresh:
      return input(event, memory);
    default:
      break;
    }
    for (const Access &access : event.accesses)
      if (access.writes)
        write(
            access,
            {known.axes, known.same ? combine(known.same, access.operand) : 0},
            memory);
  }

  void input(const Event &event, Memories &memory) {
    for (const Access &access : event.accesses)
      for (const Port &port : trace.ports)
        if (access.writes && port.buffer == access.buffer)
          write(access, {port.axes, combine(combine(1, port.name), port.axes)},
                memory);
  }

  void collective(const Event &event, Known in, Memories &memory) {
    const plan::Collective &what = trace.collectives[event.number].what;
    Axes axes = axisBits(what.axes);
    bool givesAll = what.kind == plan::Collective::Kind::AllReduce ||
                    what.kind == plan::Collective::Kind::AllGather;
    Known out = in;
    if (int64_t shared = sharedNumber[event.number]; shared >= 0) {
      std::string key = "collective " + std::to_string(shared);
      exchange.put(key, in.axes);
      out = {exchange.axes[key], givesAll ? combine(2, shared) : 0};
    } else if (out.same) {
      out.same = givesAll ? combine(combine(3, out.same), axes) : 0;
    }
    out.axes = givesAll ? out.axes & ~axes : out.axes | axes;
    // Operand 0 of a collective is the target. Any other operand that it writes
    // is staging memory, whose content may differ from rank to rank.
    for (const Access &access : event.accesses)
      if (access.writes)
        write(access, access.operand == 0 ? out : Known{Axes(~0)}, memory);
  }

  /// Returns a key that identifies a message between stages, or between ranks
  /// of one stage.
  std::string keyOf(const Event &event, bool sends) const {
    const plan::Channel &channel = trace.messages[event.number].channel;
    int64_t peer = trace.stage;
    int64_t stages = mesh.stages();
    if (mesh.roleOf(channel.axis) == plan::AxisRole::Pipeline)
      peer = (peer + channel.delta % stages + stages) % stages;
    int64_t from = sends ? trace.stage : peer, to = sends ? peer : trace.stage;
    return "message " + std::to_string(from) + " " + std::to_string(to) + " " +
           channel.name;
  }

  const plan::Mesh &mesh;
  const Trace &trace;
  Exchange &exchange;
  /// For each collective of the trace, its index among the collectives that
  /// several stages run together. -1 if only ranks of this stage run it.
  std::vector<int64_t> sharedNumber;
  /// What is known about the slot (entry) of the current micro-batch in each
  /// state that saves values for the backward pass. The slot's address varies,
  /// so the address of the state's first slot represents it.
  Memory ownSlots;
  bool isRepeated = false;
};

class Replicas {
public:
  Replicas(const plan::Mesh &mesh, const std::vector<Trace> &traces)
      : mesh(mesh), traces(traces), memories(traces.size()) {}

  std::optional<Fault> check() {
    // Repeat until no message and no shared collective gets another mesh axis
    // along which its data may differ (see Exchange). The order of the stages
    // alternates, since activations are sent forward and gradients backward.
    bool forward = true;
    do {
      exchange.grew = false;
      for (size_t i = 0; i < traces.size(); ++i) {
        size_t who = forward ? i : traces.size() - 1 - i;
        memories[who] = Stage(mesh, traces[who], exchange).run();
      }
      forward = !forward;
    } while (exchange.grew);
    for (size_t who = 0; who < traces.size(); ++who)
      if (!checkStates(who) || !checkPorts(who))
        return fault;
    return std::nullopt;
  }

private:
  /// Returns the subset of `axes` along which a pipeline stage has several
  /// ranks.
  Axes split(Axes axes) const {
    Axes those = 0;
    for (const std::string &name : mesh.atoms())
      if (mesh.size(name) > 1 && mesh.roleOf(name) != plan::AxisRole::Pipeline)
        those |= axisBits({name});
    return axes & those;
  }

  bool refuse(const std::string &text, size_t who, int32_t origin) {
    fault = Fault{Fault::Kind::Collectives, text, {{who, origin}}};
    return false;
  }

  /// Returns a command that writes bytes of the range.
  int32_t writerOf(size_t who, Range range) const {
    int32_t origin = 0;
    for (const Body &body : traces[who].bodies)
      for (const Event &event : body)
        for (const Access &access : event.accesses)
          if (access.writes && access.space == Space::Persistent &&
              Range{access.begin, access.begin + access.bytes}.overlaps(range))
            origin = event.origin;
    return origin;
  }

  bool checkStates(size_t who) {
    for (const State &state : traces[who].states) {
      Known known = memories[who][int(Space::Persistent)].get(state.range);
      Axes more = split(known.axes & ~state.axes);
      if (state.lasts && more)
        return refuse("may leave other bytes of @" + state.name +
                          " on each of the ranks along [" + textOf(more) + "]",
                      who, writerOf(who, state.range));
    }
    return true;
  }

  bool checkPorts(size_t who) {
    const Trace &trace = traces[who];
    for (const Port &port : trace.ports) {
      if (port.role != plan::PortRole::Loss &&
          port.role != plan::PortRole::LossWeight &&
          port.role != plan::PortRole::GradNorm &&
          port.role != plan::PortRole::TakenRate)
        continue;
      Known known =
          memories[who][int(Space::Arena)].get(trace.buffers[port.buffer]);
      if (Axes more = split(known.axes))
        return refuse("the " + port.name + " may differ between ranks along [" +
                          textOf(more) + "]",
                      who, port.origin);
      // The check compares values of different stages only if a collective made
      // them equal. Each stage takes the rate from its own inputs and count.
      if (mesh.stages() == 1 || port.role == plan::PortRole::TakenRate)
        continue;
      auto [first, isNew] = sameOfPort.try_emplace(port.name, known.same);
      if (known.same == 0 || known.same != first->second)
        return refuse("the " + port.name + " may differ between stages", who,
                      port.origin);
    }
    return true;
  }

  const plan::Mesh &mesh;
  const std::vector<Trace> &traces;
  Exchange exchange;
  /// For each stage, the memory after the step.
  std::vector<Stage::Memories> memories;
  std::map<std::string, uint64_t> sameOfPort;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault>
heddle::prove::checkReplicas(const plan::Mesh &mesh,
                             const std::vector<Trace> &traces) {
  // The check needs one trace for each stage. If there is a trace for each rank
  // instead, its addresses are those of one rank, so it cannot describe a
  // stage.
  if (static_cast<int64_t>(traces.size()) != mesh.stages())
    return std::nullopt;
  return Replicas(mesh, traces).check();
}
