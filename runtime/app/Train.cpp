//===- Train.cpp - The verb train -----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `train`: the training loop with its logs, validation, checkpoints, signals
// and errors.
//
//===----------------------------------------------------------------------===//

#include "Dump.h"
#include "LogWriters.h"
#include "MeasuredSteps.h"
#include "ModelText.h"
#include "SavedLayouts.h"
#include "TrainData.h"
#include "TrainReports.h"
#include "Warnings.h"
#include "heddle/runtime/app/Progress.h"
#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/app/Signals.h"
#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/app/Weights.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <deque>
#include <exception>
#include <filesystem>
#include <utility>

using namespace heddle;
using namespace heddle::rt;

using Clock = std::chrono::steady_clock;

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

namespace {

/// One run of `train`.
class Training {
public:
  Training(const TrainOptions &options, RunLog &log, Ranks &ranks);
  int run();

private:
  void openFiles();
  void resumeOrLoad();
  void tellHyperparameters();
  void chooseTypes();
  void announce();
  void trainSteps();
  void submit(int64_t index);
  void finishSteps(int64_t pending);
  void afterStep();
  void measureAgain();
  void validate();
  void save();
  void saveBeforeEnd();
  void record(const JsonLine &line);
  void recordPeak();
  void requireOwnFiles();
  void claimSaves();
  void throwFailure();
  int finish();

  Job job;
  const TrainOptions options;
  RunLog &log;
  TrainReports reports;
  Ranks &ranks;
  TrainData data;
  Hyperparameters hyper;
  /// Descriptions of the hyperparameters whose values differ from those of the
  /// resumed run.
  std::vector<std::string> changes;
  /// The checkpoint state with which the run starts. It also has the best
  /// validation so far.
  io::CheckpointState state;
  std::string savedOptimizer; ///< Optimizer of the resumed checkpoint.
  SavedTypes types;           ///< Types of saved weights.
  /// The directory of the loaded model. Its tokenizer is copied into
  /// checkpoints.
  std::string modelDirectory;
  std::unique_ptr<Evaluation> validation;
  std::unique_ptr<io::DirectoryLock> saves; ///< Held by rank 0 only.
  std::unique_ptr<TrainSteps> steps;
  std::unique_ptr<Progress> progress;
  std::unique_ptr<MeasuredSteps> measured;
  JobRate rate;
  bool isPeakLow = false; ///< A step exceeded the measured peak FLOP rate.
  int64_t signal = 0;     ///< Signal that some rank received.
  /// Submitted steps, including pending steps and the steps before a resume.
  int64_t done = 0;
  int64_t savedStep = -1;
  bool hasNotedLayouts = false;
  bool isSound = true;   ///< The states are those after `done` steps.
  bool isEnough = false; ///< --stop-when-no-better has ended the run.
  /// An error that only this rank knows, such as a failed write to a log. It is
  /// thrown on all ranks at the next `together`.
  std::exception_ptr failure;
  Clock::time_point begin;
  /// A pending step: when it began, and its parts if they are measured.
  struct StartedStep {
    Clock::time_point begin;
    std::optional<StepParts> parts;
  };
  std::deque<StartedStep> starts;
  Clock::time_point finished;           ///< End of the last finished step.
};

Training::Training(const TrainOptions &options, RunLog &log, Ranks &ranks)
    : job(options.job, ranks), options(withLogs(options, job.plan())), log(log),
      reports(options.reports, job), ranks(ranks), data(job, options),
      hyper(job.plan()) {
  // Find all errors in the user's files before the first step, and before
  // anything is written.
  ranks.together([&] {
    requireOwnFiles();
    requireLayerDrop(job.plan(), options.printKeptLayers);
    if (!options.val.empty())
      validation = std::make_unique<Evaluation>(job, options.val,
                                                options.valSteps, options.mask);
    // Fail before the weights are loaded if another run saves in the same
    // directory.
    if (io::pathExists(options.save) && job.isFirst())
      claimSaves();
  });
  data.check(validation.get());
  resumeOrLoad();
  done = state.step;
  ranks.together([&] { openFiles(); });
  rate = measureJobRate(job, steps->program(done));
  progress = std::make_unique<Progress>(
      job.isFirst() ? options.progress : "none", state.step, options.steps);
}

/// Throws if a file that this run writes is also one that it reads.
void Training::requireOwnFiles() {
  std::vector<io::NamedFile> inputs = {
      {"--inputs", options.inputs},
      {"--val", io::TokenSource::parse(options.val).path},
      {"--resume",
       options.resume.empty() ? "" : io::resolveCheckpoint(options.resume)},
      {"--weights", readDirectory(job.plan(), options.job)}};
  for (const DataChoice &choice : parseData(options.data))
    inputs.push_back({"--data", io::TokenSource::parse(choice.path).path});
  io::requireApart(inputs, {{"--log", options.log},
                            {"--log-csv", options.logCsv},
                            {"--trace", options.trace},
                            {"--profile-file", options.profile.file},
                            {"--profile-flame", options.profile.flame},
                            {"--dump", options.dump}});
}

/// Locks the directory of checkpoints. Throws if this run would overwrite
/// checkpoints of another run in it.
void Training::claimSaves() {
  saves = io::claimSaves(options.save);
  io::requireOwnSaves(options.save,
                      {options.resume, options.overwrite, options.steps});
}

void Training::openFiles() {
  steps = std::make_unique<TrainSteps>(
      job, TrainSteps::Options{hyper, state.seed, state.step, state.updates,
                               options.onNonfinite == "skip"});
  if (!options.save.empty())
    io::requireWritable(options.save);
  if (!options.save.empty() && job.isFirst() && !saves)
    claimSaves();
  measured = std::make_unique<MeasuredSteps>(
      options, job.plan(), steps->allPrograms(), state.step, ranks.rank());
  if (!job.isFirst())
    return;
  if (!options.dump.empty())
    io::requireShared(options.dump, ranks);
  bool goesOn = !options.resume.empty();
  if (!options.log.empty())
    log.open(options.log, goesOn);
  makeLogDirectory(options, job.plan());
  if (!options.logCsv.empty())
    log.add(makeCsvLog(options.logCsv, goesOn));
  if (!options.logTensorBoard.empty())
    log.add(makeTensorBoardLog(options.logTensorBoard, state.step));
}

void Training::resumeOrLoad() {
  state.seed = job.plan().weights.seed;
  if (options.resume.empty()) {
    loadWeights(job, options.job);
    modelDirectory = io::resolveModel(options.job.weights.empty()
                                          ? job.plan().weights.directory
                                          : options.job.weights);
  } else {
    state = resumeFrom(job, options.resume, options.resetOptimizer,
                       options.resetErrors);
    modelDirectory = io::resolveCheckpoint(options.resume);
  }
  chooseTypes();
  if (options.seed)
    state.seed = *options.seed;
  if (options.resume.empty())
    data.begin(state.seed);
  else
    data.resume(state, state.seed);
  tellHyperparameters();
  savedOptimizer = std::exchange(state.optimizer, job.plan().optimizer.type);
  state.planHash = job.plan().hash;
}

/// Chooses the element types of saved weights: those of the loaded files,
/// unless --save-dtype is given.
void Training::chooseTypes() {
  if (options.save.empty())
    return;
  ranks.together([&] {
    if (!options.resume.empty())
      types = SavedTypes::ofCheckpoint(modelDirectory);
    else if (std::optional<io::WeightSet> files =
                 openJobWeights(job, options.job))
      types = SavedTypes(std::move(*files));
    types.useForAll(options.saveDtype);
  });
}

/// Describes the GPU or the CPU threads on which a rank's kernels run.
static std::string runsOn(const Device &device) {
  return device.model().empty() ? std::to_string(device.threads()) + " threads"
                                : device.model();
}

/// Applies the hyperparameters that flags set, in this run or in the resumed
/// run. Records which values differ from the resumed run's.
void Training::tellHyperparameters() {
  ranks.together(
      [&] { state.told = hyper.tell(options.hyper.values(), state.told); });
  HyperValues now = hyper.values();
  if (!state.used.empty())
    changes = describeChanges(state.used, now);
  state.used = now;
}

void Training::announce() {
  const plan::Plan &plan = job.plan();
  record(JsonLine("start")
             .add("version", plan.version)
             .add("plan", plan.hash)
             .add("parameters", plan.parameters)
             .add("ranks", ranks.size())
             .add("threads", job.device().threads())
             .addRaw("seed", std::to_string(state.seed))
             .addRaw("hyperparameters", hyper.toJson().dump())
             .add("step", state.step));
  recordPeak();
  std::string among =
      ranks.size() > 1
          ? " in each of " + std::to_string(ranks.size()) + " ranks, "
          : ", ";
  std::string text = std::to_string(plan.parameters) + " parameters, batch " +
                     std::to_string(plan.batch) + " x " +
                     std::to_string(plan.seq) + " tokens, " + plan.precision +
                     ", " + runsOn(job.device()) + among +
                     formatBytes(reports.mappedBytes());
  if (rate.peakFlopsPerSecond > 0)
    text += ", " + rate.describe();
  progress->line(text);
  if (!state.told.empty())
    progress->line(hyper.text());
  for (const std::string &change : changes)
    progress->line("not as before --resume: " + change);
  for (const std::string &remark : data.remarks())
    progress->line(remark);
  if (state.step > 0)
    progress->line("resumed after step " + std::to_string(state.step));
  if (!savedOptimizer.empty() && savedOptimizer != state.optimizer &&
      !options.resetOptimizer)
    progress->line(state.optimizer + " goes on with what " + savedOptimizer +
                   " kept; --reset-optimizer begins with its first values");
  if (!options.resume.empty() && state.step >= options.steps && job.isFirst())
    fprintf(stderr,
            "warning: nothing is left to do: the checkpoint is after step "
            "%lld, and --steps %lld counts from the beginning\n",
            static_cast<long long>(state.step),
            static_cast<long long>(options.steps));
}

/// Writes an event to the logs. Only this rank notices if that fails. The error
/// is kept in `failure`, and thrown on all ranks when they next run `together`.
void Training::record(const JsonLine &line) {
  try {
    log.write(line);
  } catch (const UserError &) {
    if (!failure)
      failure = std::current_exception();
  }
}

void Training::throwFailure() {
  if (failure)
    std::rethrow_exception(failure);
}

/// Logs the peak FLOP rate of which the MFU of later steps is a share.
void Training::recordPeak() {
  if (rate.peakFlopsPerSecond > 0)
    record(JsonLine("peak")
               .add("step", done)
               .add("flops_per_s", rate.peakFlopsPerSecond)
               .add("kind", std::string(rate.kindOfPeak()))
               .add("unit", rate.unit));
}

void Training::submit(int64_t index) {
  Clock::time_point start = Clock::now();
  ranks.together([&] {
    throwFailure();
    data.read(steps->tokens(index), index);
  });
  isSound = false; // Until the step is complete.
  steps->submit(index, measured->beginStep(index + 1, steps->program(index)));
  isSound = true;
  starts.push_back({start, measured->endStep(index + 1, rate)});
}

/// Reports finished steps until at most `pending` are still in flight.
void Training::finishSteps(int64_t pending) {
  while (steps->pending() > pending) {
    isSound = false;
    StepResult result = steps->finish();
    isSound = steps->keepsStates();
    done = steps->next();
    steps->requireFinite(result);
    // If this step was submitted while the step before it was still running, it
    // started when that step ended.
    Clock::time_point start = std::max(starts.front().begin, finished);
    std::optional<StepParts> parts = std::move(starts.front().parts);
    // Remove the start time of the finished step. If its loss or gradient norm
    // was not finite, the pending steps after it were dropped: remove their
    // start times too.
    starts.erase(starts.begin(), starts.end() - steps->pending());
    finished = Clock::now();
    StepReport report;
    report.step = result.index + 1;
    report.loss = result.loss;
    report.gradNorm = result.gradNorm;
    report.lr = result.learningRate;
    report.skipped = result.isSkipped;
    report.isFinite = result.isFinite;
    report.hasLabels = result.hasLabels;
    report.kept = result.kept;
    report.lossScale = result.lossScale;
    report.bits = result.bits;
    report.overflowModule = result.overflowModule;
    report.phase = result.phase;
    report.tokens = steps->batch().rows * steps->batch().seq;
    report.seconds = std::chrono::duration<double>(finished - start).count();
    reports.addParts(report, parts);
    if (parts && ranks.size() == 1 && rate.see(parts->bestRate))
      isPeakLow = true;
    double dropped = result.kept ? result.kept->droppedFlops : 0;
    double flops = (rate.stepFlops - dropped) / report.seconds;
    // Above the measured peak FLOP rate, the MFU is reported as unknown.
    if (rate.see(flops))
      isPeakLow = true;
    else if (rate.peakFlopsPerSecond > 0)
      report.mfu = flops / rate.peakFlopsPerSecond;
    record(logLine(report));
    progress->step(report);
    if (report.parts)
      progress->line("  " + report.parts->text());
    if (report.kept && job.isFirst() && result.index < options.printKeptLayers)
      report.kept->print(report.step);
  }
}

void Training::validate() {
  ranks.setActivity("validation");
  std::optional<double> mean = validation->meanLossUnless([&] {
    signal = ranks.maximum(stopSignal());
    return signal != 0;
  });
  if (!mean) {
    progress->line("step " + std::to_string(done) +
                   ": the validation is abandoned: a signal ends the run");
    return;
  }
  double loss = *mean;
  if (std::isfinite(loss) && (!state.best || loss < state.best->loss))
    state.best = {loss, done, 0};
  else if (state.best)
    ++state.best->worse;
  record(JsonLine("eval")
             .add("step", done)
             .add("loss", loss)
             .add("perplexity", std::exp(loss)));
  char text[96];
  snprintf(text, sizeof(text),
           "step %lld: validation loss %.4f, perplexity %.2f",
           static_cast<long long>(done), loss, std::exp(loss));
  progress->line(text);
}

void Training::save() {
  finishSteps(0);
  ranks.setActivity("the save of a checkpoint");
  isSound = false; // Do not save again if saving fails.
  io::CheckpointState now = state;
  now.data = data.stateAfter(done);
  now.step = done;
  now.updates = steps->updateCounts();
  io::CheckpointContents contents =
      describeCheckpoint(job.session(), now, types);
  for (const char *name :
       {"tokenizer.json", "tokenizer_config.json", "tokenizer.model",
        "vocab.json", "vocab.txt", "merges.txt", "special_tokens_map.json",
        "added_tokens.json", "chat_template.jinja", "generation_config.json"})
    if (!modelDirectory.empty())
      contents.copies.push_back(modelDirectory + "/" + name);
  ranks.together([&] {
    if (saves && !saves->isHeld()) {
      saves = io::claimSaves(options.save);
      io::requireNoOthers(options.save, state.saved);
    }
  });
  std::string path =
      io::saveCheckpoint(options.save, contents, ranks, options.keepLast);
  modelDirectory = path; // --keep-last may remove the previous directory.
  ranks.together([&] {
    if (job.isFirst())
      io::noteSaved(path, state.saved);
  });
  isSound = true;
  savedStep = done;
  record(JsonLine("save").add("step", done).add("path", path));
  progress->line("saved " + path);
  if (!contents.layouts.empty() && !std::exchange(hasNotedLayouts, true))
    progress->line(noteOfLayouts(contents.layouts));
}

/// Called before an error ends the run. If all ranks know of the error and the
/// states are valid, finishes the pending steps and saves a checkpoint.
void Training::saveBeforeEnd() {
  bool isKnown = ranks.size() == 1 || ranks.failedTogether();
  if (!isKnown || !isSound)
    return;
  try {
    finishSteps(0);
    if (!options.save.empty() && savedStep != done && done != state.step)
      save();
  } catch (const UserError &error) {
    progress->line("step " + std::to_string(done) +
                   " could not be saved: " + error.diagnostic.message);
  }
}

/// Measures the peak FLOP rate again, because a step was faster than the
/// measured peak. Other programs probably used the cores during the first
/// measurement.
void Training::measureAgain() {
  isPeakLow = false;
  rate.keepBest(measureJobRate(job, steps->program(done)));
  progress->line("a step was faster than the measured peak: " +
                 rate.describe() + " from now on");
  recordPeak();
}

void Training::afterStep() {
  // Tell all ranks in one collective which signal a rank has received, and, in
  // the lowest bit, whether a step was faster than the measured peak FLOP rate.
  int64_t asked = ranks.maximum(2 * stopSignal() + (isPeakLow ? 1 : 0));
  signal = asked / 2;
  if (asked % 2 != 0)
    measureAgain();
  bool last = done >= options.steps || signal != 0;
  bool validates = options.valEvery > 0 && done % options.valEvery == 0;
  bool saves = !options.save.empty() && options.saveEvery > 0 &&
               done % options.saveEvery == 0;
  // Validation and checkpoints must see the states after this step, so no later
  // step may be pending.
  if (last || validates || saves)
    finishSteps(0);
  int64_t patience = options.stopWhenNoBetter;
  bool mayEnd = validates && patience > 0 && state.best &&
                state.best->worse + 1 >= patience;
  // Dump before the validation, which overwrites the values of the step.
  if ((last || mayEnd) && !options.dump.empty())
    writeDump(options.dump, job.session(), steps->program(done - 1), ranks);
  if (validation && signal == 0 && (validates || last))
    validate();
  isEnough = patience > 0 && state.best && state.best->worse >= patience;
  bool ends = last || isEnough || signal != 0;
  if (saves || (!options.save.empty() && ends))
    save();
}

void Training::trainSteps() {
  signal = ranks.maximum(stopSignal());
  while (done < options.steps && signal == 0 && !isEnough) {
    bool isMeasured = measured->measures(done + 1);
    if ((isMeasured && steps->pending() > 0) || steps->changesProgram(done)) {
      // Steps that are finished here may turn out to have no finite loss. Then
      // `done` is smaller afterwards.
      finishSteps(0);
      continue;
    }
    submit(done);
    ++done;
    finishSteps(isMeasured ? 0 : steps->maxPending());
    afterStep();
  }
  finishSteps(0);
  ranks.together([&] { throwFailure(); });
}

int Training::run() {
  announce();
  checkPhases(job, state.updates, state.step, options.steps);
  reports.begin();
  begin = Clock::now();
  try {
    trainSteps();
  } catch (const UserError &) {
    saveBeforeEnd();
    throw;
  }
  // A signal may have come during the last validation or save.
  signal = ranks.maximum(stopSignal());
  return finish();
}

int Training::finish() {
  if (signal != 0 && !options.save.empty() && savedStep != done &&
      done > state.step)
    save();
  JsonLine line("end");
  line.add("steps", done)
      .add("time_s", secondsSince(begin))
      .addRaw("peak_bytes", reports.peakBytes());
  ranks.together([&] { job.device().synchronize(); });
  io::OffloadTraffic swapped = job.device().offloadTraffic();
  if (swapped.requests > 0)
    line.add("file_bytes_read", swapped.readBytes)
        .add("file_bytes_written", swapped.writtenBytes);
  if (signal != 0)
    line.add("signal", signal);
  if (isEnough)
    line.add("stopped", "no better validation");
  for (const TrainReport &report : reports.finish()) {
    record(report.event);
    for (const std::string &text : report.lines)
      progress->line(text);
  }
  record(line);
  ranks.together([&] { throwFailure(); });
  for (const std::string &line : measured->finish())
    progress->line(line);
  if (signal != 0)
    progress->line("stopped by signal " + std::to_string(signal) +
                   " after step " + std::to_string(done));
  else if (isEnough)
    progress->line("stopped after step " + std::to_string(done) +
                   ": no validation was better than that of step " +
                   std::to_string(state.best->step));
  return signal == 0 ? 0 : int(128 + signal);
}

} // namespace

/// Makes the error that ends the run the last line of the log. Rank 0 writes
/// the error. If rank 0 is lost, rank 1 writes it, provided that it can reach
/// the same file.
static void logErrors(const std::shared_ptr<RunLog> &log,
                      const TrainOptions &options, Ranks &ranks) {
  ranks.setWitness([log, path = options.log, isNext = ranks.rank() == 1](
                       const Diagnostic &diagnostic, int missing) {
    std::error_code ignored;
    try {
      if (missing == 0 && isNext && std::filesystem::exists(path, ignored))
        log->open(path, /*append=*/true);
      log->writeError(diagnostic);
    } catch (const UserError &) {
      // The error that ends the run was already reported.
    }
  });
}

int heddle::rt::runTrain(const TrainOptions &options, Ranks &ranks) {
  auto log = std::make_shared<RunLog>();
  logErrors(log, options, ranks);
  catchStopSignals();
  // A run continues when the reader of its output ends.
  signal(SIGPIPE, SIG_IGN);
  return Training(options, *log, ranks).run();
}
