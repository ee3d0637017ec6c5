//===- Job.cpp - A loaded binary ------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads a binary on all ranks, in an order that finds errors before memory is
// mapped.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Job.h"
#include "heddle/PlanFormat/CacheSize.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/runtime/app/ServedMemory.h"
#include "heddle/runtime/comm/Launcher.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <malloc.h>
#include <set>

using namespace heddle;
using namespace heddle::rt;

int64_t heddle::rt::chooseThreads(const plan::Plan &plan, int64_t requested,
                                  int64_t ranks) {
  if (requested > 0)
    return requested;
  if (plan.device == plan::DeviceKind::Cpu)
    return plan::hasThreadsOfMachine(plan)
               ? threadsOfRank(ranks)
               : std::min(plan.threads, availableThreads());
  // With a GPU, the CPU threads of the pool update offloaded states and do file
  // I/O. Leave one core for the thread that submits steps to the GPU.
  return std::max<int64_t>(threadsOfRank(ranks) - 1, 1);
}

Job::Job(const JobOptions &options, Ranks &ranks) : others(ranks) {
  Launch launch = detectLaunch();
  int64_t local = launch.localRank;
  ranks.together([&] {
    std::vector<Binary> targets = readTargets(options.binary);
    target = chooseTarget(targets, options.device, local);
    if (local == 0)
      warnOfIdleGpu(targets, target, options.device, local);
    binary = std::move(targets[target]);
  });
  int64_t threads = chooseThreads(plan(), options.threads, launch.localSize);
  ranks.join(plan(), availableThreads() > threads);
  ranks.together([&] {
    binary.plan.selectStage(plan().mesh.stageOf(ranks.rank()));
    plan::setThreads(binary.plan, threads);
    // Request CPU features such as AMX before any thread is created, because
    // threads inherit the permission to use these features.
    requireCpuFeatures(plan().features, plan().march);
    pool = std::make_unique<ThreadPool>(threads);
    own = openDevice(plan(), options.device, local, *pool);
    if (local == 0)
      warnOfOffloadInMemory(plan(), options.device);
    this->threads = pool.get();
    runsOn = own.get();
  });
  if (!options.device.shared)
    requireOwnGpu(*own, ranks);
  if (plan().device == plan::DeviceKind::Cuda && ranks.size() > 1 &&
      plan().collectives == "library" &&
      (!options.device.shared || mayUseNccl(*own, ranks)))
    ranks.useLink(*own);
  std::optional<Binary> draft;
  ranks.together([&] {
    if (plan::hasCacheOfDevice(plan()))
      draft = readDraft(options.binary, target);
  });
  fitCache(binary.plan, draft ? &draft->plan : nullptr, *own, options.device,
           ranks);
  ranks.together([&] { load(); });
}

void Job::load() {
  malloc_trim(0); // Parsing allocates several times the size of the plan.
  kernels = runsOn->load(binary.kernels.data(), binary.kernels.size(),
                         plan().kernels);
  binary.kernels = {};
  SessionOptions session;
  session.participant = {others.rank(), &others};
  loaded = std::make_unique<Session>(plan(), *kernels, *runsOn, session);
}

Job::Job(Job &checks, Binary draft)
    : others(checks.others), binary(std::move(draft)), target(checks.target),
      threads(checks.threads), runsOn(checks.runsOn) {
  plan::setThreads(binary.plan, threads->threads());
  plan::setCachePages(binary.plan, checks.plan().serving.pages);
  load();
}

std::unique_ptr<Job> Job::openDraft(const JobOptions &options) {
  std::optional<Binary> draft;
  others.together([&] {
    draft = readDraft(options.binary, target);
    if (!draft && !options.draftWeights.empty())
      fail("H0136", "--draft-weights: this binary has no draft",
           "compile with --draft DIR, or leave out --draft-weights");
  });
  if (!draft)
    return nullptr;
  others.joinBeside(draft->plan);
  std::unique_ptr<Job> job;
  others.together([&] { job.reset(new Job(*this, std::move(*draft))); });
  return job;
}

const LoadedProgram &Job::program(plan::ProgramKind kind) const {
  if (const LoadedProgram *program = loaded->program(kind))
    return *program;
  failNoProgram(plan(), kind);
}

void heddle::rt::failNoProgram(const plan::Plan &plan, plan::ProgramKind kind) {
  std::string held;
  // A plan may have several programs of a kind, which differ in size. Name each
  // kind only once.
  std::set<plan::ProgramKind> named;
  for (const plan::Program &program : plan.programs)
    if (named.insert(program.kind).second)
      held +=
          std::string(held.empty() ? "" : ", ") + plan::nameOf(program.kind);
  bool isMasked = plan.objective == plan::Objective::MaskedToken;
  const char *masked = "; a model of masked tokens cannot continue a text";
  std::string unable =
      kind != plan::ProgramKind::Generate ? ""
      : isMasked                          ? masked
                 : "; a model continues a text if it reads nothing but ids and "
                   "its attention is causal";
  bool serves = kind == plan::ProgramKind::Prefill ||
                kind == plan::ProgramKind::Decode ||
                kind == plan::ProgramKind::Score;
  if (kind == plan::ProgramKind::Encode)
    unable = "; compile an encoder with --mode encode for others";
  if (kind == plan::ProgramKind::Train && isForServing(plan))
    unable =
        std::string(plan.findProgram(plan::ProgramKind::Encode)
                        ? ""
                        : "; bench --decode measures a binary that serves") +
        "; compile without --mode to train";
  if (serves)
    unable = isMasked ? masked : "; compile with --mode serve for the others";
  fail("H0191",
       std::string("this binary holds no ") + plan::nameOf(kind) + " program",
       held.empty() ? "compile it again" : "it holds: " + held + unable);
}
