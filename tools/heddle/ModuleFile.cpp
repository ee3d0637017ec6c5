//===- ModuleFile.cpp - A module that the user hands in -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModuleFile.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Import/Import.h"
#include "heddle/Pipelines/Compile.h"
#include "mlir/Parser/Parser.h"

using namespace heddle;
using namespace heddle::driver;

/// The phase that uses a setting up: in a module dumped after it, the setting
/// can no longer be changed.
static Phase lastPhaseToRead(llvm::StringRef key) {
  static const std::pair<llvm::StringRef, Phase> table[] = {
      {"batch", Phase::Import},
      {"micro_batch", Phase::Import},
      {"accumulate", Phase::Import},
      {"seq", Phase::Import},
      {"data", Phase::Import},
      {"no_decay", Phase::Import},
      {"keep", Phase::Import},
      {"precision", Phase::Model},
      {"recompute", Phase::Train},
      {"optimizer", Phase::Train},
      {"beta1", Phase::Train},
      {"beta2", Phase::Train},
      {"eps", Phase::Train},
      {"weight_decay", Phase::Train},
      {"decoupled", Phase::Train},
      {"gradient_clipping", Phase::Train},
      {"tensor", Phase::Shard},
      {"sequence", Phase::Shard},
      {"zero", Phase::Shard},
      {"sequence_parallel", Phase::Shard},
      {"context", Phase::Shard},
      {"communication_type", Phase::Shard},
      {"pipe", Phase::Pipe},
      {"schedule", Phase::Pipe},
      {"virtual_stages", Phase::Pipe},
      {"pipeline_layout", Phase::Pipe},
      {"march", Phase::Kernels},
      {"target", Phase::Kernels},
      {"threads", Phase::Kernels},
      {"memory_budget", Phase::Memory}};
  for (const auto &[name, phase] : table)
    if (name == key)
      return phase;
  // Learning rate and schedule only pass through to the binary.
  return Phase::Emit;
}

/// The operation that carries the strategy, and the phase it was dumped after.
static mlir::Operation *findRoot(mlir::ModuleOp module) {
  for (mlir::Operation &op : module.getOps())
    if (op.getAttrOfType<dist::StrategyAttr>("strategy") &&
        op.getAttrOfType<mlir::StringAttr>("phase"))
      return &op;
  return nullptr;
}

static mlir::LogicalResult checkPhase(mlir::Operation *root, Phase done,
                                      const CompileJob &job) {
  if (phaseName(done) == job.startFrom)
    return mlir::success();
  mlir::InFlightDiagnostic error = root->emitError("H0113: ");
  error << "this module was dumped after the phase " << phaseName(done)
        << ", not after " << job.startFrom;
  error.attachNote() << "help: add --start-from " << phaseName(done);
  return error;
}

/// Sets the fields of the strategy that flags or files give.
static mlir::LogicalResult overrideStrategy(mlir::Operation *root, Phase done,
                                            const CompileJob &job) {
  using Kind = config::Origin::Kind;
  mlir::MLIRContext *context = root->getContext();
  auto strategy = root->getAttrOfType<dist::StrategyAttr>("strategy");
  mlir::NamedAttrList values(strategy.getValues());
  // Defaults may be left out of the text.
  mlir::DictionaryAttr before =
      dist::Strategy::fromDictionary(strategy.getValues())
          .toDictionary(context);
  mlir::DictionaryAttr chosen =
      toStrategy(*context, job.settings.values).toDictionary(context);
  for (const auto &[key, origin] : job.settings.origins) {
    bool isGiven = origin.kind == Kind::Flag || origin.kind == Kind::File ||
                   origin.kind == Kind::StrategyFile;
    if (!isGiven || before.get(key) == chosen.get(key))
      continue;
    Phase last = lastPhaseToRead(key);
    if (last <= done) {
      mlir::InFlightDiagnostic error = root->emitError("H0113: ");
      error << key << " (" << origin.describe()
            << ") cannot be changed after the phase " << phaseName(last)
            << ": this module has " << before.get(key) << " in it";
      error.attachNote() << "help: leave it out, or start from the model";
      return error;
    }
    values.set(key, chosen.get(key));
  }
  mlir::DictionaryAttr merged = values.getDictionary(context);
  if (std::string problem = dist::Strategy::verify(merged); !problem.empty())
    return root->emitError("H0113: ") << problem;
  root->setAttr("strategy", dist::StrategyAttr::get(context, merged));
  return mlir::success();
}

mlir::OwningOpRef<mlir::ModuleOp>
driver::readModuleFile(mlir::MLIRContext &context, const CompileJob &job) {
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(job.module, &context);
  if (!module)
    return {};
  mlir::Operation *root = findRoot(*module);
  if (!root) {
    module->emitError("H0396: there is no nn.model and no plan.program here");
    return {};
  }
  llvm::StringRef name =
      root->getAttrOfType<mlir::StringAttr>("phase").getValue();
  std::optional<Phase> done = parsePhase(name);
  if (!done) {
    root->emitError("H0396: there is no phase \"") << name << "\"";
    return {};
  }
  if (failed(checkPhase(root, *done, job)) ||
      failed(overrideStrategy(root, *done, job)))
    return {};
  return module;
}
