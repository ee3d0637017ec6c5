//===- Warnings.cpp - Warnings --------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Warnings.h"
#include "heddle/runtime/app/Job.h"

#include <algorithm>
#include <cstdio>

using namespace heddle;
using namespace heddle::rt;

void heddle::rt::warn(const Diagnostic &diagnostic) {
  fprintf(stderr, "warning[%s]: %s\n  help: %s\n", diagnostic.code.c_str(),
          diagnostic.message.c_str(), diagnostic.help.c_str());
}

/// Warns of each phase of the training (H0416) that a run of `steps` steps does
/// not reach, such as that in which ranks send signs.
static void warnOfLatePhases(const Job &job, int64_t steps) {
  const std::vector<const plan::Program *> programs =
      job.plan().trainPrograms();
  // A phase with an interval lets another one run in between.
  bool hasOther = std::any_of(
      programs.begin(), programs.end(), [&](const plan::Program *program) {
        return program->phase.every.isSet() && program->phase.from <= steps;
      });
  for (const plan::Program *program : programs) {
    const plan::Phase &phase = program->phase;
    if (phase.from <= steps || hasOther || !job.isFirst())
      continue;
    Diagnostic late;
    late.code = "H0416";
    late.message = "the phase " + phase.name + " begins with " +
                   (phase.countsUpdates ? "update " : "step ") +
                   std::to_string(phase.from) +
                   ", and the run ends with step " + std::to_string(steps);
    late.help = "run more steps, or compile with an earlier phase";
    warn(late);
  }
}

/// Throws H0108 if the run goes beyond the updates that there are programs for.
static void requirePhases(const Job &job, const plan::UpdateCounts &made,
                          int64_t madeSteps, int64_t steps) {
  for (const plan::Program *program : job.plan().trainPrograms()) {
    const plan::Phase &phase = program->phase;
    int64_t ahead = phase.countsUpdates ? made.updates() - madeSteps : 0;
    int64_t last = steps + ahead, reachable = phase.to - ahead;
    if (phase.to == 0 || last <= phase.to)
      continue;
    fail("H0108",
         "the run may reach " +
             std::string(phase.countsUpdates ? "update " : "step ") +
             std::to_string(last) + ", and the optimizer " +
             job.plan().optimizer.type + " is supported up to " +
             std::to_string(phase.to),
         (reachable > madeSteps
              ? "train up to step " + std::to_string(reachable) + ", or compile"
              : std::string("compile")) +
             " with another phase, such as a higher --var-freeze-step or a "
             "local_step_clipper of 1");
  }
}

void heddle::rt::checkPhases(Job &job, const plan::UpdateCounts &made,
                             int64_t madeSteps, int64_t steps) {
  job.ranks().together([&] { requirePhases(job, made, madeSteps, steps); });
  warnOfLatePhases(job, steps);
}
