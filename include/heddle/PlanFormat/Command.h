//===- Command.h - What a rank does, one command at a time ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Element types, named as safetensors names them.
enum class DType { F32, BF16, F16, I32, I64, U8, F64 };
template <>
inline constexpr std::array enumNames<DType> = {"F32", "BF16", "F16", "I32",
                                                "I64", "U8",   "F64"};
int64_t byteSize(DType type);

/// The memory that a `Ref` counts from.
enum class Space {
  Persistent, ///< States: one allocation that lives as long as the process.
  Frame,      ///< The running sequence's own frame in the arena; in memory that
              ///< is not the device's, the arena itself.
  Arg,        ///< An argument of the running sequence: `index` says which.
};
template <>
inline constexpr std::array enumNames<Space> = {"persistent", "frame", "arg"};

/// What a collective does; see Collective.h for the algorithms.
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
  std::vector<std::string> axes; ///< The group: ranks along these axes.
  DType type = DType::F32;
  DType wire = DType::F32; ///< What travels.
  /// The split buffer is [outer, parts, inner], for each of `segments` apart
  /// (elements of each, over all parts; empty: one). all_to_all gathers so, and
  /// splits [splitOuter, parts, ...] in `splitSegments`.
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

/// Messages to or from the rank `delta` further along `axis`, around its end.
/// Those of one channel between two ranks arrive in the order of their sending.
struct Channel {
  std::string axis;
  int64_t delta = 0;
  std::string name;
};

template <>
inline constexpr std::array enumNames<FragmentKind> = {"F", "B", "I", "W", "O"};

/// The passes of one kind and one chunk of layers of a pipeline stage.
struct Fragment {
  FragmentKind kind = FragmentKind::Forward;
  int64_t chunk = 0;
  int64_t sequence = 0; ///< The number of the sequence that it runs.
  int64_t slots = 1;    ///< Its slot is the micro-batch modulo this.

  /// As schedules are written: `F`, `B/1`; with its micro-batch `F12`, `B3/1`.
  std::string name(const std::string &microBatch = "") const;
};

/// An entry of a stage's schedule: one micro-batch of one fragment.
struct ScheduledFragment {
  int64_t fragment = 0; ///< Its number in command::Fragments::fragments.
  int64_t microBatch = 0;
};

/// A number that is known when the plan is loaded, times a factor.
struct Term {
  enum class Kind {
    Arg,        ///< An integer argument of the sequence: `value` says which.
    LoopIndex,  ///< The iteration of the innermost enclosing loop, or the
                ///< micro-batch of the running fragment.
    Slot,       ///< The slot of the running fragment.
    Coordinate, ///< This rank's number among those along `axes`.
  } kind = Kind::LoopIndex;
  int64_t value = 0;
  int64_t factor = 1;
  std::vector<std::string> axes;
};
template <>
inline constexpr std::array enumNames<Term::Kind> = {"arg", "loop-index",
                                                     "slot", "coordinate"};

/// The address of a command's operand: a base, a byte offset, and what is added
/// to it, in bytes.
struct Ref {
  Space space = Space::Frame;
  MemoryKind memory = MemoryKind::Device; ///< Not for Space::Arg.
  int64_t index = 0;                      ///< Only for Space::Arg.
  int64_t offset = 0;                     ///< In bytes.
  int64_t bytes = 0; ///< Bytes reachable through this operand.
  std::vector<Term> terms;
};

/// A launch's integer operand: the sum of a constant and terms.
struct Scalar {
  int64_t constant = 0;
  std::vector<Term> terms;
};

/// The commands there are: each has what it needs, and the name that plans and
/// traces call it by.
namespace command {

struct Operands {
  std::vector<Ref> refs;
  std::vector<Scalar> scalars;
};

/// Run kernel `kernel` on every thread of the pool.
struct Launch : Operands {
  static constexpr const char *name = "launch";
  int64_t kernel = 0;
};

/// What runs a sequence: its arguments, and where its frame stands in the
/// caller's.
struct Entry : Operands {
  int64_t frameOffset = 0;
};

/// Run `sequence`.
struct Call : Entry {
  static constexpr const char *name = "call";
  int64_t sequence = 0;
};

/// Run `sequence` `count` times in the same frame; its loop index is
/// 0..count-1.
struct Loop : Entry {
  static constexpr const char *name = "loop";
  int64_t sequence = 0;
  int64_t count = 0;
};

/// Run a pipeline stage's fragments in the order of its schedule, in the same
/// frame.
struct Fragments : Entry {
  static constexpr const char *name = "fragments";
  std::vector<Fragment> fragments;
  std::vector<ScheduledFragment> order;
};

/// `target` <- `source`, which have as many bytes.
struct Copy {
  static constexpr const char *name = "copy";
  Ref target, source;
};

/// Row t of `target` <- row ids[t] of `source`; ids (I32) that are no row of
/// it: bytes of ones.
struct CopyRows {
  static constexpr const char *name = "copy_rows";
  Ref target, source, ids;
  int64_t rowBytes = 0; ///< At least 1.
  /// The source is a part of a table, from this row of it on; ids that are no
  /// row of the part: zeros.
  std::optional<Scalar> first{};
};

/// `target` <- zero.
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

/// Note the point that the stream has come to.
struct Record {
  static constexpr const char *name = "record";
  /// What comes before it may be under way when the program ends, and the next
  /// run settles the point of that number; -1: it may not.
  int64_t carried = -1;
};

/// Let the stream wait for the point of that number which the last run of the
/// program has noted; in the first run there is none.
struct Settle {
  static constexpr const char *name = "settle";
  int64_t number = 0;
};

/// Let the stream wait for the collective, or for the point, that is command
/// `command` of this sequence.
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

/// Wait for `data` along `channel`.
struct Receive {
  static constexpr const char *name = "receive";
  Channel channel;
  Ref data;
};

/// Wait until at most `left` sends are under way on the channel of that name;
/// at a step's end none is.
struct Flush {
  static constexpr const char *name = "flush";
  std::string channel;
  int64_t left = 0;
};

} // namespace command

/// One function of several, for std::visit.
template <typename... Functions> struct Overloads : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloads(Functions...) -> Overloads<Functions...>;

/// A command. Which kinds there are stands here alone: who reads commands gives
/// `visit` a function for each kind, or one for all others.
struct Command {
  using What =
      std::variant<command::Launch, command::Call, command::Loop,
                   command::Fragments, command::Copy, command::CopyRows,
                   command::Fill, command::Collective, command::Record,
                   command::Wait, command::Settle, command::Send,
                   command::Receive, command::Flush>;
  What what;
  Stream stream = Stream::Compute; ///< That does it.
  std::string path{}; ///< Module path, as `h.3`, for traces and errors.

  /// Calls that of the functions which takes what the command is.
  template <typename... Functions>
  decltype(auto) visit(Functions... functions) const {
    return std::visit(Overloads{std::move(functions)...}, what);
  }
  /// What the command is, or null when it is something else.
  template <typename T> const T *as() const { return std::get_if<T>(&what); }
  template <typename T> T *as() { return std::get_if<T>(&what); }
  const char *name() const {
    return visit([](const auto &what) { return what.name; });
  }
};

/// A sequence that a command runs, and how often.
struct SequenceRuns {
  int64_t sequence = 0;
  int64_t times = 1;
};
std::vector<SequenceRuns> runsOf(const Command &command);

/// A list of commands over arguments and a frame. Layers share one sequence.
struct Sequence {
  std::string name;
  int64_t frameBytes = 0; ///< Its own values and the frames of its callees.
  int64_t numArgs = 0;
  int64_t numScalarArgs = 0;
  std::vector<Command> commands;
};

void to_json(nlohmann::json &json, const Ref &ref);
void from_json(const nlohmann::json &json, Ref &ref);
void to_json(nlohmann::json &json, const Sequence &sequence);
void from_json(const nlohmann::json &json, Sequence &sequence);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_COMMAND_H
