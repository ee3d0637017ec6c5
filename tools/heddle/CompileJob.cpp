//===- CompileJob.cpp - Runs a compilation --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a compilation with MLIR. This file belongs to the library
// HeddleDriverCompile, which is compiled without exceptions, as MLIR is.
//
//===----------------------------------------------------------------------===//

#include "CompileJob.h"
#include "DiagnosticPrinter.h"
#include "ForwardFile.h"
#include "ModuleFile.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Import/Import.h"
#include "heddle/Import/ReadModule.h"
#include "heddle/Pipelines/Compile.h"
#include "mlir/AsmParser/AsmParser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

using namespace heddle;
using namespace heddle::driver;

//===----------------------------------------------------------------------===//
// The job
//===----------------------------------------------------------------------===//

/// Finds the prebuilt runtime, which is in the same directory as this program.
static std::string findRuntime() {
  std::string self =
      llvm::sys::fs::getMainExecutable(nullptr, (void *)&findRuntime);
  llvm::SmallString<256> path(llvm::sys::path::parent_path(self));
  llvm::sys::path::append(path, "heddle-rt");
  return path.str().str();
}

static void printModule(mlir::ModuleOp module) {
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  module.print(llvm::outs(), flags);
  llvm::outs() << "\n";
}

static mlir::OwningOpRef<mlir::ModuleOp>
parseModule(mlir::MLIRContext &context, const CompileJob &job,
            DiagnosticPrinter &printer) {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  printer.parse([&] { module = readModuleFile(context, job); });
  printer.isUsersModule = true;
  return module;
}

/// Marks in the module that the user has not chosen how collectives are
/// computed. Each target then uses its own default, for example NCCL on GPUs.
static void leaveCollectivesOpen(mlir::ModuleOp module) {
  module.walk([](nn::ModelOp model) {
    dist::StrategyAttr strategy = model.getStrategyAttr();
    model.setStrategyAttr(dist::StrategyAttr::get(
        model.getContext(), strategy.getValue(),
        strategy.getWritten() & ~dist::bitOf("collectives")));
  });
}

/// Reads or builds the module from which the job starts. Returns null after an
/// error.
static mlir::OwningOpRef<mlir::ModuleOp>
makeModule(mlir::MLIRContext &context, const CompileJob &job,
           DiagnosticPrinter &printer) {
  if (!job.model)
    return parseModule(context, job, printer);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      job.module.empty() ? importModel(context, *job.model, job.settings.values)
                         : readForwardFile(context, job);
  if (module && job.settings.targets.size() > 1 &&
      !job.settings.origins.count("collectives"))
    leaveCollectivesOpen(*module);
  return module;
}

static CompileOptions optionsOf(const CompileJob &job) {
  CompileOptions options;
  options.output = job.output;
  options.targets = job.settings.targets;
  options.dumpPhases = job.dumpPhases == "-" ? "" : job.dumpPhases;
  options.stopAfter = job.stopAfter;
  options.startFrom = job.startFrom;
  options.cache = job.cache;
  options.cluster = job.cluster;
  options.runtimePath = findRuntime();
  options.timing = job.timing;
  options.verbose = job.verbose;
  options.shardingReasons = job.shardingReasons;
  options.splitLayers = job.splitLayers;
  options.dryRun = job.dryRun;
  options.guesses = job.draftTokens;
  return options;
}

/// Adds the module of the draft model to `options`. Returns false after an
/// error.
static bool addDraft(mlir::MLIRContext &context, const CompileJob &job,
                     mlir::OwningOpRef<mlir::ModuleOp> &draft,
                     CompileOptions &options) {
  if (!job.draft)
    return true;
  draft = importModel(context, *job.draft, job.draftSettings.values);
  options.draft = draft.get();
  return bool(draft);
}

PlannedJob driver::planJob(const CompileJob &job, const GoesOn &goesOn) {
  PlannedJob planned;
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  // The context uses no threads, since a search compiles several plans at a
  // time, each on one thread.
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  DiagnosticPrinter printer(context, /*verbose=*/false);
  printer.errors = &planned.errors;
  printer.remarks = &planned.remarks;
  mlir::OwningOpRef<mlir::ModuleOp> module = makeModule(context, job, printer);
  if (!module)
    return planned;
  CompileOptions options = optionsOf(job);
  options.plans = &planned.plans;
  if (goesOn)
    options.goesOn = [&](Phase phase, const plan::PerMemory<int64_t> &bytes) {
      return goesOn(phase == Phase::Memory ? KnownBytes::All
                                           : KnownBytes::OfModel,
                    bytes);
    };
  mlir::OwningOpRef<mlir::ModuleOp> draft;
  if (!addDraft(context, job, draft, options) ||
      failed(compile(*module, options)))
    planned.plans.clear();
  return planned;
}

/// Returns the result of a job that failed with the errors that the printer has
/// printed.
static JobEnd endOf(const DiagnosticPrinter &printer) {
  return {printer.exitCode ? printer.exitCode : 1, printer.firstCode};
}

JobEnd driver::runCompileJob(const CompileJob &job) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(job.verbose);
  DiagnosticPrinter printer(context, job.verbose);
  auto begin = std::chrono::steady_clock::now();
  mlir::OwningOpRef<mlir::ModuleOp> module = makeModule(context, job, printer);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  if (!module)
    return endOf(printer);
  if (job.timing)
    llvm::errs() << llvm::formatv(
        "{0,-8} {1,8:F3} s\n", job.model ? "build" : "parse", seconds.count());
  CompileOptions options = optionsOf(job);
  mlir::OwningOpRef<mlir::ModuleOp> draft;
  if (!addDraft(context, job, draft, options) ||
      failed(compile(*module, options)) || printer.exitCode)
    return endOf(printer);
  if (job.dumpPhases == "-")
    printModule(*module);
  else if (job.dumpPhases.empty() && !job.stopAfter.empty() &&
           job.output.empty())
    llvm::errs() << "stopped after " << job.stopAfter
                 << "; --dump-phases DIR writes the module, --dump-phases - "
                    "prints it\n";
  return {};
}

//===----------------------------------------------------------------------===//
// Strategies from .mlir files
//===----------------------------------------------------------------------===//

std::string
driver::strategyFileToJson(const std::string &path,
                           std::vector<heddle::Diagnostic> &errors) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    errors.push_back(
        {"H0101", "cannot read " + path, {}, {}, "check the path"});
    return "";
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<dist::DistDialect>();
  auto refuse = [&](const std::string &message, heddle::SourceLocation place) {
    errors.push_back(
        {"H0102",
         path + " is not a strategy" + message,
         std::move(place),
         {},
         "write one attribute, as #dist.strategy<{batch = {micro = 4}}>"});
  };
  if (auto hazard = findHazard((*buffer)->getBuffer())) {
    refuse(std::string(": ") + hazard->reason, {path, 1, 1});
    return "";
  }
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        heddle::SourceLocation place{path, 1, 1};
        if (auto at = llvm::dyn_cast<mlir::FileLineColLoc>(
                mlir::LocationAttr(diagnostic.getLocation())))
          place = {path, at.getLine(), at.getColumn()};
        refuse(": " + diagnostic.str(), std::move(place));
        return mlir::success();
      });
  auto strategy = llvm::dyn_cast_or_null<dist::StrategyAttr>(
      mlir::parseAttribute((*buffer)->getBuffer().rtrim(), &context));
  if (!strategy) {
    if (errors.empty())
      refuse("", {path, 1, 1});
    return "";
  }
  nlohmann::json object = nlohmann::json::object();
  for (auto [i, setting] : llvm::enumerate(config::allSettings()))
    if (strategy.isWritten(i))
      object[setting.key] =
          std::visit([](const auto &field) { return nlohmann::json(field); },
                     setting.get(strategy.getValue()));
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int driver::flushCompilerOutput() {
  llvm::outs().flush();
  int lost = llvm::outs().error().value();
  llvm::outs().clear_error();
  llvm::errs().clear_error();
  return lost;
}

std::vector<std::string> driver::phaseNames() {
  std::vector<std::string> names;
  for (Phase phase : allPhases())
    names.push_back(phaseName(phase).str());
  return names;
}
