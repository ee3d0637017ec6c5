//===- Plan.cpp - The plan's JSON form and hash ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans as JSON: every struct of Plan.h is an object whose keys are the names
// of its fields.
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Plan.h"
#include "heddle/PlanFormat/Draft.h"
#include "heddle/PlanFormat/Serving.h"
#include "runtime/core/GridLaunchJson.h"

#include <algorithm>
#include <array>
#include <set>

#define XXH_INLINE_ALL
#include <xxhash.h>

using nlohmann::json;

namespace heddle::plan {

namespace {

std::string hexadecimal(XXH128_hash_t hash) {
  std::array<char, 33> text;
  snprintf(text.data(), text.size(), "%016llx%016llx",
           static_cast<unsigned long long>(hash.high64),
           static_cast<unsigned long long>(hash.low64));
  return text.data();
}

} // namespace

json kindsOf(const Memory &memory) {
  json kinds = json::object();
  for (MemoryKind kind : memoryKinds)
    if (memory.peakBytes(kind) > 0)
      kinds[nameOf(kind)] = {{"arena", memory.arenaBytes[kind]},
                             {"persistent", memory.persistentBytes[kind]}};
  if (memory.stagingBytes > 0)
    kinds[nameOf(MemoryKind::Pinned)]["staging"] = memory.stagingBytes;
  return kinds;
}

bool isOfBatch(PortRole role) { return role <= PortRole::Lengths; }

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

const State *Plan::findConstant(const std::string &name) const {
  auto find = [&](const Stage &stage) -> const State * {
    for (const State &state : stage.states)
      if (state.role == StateRole::Constant && state.name == name)
        return &state;
    return nullptr;
  };
  for (const Stage &stage : stages)
    if (const State *found = find(stage))
      return found;
  return find(*this);
}

std::vector<const Program *> Plan::trainPrograms() const {
  std::vector<const Program *> found;
  for (const Program &program : programs)
    if (program.kind == ProgramKind::Train)
      found.push_back(&program);
  std::sort(found.begin(), found.end(), [](const Program *a, const Program *b) {
    const Phase &first = a->phase, &second = b->phase;
    return first.from != second.from
               ? first.from < second.from
               : first.every.isSet() && !second.every.isSet();
  });
  return found;
}

void Plan::selectStage(int64_t index) {
  static_cast<Stage &>(*this) = stages.at(index);
}

/// Writes `{"device": 8192}`; kinds of memory without bytes are left out.
void to_json(json &target, const PerMemory<int64_t> &bytes) {
  target = json::object();
  for (MemoryKind kind : memoryKinds)
    if (bytes[kind] != 0)
      target[nameOf(kind)] = bytes[kind];
}
void from_json(const json &source, PerMemory<int64_t> &bytes) {
  for (const auto &[name, count] : source.items())
    count.get_to(bytes[json(name).get<MemoryKind>()]);
}

static void to_json(json &target, const PerFile<int64_t> &bytes) {
  target = json::object();
  for (FileRole role : fileRoles)
    if (bytes[role] != 0)
      target[nameOf(role)] = bytes[role];
}
static void from_json(const json &source, PerFile<int64_t> &bytes) {
  for (const auto &[name, count] : source.items())
    count.get_to(bytes[json(name).get<FileRole>()]);
}

json filesOf(const Memory &memory) { return memory.fileBytes; }

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibraryProduct, m, n, k, transA, transB,
                                   type, result, a, b, c, bias, d, aux, sumA,
                                   sumB, lda, ldb, ldc, ldd, ldaux, end, tf32,
                                   workspaceBytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModuleShare, macs, profilerFlops, flops,
                                   modelFlops, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Kernel, name, ops, hash, flops, modelFlops,
                                   denseFlops, bytes, window, scratchBytes,
                                   launches, text, library, onHost, updates,
                                   shares)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Init, kind, value, stddev, zeroRow)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Placement, whole, split, segments, flatAxes,
                                   flatFirst, flatElements)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WeightSlice::Loop, extent, state, tensor)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WeightSlice, tensor, shape, loops, state,
                                   first)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedWeight, part, name, shape, bits, group,
                                   even, transposed, layout)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Quantizer, group, groups, outputsLast,
                                   asymmetric)

static void to_json(json &target, const ConstantValue &value) {
  std::string text;
  text.reserve(value.elements.size() * 8);
  for (int32_t element : value.elements)
    for (int digit = 28; digit >= 0; digit -= 4)
      text += "0123456789abcdef"[uint32_t(element) >> digit & 15];
  target = std::move(text);
}
static void from_json(const json &source, ConstantValue &value) {
  const auto &text = source.get_ref<const std::string &>();
  value.elements.assign(text.size() / 8, 0);
  for (size_t i = 0; i < value.elements.size() * 8; ++i) {
    int digit = text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10;
    int32_t &element = value.elements[i / 8];
    element = int32_t(uint32_t(element) << 4 | uint32_t(digit));
  }
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(State, name, role, parameter, type, shape,
                                   placement, offset, memory, trainable,
                                   checkpointed, decays, sources, init, value,
                                   packed, quantizer)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Port, role, name, type, shape, placement,
                                   ref)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interval, doubledAfter, countsRuns, atMost)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Phase, name, from, countsUpdates, every, to)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Program, kind, name, phase, sequence, inputs,
                                   outputs, flops)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Serving, maxBatch, maxContext, pages, window)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Scheduler, type, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Optimizer, type, lr, beta1, beta2, eps,
                                   weightDecay, decoupled, gradientClipping)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Owner, name, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Memory, persistentBytes, arenaBytes,
                                   fileBytes, stagingBytes, scratchOffset,
                                   scratchBytesPerThread, owners)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stage, conditions, states, sequences,
                                   programs, memory, kernelCalls)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayoutUse, state, block, layers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExtendedTable, tensor, rows, first,
                                   interpolates, sourceRows)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Weights, random, seed, directory, headerHash,
                                   orders, layouts, extended)

/// Calls `visit(key, field)` for every field of `plan`. `plan` may be const.
template <typename PlanType, typename Visitor>
static void visitFields(PlanType &plan, Visitor visit) {
  visit("version", plan.version);
  visit("hash", plan.hash);
  visit("family", plan.family);
  visit("modelConfig", plan.modelConfig);
  visit("vocabSize", plan.vocabSize);
  visit("maxPositions", plan.maxPositions);
  visit("segments", plan.segments);
  visit("objective", plan.objective);
  visit("maskToken", plan.maskToken);
  visit("specialTokens", plan.specialTokens);
  visit("parameters", plan.parameters);
  visit("batch", plan.batch);
  visit("microBatch", plan.microBatch);
  visit("accumulate", plan.accumulate);
  visit("seq", plan.seq);
  visit("threads", plan.threads);
  visit("precision", plan.precision);
  visit("device", plan.device);
  visit("target", plan.target);
  visit("march", plan.march);
  visit("features", plan.features);
  visit("recompute", plan.recompute);
  visit("swap_dir", plan.swapDir);
  visit("swap_block_bytes", plan.swapBlockBytes);
  visit("swap_queue_depth", plan.swapQueueDepth);
  visit("weights", plan.weights);
  visit("optimizer", plan.optimizer);
  visit("scheduler", plan.scheduler);
  visit("serving", plan.serving);
  visit("kernels", plan.kernels);
  visit("kernelImageHash", plan.kernelImageHash);
  visit("mesh", plan.mesh);
  visit("collectives", plan.collectives);
  visit("gemm", plan.gemm);
  visit("stages", plan.stages);
  visit("phases", plan.phases);
  visit("strategy", plan.strategy);
}

void to_json(json &target, const Plan &plan) {
  target = {{"format", formatVersion}};
  visitFields(plan,
              [&](const char *key, const auto &field) { target[key] = field; });
  // Plan inherits from Stage. A plan without pipeline parallelism may have its
  // only stage in the inherited members, and `stages` empty.
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

static std::string sectionName(const char *name, size_t target) {
  return std::string(name) + (target ? "." + std::to_string(target) : "");
}
std::string planSectionName(size_t target) {
  return sectionName(".heddle.plan", target);
}
std::string kernelSectionName(size_t target) {
  return sectionName(".heddle.kernels", target);
}

int64_t mostGuesses(const Plan &plan) {
  int64_t rows = 0;
  for (const Program &program : plan.programs)
    for (const Port &port : program.inputs)
      if (program.kind == ProgramKind::Decode &&
          port.role == PortRole::Positions)
        rows = std::max(rows, port.shape.at(0));
  return std::max<int64_t>(rows, plan.serving.maxBatch) /
             std::max<int64_t>(plan.serving.maxBatch, 1) -
         1;
}

/// Whether the weights that programs compute with are sharded over the
/// data-parallel ranks, as by ZeRO 3. If a parameter has a copy in the compute
/// type, kernels read the copy instead of the parameter, so only the placement
/// of the copy matters.
static bool splitsWeights(const Plan &plan) {
  auto isData = [&](const std::string &axis) {
    return plan.mesh.roleOf(axis) == AxisRole::Data;
  };
  auto isSplit = [&](const Placement &placement) {
    return std::any_of(placement.flatAxes.begin(), placement.flatAxes.end(),
                       isData) ||
           std::any_of(placement.split.begin(), placement.split.end(),
                       [&](const AxisNames &axes) {
                         return std::any_of(axes.begin(), axes.end(), isData);
                       });
  };
  std::set<std::string> copied;
  for (const Stage &stage : plan.stages)
    for (const State &state : stage.states)
      if (state.isCopy())
        copied.insert(state.parameter);
  for (const Stage &stage : plan.stages)
    for (const State &state : stage.states)
      if ((state.role == StateRole::Derived ||
           (state.role == StateRole::Parameter && !copied.count(state.name))) &&
          isSplit(state.placement))
        return true;
  return false;
}

int64_t groupsOf(const Plan &plan) {
  return plan.mesh.groupSize(groupAxes(plan));
}

AxisNames groupAxes(const Plan &plan) {
  AxisNames names;
  if (splitsWeights(plan))
    return names;
  for (const Mesh::Axis &axis : plan.mesh.axes)
    if (axis.role == AxisRole::Data && axis.factorOf.empty())
      names.push_back(axis.name);
  return names;
}

std::string inEachGroup(const Plan &plan) {
  const int64_t groups = groupsOf(plan);
  return groups > 1
             ? " in each of " + std::to_string(groups) + " groups of ranks"
             : "";
}

std::string describeServing(const Plan &plan) {
  const Serving &serving = plan.serving;
  if (serving.pages == 0)
    return "";
  return std::to_string(groupsOf(plan) * serving.maxBatch) +
         " texts of at most " + std::to_string(serving.maxContext) +
         " tokens, with " + std::to_string(serving.pages) + " pages of " +
         std::to_string(cachePageTokens) + " positions" + inEachGroup(plan);
}

std::string hashBytes(const void *data, size_t size) {
  return hexadecimal(XXH3_128bits(data, size));
}

/// The text from which the hash of the plan is computed.
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
  // The JSON of a plan for a large mesh has many megabytes, so it is generated
  // only once: append the hash to the JSON from which the hash was computed.
  std::string rest =
      json({{"hash", plan.hash}, {"phases", plan.phases}}).dump();
  text.back() = ',';
  return text.append(rest, 1);
}

} // namespace heddle::plan
