//===- Traces.h - What ranks do in a step, command by command ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checks of the prove phase, and the data that they work on. A trace lists
// the commands of one rank. The checks get the traces of every rank, or of one
// rank of every pipeline stage, and know nothing else about the compiler. For
// this reason this header must not include MLIR headers. ProgramTraces.h makes
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

/// The two address spaces of a trace. `Persistent` is memory that lives across
/// steps, `Arena` is memory of one step. Each space contains all kinds of
/// memory one after the other, beginning with the device's memory.
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

/// A state of the plan: a tensor in the memory that lives across steps.
struct State {
  Range range;
  std::string name;
  /// Whether the state lives across steps and is written by the optimizer.
  bool lasts = false;
  /// Whether the state is a key-value cache, which lives across steps and is
  /// written by attention.
  bool isCache = false;
  /// Whether each step writes the state before it reads the state. Gradients
  /// are such states.
  bool ofStep = false;
  /// Whether the state has an entry (slot) for each micro-batch in flight.
  bool hasSlots = false;
  /// Whether the state is in the host's memory or a file.
  bool isOffloaded = false;
  /// Whether the state is a copy of a parameter that each optimizer update
  /// computes anew, for example in bf16.
  bool isCopy = false;
  Axes axes = 0; ///< The axes along which ranks hold different parts.
};

/// A tensor in the memory that lives across steps: a parameter, its gradient,
/// or an optimizer state with as many elements as the parameter. If a flat
/// tensor joins such tensors of several parameters and is split over ranks, the
/// rank's part of it is one member, which has the name of the first parameter.
struct Member {
  Range range;
  int64_t width = 1; ///< The number of bytes of an element.
  std::string parameter;
  /// The kind of the state, which is a part of its name: for example `exp_avg`
  /// for a moment of Adam. Empty for the parameter itself.
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

/// The bytes that a command reads or writes. Their number is `bytes`. The
/// address of the first byte is `begin` + `perIteration` * iteration +
/// `perSlot` * slot. The slot is the index of the micro-batch's entry in a
/// state that saves values.
struct Access {
  Space space = Space::Arena;
  bool writes = false;
  /// Whether the access is to one slot of a state that holds the activations of
  /// several micro-batches.
  bool inSlot = false;
  /// The index of the operand in the command, for error messages.
  int16_t operand = 0;
  int32_t buffer = -1; ///< Index into Trace::buffers.
  /// Not 0 if the address depends on the rank. Accesses with the same
  /// `rankTerm` depend on the rank in the same way. The address is `begin` on
  /// the first rank, and `begin` + `spread` on the last rank.
  int32_t rankTerm = 0;
  int64_t spread = 0;
  Axes rankAxes = 0; ///< The mesh axes on which the address depends.
  int64_t begin = 0, bytes = 0;
  int64_t perIteration = 0, perSlot = 0;
  /// The bytes that the access may touch in any iteration, for any micro-batch,
  /// on any rank; set only if its address depends on one of these.
  Range choices;

  bool varies() const { return perIteration != 0 || perSlot != 0; }
};

/// A collective operation of a trace, for example an all-reduce.
struct Collective {
  plan::Collective what;
  int64_t targetBytes = 0, sourceBytes = 0, stagingBytes = 0;
  /// The reason for the collective, as in the IR, for example `activations`.
  /// All ranks that run the collective together must agree on the reason.
  std::string reason;
  /// The buffer that the collective writes to. All ranks of a pipeline stage
  /// must use the same one.
  int32_t targetBuffer = -1;
  /// The offset of the written bytes in their buffer, without the part of the
  /// offset that depends on the rank. All ranks of a stage must have the same
  /// `targetBegin`.
  int64_t targetBegin = 0;
};

struct Message {
  plan::Channel channel; ///< For a flush only its name is set.
  int64_t bytes = 0;
  plan::DType type = plan::DType::F32;
};

struct Kernel {
  /// Identifies the code of the kernel: kernels with the same code have equal
  /// strings here.
  std::string code;
  /// For each written operand, the operands from which its value is computed.
  std::map<int16_t, std::vector<int16_t>> sources;
  /// The operands that say at which positions of a key-value cache tokens are
  /// stored. Each of them must be an input of the step. The map's value says
  /// which kind of input it must be, for example PortRole::Pages.
  std::map<int16_t, plan::PortRole> places;
};

/// A command of the trace, or the point at which a buffer's lifetime begins.
/// This point is an event because buffers reuse memory: the bytes then no
/// longer hold what was written for an earlier buffer.
struct Event {
  enum class Kind : uint8_t {
    Launch,
    Copy,
    CopyRows, ///< Reads ids, and the rows of a table that they select.
    Fill,
    /// The lifetime of a buffer begins. If the event's access has `writes` set,
    /// the runtime has filled the buffer with an input of the step.
    Fresh,
    /// Records the point that `stream` has reached, like cudaEventRecord.
    Record,
    Join, ///< `stream` waits for a recorded point, like cudaStreamWaitEvent.
    /// `stream` waits for a point that the previous run of the step has
    /// recorded.
    Settle,
    Start, ///< Starts the collective with the index `number`.
    Wait,
    Send,    ///< Sends the message with the index `number`.
    Receive, ///< Blocks until the message with the index `number` has arrived.
    Flush ///< Blocks until at most `left` sends of the channel are in flight.
  } kind = Kind::Launch;
  /// The stream that runs the event. Communication starts on `Compute`, which
  /// also waits for it.
  plan::Stream stream = plan::Stream::Compute;
  int32_t number = -1; ///< Index into Trace::collectives or Trace::messages.
  /// Tells what an event waits for: Join and Settle have the token of a Record,
  /// and Wait has the token of a Start.
  int32_t token = -1;
  /// For an event of kind Record: whether the next run of the step waits for
  /// the recorded point (by an event of kind Settle).
  bool carries = false;
  int32_t origin = -1; ///< Index into Trace::names.
  int32_t path = -1;   ///< Index into Trace::paths.
  int64_t left = 0;
  int32_t kernel = -1;  ///< For Launch: index into Trace::kernels.
  bool updates = false; ///< For Launch: whether the kernel updates parameters.
  /// Whether the event may write a key-value cache. Such an event writes no
  /// other memory that lives across steps.
  bool writesCache = false;
  /// For Launch: whether the kernel computes attention over a cache.
  bool readsCache = false;
  /// For Launch and CopyRows: the mesh axes along which ranks have different
  /// values of the command's scalar operands. What the command writes may then
  /// differ along these axes, too.
  Axes rankAxes = 0;
  /// In an unrolled trace, the micro-batch of the event. -1 if the event has
  /// the micro-batch of the BodyRun that executes it.
  int64_t iteration = -1;
  /// In which steps the event happens.
  plan::Guard guard;
  std::vector<Access> accesses;

  bool isCommunication() const { return kind >= Kind::Start; }
};

using Body = std::vector<Event>;

/// One execution of a body: an iteration of a loop, or the forward or backward
/// pass of a pipeline stage for one micro-batch.
struct BodyRun {
  int32_t body = 0;
  /// The micro-batch or iteration of this execution. -1 for commands that are
  /// executed once in a step.
  int64_t iteration = -1;
  int64_t slot = 0;
};

/// The commands that one rank executes in a step. A body (the commands of a
/// loop, for example) that is executed many times is stored once.
struct Trace {
  std::vector<Range> buffers; ///< For each buffer, its range of bytes.
  std::vector<State> states;  ///< The states, sorted by their first byte.
  /// The parameters, gradients and optimizer states (see Member), sorted by
  /// their first byte. They do not overlap.
  std::vector<Member> members;
  std::vector<Port> ports;
  std::vector<Collective> collectives;
  std::vector<Message> messages;
  std::vector<Body> bodies;
  std::vector<BodyRun> runs;
  /// The number of different tokens in the trace. A token connects the start of
  /// an asynchronous operation with its wait. Each run of a body (for example,
  /// each iteration of a loop) starts each token of the body once.
  int32_t tokens = 0;
  int64_t stage = 0;
  /// Whether sends are executed in order, as by NCCL: a send waits until the
  /// receives of all earlier sends have started.
  bool sendsInOrder = false;
  std::vector<std::string> names, paths;
  std::vector<Kernel> kernels;

  /// Describes an event, as `plan.send, command 7 of @train, micro-batch 3`.
  std::string describe(const Event &event, const BodyRun &run) const;
  int64_t iterationOf(const Event &event, const BodyRun &run) const {
    return event.iteration >= 0 ? event.iteration : run.iteration;
  }
  /// The address of an access's first byte in the execution `run` of the body
  /// (a loop's, for example) that contains the access.
  static int64_t beginOf(const Access &access, const BodyRun &run) {
    return access.begin + access.perIteration * run.iteration +
           access.perSlot * run.slot;
  }
  static Range rangeOf(const Access &access, const BodyRun &run) {
    int64_t begin = beginOf(access, run);
    return {begin, begin + access.bytes};
  }
};

/// Unrolls the loops of a trace: a body (the commands of a loop, or of a
/// stage's forward or backward pass) that the trace runs several times is
/// copied for each of these runs. If only one body uses a temporary buffer, the
/// lifetime of the buffer begins anew in each copy, so that no copy may read
/// what an earlier one wrote.
Trace unroll(const Trace &trace);

/// Why a plan is refused.
struct Fault {
  enum class Kind {
    Extent, ///< An operand accesses bytes outside of its buffer.
    /// A command reads bytes that were not written, or that hold the value of
    /// another buffer.
    Flow,
    /// Two concurrent commands use the same bytes, and at least one writes
    /// them.
    Race,
    Waits,       ///< A communication is not waited for, or not started.
    Collectives, ///< Members of a group do not run the same collectives.
    /// A message is sent, but not received with the same size and type.
    Messages,
    Deadlock, ///< Ranks wait for each other in a cycle.
  } kind = Kind::Flow;
  std::string text;
  /// An event that takes part in the fault: the index of its trace, and
  /// `origin`, the index of its operation in Trace::names.
  struct Source {
    size_t trace = 0;
    int32_t origin = -1;
  };
  std::vector<Source> sources; ///< The first one is at fault.
};

/// Checks the flow of data: every read must find the value that was written for
/// it.
/// - A read of the step's temporary memory (the arena) must find what the last
///   writer of the same buffer wrote. A read of a slot (a state's entry for one
///   micro-batch) must find what the same micro-batch wrote. No operand may
///   reach beyond its buffer.
/// - Inputs are written before the step. Outputs must be written when the step
///   ends.
/// - States that live across steps hold what earlier steps wrote. Only the
///   optimizer and collectives may write these states.
///
/// This check assumes that a communication finishes as soon as it starts.
/// `checkRaces` checks the accesses between the start of a communication and
/// its wait. Adds to `executed` the number of events that were executed. If
/// several iterations of a loop, or several passes of a pipeline stage, make
/// the same changes to memory, only one of them is executed.
std::optional<Fault> checkFlow(const Trace &trace, int64_t *executed = nullptr);

/// Checks the transfers of offloaded states. A stored tile must have been
/// fetched from the same bytes and updated since. An updated tile must be
/// stored before its memory is reused, before the same bytes are fetched again,
/// and before the step ends. An activation may be stored in a slot (a state's
/// entry for one micro-batch) only after the slot's previous activation was
/// fetched. It must be fetched before the step ends.
std::optional<Fault> checkStateTiles(const Trace &trace);

/// Checks that plans with offloaded states transfer the right elements.
/// - All operands of an update must be the same elements of the same
///   parameters.
/// - In updates with the same code, operands with the same index must be of the
///   same kind, for example `exp_avg`.
/// - A result must be stored at the address where the state keeps these
///   elements.
/// - If several layers have the same code, the fetched parameters that they
///   read must have the same names within the layer.
///
/// Three things are not checked: values that ranks exchanged, offsets that
/// depend on the rank, and reads of parameters outside of layers.
std::optional<Fault> checkSameElements(const Trace &trace);

/// Checks the transfers of offloaded gradients.
/// - A store must not overwrite a stored gradient that was not fetched yet.
/// - If a command adds to a fetched gradient, the sum must be stored at the
///   address that the gradient was fetched from. This does not hold for
///   gradients that are fetched after the step's last store of any gradient.
/// - All stored gradients must be fetched before the step ends.
std::optional<Fault> checkGradients(const Trace &trace);

/// Checks that commands and communications do not conflict.
/// - No command may touch bytes that a communication in flight writes, or write
///   bytes that a communication in flight reads. A collective is in flight from
///   its start to its wait. A message is in flight from its send until a flush
///   that waits for it. A flush waits for all sends, except for a given number
///   of the latest sends.
/// - Every collective must be waited for before the step ends.
/// - If two commands on different streams use the same bytes, and at least one
///   writes them, a record and a wait must order the commands.
/// - A program that leaves work to its next run is executed twice. The second
///   run must wait for all work that the first one left.
std::optional<Fault> checkRaces(const Trace &trace);

/// Checks that ranks agree on their communication and do not deadlock. `traces`
/// has one trace for every rank, or one for each pipeline stage. One trace for
/// each stage is enough because all ranks of a stage run the same commands, so
/// that communication within a stage always matches. The members of a group
/// must run the same collectives in the same order. Each message that is sent
/// on a channel must be received, with the same size, element type and
/// micro-batch.
///
/// Then the step is simulated. A rank never blocks when it starts a collective
/// or a send. A rank runs its collectives in the order of their starts,
/// together with all members of the group. A receive blocks until the message
/// was sent. A flush blocks until at most `Event::left` sends of its channel
/// have not been received. With `Trace::sendsInOrder` a message can be received
/// only after all messages that its sender sent earlier. The simulation does
/// not depend on time, so a plan that blocks here blocks in every execution.
std::optional<Fault> checkAgreement(const plan::Mesh &mesh,
                                    const std::vector<Trace> &traces);

/// Checks that replicas stay equal. After the step, ranks that hold the same
/// state must have the same bytes of it, and all ranks must have the same loss
/// and gradient norm. `traces` has one trace for each pipeline stage.
///
/// The check tracks for each value the mesh axes along which ranks may have
/// different bytes. These are the axes along which the operands of the value
/// differ. A result of a collective does not differ along the collective's axes
/// if all members get the same result. Two stages have the same loss if they
/// compute it with the same code from such a result.
std::optional<Fault> checkReplicas(const plan::Mesh &mesh,
                                   const std::vector<Trace> &traces);

/// Returns the first fault that `checkRaces`, `checkAgreement` or
/// `checkReplicas` finds.
std::optional<Fault> checkCommunication(const plan::Mesh &mesh,
                                        const std::vector<Trace> &traces);
/// Returns the first fault that a check finds. Runs all checks but those of
/// offloaded states.
std::optional<Fault> checkAll(const plan::Mesh &mesh,
                              const std::vector<Trace> &traces);

/// The error code of a kind of fault: H0913, H0914 or another.
const char *codeOf(Fault::Kind kind);

} // namespace heddle::prove

#endif // HEDDLE_TRANSFORMS_PROVE_TRACES_H
