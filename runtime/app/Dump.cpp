//===- Dump.cpp - Values of a step, for comparison ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Dump.h"
#include "heddle/runtime/io/Safetensors.h"

using namespace heddle;
using namespace heddle::rt;

static io::TensorToWrite describe(const std::string &name, const Value &value) {
  io::TensorToWrite tensor;
  tensor.name = name;
  tensor.dtype = plan::dtypeName(value.type);
  tensor.shape = value.shape;
  tensor.data = value.data;
  return tensor;
}

/// The name in the weight files of the parameter `name`.
static std::string sourceName(const plan::Plan &plan, const std::string &name) {
  for (const plan::State &state : plan.states)
    if (state.role == "parameter" && state.name == name)
      return state.sourceName;
  return name;
}

/// Micro-batches and their rows are the rows of the batch, in order.
static void mergeBatch(std::vector<int64_t> &shape) {
  while (shape.size() > 3) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
}

void heddle::rt::writeDump(const std::string &path, const Session &session,
                           const LoadedProgram &program) {
  const plan::Plan &plan = session.plan();
  std::vector<io::TensorToWrite> tensors;
  for (const plan::Port &port : program.program().outputs) {
    std::string name = port.name;
    if (name.rfind("grad.", 0) == 0)
      name = "grad." + sourceName(plan, name.substr(5));
    tensors.push_back(describe(name, *program.output(port.name)));
    if (name == "logits" || name.rfind("value.", 0) == 0)
      mergeBatch(tensors.back().shape);
  }
  for (size_t i = 0; i < plan.states.size(); ++i)
    if (plan.states[i].role == "gradient")
      tensors.push_back(
          describe("grad." + sourceName(plan, plan.states[i].parameter),
                   session.state(i)));
  io::writeSafetensors(path, std::move(tensors));
}
