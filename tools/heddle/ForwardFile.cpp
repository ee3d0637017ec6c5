//===- ForwardFile.cpp - Reads a model that the user wrote as MLIR --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses an .mlir file with a model's forward function, checks the model, and
// finds the weights of its parameters.
//
//===----------------------------------------------------------------------===//

#include "ForwardFile.h"
#include "DiagnosticPrinter.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Import/Import.h"
#include "heddle/Import/ReadModule.h"
#include "heddle/Pipelines/Compile.h"

using namespace heddle;
using namespace heddle::driver;

/// Returns the only model of a module. Returns null after an error.
static nn::ModelOp findModel(mlir::ModuleOp module) {
  auto models = llvm::to_vector(module.getOps<nn::ModelOp>());
  if (models.size() != 1) {
    module.emitError("H0396: there must be one nn.model here");
    return {};
  }
  nn::ModelOp model = models.front();
  if (model.getPhase() != "forward") {
    auto error = model.emitError("H0113: --weights: this module was dumped "
                                 "after the phase ")
                 << model.getPhase() << ", and says where its weights are";
    error.attachNote() << "help: leave out --weights, and add --start-from "
                       << model.getPhase();
    return {};
  }
  if (model.getStrategy().getWritten() != 0) {
    auto error = model.emitError("H0113: the strategy of a forward function is "
                                 "said by flags and files");
    error.attachNote() << "help: write strategy = #dist.strategy<{}>";
    return {};
  }
  return model;
}

/// Describes the model by the .mlir file alone, before its weight files are
/// opened.
static config::ModelSpec describe(nn::ModelOp model, const std::string &path) {
  config::ModelSpec spec;
  spec.family = model.getFamily().str();
  spec.configFile = path;
  spec.layers = 0;
  spec.positionsKey = "the tokens that the forward function is written for";
  for (auto function : model.getOps<nn::FuncOp>()) {
    if (!function.getInputs() || function.getProgram())
      continue;
    int64_t layers = 0;
    for (auto call : function.getOps<nn::CallOp>()) {
      spec.layers = std::max(spec.layers, ++layers);
      if (auto type = llvm::dyn_cast<mlir::RankedTensorType>(
              call->getResultTypes().front()))
        spec.width = type.getShape().back();
    }
    for (mlir::Type type : function.getResultTypes())
      if (auto logits = llvm::dyn_cast<mlir::RankedTensorType>(type);
          logits && logits.getRank() == 3) {
        spec.maxPositions = logits.getDimSize(1);
        spec.vocabSize = logits.getDimSize(2);
      }
  }
  if (auto most =
          model.getWeights().getAs<mlir::IntegerAttr>("max_positions")) {
    spec.maxPositions = most.getInt();
    spec.positionsKey = "max_positions";
  }
  auto objective = model.getWeights().getAs<nn::ObjectiveAttr>("objective");
  if (objective && objective.getValue() == nn::Objective::MaskedToken)
    spec.objective = plan::Objective::MaskedToken;
  if (auto place = model.getLoc()->findInstanceOf<mlir::FileLineColLoc>())
    spec.positionsLocation = {path, int64_t(place.getLine()),
                              int64_t(place.getColumn())};
  for (auto state : model.getOps<nn::StateOp>()) {
    // A constant has its value in the module.
    if (state.getRole() == nn::StateRole::Constant)
      continue;
    config::ParameterSpec &parameter = spec.parameters.emplace_back();
    parameter.name = state.getSymName().str();
    parameter.shape = state.getTensorType().getShape().vec();
    parameter.shapeReason = "the source of " + parameter.name;
    parameter.source = state.getSourceAttr()
                           ? state.getSourceAttr().toSource()
                           : weights::tensor(parameter.name, parameter.shape);
  }
  return spec;
}

std::optional<config::ModelSpec>
driver::readForwardSpec(const std::string &path, int &exitCode) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(context, /*verbose=*/false);
  mlir::OwningOpRef<mlir::ModuleOp> module;
  printer.parse([&] { module = readModule(context, path); });
  nn::ModelOp model = module ? findModel(*module) : nn::ModelOp();
  exitCode = printer.exitCode;
  if (!model)
    return std::nullopt;
  return describe(model, path);
}

mlir::OwningOpRef<mlir::ModuleOp>
driver::readForwardFile(mlir::MLIRContext &context, const CompileJob &job) {
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, job.module);
  if (module)
    completeForward(findModel(*module), *job.model, job.settings.values);
  return module;
}
