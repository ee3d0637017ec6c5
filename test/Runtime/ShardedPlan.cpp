//===- ShardedPlan.cpp - The bigram model on several ranks ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardedPlan.h"
#include "BigramPlan.h"
#include "Commands.h"
#include "Meshes.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::plan;
using heddle::test::BigramShape;

static constexpr int64_t elements = BigramShape::vocab * BigramShape::vocab;
static constexpr int64_t tableBytes = elements * 4;
static constexpr int64_t tokens = BigramShape::microBatch * BigramShape::seq;

/// The table begins at an odd place in the flat tensor, and padding follows.
static constexpr int64_t flatFirst = 64, flatElements = 65636;
static constexpr int64_t runElements = flatElements / 2;
static constexpr int64_t firstPart = runElements - flatFirst;

static Term coordinate(const char *axis, int64_t factor) {
  return {Term::Kind::Coordinate, 0, factor, {axis}};
}

static Ref at(Space space, int64_t offset, int64_t bytes,
              std::vector<Term> terms = {}) {
  return {space, MemoryKind::Device, 0, offset, bytes, std::move(terms)};
}

/// A collective along `axis`, and the wait for it, which follows.
static void collect(std::vector<Command> &commands, Collective::Kind kind,
                    const char *axis, const Ref &target, const Ref &source,
                    const Ref &staging) {
  Command command = test::collective(kind, {axis}, target, source, staging);
  command.path = "table";
  Command wait = test::waitFor(commands.size());
  commands.push_back(std::move(command));
  commands.push_back(std::move(wait));
}

/// What a port of the single plan stands at.
static int64_t placeOf(const std::vector<Port> &ports, PortRole role) {
  return std::find_if(ports.begin(), ports.end(),
                      [&](const Port &port) { return port.role == role; })
      ->ref.offset;
}

//===----------------------------------------------------------------------===//
// Data parallel
//===----------------------------------------------------------------------===//

/// Halves the rows of the token ports.
static void splitRows(Program &program) {
  for (Port &port : program.inputs)
    if (port.role == PortRole::Ids || port.role == PortRole::Labels) {
      size_t rows = port.shape.size() - 2;
      port.placement.whole = port.shape;
      port.placement.split.resize(port.shape.size());
      port.placement.split[rows] = {"data"};
      port.shape[rows] /= 2;
      port.ref.bytes /= 2;
    }
}

/// Lays the states out anew; the gradient and numbers stay whole on every rank.
static void placeStates(Plan &plan) {
  int64_t offset = 0;
  for (State &state : plan.states) {
    state.offset = offset;
    bool isNumber = state.shape.empty(),
         isWhole = state.role == StateRole::Gradient;
    if (!isNumber && !isWhole) {
      state.placement.flatAxes = {"data"};
      state.placement.flatFirst = flatFirst;
      state.placement.flatElements = flatElements;
    }
    int64_t count = isNumber ? 1 : isWhole ? elements : runElements;
    offset += (count * byteSize(state.type) + 4095) / 4096 * 4096;
  }
  plan.memory.persistentBytes[plan::MemoryKind::Device] = offset;
}

/// The table's elements that the rank stores.
static Ref shardOf(const State &state) {
  int64_t width = byteSize(state.type);
  return at(Space::Persistent, state.offset + flatFirst * width,
            firstPart * width, {coordinate("data", -flatFirst * width)});
}

Plan heddle::test::makeShardedPlan() {
  Plan plan = makeBigramPlan();
  plan.mesh = test::meshOf(1, 2);
  placeStates(plan);
  // Behind what the single plan has: the whole flat tensor, and staging memory.
  int64_t flatAt = plan.memory.arenaBytes[plan::MemoryKind::Device];
  int64_t stagingAt = (flatAt + flatElements * 4 + 63) / 64 * 64;
  plan.memory.arenaBytes[plan::MemoryKind::Device] =
      (stagingAt + tableBytes / 2 + 4095) / 4096 * 4096;
  Ref flat = at(Space::Frame, flatAt, flatElements * 4);
  Ref table = at(Space::Frame, flatAt + flatFirst * 4, tableBytes);
  Ref staging = at(Space::Frame, stagingAt, tableBytes / 2);
  Ref run = at(Space::Persistent, plan.states[0].offset, runElements * 4);
  Ref gradient = at(Space::Persistent, plan.states[3].offset, tableBytes);
  const Program train = plan.programs[0];
  auto input = [&](PortRole role, int64_t bytes) {
    return at(Space::Frame, placeOf(train.inputs, role), bytes);
  };
  Ref loss = at(Space::Frame, placeOf(train.outputs, PortRole::Loss), 4);
  for (Program &program : plan.programs)
    splitRows(program);

  using Kind = Collective::Kind;
  std::vector<Command> step;
  collect(step, Kind::AllGather, "data", flat, run, staging);
  step.push_back(test::fill(gradient));
  step.push_back(test::fill(loss));
  for (int64_t batch = 0; batch < BigramShape::accumulate; ++batch) {
    Ref ids = input(PortRole::Ids, tokens * 2),
        labels = input(PortRole::Labels, tokens * 2);
    ids.offset += batch * ids.bytes;
    labels.offset += batch * labels.bytes;
    step.push_back(test::launch(
        0, {ids, labels, table, gradient, loss, input(PortRole::Rng, 16)},
        {{tokens / 2, {}},
         {tokens * BigramShape::accumulate, {}},
         {batch, {}},
         {0, {coordinate("data", tokens / 2)}}}));
  }
  collect(step, Kind::AllReduce, "data", gradient, gradient, staging);
  collect(step, Kind::AllReduce, "data", loss, loss, staging);
  Command powers = plan.sequences[0].commands[3];
  std::vector<Ref> &numbers = powers.as<command::Launch>()->refs;
  numbers[0].offset = plan.states[5].offset;
  numbers[1].offset = plan.states[6].offset;
  step.push_back(powers);
  step.push_back(test::launch(
      3,
      {shardOf(plan.states[0]), shardOf(plan.states[1]),
       shardOf(plan.states[2]), gradient, input(PortRole::LearningRate, 4),
       numbers[2], numbers[3],
       at(Space::Frame, placeOf(train.outputs, PortRole::GradNorm), 4),
       shardOf(plan.states[4])},
      {{0, {coordinate("data", firstPart)}},
       {firstPart, {coordinate("data", elements - 2 * firstPart)}}}));

  std::vector<Command> eval;
  collect(eval, Kind::AllGather, "data", flat, run, staging);
  eval.push_back(test::fill(loss));
  eval.push_back(
      test::launch(1,
                   {input(PortRole::Ids, tokens * 2),
                    input(PortRole::Labels, tokens * 2), table, loss},
                   {{tokens / 2, {}}, {tokens, {}}}));
  collect(eval, Kind::AllReduce, "data", loss, loss, staging);

  std::vector<Command> generate;
  collect(generate, Kind::AllGather, "data", flat, run, staging);
  Command logits = plan.sequences[3].commands[0];
  logits.as<command::Launch>()->refs[2] = table;
  generate.push_back(logits);
  plan.sequences = {{"train", 0, 0, 0, step},
                    {"eval", 0, 0, 0, eval},
                    {"generate", 0, 0, 0, generate}};
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    plan.programs[i].sequence = i;
    for (Port &port : plan.programs[i].inputs)
      if (plan.programs[i].kind == ProgramKind::Generate)
        port.placement = {}; // Every rank sees the whole text.
      else
        break;
  }
  plan.programs[2].inputs[0].shape = {1, BigramShape::seq};
  return plan;
}

//===----------------------------------------------------------------------===//
// Pipeline
//===----------------------------------------------------------------------===//

static Command schedule(int64_t sequence) {
  return test::fragments({{0, 0}, {0, 1}},
                         {{FragmentKind::Forward, 0, sequence, 1}});
}

/// The first stage has the inputs alone, the second all but them.
static void dividePorts(Stage &first, Stage &second) {
  auto isIds = [](const Port &port) { return port.role == PortRole::Ids; };
  for (Program &program : first.programs) {
    auto end = std::stable_partition(program.inputs.begin(),
                                     program.inputs.end(), isIds);
    program.inputs.erase(end, program.inputs.end());
    auto &outputs = program.outputs;
    outputs.erase(std::remove_if(outputs.begin(), outputs.end(),
                                 [](const Port &port) {
                                   return port.role == PortRole::Logits;
                                 }),
                  outputs.end());
  }
  for (Program &program : second.programs)
    program.inputs.erase(
        std::remove_if(program.inputs.begin(), program.inputs.end(), isIds),
        program.inputs.end());
}

Plan heddle::test::makePipelinedPlan() {
  Plan plan = makeBigramPlan();
  plan.mesh = test::meshOf(2, 1);
  int64_t stagingAt = plan.memory.arenaBytes[plan::MemoryKind::Device];
  plan.memory.arenaBytes[plan::MemoryKind::Device] += 4096;
  Ref staging = at(Space::Frame, stagingAt, 64);
  const std::vector<Sequence> single = plan.sequences;
  const Program &train = plan.programs[0];
  int64_t idsAt = placeOf(train.inputs, PortRole::Ids);
  Ref ids = at(Space::Frame, idsAt, tokens * 4);
  Ref loss = at(Space::Frame, placeOf(train.outputs, PortRole::Loss), 4);
  Ref norm = at(Space::Frame, placeOf(train.outputs, PortRole::GradNorm), 4);
  Ref own = ids; // Of the running micro-batch.
  own.terms = {{Term::Kind::LoopIndex, 0, tokens * 4, {}}};
  auto sum = [&](std::vector<Command> &commands, const Ref &ref) {
    collect(commands, Collective::Kind::AllReduce, "pipe", ref, ref, staging);
  };

  Stage first = plan, second = plan;
  first.states.clear();
  first.memory.persistentBytes[plan::MemoryKind::Device] = 0;
  dividePorts(first, second);
  std::vector<Command> step = {test::fill(loss), test::fill(norm), schedule(1)};
  sum(step, loss);
  sum(step, norm);
  std::vector<Command> eval = {test::fill(loss), test::send(1, ids)};
  sum(eval, loss);
  first.sequences = {{"train", 0, 0, 0, step},
                     {"forward", 0, 0, 0, {test::send(1, own), test::flush(0)}},
                     {"eval", 0, 0, 0, eval},
                     {"generate", 0, 0, 0, {test::send(1, ids)}}};

  // The loop over micro-batches becomes the fragments, with its arguments.
  step = single[0].commands;
  Command backward = schedule(1);
  static_cast<command::Entry &>(*backward.as<command::Fragments>()) =
      *step[2].as<command::Loop>();
  step[2] = backward;
  sum(step, loss);
  sum(step, norm);
  Sequence forward = single[1];
  Ref argument = at(Space::Arg, 0, tokens * 4);
  forward.commands.insert(forward.commands.begin(),
                          test::receive(-1, argument));
  eval = single[2].commands;
  eval.insert(eval.begin(), test::receive(-1, ids));
  sum(eval, loss);
  std::vector<Command> generate = single[3].commands;
  generate.insert(generate.begin(), test::receive(-1, ids));
  second.sequences = {{"train", 0, 0, 0, step},
                      forward,
                      {"eval", 0, 0, 0, eval},
                      {"generate", 0, 0, 0, generate}};
  plan.stages = {first, second};
  plan.selectStage(0);
  return plan;
}
