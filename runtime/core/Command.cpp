//===- Command.cpp - The JSON form of commands ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands of a plan as JSON. A command is an object with the name of its kind
// and its fields. There are many operands, so they are arrays instead of
// objects, which keeps the JSON short.
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Command.h"

using nlohmann::json;

namespace heddle::plan {

void throwUnknown(const json &source, const std::string &name) {
  throw json::other_error::create(501, "unknown name '" + name + "'", &source);
}

int64_t byteSize(DType type) {
  switch (type) {
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::BF16:
  case DType::F16:
    return 2;
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::U8:
    return 1;
  }
  return 0;
}

std::string Fragment::name(const std::string &microBatch) const {
  return nameOf(kind) + microBatch +
         (chunk ? "/" + std::to_string(chunk) : std::string());
}

static std::vector<SequenceRuns> runsOf(const command::Fragments &all) {
  std::vector<int64_t> times(all.fragments.size());
  for (const ScheduledFragment &entry : all.order)
    if (size_t(entry.fragment) < times.size())
      ++times[entry.fragment];
  std::vector<SequenceRuns> runs;
  for (size_t i = 0; i < times.size(); ++i)
    if (times[i])
      runs.push_back({all.fragments[i].sequence, times[i]});
  return runs;
}

std::vector<SequenceRuns> runsOf(const Command &command) {
  using Runs = std::vector<SequenceRuns>;
  return command.visit(
      [](const command::Call &call) {
        return Runs{{call.sequence, 1}};
      },
      [](const command::Loop &loop) {
        return Runs{{loop.sequence, loop.count}};
      },
      [](const command::Fragments &all) { return runsOf(all); },
      [](const auto &) { return Runs(); });
}

void to_json(json &target, const Term &term) {
  target = json::array({term.kind, term.value, term.factor, term.axes});
}
void from_json(const json &source, Term &term) {
  source.at(0).get_to(term.kind);
  source.at(1).get_to(term.value);
  source.at(2).get_to(term.factor);
  source.at(3).get_to(term.axes);
}

void to_json(json &target, const Ref &ref) {
  target = json::array({ref.space, ref.index, ref.offset, ref.bytes});
  // Fields that most operands do not need are at the end of the JSON array.
  // Fields at the end are left out of the array if they have their defaults.
  bool isElsewhere = ref.memory != MemoryKind::Device;
  if (!ref.terms.empty() || isElsewhere)
    target.push_back(ref.terms);
  if (isElsewhere)
    target.push_back(ref.memory);
}
void from_json(const json &source, Ref &ref) {
  source.at(0).get_to(ref.space);
  source.at(1).get_to(ref.index);
  source.at(2).get_to(ref.offset);
  source.at(3).get_to(ref.bytes);
  if (source.size() > 4)
    source.at(4).get_to(ref.terms);
  if (source.size() > 5)
    source.at(5).get_to(ref.memory);
}

void to_json(json &target, const Scalar &scalar) {
  target = json::array({scalar.constant, scalar.terms});
}
void from_json(const json &source, Scalar &scalar) {
  source.at(0).get_to(scalar.constant);
  source.at(1).get_to(scalar.terms);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Collective, kind, axes, type, wire, outer,
                                   splitOuter, segments, splitSegments)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Channel, axis, delta, name)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Fragment, kind, chunk, sequence, slots)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ScheduledFragment, fragment, microBatch)

namespace command {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Call, sequence, frameOffset, refs, scalars)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Loop, sequence, count, frameOffset, refs,
                                   scalars)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Fragments, fragments, order, frameOffset,
                                   refs, scalars)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Copy, target, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Fill, target)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Collective, collective, target, source,
                                   staging)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Wait, command)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Settle, number)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Send, channel, data)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Receive, channel, data)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Flush, channel, left)

// Leaves out `modules` when the kernel's share belongs to the command's path,
// as in most launches.
static void to_json(json &target, const Launch &launch) {
  target = {{"kernel", launch.kernel},
            {"refs", launch.refs},
            {"scalars", launch.scalars}};
  if (!launch.modules.empty())
    target["modules"] = launch.modules;
}
static void from_json(const json &source, Launch &launch) {
  source.at("kernel").get_to(launch.kernel);
  source.at("refs").get_to(launch.refs);
  source.at("scalars").get_to(launch.scalars);
  launch.modules = source.value("modules", std::vector<std::string>());
}

// Leaves out `carried` when it is -1, to keep the JSON short. Only few events
// are awaited by the next run of the program, and only they have a value in
// `carried`.
static void to_json(json &target, const Record &record) {
  target = json::object();
  if (record.carried >= 0)
    target["carried"] = record.carried;
}
static void from_json(const json &source, Record &record) {
  record.carried = source.value("carried", int64_t(-1));
}

static void to_json(json &target, const CopyRows &copy) {
  target = {{"target", copy.target},
            {"source", copy.source},
            {"ids", copy.ids},
            {"rowBytes", copy.rowBytes}};
  // If the source is a shard of an embedding table, `first` is the index in the
  // table of the shard's first row. Otherwise `first` is not set, and the JSON
  // object has no such member.
  if (copy.first)
    target["first"] = *copy.first;
}
static void from_json(const json &source, CopyRows &copy) {
  source.at("target").get_to(copy.target);
  source.at("source").get_to(copy.source);
  source.at("ids").get_to(copy.ids);
  source.at("rowBytes").get_to(copy.rowBytes);
  if (source.contains("first"))
    copy.first = source.at("first").get<Scalar>();
}

} // namespace command

static void to_json(json &target, const Command &command) {
  command.visit([&](const auto &what) { target = what; });
  target["kind"] = command.name();
  target["path"] = command.path;
  // Write the stream only if it is not Compute, on which most commands run.
  if (command.stream != Stream::Compute)
    target["stream"] = command.stream;
  if (!command.guard.isAlways())
    target[command.guard.value ? "when" : "unless"] = command.guard.condition;
}

/// Reads a command whose kind is called `name` into `what`. Returns false if no
/// kind has this name.
template <size_t... Kinds>
static bool readWhat(const json &source, const std::string &name,
                     Command::What &what, std::index_sequence<Kinds...>) {
  auto read = [&](auto kind) {
    if (name != kind.name)
      return false;
    source.get_to(kind);
    what = std::move(kind);
    return true;
  };
  return (read(std::variant_alternative_t<Kinds, Command::What>()) || ...);
}

static void from_json(const json &source, Command &command) {
  const auto &name = source.at("kind").get_ref<const std::string &>();
  constexpr size_t kinds = std::variant_size_v<Command::What>;
  if (!readWhat(source, name, command.what, std::make_index_sequence<kinds>()))
    throwUnknown(source, name);
  source.at("path").get_to(command.path);
  if (source.contains("stream"))
    source.at("stream").get_to(command.stream);
  for (bool value : {true, false})
    if (auto found = source.find(value ? "when" : "unless");
        found != source.end())
      command.guard = {found->get<int64_t>(), value};
}

// A plan has many buffers, so they are arrays, and a field that most buffers do
// not need is at the end.
static void to_json(json &target, const FrameBuffer &buffer) {
  target =
      json::array({buffer.path, buffer.owner, buffer.memory, buffer.offset,
                   buffer.bytes, buffer.reserved, buffer.first, buffer.last});
  if (buffer.settled >= 0)
    target.push_back(buffer.settled);
}
static void from_json(const json &source, FrameBuffer &buffer) {
  source.at(0).get_to(buffer.path);
  source.at(1).get_to(buffer.owner);
  source.at(2).get_to(buffer.memory);
  source.at(3).get_to(buffer.offset);
  source.at(4).get_to(buffer.bytes);
  source.at(5).get_to(buffer.reserved);
  source.at(6).get_to(buffer.first);
  source.at(7).get_to(buffer.last);
  if (source.size() > 8)
    source.at(8).get_to(buffer.settled);
}

/// Written by hand instead of by an NLOHMANN macro: the macro would define the
/// function only for this file, and other files call this one.
void to_json(json &target, const Sequence &sequence) {
  target = {{"name", sequence.name},
            {"frameBytes", sequence.frameBytes},
            {"numArgs", sequence.numArgs},
            {"numScalarArgs", sequence.numScalarArgs},
            {"commands", sequence.commands}};
  if (!sequence.buffers.empty())
    target["buffers"] = sequence.buffers;
}
void from_json(const json &source, Sequence &sequence) {
  source.at("name").get_to(sequence.name);
  source.at("frameBytes").get_to(sequence.frameBytes);
  source.at("numArgs").get_to(sequence.numArgs);
  source.at("numScalarArgs").get_to(sequence.numScalarArgs);
  source.at("commands").get_to(sequence.commands);
  if (source.contains("buffers"))
    source.at("buffers").get_to(sequence.buffers);
}

} // namespace heddle::plan
