//===- Job.cpp - A binary that is loaded and ready ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

int64_t heddle::rt::chooseThreads(const plan::Plan &plan, int64_t requested) {
  return requested > 0 ? requested : std::min(plan.threads, availableThreads());
}

Job::Job(const JobOptions &options, Ranks &ranks) : others(ranks) {
  ranks.together([&] { binary = readBinary(options.binary); });
  int64_t threads = chooseThreads(plan(), options.threads);
  ranks.join(plan(), availableThreads() > threads);
  ranks.together([&] {
    binary.plan.selectStage(plan().mesh.coordinate(ranks.rank(), {"pipe"}));
    // Before any thread is made: they inherit what the system grants here.
    requireThreads(plan(), threads);
    requireCpuFeatures(plan().features, plan().march);
    image = KernelImage(binary.kernels.data(), binary.kernels.size());
    binary.kernels = {};
    cpu = std::make_unique<CpuDevice>(threads);
    SessionOptions session;
    session.participant = {ranks.rank(), &ranks};
    loaded = std::make_unique<Session>(plan(), image, *cpu, session);
  });
}

const LoadedProgram &Job::program(const std::string &kind) const {
  if (const LoadedProgram *program = loaded->program(kind))
    return *program;
  failNoProgram(plan(), kind);
}

void heddle::rt::failNoProgram(const plan::Plan &plan,
                               const std::string &kind) {
  std::string held;
  for (const plan::Program &program : plan.programs)
    held += (held.empty() ? "" : ", ") + program.kind;
  fail("H0191", "this binary holds no " + kind + " program",
       held.empty() ? "compile it again" : "it holds: " + held);
}
