//===- Traces.h - What ranks do in a step, command by command ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The data that the checks of the prove phase work on, and the checks. A trace
// lists the commands of one rank. The checks get the traces of every rank, or
// of one rank of every pipeline stage, and know nothing else about the
// compiler: this header must not include MLIR headers. ProgramTraces.h makes
// traces from plans.
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

/// The two address spaces of a trace: memory that lives across steps, and
/// memory of one step. In each of them the kinds of memory lie one behind the
/// other, the device's first.
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

/// A set of mesh axes, one bit for each.
using Axes = uint8_t;
Axes axisBits(const std::vector<std::string> &names);
/// Prints axes as `"data", "tensor"`.
std::string textOf(Axes axes);

/// A state of the plan: a tensor in the persistent region.
struct State {
  Range range;
  std::string name;
  /// Whether the state lives across steps, and the optimizer writes it.
  bool lasts = false;
  /// Whether it is a key-value cache, which lives across steps and is written
  /// by attention.
  bool isCache = false;
  /// Whether each step writes the state before it reads it, as a gradient.
  bool ofStep = false;
  /// Whether the state has a slot for each micro-batch in flight.
  bool hasSlots = false;
  /// Whether the state is in the host's memory or a file.
  bool isOffloaded = false;
  /// Whether each update computes the state from parameters.
  bool isCopy = false;
  Axes axes = 0; ///< The axes along which ranks hold different parts.
};

/// Bytes of the persistent region with one element for each element of a
/// parameter: the parameter, its gradient, or an optimizer state. A flat tensor
/// that is split over ranks is one member, of its first parameter.
struct Member {
  Range range;
  int64_t width = 1; ///< Bytes of an element.
  std::string parameter;
  /// The member's kind, for example `exp_avg`; empty for the parameter itself.
  std::string kind;
};

/// A buffer that the runtime writes before a step, or reads after it.
struct Port {
  plan::PortRole role = plan::PortRole::Value;
  std::string name;
  int32_t buffer = -1; ///< Index into Trace::buffers.
  int32_t origin = -1; ///< Index into Trace::names.
  Axes axes = 0;       ///< The axes along which ranks have different parts.
  bool isOutput = false;
};

/// Bytes that an event reads or writes. They begin at `begin` + `perIteration`
/// * iteration + `perSlot` * slot, and are `bytes` long.
struct Access {
  Space space = Space::Arena;
  bool writes = false;
  /// Whether the access is to a slot of a state with activations of
  /// micro-batches in flight.
  bool inSlot = false;
  int16_t operand = 0; ///< Number of the command's operand, for messages.
  int32_t buffer = -1; ///< Index into Trace::buffers.
  /// If not 0, the address depends on the rank. Accesses with equal numbers
  /// depend on it in the same way. `begin` is the address on the first rank;
  /// the last rank's is `spread` bytes behind it.
  int32_t rankTerm = 0;
  int64_t spread = 0;
  Axes rankAxes = 0; ///< The axes that the address depends on.
  int64_t begin = 0, bytes = 0;
  int64_t perIteration = 0, perSlot = 0;
  /// The bytes that the access may touch in any iteration, slot or rank; set
  /// only if its address depends on one of these.
  Range choices;

  bool varies() const { return perIteration != 0 || perSlot != 0; }
};

/// A collective.
struct Collective {
  plan::Collective what;
  int64_t targetBytes = 0, sourceBytes = 0, stagingBytes = 0;
  std::string reason; ///< Why it is run; equal on all members of the group.
  /// The buffer of its target; equal on all members within one stage.
  int32_t targetBuffer = -1;
  /// Offset of the target without the part that depends on the rank.
  int64_t targetBegin = 0;
};

struct Message {
  plan::Channel channel; ///< For a flush only its name is set.
  int64_t bytes = 0;
  plan::DType type = plan::DType::F32;
};

struct Kernel {
  std::string code; ///< Identifies the code: equal for kernels with equal code.
  /// By written operand: the operands that its value is computed from.
  std::map<int16_t, std::vector<int16_t>> sources;
  /// Operands that say where in a cache tokens are stored, with the input that
  /// each of them must be.
  std::map<int16_t, plan::PortRole> places;
};

/// A command, or the beginning of a buffer's lifetime.
struct Event {
  enum class Kind : uint8_t {
    Launch,
    Copy,
    CopyRows, ///< Reads ids, and the rows of a table that they select.
    Fill,
    /// A buffer's lifetime begins. If `writes` is set, it holds an input.
    Fresh,
    /// Records the point that `stream` has reached, like cudaEventRecord.
    Record,
    Join,   ///< `stream` waits for a recorded point, like cudaStreamWaitEvent.
    Settle, ///< Like Join, for a point that the run before has recorded.
    Start,  ///< Starts collective `number`.
    Wait,
    Send,    ///< Sends message `number`.
    Receive, ///< Blocks until message `number` has arrived.
    Flush ///< Blocks until at most `left` sends of the channel are in flight.
  } kind = Kind::Launch;
  /// The stream that runs it. Communication starts, and is waited for, on
  /// `Compute`.
  plan::Stream stream = plan::Stream::Compute;
  int32_t number = -1; ///< Index into Trace::collectives or Trace::messages.
  int32_t token = -1;  ///< Connects Record and Join or Settle, Start and Wait.
  /// For Record: whether the next run waits for this point.
  bool carries = false;
  int32_t origin = -1; ///< Index into Trace::names.
  int32_t path = -1;   ///< Index into Trace::paths.
  int64_t left = 0;
  int32_t kernel = -1;  ///< For Launch: index into Trace::kernels.
  bool updates = false; ///< For Launch: whether the kernel updates parameters.
  /// Whether the event may write a cache, and no other memory that lives across
  /// steps.
  bool writesCache = false;
  /// For Launch: whether the kernel computes attention over a cache.
  bool readsCache = false;
  /// For Launch and CopyRows: the axes that its scalar operands depend on.
  Axes rankAxes = 0;
  /// In an unrolled trace: the micro-batch. -1: that of the body's run.
  int64_t iteration = -1;
  std::vector<Access> accesses;

  bool isCommunication() const { return kind >= Kind::Start; }
};

using Body = std::vector<Event>;

/// One execution of a body: an iteration of a loop, or a fragment.
struct BodyRun {
  int32_t body = 0;
  int64_t iteration = -1; ///< -1 outside of loops and fragments.
  int64_t slot = 0;
};

/// The commands of one rank in a step. A body that is run many times is stored
/// once.
struct Trace {
  std::vector<Range> buffers; ///< The extents of all buffers.
  std::vector<State> states;  ///< Sorted by their first byte.
  /// Sorted by their first byte; they do not overlap.
  std::vector<Member> members;
  std::vector<Port> ports;
  std::vector<Collective> collectives;
  std::vector<Message> messages;
  std::vector<Body> bodies;
  std::vector<BodyRun> runs;
  /// The number of tokens. In a run of its body each token is started once.
  int32_t tokens = 0;
  int64_t stage = 0;
  /// Sends are done in order, as NCCL does them: a send whose receive has not
  /// started keeps the sends after it waiting.
  bool sendsInOrder = false;
  std::vector<std::string> names, paths;
  std::vector<Kernel> kernels;

  /// Describes an event, as `plan.send, command 7 of @train, micro-batch 3`.
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

/// Returns the trace as one body that is run once. Buffers that only one body
/// uses begin anew in each run of it.
Trace unroll(const Trace &trace);

/// Why a plan is refused.
struct Fault {
  enum class Kind {
    Extent, ///< An operand accesses bytes outside of its buffer.
    /// Bytes are read that were not written, or were written for another
    /// buffer.
    Flow,
    /// Bytes are used while a concurrent command writes them, or the other way
    /// round.
    Race,
    Waits,       ///< A communication is not waited for, or not started.
    Collectives, ///< Members of a group do not run the same collectives.
    Messages,    ///< A message is not received as it is sent.
    Deadlock,    ///< Ranks wait for each other in a cycle.
  } kind = Kind::Flow;
  std::string text;
  /// An event that is part of the fault: index of the trace, and `origin`.
  struct Source {
    size_t trace = 0;
    int32_t origin = -1;
  };
  std::vector<Source> sources; ///< The first one is at fault.
};

/// Checks that every read finds the bytes that it is meant to find. A read of
/// the arena must find what the last writer of the same buffer left, and a read
/// of a slot what the same micro-batch left. No operand may leave its buffer.
/// Inputs are written before the step, and outputs must be written when it
/// ends. States that live across steps hold what earlier steps left; only the
/// optimizer and collectives write them. A communication counts as done when it
/// starts: `checkRaces` covers its duration. `executed` gets the number of
/// executed events added; each transition of a body is executed once.
std::optional<Fault> checkFlow(const Trace &trace, int64_t *executed = nullptr);

/// Checks offloaded states. A store to such a state must store a tile that was
/// fetched from the same bytes and updated since. An updated tile must be
/// stored before its memory is reused, before the same bytes are fetched again,
/// and before the step ends. An activation must be stored in a slot whose
/// content was fetched already, and must be fetched before the step ends.
std::optional<Fault> checkStateTiles(const Trace &trace);

/// Checks, in plans with offloaded states, that transfers move the elements
/// that are asked for. All operands of an update must be the same elements of
/// the same parameters. The same operand of updates with the same code must be
/// of the same kind, for example `exp_avg`. Results must be stored where these
/// elements are kept. What a layer reads of fetched parameters must have the
/// same name within the layer as what other layers with the same code read.
///
/// Not checked are values that ranks exchanged, parts that depend on the rank's
/// number, and reads of parameters outside of layers.
std::optional<Fault> checkSameElements(const Trace &trace);

/// Checks offloaded gradients. A store must not overwrite gradients that were
/// not fetched yet. A gradient that was fetched and added to must be stored
/// where it came from, if stores of gradients follow. All gradients must be
/// fetched before the step ends.
std::optional<Fault> checkGradients(const Trace &trace);

/// Checks that no command touches bytes that a communication in flight writes,
/// or writes bytes that one reads. A collective is in flight from its start to
/// its wait, a message from its send to the flush that allows fewer. Every
/// collective must be waited for before the step ends. Commands of two streams
/// may use the same bytes, with one of them writing, only if a record and a
/// join order them. A program that leaves work to its next run is executed
/// twice, and the second run must wait for everything that the first one left.
std::optional<Fault> checkRaces(const Trace &trace);

/// Checks that ranks agree on their communication, and do not deadlock.
/// `traces` has one trace for every rank, or for one rank of each pipeline
/// stage: the ranks of a stage run the same commands, so their communication
/// along other axes matches. The members of a group must run the same
/// collectives in the same order. What is sent on a channel must be received,
/// with the same size, element type and micro-batch.
///
/// Then the step is simulated. Starts and sends do not block. A rank runs its
/// collectives in the order of their starts, together with all members. A
/// receive waits for the send, and a flush for the receives. If sends are done
/// in order, a send waits for the sends before it. None of this depends on
/// time, so a plan that blocks here blocks in every execution.
std::optional<Fault> checkAgreement(const plan::Mesh &mesh,
                                    const std::vector<Trace> &traces);

/// Checks that replicas stay equal: ranks that hold the same state have the
/// same bytes of it after the step, and all ranks have the same loss and
/// gradient norm. `traces` are those of one rank of each stage. A value may
/// differ along the axes along which its operands differ. The result that a
/// collective gives to all members does not differ among them. Stages have the
/// same loss if they compute it with the same code from such a result.
std::optional<Fault> checkReplicas(const plan::Mesh &mesh,
                                   const std::vector<Trace> &traces);

/// Returns the first fault that `checkRaces`, `checkAgreement` or
/// `checkReplicas` finds.
std::optional<Fault> checkCommunication(const plan::Mesh &mesh,
                                        const std::vector<Trace> &traces);
/// Returns the first fault that any of the checks finds, except those for
/// offloaded states.
std::optional<Fault> checkAll(const plan::Mesh &mesh,
                              const std::vector<Trace> &traces);

/// The code of the error: H0913, H0914, or one for each kind.
const char *codeOf(Fault::Kind kind);

} // namespace heddle::prove

#endif // HEDDLE_TRANSFORMS_PROVE_TRACES_H
