//===- Compile.cpp - Runs the phases of a compilation ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compile.h"
#include "EmitPhase.h"
#include "Summary.h"
#include "dialects/Plan/PlanDialect.h"
#include "dialects/Plan/PlanFormat.h"
#include "heddle/Emit/WriteBinary.h"
#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Import/Passes.h"
#include "heddle/Transforms/Memory/StateBytes.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <chrono>

using namespace mlir;
using namespace heddle;

/// Returns the operations that have the settings of the compilation as an
/// attribute. These are the nn.model operations and, in later phases, the
/// plan.program operations. From the pipe phase on there is one for each
/// pipeline stage.
static SmallVector<Operation *> rootsOf(ModuleOp module) {
  SmallVector<Operation *> roots;
  for (Operation &op : module.getOps())
    if (isa<nn::ModelOp, planir::ProgramOp>(op))
      roots.push_back(&op);
  return roots;
}

static LogicalResult writeDump(ModuleOp module, const std::string &name,
                               llvm::StringRef directory) {
  if (std::error_code error = llvm::sys::fs::create_directories(directory))
    return module.emitError("H0120: cannot make the directory ")
           << directory << " for the dumps: " << error.message();
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, name + ".mlir");
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(true, false));
  if (auto wrong = emit::writeText(path.str().str(), text))
    return emitDiagnostic(*module.getContext(), *wrong);
  return success();
}

static LogicalResult finishPhase(ModuleOp module, Phase phase,
                                 const std::string &suffix,
                                 const CompileOptions &options) {
  SmallVector<Operation *> roots = rootsOf(module);
  if (roots.empty())
    return module.emitError("H0396: holds no nn.model and no plan.program");
  auto name = StringAttr::get(module.getContext(), phaseName(phase));
  for (Operation *root : roots)
    root->setAttr("phase", name);
  if (options.dumpPhases.empty())
    return success();
  return writeDump(module, phaseName(phase).str() + suffix, options.dumpPhases);
}

static plan::PerMemory<int64_t> bytesOf(planir::ProgramOp program) {
  plan::PerMemory<int64_t> bytes;
  for (planir::MemoryKind kind : planir::memoryKinds)
    bytes[planir::memoryOf(kind)] = program.getPersistentBytes().of(kind) +
                                    program.getArenaBytes().of(kind);
  bytes[plan::MemoryKind::Pinned] += program.getStagingBytes();
  return bytes;
}

/// Returns how many bytes of each kind of memory a rank needs at least: the
/// maximum over the pipeline stages. Before the memory phase only the states
/// are counted.
static plan::PerMemory<int64_t> leastBytes(ModuleOp module) {
  plan::PerMemory<int64_t> most;
  for (Operation *root : rootsOf(module)) {
    auto model = dyn_cast<nn::ModelOp>(root);
    plan::PerMemory<int64_t> bytes =
        model ? modelStateBytes(model) : bytesOf(cast<planir::ProgramOp>(root));
    for (plan::MemoryKind kind : plan::memoryKinds)
      most[kind] = std::max(most[kind], bytes[kind]);
  }
  return most;
}

static LogicalResult verifyAllPorts(ModuleOp module) {
  WalkResult walk = module.walk<WalkOrder::PreOrder>([](Operation *op) {
    bool isWrong = false;
    if (auto step = dyn_cast<nn::StepOp>(op))
      isWrong = failed(verifyPorts(step, "H0909"));
    else if (auto sequence = dyn_cast<planir::SequenceOp>(op))
      isWrong = failed(verifyPorts(sequence, "H0913"));
    else
      return WalkResult::advance();
    return isWrong ? WalkResult::interrupt() : WalkResult::skip();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult heddle::takeIn(ModuleOp module, Phase phase) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.addPass(createImportEraseDead());
  // The user may have edited the dump, so verify everything that earlier phases
  // established. From the pipe phase on there is one model for each stage, to
  // which only the verifiers of the pipe phase and later ones apply. After the
  // memory phase there are only plans. A plan contains its compiled code, so
  // all verifiers from the phase kernels on apply to it.
  bool isPlan = phase >= Phase::Memory;
  Phase first = isPlan                 ? Phase::Kernels
                : phase >= Phase::Pipe ? Phase::Pipe
                                       : phase;
  Phase last = isPlan ? Phase::Emit : phase;
  for (Phase each : allPhases())
    if (each >= first && each <= last)
      buildPhaseVerifier(each, pm);
  pm.enableVerifier(false);
  return success(succeeded(pm.run(module)) &&
                 succeeded(verifyAllPorts(module)));
}

namespace {

/// A compilation. The phases before `fuse` run once, on one module. From the
/// phase `fuse` on there is one module for each target.
class Compilation {
public:
  /// `suffix` is appended to the names of dumps.
  Compilation(ModuleOp module, const CompileOptions &options,
              StringRef suffix = "")
      : options(options) {
    tracks.emplace_back().module = module;
    tracks.back().suffix = suffix.str();
  }

  LogicalResult run(Phase start, Phase stop);
  /// Returns the code for each target, after the last phase.
  std::vector<emit::Code> take() { return std::move(codes); }

private:
  struct Track {
    OwningOpRef<ModuleOp> owned; ///< The module, if it is not the caller's.
    ModuleOp module;
    std::string suffix;              ///< Suffix of the names of dumps.
    std::vector<std::string> phases; ///< The phases that have run.
  };
  LogicalResult run(Phase phase, Track &track);
  void splitByTarget();

  const CompileOptions &options;
  std::vector<Track> tracks;
  std::vector<emit::Code> codes;
};

} // namespace

void Compilation::splitByTarget() {
  Track common = std::move(tracks.front());
  tracks.clear();
  for (config::Target target : options.targets) {
    Track &track = tracks.emplace_back();
    track.owned = common.module.clone();
    track.module = *track.owned;
    track.suffix = common.suffix + "." + wordOf(target);
    track.phases = common.phases;
    for (Operation *root : rootsOf(track.module)) {
      auto old = root->getAttrOfType<dist::StrategyAttr>("strategy");
      APInt own = dist::bitOf("target") | dist::bitOf("collectives");
      dist::Strategy strategy = old.getValue();
      strategy.target = target;
      if (!old.getWritten().intersects(dist::bitOf("collectives")))
        strategy.collectives = factsOf(target).collectives;
      root->setAttr("strategy",
                    dist::StrategyAttr::get(root->getContext(), strategy,
                                            old.getWritten() | own));
    }
  }
}

LogicalResult Compilation::run(Phase phase, Track &track) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  PassManager pm(track.module.getContext(), ModuleOp::getOperationName());
  buildPhase(phase, pm, options);
  // Run MLIR's verifier once in each phase instead of after each pass, because
  // on a deep model it takes longer than most passes.
  pm.enableVerifier(false);
  if (failed(pm.run(track.module)) || failed(verify(track.module)))
    return failure();
  bool saysBytes = phase == Phase::Fuse || phase == Phase::Memory;
  if (options.goesOn && saysBytes &&
      !options.goesOn(phase, leastBytes(track.module)))
    return failure();
  if (phase == Phase::Emit) {
    FailureOr<emit::Code> code = codeOf(track.module, options, track.phases);
    if (failed(code))
      return failure();
    codes.push_back(std::move(*code));
  }
  if (failed(finishPhase(track.module, phase, track.suffix, options)))
    return failure();
  std::chrono::duration<double> time = Clock::now() - begin;
  std::string name = phaseName(phase).str() + track.suffix;
  track.phases.push_back(phaseName(phase).str());
  if (options.timing)
    llvm::errs() << llvm::formatv("{0,-8} {1,8:F3} s\n", name, time.count());
  return success();
}

LogicalResult Compilation::run(Phase start, Phase stop) {
  for (Phase phase : allPhases()) {
    if (phase < start || (phase == start && phase != Phase::Import))
      continue;
    if (phase == Phase::Fuse && options.targets.size() > 1)
      splitByTarget();
    for (Track &track : tracks)
      if (failed(run(phase, track)))
        return failure();
    if (phase == stop)
      break;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The binary
//===----------------------------------------------------------------------===//

static LogicalResult write(ModuleOp module, std::vector<emit::Code> &codes,
                           const CompileOptions &options) {
  if (options.plans) {
    for (emit::Code &code : codes)
      options.plans->push_back(std::move(code.plan));
    return success();
  }
  if (!options.dryRun)
    if (auto wrong =
            emit::writeBinary(codes, options.runtimePath, options.output))
      return emitDiagnostic(*module.getContext(), *wrong);
  // Print no summary for a binary with programs of single layers, which only
  // `heddle quantize` makes and runs.
  if (options.splitLayers != LayerPrograms::None)
    return success();
  summarize(codes, options);
  return success();
}

/// Reduces the draft model's memory budget by the bytes that the main model
/// uses. `plan` is the main model's plan.
static void limitMemory(ModuleOp draft, const plan::Plan &plan) {
  for (Operation *root : rootsOf(draft)) {
    auto old = root->getAttrOfType<dist::StrategyAttr>("strategy");
    dist::Strategy strategy = old.getValue();
    if (strategy.memoryBudget == 0)
      continue;
    strategy.memoryBudget =
        std::max<int64_t>(strategy.memoryBudget - plan.memory.peakBytes(), 1);
    root->setAttr("strategy",
                  dist::StrategyAttr::get(root->getContext(), strategy,
                                          old.getWritten()));
  }
}

/// Compiles the draft model. Appends its code for each target to `codes`, which
/// holds the code of the main model.
static LogicalResult compileDraft(const CompileOptions &options, Phase stop,
                                  std::vector<emit::Code> &codes) {
  CompileOptions own = options;
  // The draft model may have to compute two tokens at once for a sequence. If
  // all its guesses were right, its cache lacks two tokens. One is its last
  // guess, which it has not read yet; the other is the main model's next token.
  own.guesses = 1;
  if (!codes.empty()) {
    // Each page of the draft model's cache is assigned together with a page of
    // the main model's cache, so both caches need the same number of pages.
    own.cachePages = codes.front().plan.serving.pages;
    limitMemory(own.draft, codes.front().plan);
  }
  Compilation draft(own.draft, own, ".draft");
  if (failed(draft.run(Phase::Import, stop)))
    return failure();
  for (emit::Code &code : draft.take()) {
    code.model = emit::Model::Draft;
    codes.push_back(std::move(code));
  }
  return success();
}

LogicalResult heddle::compile(ModuleOp module, const CompileOptions &options) {
  std::optional<Phase> start =
      parsePhase(options.startFrom.empty() ? "import" : options.startFrom);
  std::optional<Phase> stop =
      parsePhase(options.stopAfter.empty() ? "emit" : options.stopAfter);
  if (!start || !stop)
    return module.emitError("H0121: there is no phase \"")
           << (start ? options.stopAfter : options.startFrom) << "\"";
  if (!options.startFrom.empty() && failed(takeIn(module, *start)))
    return failure();
  Compilation model(module, options);
  if (failed(model.run(*start, *stop)))
    return failure();
  std::vector<emit::Code> codes = model.take();
  if (options.draft && failed(compileDraft(options, *stop, codes)))
    return failure();
  return *stop == Phase::Emit ? write(module, codes, options) : success();
}
