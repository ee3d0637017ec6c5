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

[[noreturn]] static void missingPort(const LoadedProgram &program,
                                     const std::string &name) {
  fail("H0385",
       "the plan is malformed: its " + program.program().kind +
           " program has no port '" + name + "'",
       "compile the binary again");
}

const Value &heddle::rt::requireInput(const LoadedProgram &program,
                                      const char *name) {
  if (const Value *port = program.input(name))
    return *port;
  missingPort(program, name);
}

const Value &heddle::rt::requireOutput(const LoadedProgram &program,
                                       const char *name) {
  if (const Value *port = program.output(name))
    return *port;
  missingPort(program, name);
}

BatchShape heddle::rt::batchOf(const plan::Plan &plan,
                               const LoadedProgram &program) {
  const Value &ids = requireInput(program, "ids");
  if (ids.shape.empty() || ids.type != plan::DType::I32 || ids.data == nullptr)
    missingPort(program, "ids");
  BatchShape shape;
  shape.seq = ids.shape.back();
  shape.rows = ids.numElements() / std::max<int64_t>(1, shape.seq);
  shape.vocab = plan.vocabSize;
  return shape;
}

TrainSteps::TrainSteps(Job &job, uint64_t seed)
    : job(job), source(job.program("train")),
      shape(batchOf(job.plan(), source)),
      schedule(job.plan().scheduler, job.plan().optimizer.lr), seed(seed),
      idsPort(requireInput(source, "ids")),
      labelsPort(requireInput(source, "labels")),
      lossPort(requireOutput(source, "loss")),
      normPort(source.output("grad_norm")) {
  if (labelsPort.numElements() != idsPort.numElements())
    missingPort(source, "labels");
}

void TrainSteps::run(int64_t index, LaunchTime *times) {
  const plan::Optimizer &optimizer = job.plan().optimizer;
  if (const Value *rng = source.input("rng")) {
    auto *words = rng->as<uint32_t>();
    words[0] = uint32_t(seed);
    words[1] = uint32_t(seed >> 32);
    words[2] = uint32_t(index);
    words[3] = 0;
  }
  source.setScalar("lr", schedule.rate(index + 1));
  source.setScalar("bias_correction1",
                   biasCorrection(optimizer.beta1, index + 1));
  source.setScalar("bias_correction2",
                   biasCorrection(optimizer.beta2, index + 1));
  job.session().run(source, times);
  if (!std::isfinite(loss()))
    fail("H0410",
         "the loss of step " + std::to_string(index + 1) + " is not finite",
         "lower the learning rate, lengthen the warm-up, or clip gradients "
         "(\"gradient_clipping\": 1.0)");
}

/// The batch that counts data: the plan's own when the program's divides it.
static BatchShape wholeBatch(const plan::Plan &plan, BatchShape part) {
  if (plan.batch > 0 && plan.batch % part.rows == 0)
    part.rows = plan.batch;
  return part;
}

Evaluation::Evaluation(Job &job, const std::string &file, int64_t steps)
    : job(job), program(job.program("eval")),
      part(batchOf(job.plan(), program)),
      feed(file, wholeBatch(job.plan(), part)) {
  requireInput(program, "labels");
  requireOutput(program, "loss");
  int64_t batches = feed.batches();
  if (steps > 0)
    batches = std::min(batches, steps);
  runs = batches * (wholeBatch(job.plan(), part).rows / part.rows);
}

double Evaluation::meanLoss() {
  const Value &ids = requireInput(program, "ids");
  const Value &labels = requireInput(program, "labels");
  const Value &loss = requireOutput(program, "loss");
  double sum = 0;
  for (int64_t run = 0; run < runs; ++run) {
    feed.read(run * part.rows, part.rows, ids.as<int32_t>(),
              labels.as<int32_t>());
    job.session().run(program);
    sum += *loss.as<float>();
  }
  return sum / double(runs);
}

int64_t Evaluation::tokens() const { return runs * part.rows * part.seq; }
