//===- Command.h - The commands of a plan -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The commands of a plan: what a rank executes, in order. The compiler writes
// them from plan.sequence operations, and the runtime resolves them into a
// CommandList.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_COMMAND_H
#define HEDDLE_PLANFORMAT_COMMAND_H

#include "heddle/PlanFormat/FragmentKind.h"
#include "heddle/PlanFormat/Memory.h"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace heddle::plan {

/// Element types, with the names that safetensors uses.
enum class DType { F32, BF16, F16, I32, I64, U8, F64 };
template <>
inline constexpr std::array enumNames<DType> = {"F32", "BF16", "F16", "I32",
                                                "I64", "U8",   "F64"};
int64_t byteSize(DType type);

/// What the offset of a `Ref` is relative to.
enum class Space {
  /// The persistent region: the memory of states, which exists until the
  /// process ends.
  Persistent,
  /// In device memory: the frame of the running command sequence, which is a
  /// range of the arena. In other kinds of memory: the arena itself, which is
  /// not divided into frames.
  Frame,
  Arg, ///< Argument number `index` of the running sequence.
};
template <>
inline constexpr std::array enumNames<Space> = {"persistent", "frame", "arg"};

/// Kinds of collectives; see Collective.h.
enum class CollectiveKind {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Rotate
};
template <>
inline constexpr std::array enumNames<CollectiveKind> = {
    "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "rotate"};

struct Collective {
  using Kind = CollectiveKind;
  Kind kind = Kind::AllReduce;
  std::vector<std::string> axes; ///< The group: the ranks along these axes.
  DType type = DType::F32;
  DType wire = DType::F32; ///< The type that is sent.
  /// How the buffer is split among the ranks. Without `segments`, the buffer is
  /// a row-major array [outer, ranks, inner]. With `segments`, each of the
  /// `outer` rows consists of several arrays [ranks, inner], and `segments` has
  /// the number of elements of each. For all_to_all, `outer` and `segments`
  /// describe the target, `splitOuter` and `splitSegments` the source.
  int64_t outer = 1;
  int64_t splitOuter = 1;
  std::vector<int64_t> segments;
  std::vector<int64_t> splitSegments;

  bool operator==(const Collective &other) const {
    return std::tie(kind, axes, type, wire, outer, splitOuter, segments,
                    splitSegments) ==
           std::tie(other.kind, other.axes, other.type, other.wire, other.outer,
                    other.splitOuter, other.segments, other.splitSegments);
  }
};

/// A channel for messages to or from the rank that is `delta` steps further
/// along `axis`, modulo the size of the axis. Messages of one channel between
/// two ranks arrive in the order of sending.
struct Channel {
  std::string axis;
  int64_t delta = 0;
  std::string name;
};

template <>
inline constexpr std::array enumNames<FragmentKind> = {"F", "B", "I", "W", "O"};

/// The passes of one kind, such as forward, through one chunk of layers of a
/// pipeline stage, for all micro-batches.
struct Fragment {
  FragmentKind kind = FragmentKind::Forward;
  int64_t chunk = 0;
  int64_t sequence = 0; ///< The index of the sequence that it runs.
  int64_t slots = 1;    ///< Micro-batch m uses slot m modulo `slots`.

  /// The name in schedules: `F` for forward passes, `B/1` for backward passes
  /// through chunk 1 of the layers. If `microBatch` is the number of a
  /// micro-batch, the name includes it, as in `F12` or `B3/1`.
  std::string name(const std::string &microBatch = "") const;
};

/// An entry of a pipeline stage's schedule: one pass, such as the forward pass
/// of one micro-batch. A fragment is such a pass for all micro-batches.
struct ScheduledFragment {
  int64_t fragment = 0; ///< Index into command::Fragments::fragments.
  int64_t microBatch = 0;
};

/// An integer that is known only when the command runs, times a factor.
struct Term {
  enum class Kind {
    Arg, ///< Integer argument number `value` of the sequence.
    /// The index of the current iteration of the innermost loop around the
    /// command, or in a pipeline stage the index of the micro-batch.
    LoopIndex,
    Slot,       ///< The slot of the running fragment.
    Coordinate, ///< This rank's coordinate along `axes`.
  } kind = Kind::LoopIndex;
  int64_t value = 0;
  int64_t factor = 1;
  std::vector<std::string> axes;
};
template <>
inline constexpr std::array enumNames<Term::Kind> = {"arg", "loop-index",
                                                     "slot", "coordinate"};

/// The address of a command's operand: a base, a byte offset, and terms that
/// are added, in bytes.
struct Ref {
  Space space = Space::Frame;
  /// Kind of memory; unused for Space::Arg.
  MemoryKind memory = MemoryKind::Device;
  int64_t index = 0;  ///< The index of the argument; only for Space::Arg.
  int64_t offset = 0; ///< The offset in bytes from the beginning of `space`.
  /// The number of bytes that the command may access from the address on.
  int64_t bytes = 0;
  std::vector<Term> terms;
};

/// An integer operand of a launch: a constant plus terms.
struct Scalar {
  int64_t constant = 0;
  std::vector<Term> terms;
};

/// All kinds of commands. There is one struct for each kind, with its operands
/// and its name in plans and traces.
namespace command {

struct Operands {
  std::vector<Ref> refs;
  std::vector<Scalar> scalars;
};

/// Launch kernel `kernel`; on a CPU, every thread of the pool runs it.
struct Launch : Operands {
  static constexpr const char *name = "launch";
  int64_t kernel = 0;
  /// The paths of the modules to which the kernel's shares belong, in the order
  /// of Kernel::shares; empty if the kernel has one share. Its module is then
  /// the command's path. The path of the model itself is "".
  std::vector<std::string> modules{};
};

/// What the commands Call, Loop and Fragments have in common: the arguments of
/// the sequence that they run, and the offset of the sequence's frame in the
/// caller's frame.
struct Entry : Operands {
  int64_t frameOffset = 0;
};

/// Run `sequence` once.
struct Call : Entry {
  static constexpr const char *name = "call";
  int64_t sequence = 0;
};

/// Run `sequence` `count` times, always with the same frame (range of temporary
/// memory). The loop index counts the runs from 0.
struct Loop : Entry {
  static constexpr const char *name = "loop";
  int64_t sequence = 0;
  int64_t count = 0;
};

/// Run the forward and backward passes (fragments) of a pipeline stage in the
/// order of the stage's schedule. All passes use the same frame (range of
/// temporary memory) for their own values.
struct Fragments : Entry {
  static constexpr const char *name = "fragments";
  std::vector<Fragment> fragments;
  std::vector<ScheduledFragment> order;
};

/// `target` <- `source`; both have the same number of bytes.
struct Copy {
  static constexpr const char *name = "copy";
  Ref target, source;
};

/// Copy row ids[t] of `source` to row t of `target`, for each t. If ids[t]
/// (I32) is outside of `source`, all bytes of row t become 0xff.
struct CopyRows {
  static constexpr const char *name = "copy_rows";
  Ref target, source, ids;
  int64_t rowBytes = 0; ///< The number of bytes of a row, at least 1.
  /// Only if `source` is a shard of an embedding table: the index in the table
  /// of the shard's first row. An id outside of the shard then gives a row of
  /// zeros, so that a sum over the ranks gives the right row.
  std::optional<Scalar> first{};
};

/// Fill `target` with zeros.
struct Fill {
  static constexpr const char *name = "fill";
  Ref target;
};

/// Start `collective`.
struct Collective {
  static constexpr const char *name = "collective";
  plan::Collective collective;
  Ref target, source, staging;
};

/// Record an event on the command's stream.
struct Record {
  static constexpr const char *name = "record";
  /// If -1, all work before the event is done when the program ends. Otherwise
  /// the work may continue after that. The next run of the program waits for it
  /// by the `Settle` whose `number` is equal to `carried`.
  int64_t carried = -1;
};

/// Let the stream wait for an event of the previous run of the program: that of
/// the `Record` whose `carried` is `number`. The first run does not wait.
struct Settle {
  static constexpr const char *name = "settle";
  int64_t number = 0;
};

/// Let the stream wait for the collective or the event that the command with
/// index `command` of this sequence has started or recorded.
struct Wait {
  static constexpr const char *name = "wait";
  int64_t command = 0;
};

/// Send `data` along `channel`.
struct Send {
  static constexpr const char *name = "send";
  Channel channel;
  Ref data;
};

/// Receive `data` along `channel`, and wait for it.
struct Receive {
  static constexpr const char *name = "receive";
  Channel channel;
  Ref data;
};

/// Wait until at most `left` messages sent on `channel` are still not received.
/// At the end of a step all messages must have been received.
struct Flush {
  static constexpr const char *name = "flush";
  std::string channel;
  int64_t left = 0;
};

} // namespace command

/// Combines functions for std::visit.
template <typename... Functions> struct Overloads : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloads(Functions...) -> Overloads<Functions...>;

/// In which steps a command is executed.
struct Guard {
  /// The index of a condition of the stage; -1: the command is executed in all
  /// steps.
  int64_t condition = -1;
  /// The value of the condition in the steps that execute the command.
  bool value = true;

  bool isAlways() const { return condition < 0; }
  bool operator==(const Guard &other) const {
    return condition == other.condition && value == other.value;
  }
};

/// A command of any kind. `What` is the only list of all kinds. Code that
/// handles commands calls `visit`, with one function for each kind. A generic
/// function can handle all kinds that have no function of their own.
struct Command {
  using What =
      std::variant<command::Launch, command::Call, command::Loop,
                   command::Fragments, command::Copy, command::CopyRows,
                   command::Fill, command::Collective, command::Record,
                   command::Wait, command::Settle, command::Send,
                   command::Receive, command::Flush>;
  What what;
  /// The stream to which the command is submitted.
  Stream stream = Stream::Compute;
  std::string path{}; ///< Module path, such as `h.3`, for traces and errors.
  /// A call's guard is that of all commands that the call executes.
  Guard guard{};

  /// Calls the function that takes the command's kind.
  template <typename... Functions>
  decltype(auto) visit(Functions... functions) const {
    return std::visit(Overloads{std::move(functions)...}, what);
  }
  /// The command as kind T, or null.
  template <typename T> const T *as() const { return std::get_if<T>(&what); }
  template <typename T> T *as() { return std::get_if<T>(&what); }
  const char *name() const {
    return visit([](const auto &what) { return what.name; });
  }
};

/// The sequence of commands that a command calls, and the number of calls.
struct SequenceRuns {
  int64_t sequence = 0;
  int64_t times = 1;
};
std::vector<SequenceRuns> runsOf(const Command &command);

/// A temporary buffer of a command sequence, with its lifetime. Commands
/// address the bytes by their offset, so the runtime does not need this
/// description. The verbs `explain` and `report` show it.
struct FrameBuffer {
  std::string path;  ///< The module that computes the buffer's first value.
  std::string owner; ///< The use of the bytes, as in Memory::owners.
  MemoryKind memory = MemoryKind::Device;
  int64_t offset = 0;   ///< The offset in bytes in the sequence's frame.
  int64_t bytes = 0;    ///< The bytes of the value.
  int64_t reserved = 0; ///< `bytes`, and the padding for alignment after them.
  /// The first and the last command during which the buffer is in use. Commands
  /// are counted from 0 through the sequence, and a command with bodies (Loop,
  /// Fragments) is followed by the commands of its bodies.
  int64_t first = 0, last = 0;
  /// The last command during which work of the program's previous run may still
  /// use the buffer; -1: no such work uses it.
  int64_t settled = -1;
};

/// A list of commands with arguments and a frame (temporary memory). Equal
/// layers share one sequence.
struct Sequence {
  std::string name;
  /// Bytes of the sequence's own values and of its callees' frames.
  int64_t frameBytes = 0;
  int64_t numArgs = 0;
  int64_t numScalarArgs = 0;
  std::vector<Command> commands;
  /// The buffers of the frame. The bodies of loops and fragments have none: the
  /// sequence around them lists their buffers.
  std::vector<FrameBuffer> buffers;
};

void to_json(nlohmann::json &json, const Ref &ref);
void from_json(const nlohmann::json &json, Ref &ref);
void to_json(nlohmann::json &json, const Sequence &sequence);
void from_json(const nlohmann::json &json, Sequence &sequence);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_COMMAND_H
