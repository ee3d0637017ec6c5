//===- Plan.cpp - The plan's JSON form and hash ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every struct of Plan.h is an object whose keys are the names of its fields;
// operands, which are many, are arrays.
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Plan.h"

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>

using nlohmann::json;

namespace heddle::plan {

namespace {

/// The names of an enumeration's values, in the order of its declaration.
using Names = std::vector<const char *>;

const Names dtypeNames = {"F32", "BF16", "F16", "I32", "I64", "U8", "F64"};
const Names spaceNames = {"persistent", "frame", "arg"};
const Names termNames = {"arg", "loop-index", "slot", "coordinate"};
const Names commandNames = {"launch", "call",      "loop",       "copy",
                            "fill",   "fragments", "collective", "record",
                            "wait",   "send",      "receive",    "flush"};
const Names memoryNames = {"device", "host", "pinned", "file"};
const Names streamNames = {"compute", "communication", "copy"};
const Names collectiveNames = {"all_reduce", "reduce_scatter", "all_gather",
                               "all_to_all", "rotate"};
const Names initNames = {"zeros", "constant", "normal", "power"};
const Names programNames = {"train", "eval", "generate"};
const Names portRoleNames = {
    "ids",         "labels",    "label_weights", "positions",
    "segments",    "lengths",   "position",      "rng",
    "micro_batch", "lr",        "losses",        "loss",
    "loss_weight", "grad_norm", "logits",        "value"};

template <typename Enum>
std::optional<Enum> parseEnum(const Names &names, const std::string &name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (name == names[i])
      return static_cast<Enum>(i);
  return std::nullopt;
}

template <typename Enum> json enumToJson(const Names &names, Enum value) {
  return names[static_cast<size_t>(value)];
}

template <typename Enum>
void enumFromJson(const json &source, const Names &names, Enum &value) {
  const auto &text = source.get_ref<const std::string &>();
  std::optional<Enum> known = parseEnum<Enum>(names, text);
  if (!known)
    throw json::other_error::create(501, "unknown name '" + text + "'",
                                    &source);
  value = *known;
}

std::string hexadecimal(XXH128_hash_t hash) {
  std::array<char, 33> text;
  snprintf(text.data(), text.size(), "%016llx%016llx",
           static_cast<unsigned long long>(hash.high64),
           static_cast<unsigned long long>(hash.low64));
  return text.data();
}

} // namespace

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

const char *dtypeName(DType type) {
  return dtypeNames[static_cast<size_t>(type)];
}

std::optional<DType> parseDType(const std::string &name) {
  return parseEnum<DType>(dtypeNames, name);
}

const char *memoryName(MemoryKind kind) {
  return memoryNames[static_cast<size_t>(kind)];
}

const char *streamName(Stream stream) {
  return streamNames[static_cast<size_t>(stream)];
}

json kindsOf(const Memory &memory) {
  json kinds = json::object();
  for (MemoryKind kind : memoryKinds)
    if (memory.peakBytes(kind) > 0)
      kinds[memoryName(kind)] = {{"arena", memory.arenaBytes[kind]},
                                 {"persistent", memory.persistentBytes[kind]}};
  return kinds;
}

const char *programName(ProgramKind kind) {
  return programNames[static_cast<size_t>(kind)];
}

std::optional<ProgramKind> parseProgramKind(const std::string &name) {
  return parseEnum<ProgramKind>(programNames, name);
}

const char *portRoleName(PortRole role) {
  return portRoleNames[static_cast<size_t>(role)];
}

std::optional<PortRole> parsePortRole(const std::string &name) {
  return parseEnum<PortRole>(portRoleNames, name);
}

bool isOfBatch(PortRole role) { return role <= PortRole::Lengths; }

const char *collectiveName(Collective::Kind kind) {
  return collectiveNames[static_cast<size_t>(kind)];
}

int64_t State::numElements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

const Program *Plan::findProgram(ProgramKind kind) const {
  for (const Program &program : programs)
    if (program.kind == kind)
      return &program;
  return nullptr;
}

void Plan::selectStage(int64_t index) {
  static_cast<Stage &>(*this) = stages.at(index);
}

int64_t Mesh::size(const std::string &axis) const {
  return axis == "pipe"     ? pipe
         : axis == "data"   ? data
         : axis == "seq"    ? seq
         : axis == "tensor" ? tensor
                            : 1;
}

int64_t Mesh::groupSize(const std::vector<std::string> &axes) const {
  int64_t ranks = 1;
  for (const std::string &axis : axes)
    ranks *= size(axis);
  return ranks;
}

/// How far apart two ranks are that are neighbours along the axis.
static int64_t strideOf(const Mesh &mesh, const std::string &axis) {
  int64_t stride = 1;
  for (const char *minor : {"tensor", "seq", "data", "pipe"}) {
    if (axis == minor)
      break;
    stride *= mesh.size(minor);
  }
  return stride;
}

int64_t Mesh::coordinate(int64_t rank,
                         const std::vector<std::string> &axes) const {
  int64_t number = 0;
  for (const std::string &axis : axes)
    number = number * size(axis) + rank / strideOf(*this, axis) % size(axis);
  return number;
}

int64_t Mesh::member(int64_t rank, const std::vector<std::string> &axes,
                     int64_t index) const {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    int64_t stride = strideOf(*this, *axis), extent = size(*axis);
    rank += (index % extent - rank / stride % extent) * stride;
    index /= extent;
  }
  return rank;
}

std::vector<int64_t> Mesh::group(int64_t rank,
                                 const std::vector<std::string> &axes) const {
  std::vector<int64_t> ranks;
  for (int64_t index = 0; index < groupSize(axes); ++index)
    ranks.push_back(member(rank, axes, index));
  return ranks;
}

void to_json(json &target, const DType &type) { target = dtypeName(type); }
void from_json(const json &source, DType &type) {
  enumFromJson(source, dtypeNames, type);
}

void to_json(json &target, const Init::Kind &kind) {
  target = enumToJson(initNames, kind);
}
void from_json(const json &source, Init::Kind &kind) {
  enumFromJson(source, initNames, kind);
}

void to_json(json &target, const ProgramKind &kind) {
  target = programName(kind);
}
void from_json(const json &source, ProgramKind &kind) {
  enumFromJson(source, programNames, kind);
}

void to_json(json &target, const PortRole &role) {
  target = portRoleName(role);
}
void from_json(const json &source, PortRole &role) {
  enumFromJson(source, portRoleNames, role);
}

void to_json(json &target, const Command::Kind &kind) {
  target = enumToJson(commandNames, kind);
}
void from_json(const json &source, Command::Kind &kind) {
  enumFromJson(source, commandNames, kind);
}

void to_json(json &target, const Collective::Kind &kind) {
  target = enumToJson(collectiveNames, kind);
}
void from_json(const json &source, Collective::Kind &kind) {
  enumFromJson(source, collectiveNames, kind);
}

void to_json(json &target, const MemoryKind &kind) {
  target = memoryName(kind);
}
void from_json(const json &source, MemoryKind &kind) {
  enumFromJson(source, memoryNames, kind);
}

void to_json(json &target, const Stream &stream) {
  target = streamName(stream);
}
void from_json(const json &source, Stream &stream) {
  enumFromJson(source, streamNames, stream);
}

/// As `{"device": 8192}`: what is not named has none.
void to_json(json &target, const PerMemory<int64_t> &bytes) {
  target = json::object();
  for (MemoryKind kind : memoryKinds)
    if (bytes[kind] != 0)
      target[memoryName(kind)] = bytes[kind];
}
void from_json(const json &source, PerMemory<int64_t> &bytes) {
  for (const auto &[name, count] : source.items()) {
    MemoryKind kind;
    enumFromJson(json(name), memoryNames, kind);
    count.get_to(bytes[kind]);
  }
}

void to_json(json &target, const Term &term) {
  target = json::array(
      {enumToJson(termNames, term.kind), term.value, term.factor, term.axes});
}
void from_json(const json &source, Term &term) {
  enumFromJson(source.at(0), termNames, term.kind);
  source.at(1).get_to(term.value);
  source.at(2).get_to(term.factor);
  source.at(3).get_to(term.axes);
}

void to_json(json &target, const Ref &ref) {
  target = json::array(
      {enumToJson(spaceNames, ref.space), ref.index, ref.offset, ref.bytes});
  // What most operands do not need stands at the end.
  bool isElsewhere = ref.memory != MemoryKind::Device;
  if (!ref.terms.empty() || isElsewhere)
    target.push_back(ref.terms);
  if (isElsewhere)
    target.push_back(ref.memory);
}
void from_json(const json &source, Ref &ref) {
  enumFromJson(source.at(0), spaceNames, ref.space);
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
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Fragment, kind, sequence, slots)

/// Only what a command's kind needs is written.
void to_json(json &target, const Command &command) {
  target = {{"kind", command.kind},
            {"target", command.target},
            {"refs", command.refs},
            {"scalars", command.scalars},
            {"frameOffset", command.frameOffset},
            {"count", command.count},
            {"path", command.path}};
  if (command.stream != Stream::Compute)
    target["stream"] = command.stream;
  if (command.collective)
    target["collective"] = *command.collective;
  if (command.channel)
    target["channel"] = *command.channel;
  if (!command.fragments.empty()) {
    target["fragments"] = command.fragments;
    target["line"] = command.line;
  }
}
void from_json(const json &source, Command &command) {
  source.at("kind").get_to(command.kind);
  source.at("target").get_to(command.target);
  source.at("refs").get_to(command.refs);
  source.at("scalars").get_to(command.scalars);
  source.at("frameOffset").get_to(command.frameOffset);
  source.at("count").get_to(command.count);
  source.at("path").get_to(command.path);
  if (source.contains("stream"))
    source.at("stream").get_to(command.stream);
  if (source.contains("collective"))
    command.collective = source.at("collective").get<Collective>();
  if (source.contains("channel"))
    command.channel = source.at("channel").get<Channel>();
  if (source.contains("fragments")) {
    source.at("fragments").get_to(command.fragments);
    source.at("line").get_to(command.line);
  }
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sequence, name, frameBytes, numArgs,
                                   numScalarArgs, commands)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Kernel, name, ops, hash, flops, modelFlops,
                                   bytes, scratchBytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Init, kind, value, stddev)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Placement, whole, split, segments, flatAxes,
                                   flatFirst, flatElements)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Piece::Loop, extent, state, tensor)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Piece, tensor, shape, loops, state, first)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(State, name, role, parameter, type, shape,
                                   placement, offset, memory, trainable,
                                   checkpointed, decays, sources, init)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Port, role, name, type, shape, placement,
                                   ref)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Program, kind, sequence, inputs, outputs,
                                   flops)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Scheduler, type, params)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Optimizer, type, lr, beta1, beta2, eps,
                                   weightDecay, decoupled, gradientClipping)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Owner, name, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Memory, persistentBytes, arenaBytes,
                                   scratchOffset, scratchBytesPerThread, owners)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Mesh, pipe, data, seq, tensor)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stage, states, sequences, programs, memory,
                                   kernelCalls)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseTime, name, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Weights, random, seed, directory, headerHash)

/// Calls `visit(key, field)` for every field of `plan`, const or not.
template <typename PlanType, typename Visitor>
static void visitFields(PlanType &plan, Visitor visit) {
  visit("version", plan.version);
  visit("hash", plan.hash);
  visit("family", plan.family);
  visit("modelConfig", plan.modelConfig);
  visit("vocabSize", plan.vocabSize);
  visit("maxPositions", plan.maxPositions);
  visit("parameters", plan.parameters);
  visit("batch", plan.batch);
  visit("microBatch", plan.microBatch);
  visit("accumulate", plan.accumulate);
  visit("seq", plan.seq);
  visit("threads", plan.threads);
  visit("precision", plan.precision);
  visit("march", plan.march);
  visit("features", plan.features);
  visit("recompute", plan.recompute);
  visit("weights", plan.weights);
  visit("optimizer", plan.optimizer);
  visit("scheduler", plan.scheduler);
  visit("kernels", plan.kernels);
  visit("kernelImageHash", plan.kernelImageHash);
  visit("mesh", plan.mesh);
  visit("collectives", plan.collectives);
  visit("stages", plan.stages);
  visit("phases", plan.phases);
  visit("strategy", plan.strategy);
}

void to_json(json &target, const Plan &plan) {
  target = json::object();
  visitFields(plan,
              [&](const char *key, const auto &field) { target[key] = field; });
  // A plan of one stage may be made in the members alone.
  if (plan.stages.empty())
    target["stages"] = json::array({static_cast<const Stage &>(plan)});
}

void from_json(const json &source, Plan &plan) {
  visitFields(plan, [&](const char *key, auto &field) {
    source.at(key).get_to(field);
  });
  if (!plan.stages.empty())
    plan.selectStage(0);
}

std::string hashBytes(const void *data, size_t size) {
  return hexadecimal(XXH3_128bits(data, size));
}

/// What the hash is of.
static std::string canonicalText(const Plan &plan) {
  json canonical = plan;
  canonical.erase("hash");
  canonical.erase("phases");
  return canonical.dump();
}

std::string computeHash(const Plan &plan) {
  std::string text = canonicalText(plan);
  return hashBytes(text.data(), text.size());
}

std::string seal(Plan &plan) {
  std::string text = canonicalText(plan);
  plan.hash = hashBytes(text.data(), text.size());
  // The plan of a large mesh has many megabytes: they are written once.
  std::string rest =
      json({{"hash", plan.hash}, {"phases", plan.phases}}).dump();
  text.back() = ',';
  return text.append(rest, 1);
}

} // namespace heddle::plan
