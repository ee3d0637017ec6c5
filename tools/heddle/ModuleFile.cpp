//===- ModuleFile.cpp - Reads a dump --------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses a dump (IR that a phase of an earlier compilation has written), and
// finds this phase. Updates the dump's strategy attribute, which holds the
// settings of the compilation, with the user's flags and files.
//
//===----------------------------------------------------------------------===//

#include "ModuleFile.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Import/Import.h"
#include "heddle/Import/Parallel.h"
#include "heddle/Import/ReadModule.h"
#include "heddle/Pipelines/PhaseOrder.h"

using namespace heddle;
using namespace heddle::driver;

/// Describes, for a message, the input of a compilation that starts with
/// `phase`: the model, or the IR dump of the phase before.
static std::string startBefore(Phase phase) {
  if (phase == Phase::Import)
    return "the model";
  Phase before = static_cast<Phase>(static_cast<int>(phase) - 1);
  return "a dump of the phase " + phaseName(before).str();
}

/// Returns the operations with two attributes: `strategy`, which holds the
/// settings of the compilation, and `phase`, the phase that wrote the dump.
/// There is one such operation, or one for each pipeline stage.
static llvm::SmallVector<mlir::Operation *> findRoots(mlir::ModuleOp module) {
  llvm::SmallVector<mlir::Operation *> roots;
  for (mlir::Operation &op : module.getOps())
    if (op.getAttrOfType<dist::StrategyAttr>("strategy") &&
        op.getAttrOfType<mlir::StringAttr>("phase"))
      roots.push_back(&op);
  return roots;
}

/// Checks that the attributes `phase` and `strategy` are the same for all
/// pipeline stages in a dump. They are, unless a user has edited the dump.
static mlir::LogicalResult checkAlike(llvm::ArrayRef<mlir::Operation *> roots) {
  for (mlir::Operation *root : roots.drop_front())
    for (llvm::StringRef name : {"phase", "strategy"})
      if (root->getAttr(name) != roots.front()->getAttr(name))
        return root->emitError("H0396: its ")
               << name << " is not that of the first stage";
  return mlir::success();
}

static mlir::LogicalResult checkPhase(mlir::Operation *root, Phase done,
                                      const CompileJob &job) {
  if (phaseName(done) == job.startFrom)
    return mlir::success();
  mlir::InFlightDiagnostic error =
      emitOtherPhase(root->getLoc(), phaseName(done), job.startFrom);
  error.attachNote() << "help: add --start-from " << phaseName(done);
  return error;
}

/// Sets those fields of the strategy attribute (the settings of the
/// compilation) that the user gives by flags or in files.
static mlir::LogicalResult overrideStrategy(mlir::Operation *root, Phase done,
                                            const CompileJob &job) {
  using Kind = config::Origin::Kind;
  auto strategy = root->getAttrOfType<dist::StrategyAttr>("strategy");
  dist::Strategy merged = strategy.getValue();
  llvm::APInt written = strategy.getWritten();
  if (job.settings.sparseAttention)
    root->emitWarning("H0143: the section sparse_attention has no effect on a "
                      "dump, whose attention has the layouts of its own");
  for (auto [i, setting] : llvm::enumerate(config::settingFields())) {
    auto given = job.settings.origins.find(setting.key);
    if (given == job.settings.origins.end())
      continue;
    const config::Origin &origin = given->second;
    bool isGiven = origin.kind == Kind::Flag || origin.kind == Kind::File ||
                   origin.kind == Kind::StrategyFile;
    config::SettingValue chosen = setting.get(job.settings.values);
    if (!isGiven)
      continue;
    if (setting.get(merged) == chosen) {
      written.setBit(i);
      continue;
    }
    Phase first = *parsePhase(setting.firstPhase);
    if (first <= done) {
      mlir::InFlightDiagnostic error = root->emitError("H0113: ");
      error << setting.key << " (" << origin.describe()
            << ") cannot be changed after the phase " << phaseName(first)
            << ": this module has " << settingToString(merged, setting)
            << " in it";
      error.attachNote() << "help: leave it out, or start from "
                         << startBefore(first);
      return error;
    }
    setting.set(merged, chosen);
    written.setBit(i);
  }
  config::settleActivations(merged);
  if (std::string problem = dist::verifyStrategy(merged); !problem.empty())
    return root->emitError("H0113: ") << problem;
  root->setAttr("strategy",
                dist::StrategyAttr::get(root->getContext(), merged, written));
  return mlir::success();
}

/// Checks a dump from which code for several targets is made: it must contain
/// nothing that is specific to one target.
static mlir::LogicalResult checkTargets(mlir::Operation *root, Phase done,
                                        const CompileJob &job) {
  Phase first = *parsePhase(config::findSetting("target")->firstPhase);
  if (job.settings.targets.size() < 2 || done < first)
    return mlir::success();
  auto strategy = root->getAttrOfType<dist::StrategyAttr>("strategy");
  mlir::InFlightDiagnostic error = root->emitError("H0113: ");
  error << "this module was dumped after the phase " << phaseName(done)
        << ", and is for " << wordOf(strategy.getValue().target) << " alone";
  error.attachNote() << "help: leave out --target, or start from "
                     << startBefore(first);
  return error;
}

UserModule driver::readUserModule(mlir::MLIRContext &context,
                                  const std::string &path) {
  UserModule read;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, path);
  if (!module)
    return read;
  read.roots = findRoots(*module);
  if (read.roots.empty()) {
    module->emitError("H0396: there is no nn.model and no plan.program here");
    return read;
  }
  mlir::Operation *root = read.roots.front();
  llvm::StringRef name =
      root->getAttrOfType<mlir::StringAttr>("phase").getValue();
  std::optional<Phase> done = parsePhase(name);
  if (name == "forward") {
    mlir::InFlightDiagnostic error =
        root->emitError("H0113: this is a forward function, without weights");
    error.attachNote() << "help: heddle compile takes it, with --weights DIR; "
                          "heddle eval takes what --dump-phases writes then";
    return read;
  }
  if (!done) {
    root->emitError("H0396: there is no phase \"") << name << "\"";
    return read;
  }
  read.done = *done;
  if (succeeded(checkAlike(read.roots)))
    read.module = std::move(module);
  return read;
}

mlir::OwningOpRef<mlir::ModuleOp>
driver::readModuleFile(mlir::MLIRContext &context, const CompileJob &job) {
  UserModule read = readUserModule(context, job.module);
  if (!read.module || failed(checkPhase(read.roots.front(), read.done, job)) ||
      failed(checkTargets(read.roots.front(), read.done, job)))
    return {};
  for (mlir::Operation *root : read.roots)
    if (failed(overrideStrategy(root, read.done, job)))
      return {};
  return std::move(read.module);
}
