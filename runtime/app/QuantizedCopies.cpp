//===- QuantizedCopies.cpp - Weights quantized in training ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QuantizedCopies.h"
#include "heddle/runtime/app/InitialValues.h"
#include "heddle/runtime/app/StateTensors.h"
#include "heddle/runtime/core/FakeQuantize.h"
#include "heddle/runtime/core/UploadRing.h"

using namespace heddle;
using namespace heddle::rt;

static float numberIn(Session &session, const std::string &name) {
  const Value *value = session.state(name);
  if (!value)
    fail("H0385", "the plan has no state '" + name + "'",
         "compile the binary again");
  return *session.load<float>(*value);
}

/// Reads or generates a whole weight.
static std::vector<float> wholeWeight(const plan::Plan &plan,
                                      const plan::State &copy,
                                      const std::vector<int64_t> &shape,
                                      const io::WeightSet *weights) {
  std::vector<float> values(shape.at(0) * shape.at(1));
  auto count = int64_t(values.size());
  if (weights) {
    SourceReader reader(*weights, sourcesOf(plan, copy), copy.name);
    reader.requireConvertible("F32");
    if (int64_t bad = reader.read(0, count, "F32", values.data()); bad >= 0)
      reader.failNonFinite("F32", bad);
    return values;
  }
  const plan::State *parameter = findParameter(plan, copy);
  if (!parameter)
    fail("H0385",
         "the plan's derived state '" + copy.name + "' is of no parameter",
         "compile the binary again");
  initialValues(parameter->init, parameter->name, shape, plan.weights.seed, 0,
                count, values.data());
  return values;
}

/// Stores the rank's shard of a copy.
static void store(Job &job, size_t index, const std::vector<float> &whole) {
  Session &session = job.session();
  const Value &value = session.state(index);
  if (value.numBytes() == 0)
    return;
  const plan::DType type = job.plan().states[index].type;
  const std::string name = plan::nameOf(type);
  int64_t width = plan::byteSize(type);
  auto fill = [&](const std::vector<ElementRange> &runs, char *target) {
    for (const ElementRange &run : runs)
      io::convertElements(whole.data() + run.whole, "F32",
                          target + run.local * width, name, run.count);
  };
  std::vector<ElementRange> runs = session.shard(index).runs();
  if (char *seen = session.runsOn().map(value.address))
    return fill(runs, seen);
  UploadRing ring(session.runsOn(), value.numBytes());
  forEachPiece(runs, ring.slotBytes() / width,
               [&](const std::vector<ElementRange> &piece, int64_t count,
                   int64_t first) {
                 fill(piece, ring.next());
                 ring.send(value.address + first * width, count * width);
               });
  ring.finish();
}

void heddle::rt::makeQuantizedCopies(Job &job, const io::WeightSet *weights) {
  const plan::Plan &plan = job.plan();
  if (job.isFirst())
    for (const std::string &line : quantizationLines(plan))
      fprintf(stderr, "%squantizes %s\n", job.prefix(), line.c_str());
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::State &state = plan.states[i];
    if (state.quantizer.empty())
      continue;
    const plan::Quantizer &quantizer = state.quantizer[0];
    Session &session = job.session();
    std::string bits =
        plan::quantizationState(plan::quantizationBitsState, quantizer.group);
    const std::vector<int64_t> shape = session.shard(i).wholeShape();
    std::vector<float> values = wholeWeight(plan, state, shape, weights);
    fakeQuantize(values.data(), shape, quantizer, int(numberIn(session, bits)),
                 numberIn(session, plan::quantizationRatioState));
    store(job, i, values);
  }
}

std::map<std::string, const Value *>
heddle::rt::quantizedBits(const Session &session) {
  std::map<std::string, const Value *> bits;
  const std::string prefix = std::string(plan::quantizationBitsState) + ".";
  for (const plan::State &state : session.plan().states)
    if (state.name.rfind(prefix, 0) == 0 && state.parameter.empty())
      bits[state.name.substr(prefix.size())] = session.state(state.name);
  return bits;
}

std::optional<size_t>
heddle::rt::quantizedCopyOf(const plan::Stage &stage,
                            const plan::State &parameter) {
  for (size_t i = 0; i < stage.states.size(); ++i)
    if (stage.states[i].parameter == parameter.name &&
        !stage.states[i].quantizer.empty())
      return i;
  return std::nullopt;
}

/// The groups of modules in the plan's settings: their names, and the rest of
/// the text that describes them.
static std::vector<std::pair<std::string, std::string>>
groupsIn(const plan::Plan &plan) {
  std::vector<std::pair<std::string, std::string>> groups;
  const auto settings =
      plan.strategy.value("settings", nlohmann::json::object());
  if (settings.contains("moq"))
    for (const nlohmann::json &group : settings.at("moq")) {
      auto text = group.get<std::string>();
      size_t space = std::min(text.find(' '), text.size() - 1);
      groups.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
  return groups;
}

/// The names of the weights that a group takes, over all stages.
static std::set<std::string> weightsOf(const plan::Plan &plan,
                                       const std::string &group) {
  std::set<std::string> names;
  auto add = [&](const plan::Stage &stage) {
    for (const plan::State &state : stage.states)
      if (!state.quantizer.empty() && state.quantizer[0].group == group)
        names.insert(state.parameter);
  };
  add(plan);
  for (const plan::Stage &stage : plan.stages)
    add(stage);
  return names;
}

nlohmann::ordered_json
heddle::rt::describeQuantization(const plan::Plan &plan) {
  nlohmann::ordered_json groups;
  for (const auto &[name, settings] : groupsIn(plan))
    groups[name] = {{"settings", settings}, {"weights", weightsOf(plan, name)}};
  return groups;
}

std::vector<std::string> heddle::rt::quantizationLines(const plan::Plan &plan) {
  std::vector<std::string> lines;
  for (const auto &[name, settings] : groupsIn(plan)) {
    std::set<std::string> weights = weightsOf(plan, name);
    std::string first = weights.empty() ? "" : ", as " + *weights.begin();
    lines.push_back(name + ": " + settings + " (" +
                    std::to_string(weights.size()) + " weights" + first + ")");
  }
  return lines;
}
