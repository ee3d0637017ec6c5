//===- Steps.cpp - Runs of a plan's step programs -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

[[noreturn]] static void missingPort(const plan::Program &program,
                                     const std::string &name) {
  fail("H0385",
       "the plan is malformed: its " + program.kind + " program has no port '" +
           name + "'",
       "compile the binary again");
}

const Value &heddle::rt::requireOutput(const LoadedProgram &program,
                                       const char *name) {
  if (const Value *port = program.output(name))
    return *port;
  missingPort(program.program(), name);
}

Part heddle::rt::partOf(const Session &session, const plan::Port &port) {
  return Part(port.placement, port.shape, session.plan().mesh, session.rank());
}

BatchShape heddle::rt::batchOf(const plan::Plan &plan,
                               const std::string &kind) {
  for (const plan::Program &program : plan.stages.front().programs) {
    if (program.kind != kind)
      continue;
    for (const plan::Port &port : program.inputs) {
      const std::vector<int64_t> &whole =
          port.placement.whole.empty() ? port.shape : port.placement.whole;
      if (port.name != "ids" || whole.empty() || whole.back() < 1)
        continue;
      BatchShape shape;
      shape.vocab = plan.vocabSize;
      shape.seq = whole.back();
      shape.rows = 1;
      for (size_t i = 0; i + 1 < whole.size(); ++i)
        shape.rows *= whole[i];
      return shape;
    }
    missingPort(program, "ids");
  }
  failNoProgram(plan, kind);
}

TokenInputs::TokenInputs(Session &session, const LoadedProgram &program)
    : session(session) {
  for (const plan::Port &port : program.program().inputs) {
    if (port.name != "ids" && port.name != "labels")
      continue;
    if (port.type != plan::DType::I32)
      missingPort(program.program(), port.name);
    const Value *value = program.input(port.name);
    ports.push_back(
        {port.name == "ids" ? DataFeed::What::Inputs : DataFeed::What::Labels,
         value, session.at<int32_t>(*value), partOf(session, port).runs()});
  }
}

void TokenInputs::read(DataFeed &feed, int64_t first) const {
  for (const Port &port : ports)
    feed.read(first, port.runs, port.what, port.data);
  store();
}

void TokenInputs::store() const {
  for (const Port &port : ports)
    session.store(*port.value);
}

TrainSteps::TrainSteps(Job &job, uint64_t seed)
    : job(job), source(job.program("train")),
      shape(batchOf(job.plan(), "train")),
      schedule(job.plan().scheduler, job.plan().optimizer.lr), seed(seed),
      inputs(job.session(), source), lossPort(requireOutput(source, "loss")),
      normPort(source.output("grad_norm")) {}

void TrainSteps::run(int64_t index, LaunchTime *times) {
  const plan::Optimizer &optimizer = job.plan().optimizer;
  if (const Value *rng = source.input("rng")) {
    auto *words = job.session().at<uint32_t>(*rng);
    words[0] = uint32_t(seed);
    words[1] = uint32_t(seed >> 32);
    words[2] = uint32_t(index);
    words[3] = 0;
    job.session().store(*rng);
  }
  source.setScalar("lr", schedule.rate(index + 1));
  source.setScalar("bias_correction1",
                   biasCorrection(optimizer.beta1, index + 1));
  source.setScalar("bias_correction2",
                   biasCorrection(optimizer.beta2, index + 1));
  job.ranks().beginStep(index + 1);
  job.session().run(source, times);
  // The loss is of all ranks: they all come here, or none does.
  if (!std::isfinite(loss()))
    job.ranks().together([&] {
      fail("H0410",
           "the loss of step " + std::to_string(index + 1) + " is not finite",
           "lower the learning rate, lengthen the warm-up, or clip gradients "
           "(\"gradient_clipping\": 1.0)");
    });
}

/// The batch that counts data: the plan's own when the program's divides it.
static BatchShape wholeBatch(const plan::Plan &plan, BatchShape part) {
  if (plan.batch > 0 && plan.batch % part.rows == 0)
    part.rows = plan.batch;
  return part;
}

Evaluation::Evaluation(Job &job, const std::string &file, int64_t steps)
    : job(job), program(job.program("eval")), part(batchOf(job.plan(), "eval")),
      inputs(job.session(), program), feed(file, wholeBatch(job.plan(), part)) {
  requireOutput(program, "loss");
  int64_t batches = feed.batches();
  if (steps > 0)
    batches = std::min(batches, steps);
  runs = batches * (wholeBatch(job.plan(), part).rows / part.rows);
}

double Evaluation::meanLoss() {
  const Value &loss = requireOutput(program, "loss");
  double sum = 0;
  for (int64_t run = 0; run < runs; ++run) {
    job.ranks().together([&] { inputs.read(feed, run * part.rows); });
    job.session().run(program);
    sum += *job.session().load<float>(loss);
  }
  return sum / double(runs);
}

int64_t Evaluation::tokens() const { return runs * part.rows * part.seq; }
