//===- PlanFromModule.cpp - From the plan dialect to the plan -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Translates the plan.program operations of all pipeline stages to the plan
// that the runtime loads.
//
//===----------------------------------------------------------------------===//

#include "ModuleShares.h"
#include "SequenceReader.h"
#include "dialects/NN/Phases.h"
#include "dialects/NN/ProgramPorts.h"
#include "heddle/PlanFormat/CacheSize.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/Settings/Groups.h"
#include "heddle/Settings/LearningRate.h"
#include "heddle/Settings/LossScale.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::emit;

namespace {

std::vector<int64_t> shapeOf(Type type) {
  auto shape = cast<ShapedType>(type).getShape();
  return {shape.begin(), shape.end()};
}

std::string stringOr(DictionaryAttr values, StringRef key,
                     StringRef otherwise = "") {
  auto value = values.getAs<StringAttr>(key);
  return (value ? value.getValue() : otherwise).str();
}

/// Returns which part of a tensor of type `whole` each rank holds. If the
/// sharding does not split the tensor, returns the default placement.
plan::Placement placementOf(Type whole, dist::TensorShardingAttr sharding) {
  plan::Placement placement;
  if (!sharding || llvm::all_of(sharding.getDims().getAsRange<ArrayAttr>(),
                                [](ArrayAttr axes) { return axes.empty(); }))
    return placement;
  placement.whole = shapeOf(whole);
  for (auto axes : sharding.getDims().getAsRange<ArrayAttr>())
    placement.split.push_back(planir::namesOf(axes));
  return placement;
}

/// The number of elements of the whole tensor.
int64_t elementsOf(const plan::State &state) {
  int64_t count = 1;
  const auto &part = state.packed.empty() ? state.shape : state.packed[0].shape;
  const auto &shape =
      state.placement.whole.empty() ? part : state.placement.whole;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

/// Returns the settings that differ from their defaults, by the keys that a
/// strategy file has.
nlohmann::json settingsOf(const dist::Strategy &strategy) {
  const dist::Strategy defaults;
  nlohmann::json settings = nlohmann::json::object();
  for (const config::Setting &setting : config::allSettings()) {
    // A plan for as many threads as this machine has cores says so elsewhere.
    if (setting.key == "threads" && strategy.threadsOfMachine)
      continue;
    config::SettingValue value = setting.get(strategy);
    if (value != setting.get(defaults))
      std::visit([&](const auto &same) { settings[setting.key] = same; },
                 value);
  }
  return settings;
}

class Reader {
public:
  explicit Reader(ArrayRef<planir::ProgramOp> programs)
      : programs(programs), program(programs.front()),
        strategy(program.getStrategy().getValue()) {}

  FailureOr<Parts> read() {
    readModel();
    readStrategy();
    for (planir::ProgramOp stage : programs) {
      program = stage;
      if (failed(readStage()))
        return failure();
    }
    for (plan::Stage &stage : parts.plan.stages)
      stage.kernelCalls.resize(parts.plan.kernels.size());
    parts.plan.selectStage(0);
    return std::move(parts);
  }

private:
  LogicalResult readStage() {
    static_cast<plan::Stage &>(parts.plan) = plan::Stage();
    places.clear();
    kernelIndex.clear();
    for (auto op : program.getOps<planir::ConditionOp>())
      parts.plan.conditions.push_back(op.getHolds().toPlan(op.getSymName()));
    if (failed(readStates()) || failed(readKernels()))
      return failure();
    readMemory();
    SequenceReader sequences(program, parts.plan, kernelIndex, places);
    sequences.read();
    if (failed(readPrograms(sequences)))
      return failure();
    sequences.countCalls();
    parts.plan.stages.push_back(parts.plan);
    return success();
  }

  void readModel() {
    plan::Plan &plan = parts.plan;
    plan.family = program.getFamily().str();
    plan.modelConfig = nlohmann::json::parse(program.getConfig().str());
    DictionaryAttr weights = program.getWeights();
    auto random = weights.getAs<BoolAttr>("random");
    plan.weights.random = random && random.getValue();
    if (auto seed = weights.getAs<IntegerAttr>("seed"))
      plan.weights.seed = seed.getValue().getZExtValue();
    plan.weights.directory = stringOr(weights, "directory");
    plan.weights.headerHash = stringOr(weights, "hash");
    plan.weights.orders = planir::ordersOf(weights);
    plan.weights.layouts = planir::layoutsOf(weights);
    plan.weights.extended = planir::extendedOf(weights);
    if (auto size = weights.getAs<IntegerAttr>("vocab_size"))
      plan.vocabSize = size.getInt();
    if (auto positions = weights.getAs<IntegerAttr>("max_positions"))
      plan.maxPositions = positions.getInt();
    if (auto segments = weights.getAs<IntegerAttr>("segments"))
      plan.segments = segments.getInt();
    if (auto objective = weights.getAs<nn::ObjectiveAttr>("objective"))
      plan.objective = planir::objectiveOf(objective.getValue());
    if (auto mask = weights.getAs<IntegerAttr>("mask_token"))
      plan.maskToken = mask.getInt();
    if (auto special = weights.getAs<DenseI64ArrayAttr>("special_tokens"))
      plan.specialTokens = special.asArrayRef().vec();
  }

  /// The longest window of the attention operations that read the cache: the
  /// largest number of positions to which a token attends. 0 if one of these
  /// operations has no window.
  int64_t windowOfCache() {
    int64_t window = 0;
    bool seesAll = false;
    for (planir::ProgramOp stage : programs)
      stage.walk([&](nn::PagedAttentionOp op) {
        window = std::max(window, op.getMask().getWindow());
        seesAll |= op.getMask().getWindow() == 0;
      });
    return seesAll ? 0 : window;
  }

  void readStrategy() {
    plan::Plan &plan = parts.plan;
    plan.batch = strategy.batch;
    plan.microBatch = strategy.microBatch;
    plan.accumulate = strategy.accumulate;
    plan.seq = strategy.seq;
    plan.threads = strategy.threads;
    plan.precision = wordOf(strategy.precision);
    plan.target = wordOf(strategy.target);
    plan.march = wordOf(strategy.march);
    plan.recompute = wordOf(strategy.recompute);
    plan.swapDir = strategy.swapDir;
    plan.swapBlockBytes = strategy.swapBlockSize;
    plan.swapQueueDepth = strategy.swapQueueDepth;
    plan.optimizer = {wordOf(strategy.optimizer),
                      strategy.lr,
                      strategy.beta1,
                      strategy.beta2,
                      strategy.eps,
                      strategy.weightDecay,
                      strategy.decoupled,
                      strategy.gradientClipping};
    std::string wrong;
    plan.scheduler = *config::readScheduler(strategy, wrong);
    plan.mesh = dist::meshOf(strategy);
    plan.collectives = wordOf(strategy.collectives);
    if (strategy.mode != config::Mode::Train || strategy.maxContext > 1)
      plan.serving = {config::textsOfGroup(strategy), strategy.maxContext,
                      /*pages=*/0, windowOfCache()};
    plan.gemm = wordOf(strategy.gemm);
    nlohmann::json mesh;
    for (const plan::Mesh::Axis &axis : plan.mesh.axes)
      mesh[axis.name] = axis.size;
    plan.strategy = {{"mesh", mesh},
                     {"zero", strategy.zero},
                     {"schedule", wordOf(strategy.schedule)},
                     {"target", wordOf(strategy.target)},
                     {"settings", settingsOf(strategy)}};
    if (strategy.mode == config::Mode::Serve && strategy.cacheBytes == 0 &&
        factsOf(strategy.target).hasDeviceMemory)
      plan.strategy[plan::cacheOfDeviceKey] = true;
    if (strategy.threadsOfMachine)
      plan.strategy[plan::threadsOfMachineKey] = true;
    if (strategy.profileStep > 0)
      plan::setProfile(plan, {strategy.profileStep, strategy.profileDepth,
                              strategy.profileTop, strategy.profileFile});
    if (strategy.wallClockBreakdown || strategy.commsLogger ||
        strategy.memoryBreakdown || !strategy.logTensorboard.empty() ||
        !strategy.logCsv.empty())
      plan::setReports(plan, {strategy.wallClockBreakdown, strategy.commsLogger,
                              strategy.memoryBreakdown, strategy.logTensorboard,
                              strategy.logCsv});
    if (std::optional<config::LossScale> scale = config::lossScaleOf(strategy))
      plan.strategy[plan::lossScaleKey] = describe(*scale);
  }

  /// Describes the loss scale, with the words of its settings.
  static nlohmann::json describe(const config::LossScale &scale) {
    if (!scale.isDynamic())
      return {{"value", scale.initial}};
    return {{"value", "dynamic"},
            {"initial", scale.initial},
            {"window", scale.window},
            {"hysteresis", scale.hysteresis},
            {"consecutive_hysteresis", scale.isConsecutive},
            {"min", scale.least}};
  }

  LogicalResult readStates() {
    llvm::StringMap<planir::FlatOp> flats;
    for (auto flat : program.getOps<planir::FlatOp>()) {
      flats[flat.getSymName()] = flat;
      places[flat.getSymName()] = {planir::memoryOf(flat.getMemory()),
                                   flat.getOffset()};
    }
    for (auto op : program.getOps<planir::StateOp>()) {
      plan::State state;
      DictionaryAttr like = op.getLike();
      state.name = op.getSymName().str();
      std::optional<nn::StateRole> role = planir::roleOf(op);
      if (!role)
        return op.emitError("H0913: does not say its role");
      state.role = planir::roleOf(*role);
      state.parameter = stringOr(like, "parameter");
      auto type = cast<RankedTensorType>(op.getType());
      state.type = planir::dtypeOf(type.getElementType());
      state.shape = shapeOf(type);
      state.offset = op.getOffset();
      state.memory = planir::memoryOf(op.getMemory());
      state.trainable = like.contains("trainable");
      state.checkpointed = like.contains("checkpointed");
      state.decays = like.contains("decays");
      if (auto source = like.getAs<nn::SourceAttr>("source"))
        state.sources = source.getLayout().pieces;
      state.init = planir::initOf(like.getAs<nn::InitAttr>("init"));
      auto value = like.getAs<DenseIntElementsAttr>("value");
      if ((*role == nn::StateRole::Constant) !=
          (value && value.getType() == type &&
           type.getElementType().isInteger(32)))
        return op.emitError("H0913: needs a value of its type if and only if "
                            "it is a constant of i32");
      if (value)
        state.value.elements.assign(value.value_begin<int32_t>(),
                                    value.value_end<int32_t>());
      Type of = op.getType();
      if (auto packed = like.getAs<nn::PackedAttr>("packed")) {
        state.packed.push_back(packed.toPlan());
        of = packed.getOf();
      }
      if (auto quantizer = like.getAs<nn::QuantizerAttr>("quantizer"))
        state.quantizer.push_back(quantizer.toPlan());
      auto whole = like.getAs<TypeAttr>("whole");
      state.placement =
          placementOf(whole ? whole.getValue() : of,
                      like.getAs<dist::TensorShardingAttr>("storage"));
      if (auto segments = like.getAs<DenseI64ArrayAttr>("segments");
          segments && whole)
        state.placement.segments = segments.asArrayRef().vec();
      if (op.getFlat()) {
        planir::FlatOp flat = flats.lookup(*op.getFlat());
        state.placement.flatAxes = planir::namesOf(flat.getAxes());
        state.placement.flatFirst = op.getOffset();
        state.placement.flatElements = flat.getElements();
        state.offset = flat.getOffset();
        state.memory = planir::memoryOf(flat.getMemory());
      } else {
        places[op.getSymName()] = {state.memory, op.getOffset()};
      }
      if (state.role == plan::StateRole::Cache)
        parts.plan.serving.pages = state.shape[0];
      if (state.role == plan::StateRole::Parameter &&
          state.type != plan::DType::I32 && counted.insert(state.name).second)
        parts.plan.parameters += elementsOf(state);
      if (!state.packed.empty() &&
          state.packed[0].part == plan::PackedPart::Words &&
          counted.insert(state.packed[0].name).second)
        parts.plan.parameters += elementsOf(state);
      parts.plan.states.push_back(std::move(state));
    }
    return success();
  }

  /// Adds the kernels of a stage to the plan. A kernel whose code the plan
  /// already has, because another stage uses it too, is not added again.
  LogicalResult readKernels() {
    for (auto op : program.getOps<planir::KernelOp>()) {
      if (!op.getSymbol() || !op.getObject())
        return op.emitError("H0911: has no compiled code");
      auto object = program.lookupSymbol<planir::ObjectOp>(*op.getObject());
      if (!object)
        return op.emitError("H0911: its object ")
               << *op.getObject() << " is not there";
      bool onHost =
          op.getOnHost() && !factsOf(strategy.target).kernelsRunOnHost;
      auto &all = onHost ? parts.hostObjects : parts.objects;
      auto [text, isNewText] =
          objects.try_emplace(object.getData(), all.size());
      if (isNewText)
        all.push_back(object);
      auto [entry, isNew] = byCode.try_emplace(
          {op.getSymbolAttr(), text->second}, parts.plan.kernels.size());
      kernelIndex[op.getSymName()] = entry->second;
      if (!isNew)
        continue;
      plan::Kernel kernel = kernelFrom(op);
      kernel.text = text->second;
      kernel.onHost = onHost;
      // Kernels of different stages may have the same name and different code.
      // A number is then added to the name.
      if (int64_t others = names[kernel.name]++)
        kernel.name += "." + std::to_string(others);
      parts.plan.kernels.push_back(std::move(kernel));
    }
    return success();
  }

  static plan::GridLaunch launchFrom(planir::GridLaunchAttr attribute) {
    plan::GridLaunch launch;
    launch.symbol = attribute.getSymbol().str();
    llvm::copy(attribute.getGrid(), launch.grid.begin());
    llvm::copy(attribute.getBlock(), launch.block.begin());
    llvm::copy(attribute.getCluster(), launch.cluster.begin());
    launch.sharedBytes = attribute.getShared();
    return launch;
  }

  static plan::LibraryProduct productFrom(planir::LibraryProductAttr call) {
    plan::LibraryProduct product;
    product.m = call.getM();
    product.n = call.getN();
    product.k = call.getK();
    product.transA = call.getTransA();
    product.transB = call.getTransB();
    product.type = planir::dtypeOf(call.getType());
    product.result = planir::dtypeOf(call.getResult());
    product.a = call.getA();
    product.b = call.getB();
    product.c = call.getC();
    product.bias = call.getBias();
    product.d = call.getD();
    product.aux = call.getAux();
    product.sumA = call.getSumA();
    product.sumB = call.getSumB();
    product.lda = call.getLda();
    product.ldb = call.getLdb();
    product.ldc = call.getLdc();
    product.ldd = call.getLdd();
    product.ldaux = call.getLdaux();
    product.end = static_cast<plan::ProductEnd>(call.getEnd());
    product.tf32 = call.getTf32();
    product.workspaceBytes = call.getWorkspace();
    return product;
  }

  plan::Kernel kernelFrom(planir::KernelOp op) {
    plan::Kernel kernel;
    kernel.name = op.getSymbol()->str();
    kernel.hash = op.getHash().value_or("").str();
    kernel.scratchBytes = op.getScratchBytes().value_or(0);
    if (auto launches = op.getLaunches())
      for (auto launch : launches->getAsRange<planir::GridLaunchAttr>())
        kernel.launches.push_back(launchFrom(launch));
    if (auto call = op.getLibrary())
      kernel.library.push_back(productFrom(*call));
    for (Operation &inner : op.getBody().front()) {
      if (auto attention = dyn_cast<nn::PagedAttentionOp>(inner))
        kernel.window = attention.getMask().getWindow();
      if (isa<nn::CostOpInterface>(inner))
        kernel.ops +=
            (kernel.ops.empty() ? "" : " + ") + nn::labelOf(&inner).str();
    }
    kernel.updates = isOfUpdate(op);
    kernel.shares = sharesOf(op);
    for (const plan::ModuleShare &share : kernel.shares) {
      kernel.flops += share.flops;
      kernel.modelFlops += share.modelFlops;
      kernel.bytes += share.bytes;
    }
    kernel.denseFlops = kernel.modelFlops + flopsLeftOut(op);
    return kernel;
  }

  void readMemory() {
    plan::Memory &memory = parts.plan.memory;
    for (planir::MemoryKind kind : planir::memoryKinds) {
      plan::MemoryKind same = planir::memoryOf(kind);
      memory.persistentBytes[same] = program.getPersistentBytes().of(kind);
      memory.arenaBytes[same] = program.getArenaBytes().of(kind);
    }
    memory.fileBytes = planir::fileBytesOf(program);
    memory.stagingBytes = program.getStagingBytes();
    memory.scratchOffset = program.getScratchOffset();
    memory.scratchBytesPerThread = program.getScratchBytesPerThread();
    for (NamedAttribute owner : program.getOwners())
      memory.owners.push_back({owner.getName().str(),
                               cast<IntegerAttr>(owner.getValue()).getInt()});
  }

  /// Checks that the runtime can fill `buffer` if it is a program's input, and
  /// that the runtime reads it if it is an output. The buffer's port says which
  /// input or output it is.
  static LogicalResult verifyPort(planir::SequenceOp sequence,
                                  planir::BufferOp buffer) {
    nn::PortAttr port = buffer.getPort();
    if (buffer.getInput() && !nn::isFilled(port))
      return sequence.emitError("H0913: nothing fills its input \"")
             << port.getKey() << "\"";
    if (buffer.getOutput() && !nn::isRead(port))
      return sequence.emitError("H0913: nothing reads its output \"")
             << port.getKey() << "\"";
    return success();
  }

  static LogicalResult verifyOutputs(planir::SequenceOp sequence,
                                     const plan::Program &result) {
    auto gives = [&](plan::PortRole role) {
      return llvm::any_of(result.outputs, [&](const plan::Port &port) {
        return port.role == role;
      });
    };
    bool hasLoss = result.kind == plan::ProgramKind::Train ||
                   result.kind == plan::ProgramKind::Eval;
    if (hasLoss && !gives(plan::PortRole::Loss))
      return sequence.emitError("H0913: the program of kind \"")
             << plan::nameOf(result.kind) << "\" gives no loss";
    if (result.kind == plan::ProgramKind::Train &&
        !gives(plan::PortRole::GradNorm))
      return sequence.emitError("H0913: the program of kind \"train\" gives no "
                                "norm of the gradients");
    return success();
  }

  LogicalResult readPrograms(SequenceReader &sequences) {
    for (auto sequence : program.getOps<planir::SequenceOp>()) {
      if (!sequence.getKind())
        continue;
      plan::Program result;
      result.kind = planir::kindOf(*sequence.getKind());
      result.name = sequence.getSymName().str();
      std::replace(result.name.begin(), result.name.end(), '.', '/');
      result.phase = nn::toPlan(sequence.getPhaseAttr());
      result.sequence = sequences.indexOf(sequence.getSymName());
      for (auto buffer : sequence.getBody().getOps<planir::BufferOp>()) {
        nn::PortAttr declared = buffer.getPort();
        if (!declared)
          continue;
        if (failed(verifyPort(sequence, buffer)))
          return failure();
        auto type = cast<MemRefType>(buffer.getBuffer().getType());
        plan::Port port{planir::roleOf(declared.getRole()),
                        declared.getKey().str(),
                        planir::dtypeOf(type.getElementType()),
                        shapeOf(type),
                        portPlacement(sequence, buffer),
                        sequences.refOf(buffer.getBuffer())};
        (buffer.getOutput() ? result.outputs : result.inputs)
            .push_back(std::move(port));
      }
      if (failed(verifyOutputs(sequence, result)))
        return failure();
      parts.plan.programs.push_back(std::move(result));
    }
    for (plan::Program &result : parts.plan.programs)
      result.flops = sequences.modelFlops(result);
    if (const plan::Program *train =
            parts.plan.findProgram(plan::ProgramKind::Train))
      for (plan::Condition &condition : parts.plan.conditions)
        condition.flops = sequences.modelFlops(*train, &condition.path);
    return success();
  }

  /// Returns which part of a program's input or output each rank holds.
  /// `buffer` is this input or output. The sequence's attribute `ports` has the
  /// sharding of each input and output, under its key.
  plan::Placement portPlacement(planir::SequenceOp sequence,
                                planir::BufferOp buffer) {
    auto shardings = sequence.getPortsAttr();
    auto entry =
        shardings ? shardings.getAs<DictionaryAttr>(buffer.getPort().getKey())
                  : DictionaryAttr();
    if (!entry)
      return {};
    plan::Placement placement =
        placementOf(entry.getAs<TypeAttr>("whole").getValue(),
                    entry.getAs<dist::TensorShardingAttr>("sharding"));
    if (auto segments = entry.getAs<DenseI64ArrayAttr>("segments"))
      placement.segments = segments.asArrayRef().vec();
    return placement;
  }

  /// The programs of all pipeline stages, in order.
  ArrayRef<planir::ProgramOp> programs;
  planir::ProgramOp program; ///< The program that is being read.
  dist::Strategy strategy;
  Parts parts;
  /// For each kernel of the stage, its index in the plan.
  llvm::StringMap<int64_t> kernelIndex;
  StatePlaces places; ///< The memory and offset of each state of the stage.
  /// Finds equal kernels. The key is a kernel's symbol, and the index of the
  /// kernel's compiled code in `parts.objects` or `parts.hostObjects`. The
  /// value is the index of the kernel in the plan.
  llvm::DenseMap<std::pair<Attribute, int64_t>, int64_t> byCode;
  /// For each kernel name, how many kernels have it. The number is appended to
  /// the name of the next such kernel, so that names differ.
  llvm::StringMap<int64_t> names;
  /// For each text of compiled code, its index in `parts.objects` or
  /// `parts.hostObjects`.
  llvm::StringMap<int64_t> objects;
  llvm::StringSet<> counted;
};

} // namespace

FailureOr<Parts>
heddle::emit::planFromModule(ArrayRef<planir::ProgramOp> programs) {
  return Reader(programs).read();
}
