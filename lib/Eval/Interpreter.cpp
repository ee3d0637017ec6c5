//===- Interpreter.cpp - States and their first values ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/Interpreter.h"

#include "heddle/Eval/Files.h"
#include "heddle/Eval/ModelInterpreter.h"
#include "heddle/Eval/PlanInterpreter.h"

using namespace mlir;

namespace heddle::eval {

void StateInfo::setInit(nn::InitAttr init) {
  if (!init)
    return;
  initKind = init.getKind().str();
  initValue = init.getValue().getValueAsDouble();
  initStddev = init.getStddev().getValueAsDouble();
}

std::unique_ptr<Interpreter>
Interpreter::create(ModuleOp module, const InterpreterOptions &options) {
  for (Operation &op : module.getOps()) {
    if (auto model = dyn_cast<nn::ModelOp>(op))
      return ModelInterpreter::create(model, options);
    if (auto program = dyn_cast<planir::ProgramOp>(op))
      return PlanInterpreter::create(program, options);
  }
  module.emitError("has neither an nn.model nor a plan.program");
  return nullptr;
}

bool Interpreter::loadParameters(const std::string &directory,
                                 Diagnostic &error) {
  std::vector<std::string> names;
  std::vector<const StateInfo *> parameters;
  for (const StateInfo &info : stateInfos)
    if (info.role == "parameter") {
      names.push_back(info.source.empty() ? info.name : info.source);
      parameters.push_back(&info);
    }
  std::vector<HostTensor> tensors;
  if (!readParameters(directory, names, tensors, error))
    return false;
  for (auto [info, tensor] : llvm::zip(parameters, tensors)) {
    if (tensor.shape != info->shape) {
      error.code = "H0387";
      error.message = "tensor '" + tensor.name + "' in " + directory +
                      " has not the shape of the state " + info->name;
      error.help = "name the weights of the model that was compiled";
      return false;
    }
    setState(info->name, Tensor::fromBytes(ElementKind::F64, tensor.shape,
                                           tensor.bytes.data()));
  }
  return true;
}

/// The state's first value where no weights are loaded.
static Tensor firstValue(const StateInfo &info, uint64_t seed) {
  Tensor value(ElementKind::F64, info.shape);
  std::vector<float> floats =
      initialValues(info.initKind, info.initValue, info.initStddev, info.name,
                    seed, value.numElements());
  llvm::copy(floats, value.mutableFloats().begin());
  return value;
}

bool Interpreter::initialize(const std::string &weightsDirectory,
                             std::optional<uint64_t> seed, Diagnostic &error) {
  std::string directory = weightsDirectory;
  if (weights && directory.empty() && !seed) {
    if (auto from = weights.getAs<StringAttr>("directory"))
      directory = from.str();
    if (auto from = weights.getAs<IntegerAttr>("seed"))
      seed = from.getInt();
  }
  for (const StateInfo &info : stateInfos)
    setState(info.name, firstValue(info, seed.value_or(0)));
  if (!directory.empty() && !loadParameters(directory, error))
    return false;
  for (const StateInfo &info : stateInfos)
    if (info.role == "compute-copy")
      setState(info.name, state(info.parameter));
  return true;
}

} // namespace heddle::eval
