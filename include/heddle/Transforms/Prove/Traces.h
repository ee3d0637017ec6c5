//===- Traces.h - What ranks do in a step, command by command ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checks of the prove phase. They see the commands of every rank, or of one
// rank of every pipeline stage, and nothing of the compiler that made them: no
// MLIR header may be included here. ProgramTraces.h makes the traces.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_PROVE_TRACES_H
#define HEDDLE_TRANSFORMS_PROVE_TRACES_H

#include "heddle/PlanFormat/Plan.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle::prove {

/// The memory that lasts, and that of a step; in each, the kinds of memory
/// stand one behind the other, the device's first.
enum class Space : uint8_t { Persistent, Arena };

/// Bytes [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  bool overlaps(const Range &other) const {
    return begin < other.end && other.begin < end;
  }
  bool operator==(const Range &other) const {
    return begin == other.begin && end == other.end;
  }
};

/// A set of axes, a bit for each.
using Axes = uint8_t;
Axes axisBits(const std::vector<std::string> &names);
/// As `"data", "tensor"`.
std::string textOf(Axes axes);

/// What the bytes of the persistent region are between steps, or within one.
struct State {
  Range range;
  std::string name;
  bool lasts = false;       ///< The optimizer's: a step finds what it left.
  bool isCache = false;     ///< What lasts, but is written by attention.
  bool ofStep = false;      ///< Each step writes it before it reads it.
  bool hasSlots = false;    ///< One for each micro-batch under way.
  bool isOffloaded = false; ///< Not in the device's memory.
  bool isCopy = false;      ///< Made of parameters by each update.
  Axes axes = 0;            ///< Along which ranks hold different parts.
};

/// Bytes of the persistent region in which there is something for each element
/// of a parameter: itself, its gradient, what the optimizer keeps. A flat
/// tensor of which ranks have parts is one member, of its first parameter.
struct Member {
  Range range;
  int64_t width = 1; ///< Bytes of an element.
  std::string parameter;
  std::string kind; ///< What it is of it, as `exp_avg`; "": itself.
};

/// A buffer that the runtime writes before a step, or reads after it.
struct Port {
  plan::PortRole role = plan::PortRole::Value;
  std::string name;
  int32_t buffer = -1; ///< In Trace::buffers.
  int32_t origin = -1; ///< In Trace::names.
  Axes axes = 0;       ///< Along which ranks have different parts.
  bool isOutput = false;
};

/// Bytes that an event reads or writes: `bytes` from `begin` + `perIteration` *
/// iteration + `perSlot` * slot on.
struct Access {
  Space space = Space::Arena;
  bool writes = false;
  /// In a slot of a state that holds values of the micro-batches under way.
  bool inSlot = false;
  int16_t operand = 0; ///< Number of the command's operand, for messages.
  int32_t buffer = -1; ///< In Trace::buffers.
  /// Not 0: the place depends on the rank, for equal numbers of a trace in the
  /// same way; `begin` is the first rank's, the last one's `spread` behind it.
  int32_t rankTerm = 0;
  int64_t spread = 0;
  Axes rankAxes = 0; ///< Those that the place depends on.
  int64_t begin = 0, bytes = 0;
  int64_t perIteration = 0, perSlot = 0;
  /// What iterations, slots and ranks choose from; only where they do.
  Range choices;

  bool varies() const { return perIteration != 0 || perSlot != 0; }
};

/// Communication that is run by a group of ranks together.
struct Collective {
  plan::Collective what;
  int64_t targetBytes = 0, sourceBytes = 0, stagingBytes = 0;
  std::string reason; ///< What it is for; alike on all members.
  /// Where its target is: alike on all members of one stage.
  int32_t targetBuffer = -1;
  int64_t targetBegin = 0; ///< Without what depends on the rank.
};

struct Message {
  plan::Channel channel; ///< Flush: its name alone.
  int64_t bytes = 0;
  plan::DType type = plan::DType::F32;
};

struct Kernel {
  std::string code; ///< Equal for equal code.
  /// Of each operand that a launch writes: those that the value is made of.
  std::map<int16_t, std::vector<int16_t>> sources;
  /// Operands that say where in a cache tokens are: which inputs these must be.
  std::map<int16_t, plan::PortRole> places;
};

/// A command of the runtime, or that the bytes of a buffer begin to be its.
struct Event {
  enum class Kind : uint8_t {
    Launch,
    Copy,
    CopyRows, ///< Reads ids, and the table that they name rows of.
    Fill,
    Fresh,  ///< A buffer holds nothing yet, or (writes) an input.
    Record, ///< Of the point that `stream` has come to.
    Join,   ///< `stream` waits for the point that was recorded.
    Settle, ///< The same, of a point that the run before has left.
    Start,  ///< Of collective `number`.
    Wait,
    Send,    ///< Of message `number`.
    Receive, ///< Blocks until message `number` is there.
    Flush ///< Blocks until at most `left` sends of the channel are under way.
  } kind = Kind::Launch;
  /// That does it. Communication begins, and is waited for, on `Compute`.
  plan::Stream stream = plan::Stream::Compute;
  int32_t number = -1;  ///< In Trace::collectives or Trace::messages.
  int32_t token = -1;   ///< Record, Join, Settle, Start, Wait.
  bool carries = false; ///< Record: what was done is left to the next run.
  int32_t origin = -1;  ///< In Trace::names.
  int32_t path = -1;    ///< In Trace::paths.
  int64_t left = 0;
  int32_t kernel = -1;      ///< Launch: in Trace::kernels.
  bool updates = false;     ///< Launch: of the optimizer.
  bool writesCache = false; ///< May write a cache, and nothing else that lasts.
  bool readsCache = false;  ///< Launch: of attention over a cache.
  Axes rankAxes = 0; ///< Launch, CopyRows: those that its numbers depend on.
  /// Of an unrolled trace: the micro-batch; -1: the run's.
  int64_t iteration = -1;
  std::vector<Access> accesses;

  bool isCommunication() const { return kind >= Kind::Start; }
};

using Body = std::vector<Event>;

/// One execution of a body: an iteration of a loop, or a fragment.
struct BodyRun {
  int32_t body = 0;
  int64_t iteration = -1; ///< -1: neither in a loop nor a fragment.
  int64_t slot = 0;
};

/// What one rank does in a step. Bodies that are run many times are held once.
struct Trace {
  std::vector<Range> buffers;  ///< Extents of what accesses may touch.
  std::vector<State> states;   ///< By their first byte.
  std::vector<Member> members; ///< By their first byte; none overlap.
  std::vector<Port> ports;
  std::vector<Collective> collectives;
  std::vector<Message> messages;
  std::vector<Body> bodies;
  std::vector<BodyRun> runs;
  int32_t tokens = 0; ///< Each is started once in a run of its body.
  int64_t stage = 0;
  /// What the rank sends is done one by one, as NCCL does: a send that its
  /// receive has not come to keeps those behind it waiting.
  bool sendsInOrder = false;
  std::vector<std::string> names, paths;
  std::vector<Kernel> kernels;

  /// As `plan.send, command 7 of @train, micro-batch 3`.
  std::string describe(const Event &event, const BodyRun &run) const;
  int64_t iterationOf(const Event &event, const BodyRun &run) const {
    return event.iteration >= 0 ? event.iteration : run.iteration;
  }
  /// The first byte of an access in a run.
  static int64_t beginOf(const Access &access, const BodyRun &run) {
    return access.begin + access.perIteration * run.iteration +
           access.perSlot * run.slot;
  }
  static Range rangeOf(const Access &access, const BodyRun &run) {
    int64_t begin = beginOf(access, run);
    return {begin, begin + access.bytes};
  }
};

/// The same trace as one body that is run once. Buffers that one body alone
/// uses begin anew in each of its runs.
Trace unroll(const Trace &trace);

/// Why a plan is refused.
struct Fault {
  enum class Kind {
    Extent,      ///< An operand leaves its buffer.
    Flow,        ///< Bytes are read that nobody wrote, or another buffer.
    Race,        ///< Bytes are used while something beside it uses them.
    Waits,       ///< A communication is not waited for, or not started.
    Collectives, ///< Members of a group do not run the same collectives.
    Messages,    ///< What is sent is not what is received.
    Deadlock,    ///< Ranks wait for each other.
  } kind = Kind::Flow;
  std::string text;
  /// An event that has to do with it: number of the trace, and `origin`.
  struct Source {
    size_t trace = 0;
    int32_t origin = -1;
  };
  std::vector<Source> sources; ///< The first is the one at fault.
};

/// Nothing is read before it is written, or after its bytes were given away:
/// every read of the arena finds what its own buffer's last writer left, every
/// read of a slot what the same micro-batch left, and no operand leaves its
/// buffer. Inputs are written before the step, and outputs read after it;
/// states that last hold what earlier steps left; those the optimizer and
/// collectives alone write. A communication counts as done when it starts: see
/// `checkRaces`. `executed`: counts the events that were executed, each
/// transition of a body once.
std::optional<Fault> checkFlow(const Trace &trace, int64_t *executed = nullptr);

/// What lasts and is not in the device's memory keeps what the optimizer makes
/// of it: a copy to it is of a window that was copied from the same bytes and
/// updated since; a window that was updated is copied back before its bytes are
/// given away, before those that it belongs to are read again, and before the
/// step ends. What waits for the backward pass there is stored in a slot that
/// holds nothing which nobody has fetched, and is fetched before the step ends.
std::optional<Fault> checkStateTiles(const Trace &trace);

/// Where something is not in the device's memory, what is copied goes where it
/// is asked for. All that an update reads and writes is of the same elements of
/// the same parameters; operands alike of updates alike are of the same kind;
/// and what is made is stored where these elements are kept. What a layer
/// reads of what was fetched is, by its name in the layer, what the
/// other layers read there that have the same code. Not known, and taken for
/// right: what ranks exchange, parts that the rank's number chooses, and which
/// parameter is read outside of layers.
std::optional<Fault> checkSameElements(const Trace &trace);

/// Gradients that wait outside of the device's memory are what was added up: a
/// copy to them has nobody's bytes in its place that were not fetched; what was
/// fetched and added to is copied back to where it came from, while copies of
/// gradients follow; and all of them are fetched before the step ends.
std::optional<Fault> checkGradients(const Trace &trace);

/// No command touches bytes that a communication under way writes, or writes
/// bytes that one reads: a collective is under way from its start to its wait,
/// a message from its send to the flush that leaves fewer. Every collective is
/// waited for before the step ends, by a wait that comes after its start.
/// Commands of two streams, too, touch the same bytes, one of them writing,
/// only where a record and a join let one of them happen before the other. Of a
/// program that leaves work to its next run two runs are checked: the second
/// one waits for all that the first one has left.
std::optional<Fault> checkRaces(const Trace &trace);

/// The ranks talk about the same things, and none waits for ever. `traces` are
/// those of every rank, or those of one rank of each pipeline stage: the ranks
/// of a stage run the same commands, so what they do along the other axes fits
/// by construction. The members of a group run the same collectives on it in
/// the same order; what is sent on a channel is received, in its size, type and
/// micro-batch. Then the step is executed: starts and sends do not block, a
/// rank runs its collectives one after the other in the order of their starts,
/// together with all members; a receive waits for the send, a flush for the
/// receives, and a send for those before it where sends are done in order. What
/// blocks then blocks in every execution, because none of this
/// depends on time.
std::optional<Fault> checkAgreement(const plan::Mesh &mesh,
                                    const std::vector<Trace> &traces);

/// Ranks that hold the same value hold the same bytes: of what lasts, and of
/// the loss and the norm of the gradients. `traces` are those of one rank of
/// each stage. A value may differ along the axes along which what it is made of
/// differs; what a collective gives to all its members does not differ among
/// them. Stages have the same loss when they make it of what a collective gave
/// them all, by the same code.
std::optional<Fault> checkReplicas(const plan::Mesh &mesh,
                                   const std::vector<Trace> &traces);

/// The first fault that `checkRaces`, `checkAgreement` and `checkReplicas`
/// find.
std::optional<Fault> checkCommunication(const plan::Mesh &mesh,
                                        const std::vector<Trace> &traces);
/// The first fault that any of the checks finds.
std::optional<Fault> checkAll(const plan::Mesh &mesh,
                              const std::vector<Trace> &traces);

/// The code of an error: H0913, H0914, or one for each kind.
const char *codeOf(Fault::Kind kind);

} // namespace heddle::prove

#endif // HEDDLE_TRANSFORMS_PROVE_TRACES_H
