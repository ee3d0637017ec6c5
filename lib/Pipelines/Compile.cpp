//===- Compile.cpp - Runs the phases --------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compile.h"
#include "EmitPhase.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Emit/WriteBinary.h"
#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Import/Passes.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <chrono>

using namespace mlir;
using namespace heddle;

/// The operations that carry the strategy: nn.model, later plan.program; one
/// for each pipeline stage from the pipe phase on.
static SmallVector<Operation *> rootsOf(ModuleOp module) {
  SmallVector<Operation *> roots;
  for (Operation &op : module.getOps())
    if (isa<nn::ModelOp, planir::ProgramOp>(op))
      roots.push_back(&op);
  return roots;
}

static LogicalResult writeDump(ModuleOp module, Phase phase,
                               llvm::StringRef directory) {
  if (std::error_code error = llvm::sys::fs::create_directories(directory))
    return module.emitError("H0120: cannot make the directory ")
           << directory << " for the dumps: " << error.message();
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, phaseName(phase) + ".mlir");
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(true, false));
  if (auto wrong = emit::writeText(path.str().str(), text))
    return emitDiagnostic(module, *wrong);
  return success();
}

static LogicalResult finishPhase(ModuleOp module, Phase phase,
                                 const CompileOptions &options) {
  SmallVector<Operation *> roots = rootsOf(module);
  if (roots.empty())
    return module.emitError("H0396: holds no nn.model and no plan.program");
  auto name = StringAttr::get(module.getContext(), phaseName(phase));
  for (Operation *root : roots)
    root->setAttr("phase", name);
  if (options.dumpPhases.empty())
    return success();
  return writeDump(module, phase, options.dumpPhases);
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
  // What phases have promised holds on, for the stages' models and for plans.
  // A plan has its code in it, and may have been emitted before; nothing is
  // made of it by the phases that prove it.
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

LogicalResult heddle::compile(ModuleOp module, const CompileOptions &options) {
  using Clock = std::chrono::steady_clock;
  std::optional<Phase> start =
      parsePhase(options.startFrom.empty() ? "import" : options.startFrom);
  std::optional<Phase> stop =
      parsePhase(options.stopAfter.empty() ? "emit" : options.stopAfter);
  if (!start || !stop)
    return module.emitError("H0121: there is no phase \"")
           << (start ? options.stopAfter : options.startFrom) << "\"";
  std::vector<plan::PhaseTime> seconds;
  if (!options.startFrom.empty() && failed(takeIn(module, *start)))
    return failure();
  for (Phase phase : allPhases()) {
    if (phase < *start || (phase == *start && phase != Phase::Import))
      continue;
    auto begin = Clock::now();
    PassManager pm(module.getContext(), ModuleOp::getOperationName());
    buildPhase(phase, pm, options);
    // Once a phase: a deep model takes longer to verify than most passes do.
    pm.enableVerifier(false);
    if (failed(pm.run(module)) || failed(verify(module)))
      return failure();
    if (phase == Phase::Emit && failed(emitModule(module, options, seconds)))
      return failure();
    if (failed(finishPhase(module, phase, options)))
      return failure();
    std::chrono::duration<double> time = Clock::now() - begin;
    seconds.push_back({phaseName(phase).str(), time.count()});
    if (options.timing)
      llvm::errs() << llvm::formatv("{0,-8} {1,8:F3} s\n", phaseName(phase),
                                    time.count());
    if (phase == *stop)
      return success();
  }
  return success();
}
