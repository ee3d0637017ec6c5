//===- Calibration.cpp - Moments of products on a text --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Quantize/Calibration.h"
#include "heddle/runtime/app/ServedMemory.h"
#include "heddle/runtime/app/StateTensors.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/comm/Launcher.h"
#include "heddle/runtime/comm/World.h"
#include "heddle/runtime/core/WeightSlices.h"
#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::quantize;
using plan::PortRole;
using rt::LoadedProgram;

static rt::JobOptions optionsFor(const std::string &binary) {
  rt::JobOptions options;
  options.binary = binary;
  // Do not write a cache of weights in the layout of kernels, because no other
  // run would use it.
  options.weightCache = "none";
  return options;
}

Calibration::Calibration(const std::string &binary, const CalibrationText &text)
    : ranks(std::make_unique<rt::World>(rt::Launch(),
                                        rt::openTransport(rt::Launch()))),
      job(optionsFor(binary), ranks),
      rowsOfRun(rt::batchOf(job.plan(), plan::ProgramKind::Eval).rows),
      feed(text.file, rt::batchOf(job.plan(), plan::ProgramKind::Eval)) {
  runs = std::min(feed.batches(), text.rows / rowsOfRun);
  hidden.resize(runs);
  while (const LoadedProgram *program =
             find("layer/" + std::to_string(layerPrograms.size())))
    layerPrograms.push_back(program);
  rt::loadWeights(job, optionsFor(binary));
}

const LoadedProgram *Calibration::find(const std::string &name) {
  for (const LoadedProgram &program : job.session().allPrograms())
    if (program.program().name == name)
      return &program;
  return nullptr;
}

/// Fills the program's inputs with the batch of rows that has the index `run`:
/// the hidden states of these rows, and other inputs such as positions.
void Calibration::fillInputs(const LoadedProgram &program, int64_t run) {
  rt::Session &session = job.session();
  if (const rt::Value *port = program.input(PortRole::Hidden)) {
    std::copy(hidden[run].begin(), hidden[run].end(), session.at<float>(*port));
    session.store(*port);
  }
  rt::BatchInputs(session, program).read(feed, run * rowsOfRun);
}

const LoadedProgram *Calibration::findStage(int64_t layer, int64_t stage) {
  return find("inputs/" + std::to_string(layer) + "/" + std::to_string(stage));
}

int64_t Calibration::stages() {
  int64_t count = 0;
  while (findStage(layer, count))
    ++count;
  return count;
}

std::string Calibration::memoryText() {
  int64_t states = 0, moments = 0;
  for (const LoadedProgram *program : layerPrograms)
    states = std::max(
        states,
        rt::requireOutput(*program, PortRole::Hidden).numElements() * runs);
  for (int64_t each = 0; each < layers(); ++each)
    for (int64_t stage = 0;
         const LoadedProgram *program = findStage(each, stage); ++stage) {
      int64_t sums = 0;
      for (size_t i = 0; i < program->program().outputs.size(); ++i)
        sums += program->output(i).numElements();
      moments = std::max(moments, sums);
    }
  return rt::textOfRegions(
      {{"hidden states", states * int64_t(sizeof(float))},
       {"moments", moments * int64_t(sizeof(Moments::value_type))}});
}

std::map<std::string, Moments> Calibration::moments(int64_t stage) {
  std::map<std::string, Moments> result;
  const LoadedProgram *program = findStage(layer, stage);
  const std::vector<plan::Port> &ports = program->program().outputs;
  for (int64_t run = 0; run < runs; ++run) {
    fillInputs(*program, run);
    job.session().run(*program);
    for (size_t i = 0; i < ports.size(); ++i) {
      const rt::Value &port = program->output(i);
      Moments &sums =
          result[ports[i].name.substr(std::string("value.").size())];
      sums.resize(port.numElements());
      const float *values = job.session().load<float>(port);
      for (size_t j = 0; j < sums.size(); ++j)
        sums[j] += values[j];
    }
  }
  for (const auto &[name, sums] : result)
    if (!std::all_of(sums.begin(), sums.end(),
                     [](double sum) { return std::isfinite(sum); }))
      fail("H0154", "what " + name + " multiplies is infinite or no number",
           "see with eval that the model computes this text; or round to the "
           "nearest: --method rtn");
  return result;
}

void Calibration::advance() {
  const LoadedProgram &program = *layerPrograms[layer++];
  for (int64_t run = 0; run < runs; ++run) {
    fillInputs(program, run);
    job.session().run(program);
    const rt::Value &port = rt::requireOutput(program, PortRole::Hidden);
    const float *values = job.session().load<float>(port);
    hidden[run].assign(values, values + port.numElements());
  }
}

void Calibration::replace(const std::string &tensor,
                          const std::vector<float> &values) {
  rt::Session &session = job.session();
  const std::vector<plan::State> &states = job.plan().states;
  for (size_t index = 0; index < states.size(); ++index) {
    if (states[index].role != plan::StateRole::Parameter)
      continue;
    std::vector<plan::WeightSlice> pieces =
        rt::sourcesOf(job.plan(), states[index]);
    auto isOf = [&](const plan::WeightSlice &piece) {
      return piece.tensor == tensor;
    };
    if (std::none_of(pieces.begin(), pieces.end(), isOf))
      continue;
    const rt::Value &value = session.state(index);
    float *to = session.at<float>(value);
    rt::forEachRun(pieces, 0, value.numElements(),
                   [&](const rt::WeightRange &run) {
                     for (int64_t i = 0; isOf(*run.piece) && i < run.count; ++i)
                       to[run.state + i] = values[run.tensor + i * run.stride];
                   });
    session.store(value);
  }
}

double Calibration::perplexity(const CalibrationText &text) {
  return std::exp(
      rt::Evaluation(job, text.file, text.rows / rowsOfRun, {}).meanLoss());
}
