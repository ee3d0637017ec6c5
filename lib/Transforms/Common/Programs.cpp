//===- Programs.cpp - Programs, their functions and ports -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/Programs.h"
#include "dialects/NN/ProgramPorts.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

void heddle::eraseUncalled(nn::ModelOp model) {
  for (bool changed = true; changed;) {
    changed = false;
    llvm::StringSet<> called;
    model.walk([&](nn::CallOp call) { called.insert(call.getCallee()); });
    for (auto function : llvm::make_early_inc_range(model.getOps<nn::FuncOp>()))
      if (!called.contains(function.getSymName())) {
        function.erase();
        changed = true;
      }
  }
}

Value heddle::addInput(nn::StepOp step, nn::PortAttr port,
                       RankedTensorType type) {
  SmallVector<Attribute> inputs(step.getInputs().getValue());
  inputs.push_back(port);
  step.setInputsAttr(ArrayAttr::get(step.getContext(), inputs));
  Value input = step.getBody().front().addArgument(type, step.getLoc());
  updateFunctionType(step);
  return input;
}

static LogicalResult verifyInput(Operation *op, nn::PortAttr port,
                                 StringRef code) {
  if (nn::isFilled(port))
    return success();
  return op->emitError(code)
         << ": nothing fills the input \"" << port.getKey() << "\"";
}

static LogicalResult verifyOutput(Operation *op, nn::PortAttr port,
                                  StringRef code) {
  if (nn::isRead(port))
    return success();
  return op->emitError(code)
         << ": nothing reads the output \"" << port.getKey() << "\"";
}

LogicalResult heddle::verifyPorts(nn::StepOp step, StringRef code) {
  llvm::StringSet<> keys;
  auto verifyOnce = [&](nn::PortAttr port) -> LogicalResult {
    if (keys.insert(port.getKey()).second)
      return success();
    return step.emitError(code)
           << ": has two ports \"" << port.getKey() << "\"";
  };
  for (auto port : step.getInputs().getAsRange<nn::PortAttr>())
    if (failed(verifyInput(step, port, code)) || failed(verifyOnce(port)))
      return failure();
  for (auto port : step.getOutputs().getAsRange<nn::PortAttr>())
    if (failed(verifyOutput(step, port, code)) || failed(verifyOnce(port)))
      return failure();
  return success();
}

// The check of an nn.step refuses a port (an input or output) that occurs
// twice. The check of a plan's sequence need not, because VerifyText.cpp does.
LogicalResult heddle::verifyPorts(planir::SequenceOp sequence, StringRef code) {
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>())
    if (nn::PortAttr port = buffer.getPort())
      if ((buffer.getInput() && failed(verifyInput(buffer, port, code))) ||
          (buffer.getOutput() && failed(verifyOutput(buffer, port, code))))
        return failure();
  return success();
}
