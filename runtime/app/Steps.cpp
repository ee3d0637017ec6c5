//===- Steps.cpp - Run the step programs of a plan ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs and results of training steps and evaluations.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Steps.h"
#include "OverflowModule.h"
#include "QuantizedCopies.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>

using namespace heddle;
using namespace heddle::rt;

[[noreturn]] static void missingPort(const plan::Program &program,
                                     plan::PortRole role) {
  fail("H0385",
       std::string("the plan is malformed: its ") + plan::nameOf(program.kind) +
           " program has no port '" + plan::nameOf(role) + "'",
       "compile the binary again");
}

const Value &heddle::rt::requireOutput(const LoadedProgram &program,
                                       plan::PortRole role) {
  if (const Value *port = program.output(role))
    return *port;
  missingPort(program.program(), role);
}

RankShard heddle::rt::partOf(const Session &session, const plan::Port &port) {
  return RankShard(port.placement, port.shape, session.plan().mesh,
                   session.rank());
}

static const std::vector<int64_t> &wholeShape(const plan::Port &port) {
  return port.placement.whole.empty() ? port.shape : port.placement.whole;
}

BatchShape heddle::rt::batchOf(const plan::Plan &plan, plan::ProgramKind kind) {
  for (const plan::Program &program : plan.stages.front().programs) {
    if (program.kind != kind)
      continue;
    for (const plan::Port &port : program.inputs) {
      const std::vector<int64_t> &whole = wholeShape(port);
      if (port.role != plan::PortRole::Ids || whole.empty() || whole.back() < 1)
        continue;
      BatchShape shape;
      shape.vocab = plan.vocabSize;
      shape.seq = whole.back();
      shape.rows = 1;
      for (size_t i = 0; i + 1 < whole.size(); ++i)
        shape.rows *= whole[i];
      return shape;
    }
    missingPort(program, plan::PortRole::Ids);
  }
  failNoProgram(plan, kind);
}

BatchInputs::BatchInputs(Session &session, const LoadedProgram &program,
                         const Staging *staging)
    : session(session), program(program), staging(staging),
      seq(batchOf(session.plan(), program.program().kind).seq) {
  const std::vector<plan::Port> &inputs = program.program().inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::Port &port = inputs[i];
    if (!plan::isOfBatch(port.role))
      continue;
    bool isFloat = port.role == plan::PortRole::LabelWeights;
    if (port.type != (isFloat ? plan::DType::F32 : plan::DType::I32))
      missingPort(program.program(), port.role);
    ports.push_back({port.role, port.name, &program.input(i),
                     partOf(session, port).runs()});
  }
}

std::optional<DataFeed::What> BatchInputs::tokensOf(plan::PortRole role) {
  if (role == plan::PortRole::Ids)
    return DataFeed::What::Inputs;
  if (role == plan::PortRole::Labels)
    return DataFeed::What::Labels;
  return std::nullopt;
}

void BatchInputs::fillPlain(const Port &port) const {
  switch (port.role) {
  case plan::PortRole::LabelWeights:
    return write<float>(port, [](int64_t) { return 1.0f; });
  case plan::PortRole::Positions:
    return write<int32_t>(port, [&](int64_t i) { return int32_t(i % seq); });
  case plan::PortRole::Lengths:
    return write<int32_t>(port, [&](int64_t) { return int32_t(seq); });
  default: // Segments default to 0.
    return write<int32_t>(port, [](int64_t) { return 0; });
  }
}

void BatchInputs::mask(const Port &port, DataFeed::What what,
                       const Masking &masking,
                       const MaskPosition &begin) const {
  auto *tokens = at<int32_t>(port);
  MaskPosition place = begin;
  for (const ElementRange &run : port.runs)
    for (int64_t i = 0; i < run.count; ++i) {
      place.index = begin.index + uint64_t(run.whole + i);
      int32_t &token = tokens[run.local + i];
      token = masking.at(place, token, what);
    }
}

/// Replaces the labels of rows after the first `rows` by "no label".
void BatchInputs::dropLabels(const Port &port, int64_t rows) const {
  if (port.role != plan::PortRole::Labels || rows == allRows)
    return;
  auto *labels = at<int32_t>(port);
  for (const ElementRange &run : port.runs)
    for (int64_t i = 0; i < run.count; ++i)
      if ((run.whole + i) / seq >= rows)
        labels[run.local + i] = noLabel;
}

void BatchInputs::read(DataFeed &feed, int64_t first, const Masking *masking,
                       const MaskPosition &begin, int64_t rows) const {
  session.settle(program);
  for (const Port &port : ports) {
    std::optional<DataFeed::What> what = tokensOf(port.role);
    if (!what) {
      fillPlain(port);
      continue;
    }
    // With masking, the label is the input token at the same position, not the
    // next token as in causal models. So read the inputs for the labels too.
    feed.read(first, port.runs, masking ? DataFeed::What::Inputs : *what,
              at<int32_t>(port));
    if (masking)
      mask(port, *what, *masking, begin);
    dropLabels(port, rows);
  }
  store();
}

void BatchInputs::read(const InputFile &file, int64_t first,
                       int64_t rows) const {
  session.settle(program);
  for (const Port &port : ports) {
    if (port.role == plan::PortRole::LabelWeights)
      file.read(port.name, first, port.runs, at<float>(port));
    else
      file.read(port.name, first, port.runs, at<int32_t>(port));
    dropLabels(port, rows);
  }
  store();
}

void BatchInputs::store() const {
  for (const Port &port : ports)
    if (staging)
      staging->store(*port.value);
    else
      session.store(*port.value);
}

/// Returns the values that are not null: those that the host reads after each
/// step.
static std::vector<const Value *>
existing(std::initializer_list<const Value *> values) {
  std::vector<const Value *> found;
  std::copy_if(values.begin(), values.end(), std::back_inserter(found),
               [](const Value *value) { return value != nullptr; });
  return found;
}

/// Returns the norm to which gradients are clipped; the largest float if they
/// are not clipped.
static float limitOf(const plan::Optimizer &optimizer) {
  return optimizer.gradientClipping > 0 ? float(optimizer.gradientClipping)
                                        : std::numeric_limits<float>::max();
}

/// Returns the states that the host reads after each step. The state
/// `nonfinite` is among them only if there is a loss scale: without one, the
/// loss and the norm say what the state is.
static std::vector<const Value *> statesToRead(const Session &session) {
  const Value *scale = session.state(plan::lossScaleState);
  std::vector<const Value *> values =
      existing({session.state(plan::updatesState), scale,
                scale ? session.state(plan::nonfiniteState) : nullptr});
  for (const auto &[group, bits] : quantizedBits(session))
    values.push_back(bits);
  return values;
}

static std::vector<const Value *>
joined(std::vector<const Value *> values,
       const std::vector<const Value *> &more) {
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

TrainProgram::TrainProgram(Job &job, const LoadedProgram &source,
                           const Value *searched)
    : source(source), loss(requireOutput(source, plan::PortRole::Loss)),
      norm(source.output(plan::PortRole::GradNorm)),
      labels(source.output(plan::PortRole::LossWeight)),
      rate(source.output(plan::PortRole::TakenRate)),
      staging(job.session(), source,
              joined(existing({&loss, norm, labels, rate, searched}),
                     statesToRead(job.session()))),
      inputs(job.session(), source, &staging) {}

TrainSteps::TrainSteps(Job &job, const Options &options)
    : job(job), shape(batchOf(job.plan(), plan::ProgramKind::Train)),
      learningRate(options.hyper.scheduler, options.hyper.optimizer.lr),
      weightDecay(float(options.hyper.optimizer.weightDecay)),
      maxNorm(limitOf(options.hyper.optimizer)), seed(options.seed),
      nonfinite(job.session().state(plan::nonfiniteState)),
      updates(job.session().state(plan::updatesState)),
      lossScale(job.session().state(plan::lossScaleState)),
      quantized(quantizedBits(job.session())), layerFlops(sumLayerFlops()),
      onlyLastPhase(options.onlyLastPhase), known(options.updates),
      skipsNonfinite(options.skipsNonfinite), following(options.steps),
      ahead(job.device().runsAhead()) {
  if (lossScale)
    overflow = std::make_unique<OverflowSearch>(job);
  const Value *searched = overflow ? overflow->result() : nullptr;
  for (const plan::Program *program : job.plan().trainPrograms()) {
    programs.emplace_back(job, job.session().loaded(*program), searched);
    phases.push_back(program->phase);
  }
  if (lossScale)
    scale = *job.session().load<float>(*lossScale);
  if (!updates)
    return;
  *job.session().at<double>(*updates) = double(known.updates());
  job.session().store(*updates);
}

TrainSteps::~TrainSteps() = default;

std::vector<const LoadedProgram *> TrainSteps::allPrograms() const {
  std::vector<const LoadedProgram *> all;
  for (const TrainProgram &program : programs)
    all.push_back(&program.source);
  return all;
}

void TrainSteps::give(TrainProgram &program, const char *name, float number) {
  const std::vector<plan::Port> &inputs = program.source.program().inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].role == plan::PortRole::Value && inputs[i].name == name) {
      *program.staging.at<float>(program.source.input(i)) = number;
      program.staging.store(program.source.input(i));
    }
}

/// Adds up the FLOPs of each layer over the ranks, because each rank of a
/// pipeline knows those of its own layers only.
std::vector<double> TrainSteps::sumLayerFlops() const {
  const std::vector<plan::Condition> &conditions = job.plan().conditions;
  std::vector<double> sums(conditions.size());
  if (conditions.empty())
    return sums;
  std::ostringstream own;
  for (const plan::Condition &condition : conditions)
    own << condition.flops << ' ';
  for (const std::string &text : job.ranks().exchange(own.str())) {
    std::istringstream words(text);
    for (double &sum : sums) {
      double flops = 0;
      words >> flops;
      sum += flops;
    }
  }
  return sums;
}

/// Draws which layers step `index` keeps, and writes the factors of their
/// branches: 1 / p for a layer that is kept with probability p.
Outcomes TrainSteps::drawLayers(TrainProgram &program, int64_t index) {
  const std::vector<plan::Condition> &conditions = job.plan().conditions;
  const Value *scales = program.source.input(plan::PortRole::LayerScales);
  Outcomes kept;
  float *factors = scales ? program.staging.at<float>(*scales) : nullptr;
  int64_t stride =
      scales ? scales->numElements() / int64_t(conditions.size()) : 0;
  for (const plan::Condition &condition : conditions) {
    kept.push_back(condition.holds(seed, index));
    if (factors)
      factors[stride * int64_t(kept.size() - 1)] =
          float(1 / condition.keepProbability(index));
  }
  if (scales)
    program.staging.store(*scales);
  return kept;
}

/// Writes the learning rates of all updates that the next step may make: if
/// pending steps are skipped, it is an earlier update. Returns the rates.
std::vector<double> TrainSteps::giveRates(TrainProgram &program) {
  const Value *port = program.source.input(plan::PortRole::LearningRate);
  std::vector<double> rates =
      learningRate.next(known.updates(), port ? port->numElements() : 1);
  if (port) {
    std::copy(rates.begin(), rates.end(), program.staging.at<float>(*port));
    program.staging.store(*port);
  }
  return rates;
}

void TrainSteps::submit(int64_t index, LaunchTime *times) {
  size_t phase = phaseAt(index);
  TrainProgram &program = programs[phase];
  const LoadedProgram &source = program.source;
  Staging &staging = program.staging;
  if (const Value *rng = source.input(plan::PortRole::Rng)) {
    auto *words = staging.at<uint32_t>(*rng);
    words[0] = uint32_t(seed);
    words[1] = uint32_t(seed >> 32);
    words[2] = uint32_t(index);
    words[3] = 0;
    staging.store(*rng);
  }
  std::vector<double> rates = giveRates(program);
  give(program, plan::weightDecayPort, weightDecay);
  give(program, plan::maxNormPort, maxNorm);
  Outcomes kept = drawLayers(program, index);
  job.ranks().beginStep(index + 1);
  int64_t run = staging.run(kept, times, [&] {
    if (overflow)
      overflow->submit(program.norm);
  });
  submitted.push_back({phase, run, index, std::move(rates), std::move(kept)});
  following = index + 1;
}

/// The largest number of successive steps that are skipped because their loss
/// or gradient norm is not finite.
constexpr int64_t mostNonfinite = 10;

bool TrainSteps::maySkip() const {
  return skipsNonfinite && nonfinite && !lossScale &&
         nonfiniteInRow <= mostNonfinite;
}

/// Drops the pending steps after a step whose loss or gradient norm was not
/// finite. The device has skipped their updates, because that step set the
/// state `nonfinite` to 1. Resets `nonfinite` to 0, so that later steps update
/// the states again.
void TrainSteps::forgetPending() {
  submitted.clear();
  if (!nonfinite)
    return;
  job.device().synchronize();
  *job.session().at<float>(*nonfinite) = 0;
  job.session().store(*nonfinite);
}

std::optional<KeptLayers> TrainSteps::describe(const Submitted &step) const {
  if (step.kept.empty())
    return std::nullopt;
  KeptLayers kept;
  for (size_t layer = 0; layer < step.kept.size(); ++layer)
    if (step.kept[layer])
      kept.layers.push_back(int64_t(layer));
    else
      kept.droppedFlops += layerFlops[layer];
  const plan::Condition &last = job.plan().conditions.back();
  if (last.progress)
    kept.theta = last.progress->at(step.index);
  return kept;
}

StepResult TrainSteps::finish() {
  Submitted step = std::move(submitted.front());
  submitted.pop_front();
  TrainProgram &program = programs[step.phase];
  auto read = [&](const Value *port, float none) {
    return port ? *program.staging.result<float>(*port, step.run) : none;
  };
  StepResult result;
  result.index = step.index;
  result.phase = phases[step.phase].name;
  result.loss = read(&program.loss, 0);
  result.gradNorm = read(program.norm, 0);
  result.hasLabels = read(program.labels, 1) > 0;
  // The device returns an f32. Report the rate as the schedule computes it.
  double rate = step.rates[known.updates() % int64_t(step.rates.size())];
  float taken = read(program.rate, float(rate));
  result.learningRate = taken == float(rate) ? rate : taken;
  result.kept = describe(step);
  result.isFinite =
      std::isfinite(result.loss) && std::isfinite(result.gradNorm);
  int64_t before = known.updates();
  int64_t now =
      updates ? int64_t(*program.staging.result<double>(*updates, step.run))
              : before + (result.isFinite ? 1 : 0);
  result.isSkipped = now == before;
  for (const auto &[group, bits] : quantized)
    result.bits[group] =
        int64_t(*program.staging.result<float>(*bits, step.run));
  nonfiniteInRow = result.isFinite ? 0 : nonfiniteInRow + 1;
  if (lossScale) {
    result.lossScale = scale;
    result.gradNorm /= scale;
    scale = *program.staging.result<float>(*lossScale, step.run);
    result.isScaleUsedUp = !result.isFinite && *program.staging.result<float>(
                                                   *nonfinite, step.run) != 0;
    if (!result.isFinite) {
      const Value *searched = overflow->result();
      result.overflowModule = overflow->find(
          searched ? *program.staging.result<int32_t>(*searched, step.run) : 0);
    }
  }
  // With a loss scale, the steps after an overflow are as they would be, unless
  // the scale can fall no further.
  if (lossScale ? result.isScaleUsedUp : !result.isFinite) {
    isSound = nonfinite != nullptr;
    forgetPending();
    following = maySkip() ? step.index + 1 : step.index;
  }
  if (following > step.index)
    known.add(now);
  return result;
}

/// Throws the error for a step that overflows with the least loss scale.
void TrainSteps::failScale(const StepResult &result) const {
  char number[32];
  snprintf(number, sizeof(number), "%.9g", *result.lossScale);
  std::string step = "step " + std::to_string(result.index + 1);
  if (job.plan().strategy.at(plan::lossScaleKey).at("value") != "dynamic")
    fail("H0420",
         step + " overflows with the loss scale " + number +
             ", as the steps before it did",
         "compile with a smaller --loss-scale, or with --loss-scale dynamic");
  fail("H0419",
       step + " overflows with the loss scale " + number +
           ", which is the least one",
       "lower the learning rate, lengthen the warm-up, or clip gradients "
       "(\"gradient_clipping\": 1.0); or compile with a smaller "
       "--loss-scale-min");
}

void TrainSteps::requireFinite(const StepResult &result) const {
  if (result.isScaleUsedUp)
    job.ranks().together([&] { failScale(result); });
  if (result.isFinite || lossScale || maySkip())
    return;
  std::string what = std::isfinite(result.loss) ? "gradient norm" : "loss";
  std::string before =
      nonfiniteInRow > mostNonfinite
          ? ", as in the " + std::to_string(mostNonfinite) + " steps before"
          : "";
  // All ranks have the same loss and norm, so either all ranks fail here or
  // none.
  job.ranks().together([&] {
    fail("H0410",
         "the " + what + " of step " + std::to_string(result.index + 1) +
             " is not finite" + before,
         "lower the learning rate, lengthen the warm-up, or clip gradients "
         "(\"gradient_clipping\": 1.0); --on-nonfinite skip goes on without "
         "the updates of such steps");
  });
}

/// Returns the shape of the batch that counts as one step of an evaluation.
/// This is the plan's training batch if that is a multiple of `part`, the batch
/// of one run of the program. Otherwise it is `part`.
static BatchShape wholeBatch(const plan::Plan &plan, BatchShape part) {
  if (plan.batch > 0 && plan.batch % part.rows == 0)
    part.rows = plan.batch;
  return part;
}

Evaluation::Evaluation(Job &job, const std::string &file, int64_t steps,
                       const MaskOptions &mask)
    : job(job), program(job.program(plan::ProgramKind::Eval)),
      part(batchOf(job.plan(), plan::ProgramKind::Eval)),
      inputs(job.session(), program),
      feed(std::make_unique<DataFeed>(
          file, BatchShape{/*rows=*/1, part.seq, part.vocab})),
      masking(Masking::of(job.plan(), mask)) {
  int64_t most = feed->batches();
  if (steps > 0 && steps <= most)
    most = std::min(most, steps * wholeBatch(job.plan(), part).rows);
  takeRows(most);
  numLabels = masking ? countMasked() : rows * part.seq;
  if (numLabels == 0)
    fail("H0309",
         "no token of " + file +
             " is masked: nothing has a label, and no loss "
             "is defined",
         "give more tokens, or a higher --mask-probability");
}

Evaluation::Evaluation(Job &job, std::unique_ptr<InputFile> file, int64_t steps)
    : job(job), program(job.program(plan::ProgramKind::Eval)),
      part(batchOf(job.plan(), plan::ProgramKind::Eval)),
      inputs(job.session(), program), given(std::move(file)) {
  takeRows(steps > 0 ? steps * wholeBatch(job.plan(), part).rows
                     : given->rows());
  numLabels = given->countLabels(0, rows);
  if (numLabels == 0)
    failNoLabel(*given);
}

/// Chooses how many of `count` rows are evaluated. A program without the output
/// LossWeight cannot leave out the padding of a short batch, so it evaluates
/// whole batches only.
void Evaluation::takeRows(int64_t count) {
  requireOutput(program, plan::PortRole::Loss);
  bool counts = program.output(plan::PortRole::LossWeight);
  rows = counts ? count : std::max<int64_t>(1, count / part.rows) * part.rows;
}

/// Counts the masked tokens of all rows. The random choice depends on the
/// token's position in the file, so that every evaluation masks the same
/// tokens.
int64_t Evaluation::countMasked() {
  std::vector<int32_t> tokens(part.seq);
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    feed->read(row, {{0, 0, part.seq}}, DataFeed::What::Inputs, tokens.data());
    for (int64_t i = 0; i < part.seq; ++i)
      count += masking->chooses(
          {0, uint64_t(row * part.seq + i), 0, Masking::evaluation}, tokens[i]);
  }
  return count;
}

std::optional<double>
Evaluation::meanLossUnless(const std::function<bool()> &isAbandoned) {
  const Value &loss = requireOutput(program, plan::PortRole::Loss);
  const Value *weight = program.output(plan::PortRole::LossWeight);
  double sum = 0, weights = 0;
  for (int64_t first = 0; first < rows; first += part.rows) {
    if (isAbandoned())
      return std::nullopt;
    job.ranks().together([&] {
      if (given)
        inputs.read(*given, first, rows - first);
      else
        inputs.read(*feed, first, masking ? &*masking : nullptr,
                    {0, uint64_t(first * part.seq), 0, Masking::evaluation},
                    rows - first);
    });
    job.session().run(program);
    double counts = weight ? *job.session().load<float>(*weight) : 1;
    // The loss of a batch without labels is 0, and has no weight.
    sum += *job.session().load<float>(loss) * counts;
    weights += counts;
  }
  return sum / weights;
}
