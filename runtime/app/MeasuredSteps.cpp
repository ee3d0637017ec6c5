//===- MeasuredSteps.cpp - The steps that a run measures ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MeasuredSteps.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/runtime/io/Affix.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/File.h"

#include <algorithm>
#include <cstdio>

using namespace heddle;
using namespace heddle::rt;

/// The step of a run that is profiled by default. The first steps are slower:
/// they touch memory for the first time.
static constexpr int64_t defaultStep = 3;

/// Returns the options of the profile, completed by those that the plan has.
static ProfileOptions complete(ProfileOptions options, const plan::Plan &plan,
                               int64_t done, int64_t end) {
  std::optional<plan::ProfileChoice> choice = plan::profileOf(plan);
  if (!choice || options.isOff)
    return options;
  // The plan's step is for the run that computes it. Runs that resume after it,
  // or end before it, have no profile.
  if (!options.step && choice->step > done && choice->step <= end)
    options.step = choice->step;
  if (options.step && options.file.empty())
    options.file = choice->file;
  if (!options.depth)
    options.depth = choice->depth;
  if (!options.top)
    options.top = choice->top;
  return options;
}

/// Returns the number of the step to profile; -1 if none is.
static int64_t stepOf(const ProfileOptions &profile, int64_t done,
                      int64_t end) {
  if (!profile.isOn())
    return -1;
  int64_t step = profile.step.value_or(0);
  if (step == 0)
    return std::min(done + defaultStep, end);
  if (step <= done || step > end)
    fail("H0199",
         "--profile=" + std::to_string(step) + ": the run computes steps " +
             std::to_string(done + 1) + " to " + std::to_string(end),
         "name one of these");
  return step;
}

/// Graphs of a device run collectives without the host, which then cannot log
/// them. So all steps are measured if a GPU's communication is logged.
static bool measuresAllSteps(const TrainOptions &options,
                             const plan::Plan &plan) {
  plan::ReportChoice reports = options.reports.over(plan::reportsOf(plan));
  return reports.wallClockBreakdown ||
         (reports.commsLogger && plan.device == plan::DeviceKind::Cuda &&
          plan.mesh.ranks() > 1);
}

MeasuredSteps::MeasuredSteps(const TrainOptions &options,
                             const plan::Plan &plan,
                             const std::vector<const LoadedProgram *> &programs,
                             int64_t done, int64_t rank)
    : given(options.profile),
      options(complete(options.profile, plan, done, options.steps)), plan(plan),
      rank(rank), trace(options.trace, programs, rank),
      measuresAll(measuresAllSteps(options, plan)),
      profiled(stepOf(this->options, done, options.steps)),
      file(io::fileOfRank(this->options.file, rank)),
      flame(io::fileOfRank(this->options.flame, rank)) {
  for (const std::string &output : {file, flame})
    if (!output.empty())
      io::requireWritableOutput(output);
}

LaunchTime *MeasuredSteps::beginStep(int64_t step, const LoadedProgram &of) {
  program = &of;
  times = trace.beginStep(of);
  if (!times && measures(step)) {
    ownTimes.resize(of.commands().size());
    times = ownTimes.data();
  }
  begin = std::chrono::steady_clock::now();
  return times;
}

std::optional<StepParts> MeasuredSteps::endStep(int64_t step,
                                                const JobRate &rate) {
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  trace.endStep(step);
  if (!measures(step))
    return std::nullopt;
  bool isProfiled = step == profiled;
  StepProfile profile;
  if (isProfiled)
    profile = profileStep(plan, program->commands(), times);
  else
    profile.parts = partsOfStep(plan, program->commands(), times);
  profile.parts.seconds = seconds.count();
  if (isProfiled)
    report(rate, profile);
  return profile.parts;
}

void MeasuredSteps::report(JobRate rate, StepProfile &profile) {
  isReported = true;
  profile.step = profiled;
  profile.rank = rank;
  // The profile shows no MFU above 100 %: the job's peak is at least the rate
  // of this step, and of its kernels if no other rank computes.
  rate.see(rate.stepFlops / profile.parts.seconds);
  if (plan.mesh.ranks() == 1)
    rate.see(profile.parts.bestRate);
  if (!flame.empty())
    io::writeText(
        flame,
        flameJson(plan, program->commands(), times, profiled, rank).dump() +
            "\n");
  bool isJson = io::endsWith(file, ".json");
  std::string text =
      isJson ? profileJson(plan, profile, rate, options).dump(2) + "\n"
             : profileText(plan, profile, rate, options);
  if (!file.empty())
    io::writeText(file, text);
  if (rank == 0 && options.prints())
    std::fputs(text.c_str(), stderr);
}

std::vector<std::string> MeasuredSteps::finish() {
  std::vector<std::string> lines;
  if (std::string traced = trace.write(plan); !traced.empty())
    lines.push_back("wrote " + traced);
  if (profiled < 0 && (given.depth || given.top))
    lines.push_back("--profile-depth and --profile-top have no effect: no step "
                    "is profiled");
  if (profiled > 0 && !isReported)
    lines.push_back("no profile: the run ended before step " +
                    std::to_string(profiled));
  for (const std::string &path : {file, flame})
    if (isReported && !path.empty())
      lines.push_back("wrote " + path);
  return lines;
}
