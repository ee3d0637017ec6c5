//===- Warnings.cpp - Warnings --------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Warnings.h"
#include "heddle/runtime/app/Job.h"

#include <cstdio>

void heddle::rt::warn(const Diagnostic &diagnostic) {
  fprintf(stderr, "warning[%s]: %s\n  help: %s\n", diagnostic.code.c_str(),
          diagnostic.message.c_str(), diagnostic.help.c_str());
}

void heddle::rt::warnOfLatePhases(const Job &job, int64_t steps) {
  for (const plan::Program *program : job.plan().trainPrograms()) {
    const plan::Phase &phase = program->phase;
    if (phase.from <= steps || !job.isFirst())
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
