//===- Interpreter.cpp - Executes a module on all ranks -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/Interpreter.h"

#include "ModelInterpreter.h"
#include "PlanInterpreter.h"
#include "PortBatch.h"
#include "dialects/Plan/PlanFormat.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/runtime/core/FakeQuantize.h"
#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/core/WeightSlices.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace heddle::eval {

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

/// The models or plans of a module: one, or one for each pipeline stage.
static SmallVector<Operation *> sourcesOf(ModuleOp module) {
  SmallVector<Operation *> sources;
  for (Operation &op : module.getOps())
    if (isa<nn::ModelOp, planir::ProgramOp>(op))
      sources.push_back(&op);
  auto isStage = [](Operation *op) { return op->hasAttr("stage"); };
  if (!llvm::all_of(sources, isStage))
    sources.truncate(1);
  return sources;
}

static dist::Strategy strategyOf(Operation *source) {
  return source->getAttrOfType<dist::StrategyAttr>("strategy").getValue();
}

plan::Mesh Interpreter::meshOf(ModuleOp module) {
  SmallVector<Operation *> sources = sourcesOf(module);
  plan::Mesh mesh;
  if (sources.empty())
    return mesh;
  StringRef phase = sources[0]->getAttrOfType<StringAttr>("phase").getValue();
  bool isLocal = llvm::StringSwitch<bool>(phase)
                     .Cases("import", "model", "train", "shard", "pipe", false)
                     .Default(true);
  mesh = dist::meshOf(strategyOf(sources[0]));
  if (isLocal)
    return mesh;
  // One rank for each stage is simulated. Types are still those of whole
  // tensors, so one rank can compute what all ranks of the stage compute.
  mesh = mesh.along(dist::AxisRole::Pipeline);
  for (plan::Mesh::Axis &axis : mesh.axes)
    if (axis.role == dist::AxisRole::Pipeline)
      axis.size = sources.size();
  return mesh;
}

/// The model or plan of a stage. Reports an error and returns null if there is
/// none.
static Operation *sourceOf(ArrayRef<Operation *> sources, int64_t stage) {
  for (Operation *source : sources) {
    auto number = source->getAttrOfType<IntegerAttr>("stage");
    if (!number || number.getInt() == stage)
      return source;
  }
  sources.front()->getParentOp()->emitError("has no model of stage ") << stage;
  return nullptr;
}

static bool isCompiled(Operation *source) {
  return llvm::any_of(source->getRegion(0).getOps<planir::KernelOp>(),
                      [](planir::KernelOp op) { return op.getSymbol(); });
}

std::unique_ptr<Interpreter>
Interpreter::create(ModuleOp module, const InterpreterOptions &options) {
  SmallVector<Operation *> sources = sourcesOf(module);
  if (sources.empty()) {
    module.emitError("has neither an nn.model nor a plan.program");
    return nullptr;
  }
  plan::Mesh mesh = meshOf(module);
  std::unique_ptr<Interpreter> result(new Interpreter(mesh));
  result->chosen = strategyOf(sources[0]);
  result->weights = sources[0]->getAttrOfType<DictionaryAttr>("weights");
  DenseMap<Operation *, std::shared_ptr<KernelRunner>> kernels;
  for (int64_t number = 0; number < mesh.ranks(); ++number) {
    Operation *source = sourceOf(sources, mesh.stageOf(number));
    if (!source)
      return nullptr;
    auto [entry, isNew] = kernels.try_emplace(source);
    if (isNew && isCompiled(source) &&
        !(entry->second = KernelRunner::create(source, options.threads)))
      return nullptr;
    Rank rank(result->world, number);
    auto model = dyn_cast<nn::ModelOp>(source);
    std::unique_ptr<RankInterpreter> interpreter;
    if (model)
      interpreter = std::make_unique<ModelInterpreter>(model, rank, options,
                                                       entry->second);
    else
      interpreter = PlanInterpreter::create(cast<planir::ProgramOp>(source),
                                            rank, options, entry->second);
    if (!interpreter || !result->addRank(std::move(interpreter)))
      return nullptr;
  }
  return result;
}

bool Interpreter::addRank(std::unique_ptr<RankInterpreter> rank) {
  StoredRanges own;
  for (const StateInfo &info : rank->states()) {
    Diagnostic error;
    if (!partRuns(info.placement, info.partShape(), world.mesh(), ranks.size(),
                  own[info.name], error)) {
      rank->source()->emitError("state ") << info.name << ": " << error.message;
      return false;
    }
    if (llvm::none_of(stateInfos, [&](const StateInfo &known) {
          return known.name == info.name;
        }))
      stateInfos.push_back(info);
  }
  storedRanges.push_back(std::move(own));
  ranks.push_back(std::move(rank));
  return true;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult Interpreter::run(const ProgramName &name, const TensorMap &inputs,
                               TensorMap &outputs) {
  int64_t parts = 1;
  for (auto &rank : ranks)
    parts = std::max(parts, rank->batchParts(name, inputs));
  std::vector<TensorMap> given(ranks.size());
  LogicalResult result = world.run([&](int64_t rank) {
    for (int64_t part = 0; part < parts; ++part)
      if (failed(ranks[rank]->run(name, inputs, {part, parts}, given[rank])))
        return failure();
    return success();
  });
  outputs.clear();
  if (succeeded(result))
    return join(name, given, outputs);
  if (int64_t rank = world.failedRank(); rank >= 0 && ranks.size() > 1)
    ranks[rank]->source()->emitError("fails on rank ") << rank;
  return failure();
}

std::optional<std::set<std::string>>
Interpreter::inputsOf(const ProgramName &name) const {
  std::set<std::string> keys;
  for (const auto &rank : ranks) {
    std::optional<std::vector<std::string>> own = rank->inputsOf(name);
    if (!own)
      return std::nullopt;
    keys.insert(own->begin(), own->end());
  }
  for (const plan::Condition &condition : conditions())
    keys.insert(condition.name);
  return keys;
}

ProgramName Interpreter::programAt(const ProgramName &name, int64_t step,
                                   const plan::UpdateCounts &counts) const {
  std::vector<plan::Phase> phases = ranks.front()->phases();
  std::string train = stringifyProgramKind(nn::ProgramKind::Train).str();
  if (phases.empty() || name.str() != train)
    return name;
  const plan::Phase &phase =
      phases[plan::phaseAt(phases, step, counts.expected(step))];
  return *ProgramName::parse(train + "/" + phase.name);
}

std::optional<int64_t> Interpreter::updates() const {
  for (const StateInfo &info : stateInfos)
    if (info.name == plan::updatesState)
      return static_cast<int64_t>(state(info.name).floats().front());
  return std::nullopt;
}

std::vector<plan::Condition> Interpreter::conditions() const {
  std::vector<plan::Condition> all;
  for (const auto &rank : ranks)
    for (plan::Condition &condition : rank->conditions())
      if (llvm::none_of(all, [&](const plan::Condition &known) {
            return known.name == condition.name;
          }))
        all.push_back(std::move(condition));
  return all;
}

static bool isSame(const Tensor &a, const Tensor &b) {
  double x = a.floats().front(), y = b.floats().front();
  return x == y || (x != x && y != y);
}

LogicalResult Interpreter::join(const ProgramName &program,
                                ArrayRef<TensorMap> given, TensorMap &outputs) {
  std::map<std::string, size_t> first;
  for (auto [rank, map] : llvm::enumerate(given))
    for (const auto &[name, value] : map) {
      FailureOr<bool> isPart =
          addPart(ranks[rank]->source(), name, value,
                  ranks[rank]->portsOf(program), world.mesh(), rank, outputs);
      if (failed(isPart))
        return failure();
      if (*isPart)
        continue;
      auto [known, isNew] = first.try_emplace(name, rank);
      if (isNew) {
        outputs[name] = value;
        continue;
      }
      if (value.rank() > 0 || isSame(value, outputs[name]))
        continue;
      return ranks[rank]->source()->emitError("ranks ")
             << known->second << " and " << rank << " disagree about '" << name
             << "': " << outputs[name].floats().front() << " and "
             << value.floats().front();
    }
  return success();
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

const StateInfo &Interpreter::infoOf(const std::string &name) const {
  return *llvm::find_if(
      stateInfos, [&](const StateInfo &info) { return info.name == name; });
}

Tensor Interpreter::state(const std::string &name) const {
  const StateInfo &info = infoOf(name);
  if (!info.packed.empty()) // Packed shards have no position in a whole.
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (storedRanges[rank].count(name))
        return ranks[rank]->stored(name);
  Tensor whole(info.kind, info.wholeShape());
  // If several ranks store the same element, the value of the first rank is
  // used. Therefore the elements of the first rank are copied last, over those
  // of other ranks.
  for (size_t rank = ranks.size(); rank-- > 0;) {
    auto runs = storedRanges[rank].find(name);
    if (runs == storedRanges[rank].end())
      continue;
    Tensor part = ranks[rank]->stored(name);
    for (const rt::ElementRange &run : runs->second)
      whole.copyFrom(part, run.local, run.whole, run.count);
  }
  return whole;
}

void Interpreter::setState(const std::string &name, const Tensor &value) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    auto runs = storedRanges[rank].find(name);
    if (runs == storedRanges[rank].end())
      continue;
    Tensor part = ranks[rank]->stored(name);
    for (const rt::ElementRange &run : runs->second)
      part.copyFrom(value, run.whole, run.local, run.count);
    ranks[rank]->store(name, part);
  }
}

void Interpreter::setWeight(const StateInfo &info, const Tensor &value,
                            rt::GroupScales codes) {
  if (info.packed.empty())
    return setState(info.name, value);
  const plan::PackedWeight &packed = info.packed[0];
  plan::PackedWeight whole = rt::wholeOf(packed, info.wholeShape());
  if (codes.empty() && rt::splitsGroups(packed, whole)) {
    std::vector<float> floats(value.floats().begin(), value.floats().end());
    codes.resize(whole.groups() * whole.outputs());
    rt::scalesOfOutputs(whole, floats.data(), 0, whole.outputs(), codes);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    auto runs = storedRanges[rank].find(info.name);
    if (runs == storedRanges[rank].end())
      continue;
    int64_t count = 1;
    for (int64_t extent : info.partShape())
      count *= extent;
    std::vector<float> part(count);
    for (const rt::ElementRange &run : runs->second)
      for (int64_t i = 0; i < run.count; ++i)
        part[run.local + i] = static_cast<float>(value.floats()[run.whole + i]);
    rt::GroupScales own;
    if (!codes.empty())
      own = rt::scalesOfShard(codes, packed, whole, runs->second);
    std::vector<char> bytes(ranks[rank]->stored(info.name).numBytes());
    auto type = plan::parseName<plan::DType>(safetensorsName(info.kind).str());
    rt::packPanels(packed, type.value_or(plan::DType::F32), part.data(), 0,
                   packed.panels(), bytes.data(), own);
    ranks[rank]->store(info.name,
                       Tensor::fromBytes(info.kind, info.shape, bytes.data()));
  }
}

bool Interpreter::loadParameters(const std::string &directory,
                                 Diagnostic &error) {
  std::vector<FileWeight> weights;
  std::vector<const StateInfo *> infos;
  for (const StateInfo &info : stateInfos) {
    if (info.role != nn::StateRole::Parameter && info.packed.empty())
      continue;
    infos.push_back(&info);
    FileWeight &weight = weights.emplace_back();
    weight.pieces = info.sources;
    if (weight.pieces.empty())
      weight.pieces = {rt::wholeTensor(info.weightName(), info.wholeShape())};
    bool isPacked = !info.packed.empty();
    if (isPacked)
      weight.packed = rt::wholeOf(info.packed[0], info.wholeShape());
    weight.tensor.name = info.weightName();
    weight.tensor.dtype = isPacked || isFloat(info.kind) ? "F64" : "I32";
    weight.tensor.shape = info.wholeShape();
  }
  if (!readWeights(directory, planir::ordersOf(this->weights),
                   planir::extendedOf(this->weights), weights, error))
    return false;
  for (auto [info, weight] : llvm::zip(infos, weights)) {
    const HostTensor &tensor = weight.tensor;
    ElementKind kind =
        tensor.dtype == "F64" ? ElementKind::F64 : ElementKind::I32;
    setWeight(*info, Tensor::fromBytes(kind, tensor.shape, tensor.bytes.data()),
              weight.codes);
  }
  return true;
}

/// The initial value of a state if no weights are loaded.
static Tensor firstValue(const StateInfo &info, uint64_t seed) {
  // A packed weight is quantized, or is in a layout that kernels read. Its
  // state is first filled with floats, which are packed later. Any other state
  // of integers is a cache with int8 codes.
  bool isOfIntegers = info.packed.empty() && !isFloat(info.kind);
  Tensor value(isOfIntegers ? info.kind : ElementKind::F64, info.wholeShape());
  if (!info.value.empty()) {
    llvm::copy(info.value, value.mutableInts().begin());
    return value;
  }
  std::vector<float> floats =
      initialValues(info.init, info.weightName(), info.wholeShape(), seed,
                    value.numElements());
  if (isOfIntegers)
    llvm::copy(floats, value.mutableInts().begin());
  else
    llvm::copy(floats, value.mutableFloats().begin());
  return value;
}

/// The copy of a weight that training quantizes.
Tensor Interpreter::quantized(const StateInfo &info, Tensor weight) const {
  const plan::Quantizer &quantizer = info.quantizer[0];
  auto number = [&](const std::string &name) {
    return static_cast<float>(state(name).floats().front());
  };
  std::vector<float> values(weight.floats().begin(), weight.floats().end());
  rt::fakeQuantize(values.data(), info.wholeShape(), quantizer,
                   static_cast<int>(number(plan::quantizationState(
                       plan::quantizationBitsState, quantizer.group))),
                   number(plan::quantizationRatioState));
  llvm::copy(values, weight.mutableFloats().begin());
  return weight;
}

bool Interpreter::initialize(const std::string &weightsDirectory,
                             std::optional<uint64_t> seed, Diagnostic &error) {
  std::string directory = weightsDirectory;
  if (weights && directory.empty() && !seed) {
    if (auto from = weights.getAs<IntegerAttr>("seed"))
      seed = from.getInt();
    else if (auto from = weights.getAs<StringAttr>("directory"))
      directory = from.str();
  }
  for (const StateInfo &info : stateInfos)
    setWeight(info, firstValue(info, seed.value_or(0)));
  if (!directory.empty() && !loadParameters(directory, error))
    return false;
  for (const StateInfo &info : stateInfos)
    if (info.isCopy())
      setState(info.name, info.quantizer.empty()
                              ? state(info.parameter)
                              : quantized(info, state(info.parameter)));
  return true;
}

} // namespace heddle::eval
