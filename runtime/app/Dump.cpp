//===- Dump.cpp - Write values of a step to a file ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dump.h"
#include "heddle/runtime/app/StateTensors.h"
#include "heddle/runtime/app/Weights.h"

#include <deque>
#include <set>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// Collects the tensors of a dump from all pipeline stages, and for each tensor
/// the shard that this rank stores.
struct DumpWriter {
  DumpWriter(Session &session, const LoadedProgram &program)
      : session(session), program(program) {}

  void addStage(const plan::Stage &stage, bool isHere);
  void add(const std::string &name, plan::DType type,
           const std::vector<int64_t> &shape, const plan::Placement &placement,
           const Value *value);
  void addOutput(const plan::Port &port, const Value *value);

  Session &session;
  const LoadedProgram &program;
  std::vector<io::SharedTensor> tensors;
  SharedStates gradients{session};
  std::set<std::string> known;
  /// Which elements of each tensor this rank stores. `tensors` points to
  /// elements of this deque, and a deque does not move its elements when it
  /// grows.
  std::deque<RankShard> parts;
};

} // namespace

/// Merges the first dimensions of a shape, such as micro-batches and their
/// rows, into one dimension, the rows of the batch. The result has at most
/// three dimensions.
static void mergeBatch(std::vector<int64_t> &shape) {
  while (shape.size() > 3) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
}

/// Adds a tensor to the dump, unless another pipeline stage has already added
/// one with this name.
void DumpWriter::add(const std::string &name, plan::DType type,
                     const std::vector<int64_t> &shape,
                     const plan::Placement &placement, const Value *value) {
  if (!known.insert(name).second)
    return;
  const RankShard *part = nullptr;
  if (value)
    part = &parts.emplace_back(placement, shape, session.plan().mesh,
                               session.rank());
  tensors.push_back(
      shareTensor(session, name, type, shape, placement, value, part));
}

void DumpWriter::addOutput(const plan::Port &port, const Value *value) {
  bool isNew = known.count(port.name) == 0;
  add(port.name, port.type, port.shape, port.placement, value);
  bool isKept =
      port.role == plan::PortRole::Logits || port.role == plan::PortRole::Value;
  if (isNew && isKept)
    mergeBatch(tensors.back().shape);
}

void DumpWriter::addStage(const plan::Stage &stage, bool isHere) {
  for (const plan::Program &each : stage.programs)
    for (size_t i = 0; i < each.outputs.size(); ++i)
      if (each.name == program.program().name)
        addOutput(each.outputs[i], isHere ? &program.output(i) : nullptr);
  for (size_t i = 0; i < stage.states.size(); ++i) {
    const plan::State &state = stage.states[i];
    if (state.role == plan::StateRole::Gradient)
      gradients.add("grad.", state.parameter, sourcesOf(stage, state),
                    state.type, isHere ? &session.state(i) : nullptr,
                    isHere ? &session.shard(i) : nullptr);
  }
}

void heddle::rt::writeDump(const std::string &path, Session &session,
                           const LoadedProgram &program, io::Peers &peers) {
  DumpWriter writer(session, program);
  const std::vector<plan::Stage> &stages = session.plan().stages;
  for (size_t i = 0; i < stages.size(); ++i)
    writer.addStage(stages[i], int64_t(i) == session.stage());
  for (io::SharedTensor &tensor : writer.gradients.take())
    writer.tensors.push_back(std::move(tensor));
  io::writeShared(path, std::move(writer.tensors), peers);
}
