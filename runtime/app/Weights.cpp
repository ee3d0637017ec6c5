//===- Weights.cpp - Values of a session's states -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/core/Philox.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

using plan::Init;
using plan::State;

static bool isParameter(const State &state) {
  return state.role == "parameter";
}

/// The state of `role` that belongs to `parameter`, or -1.
static int64_t findState(const plan::Plan &plan, const std::string &role,
                         const std::string &parameter) {
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const State &state = plan.states[i];
    bool belongs = isParameter(state) ? state.name == parameter
                                      : state.parameter == parameter;
    if (state.role == role && belongs)
      return i;
  }
  return -1;
}

//===----------------------------------------------------------------------===//
// Random values
//===----------------------------------------------------------------------===//

/// FNV-1a: the number of a random stream is part of what a seed means, so it is
/// fixed here.
static uint32_t streamOf(const std::string &name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 16777619u;
  return hash;
}

void heddle::rt::fillNormal(float *values, int64_t first, int64_t count,
                            uint64_t seed, uint32_t site, double mean,
                            double stddev) {
  constexpr double scale = 1.0 / 4294967296.0;
  for (int64_t i = first; i < first + count;) {
    PhiloxWords words = philox(seed, uint64_t(i) / 4, 0, site);
    double normals[4];
    for (int pair = 0; pair < 2; ++pair) { // Box and Muller.
      double radius = std::sqrt(-2 * std::log((words[2 * pair] + 0.5) * scale));
      double angle = 2 * M_PI * scale * words[2 * pair + 1];
      normals[2 * pair] = radius * std::cos(angle);
      normals[2 * pair + 1] = radius * std::sin(angle);
    }
    for (int64_t word = i % 4; word < 4 && i < first + count; ++word, ++i)
      values[i - first] = float(mean + stddev * normals[word]);
  }
}

void heddle::rt::initialValues(const Init &init, const std::string &name,
                               uint64_t seed, int64_t first, int64_t count,
                               float *values) {
  if (init.kind == Init::Kind::Normal)
    fillNormal(values, first, count, seed, streamOf(name), init.value,
               init.stddev);
  else
    std::fill_n(values, count,
                init.kind == Init::Kind::Constant ? float(init.value) : 0.0f);
}

namespace {
struct RandomWork {
  const State &state;
  float *values;
  uint64_t seed;
};
} // namespace

static void initializeShare(const void *context, int64_t thread,
                            int64_t threads) {
  const auto &work = *static_cast<const RandomWork *>(context);
  int64_t count = work.state.numElements();
  int64_t share = (count + threads - 1) / threads;
  int64_t first = std::min(count, thread * share);
  initialValues(work.state.init, work.state.name, work.seed, first,
                std::min(count - first, share), work.values + first);
}

/// Gives one state the value that its init says.
static void initialize(Job &job, size_t index) {
  const State &state = job.plan().states[index];
  const Value &value = job.session().state(index);
  std::vector<float> wide;
  float *target = value.as<float>();
  if (state.type != plan::DType::F32) {
    wide.resize(state.numElements());
    target = wide.data();
  }
  RandomWork work = {state, target, job.plan().weights.seed};
  job.device().threadPool().run(initializeShare, &work);
  if (!wide.empty() &&
      !io::convertElements(target, "F32", value.data,
                           plan::dtypeName(state.type), wide.size()))
    fail("H0385",
         "state '" + state.name +
             "' has a first value but its type "
             "holds none",
         "compile the binary again");
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

const io::TensorInfo &heddle::rt::findTensor(const io::WeightSet &weights,
                                             const std::string &name) {
  if (const io::TensorInfo *found = weights.find(name))
    return *found;
  size_t dot = name.find('.');
  if (dot != std::string::npos)
    if (const io::TensorInfo *found = weights.find(name.substr(dot + 1)))
      return *found;
  for (const io::TensorInfo &tensor : weights.tensors()) {
    size_t prefix = tensor.name.find('.');
    if (prefix != std::string::npos &&
        tensor.name.compare(prefix + 1, std::string::npos, name) == 0)
      return tensor;
  }
  return weights.at(name);
}

static void readTensor(const io::WeightSet &weights,
                       const io::TensorInfo &tensor, const Value &value,
                       const std::string &name) {
  if (tensor.shape != value.shape)
    fail("H0387",
         "tensor '" + tensor.name + "' in " + tensor.file + " has shape " +
             io::shapeToString(tensor.shape) + ", the plan needs " +
             io::shapeToString(value.shape) + " for " + name,
         "use weights of the model that was compiled, or compile again for "
         "these");
  weights.read(tensor, plan::dtypeName(value.type), value.data);
}

static void readParameters(Job &job, const io::WeightSet &weights) {
  const plan::Plan &plan = job.plan();
  for (size_t i = 0; i < plan.states.size(); ++i)
    if (isParameter(plan.states[i]))
      readTensor(weights, findTensor(weights, plan.states[i].sourceName),
                 job.session().state(i), plan.states[i].name);
}

/// Rounds the parameters to the narrower copies that the kernels compute with.
static void fillComputeCopies(Job &job) {
  const plan::Plan &plan = job.plan();
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const State &state = plan.states[i];
    if (state.role != "compute-copy")
      continue;
    int64_t source = findState(plan, "parameter", state.parameter);
    if (source < 0 ||
        plan.states[source].numElements() != state.numElements() ||
        !io::convertElements(job.session().state(source).data,
                             plan::dtypeName(plan.states[source].type),
                             job.session().state(i).data,
                             plan::dtypeName(state.type), state.numElements()))
      fail("H0385",
           "the plan's compute copy '" + state.name + "' fits no parameter",
           "compile the binary again");
  }
}

static io::WeightSet openPlanWeights(const plan::Plan &plan) {
  const plan::Weights &expected = plan.weights;
  io::WeightSet weights = io::openWeights(expected.directory);
  if (!expected.headerHash.empty() &&
      weights.headerHash() != expected.headerHash)
    fail("H0386",
         "the weights in " + expected.directory +
             " are not those that this binary was compiled with",
         "name the weights to use: --weights " + expected.directory);
  return weights;
}

void heddle::rt::loadWeights(Job &job, const JobOptions &options) {
  const plan::Plan &plan = job.plan();
  bool random = options.weights.empty() && plan.weights.random;
  if (!options.weights.empty())
    readParameters(job, io::openWeights(options.weights));
  else if (!random)
    readParameters(job, openPlanWeights(plan));
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const State &state = plan.states[i];
    bool isSet =
        isParameter(state) ? !random : state.init.kind == Init::Kind::Zeros;
    if (!isSet && state.role != "compute-copy")
      initialize(job, i);
  }
  fillComputeCopies(job);
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

/// The name of a state's tensor in a checkpoint.
static std::string checkpointName(const plan::Plan &plan, const State &state) {
  if (isParameter(state))
    return state.sourceName;
  int64_t parameter = findState(plan, "parameter", state.parameter);
  return state.role + "." +
         (parameter < 0 ? state.name : plan.states[parameter].sourceName);
}

io::CheckpointState heddle::rt::resumeFrom(Job &job,
                                           const std::string &directory) {
  io::Checkpoint checkpoint = io::openCheckpoint(directory);
  readParameters(job, checkpoint.model);
  const plan::Plan &plan = job.plan();
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const State &state = plan.states[i];
    if (isParameter(state) || !state.checkpointed)
      continue;
    readTensor(checkpoint.optimizer,
               checkpoint.optimizer.at(checkpointName(plan, state)),
               job.session().state(i), state.name);
  }
  fillComputeCopies(job);
  return checkpoint.state;
}

io::CheckpointContents
heddle::rt::describeCheckpoint(const Session &session,
                               const io::CheckpointState &state) {
  const plan::Plan &plan = session.plan();
  io::CheckpointContents contents;
  contents.config = plan.modelConfig;
  contents.state = state;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const State &source = plan.states[i];
    if (!isParameter(source) && !source.checkpointed)
      continue;
    io::TensorToWrite tensor;
    tensor.name = checkpointName(plan, source);
    tensor.dtype = plan::dtypeName(source.type);
    tensor.shape = source.shape;
    tensor.data = session.state(i).data;
    (isParameter(source) ? contents.model : contents.optimizer)
        .push_back(std::move(tensor));
  }
  return contents;
}
