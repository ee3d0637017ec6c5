//===- Job.cpp - A binary that is loaded and ready ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/comm/Launcher.h"
#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "heddle/runtime/devices/separate/SeparateDevice.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

using namespace heddle;
using namespace heddle::rt;

int64_t heddle::rt::chooseThreads(const plan::Plan &plan, int64_t requested) {
  return requested > 0 ? requested : std::min(plan.threads, availableThreads());
}

std::unique_ptr<Device> heddle::rt::makeDevice(const char *name,
                                               ThreadPool &pool) {
  std::string_view text = name ? name : "cpu", separate = "separate";
  if (text == "cpu")
    return std::make_unique<CpuDevice>(pool);
  if (text == "cuda")
    return makeCudaDevice({detectLaunch().localRank});
  uint64_t seed = 0;
  std::string_view rest = text.substr(std::min(text.size(), separate.size()));
  if (text.substr(0, separate.size()) == separate) {
    const char *end = rest.data() + rest.size();
    if (!rest.empty() && rest[0] == ':') {
      auto [stop, error] = std::from_chars(rest.data() + 1, end, seed);
      rest = error == std::errc() ? std::string_view(stop, end - stop) : rest;
    }
    if (rest.empty())
      return std::make_unique<SeparateDevice>(pool, seed);
  }
  fail("H0190", "HEDDLE_DEVICE=" + std::string(text) + " names no device",
       "set it to cpu, cuda, separate or separate:SEED, or not at all");
}

Job::Job(const JobOptions &options, Ranks &ranks) : others(ranks) {
  ranks.together([&] { binary = readBinary(options.binary); });
  int64_t threads = chooseThreads(plan(), options.threads);
  ranks.join(plan(), availableThreads() > threads);
  ranks.together([&] {
    binary.plan.selectStage(plan().mesh.stageOf(ranks.rank()));
    // Before any thread is made: they inherit what the system grants here.
    requireThreads(plan(), threads);
    requireCpuFeatures(plan().features, plan().march);
    pool = std::make_unique<ThreadPool>(threads);
    own = makeDevice(std::getenv("HEDDLE_DEVICE"), *pool);
    kernels =
        own->load(binary.kernels.data(), binary.kernels.size(), plan().kernels);
    binary.kernels = {};
    SessionOptions session;
    session.participant = {ranks.rank(), &ranks};
    loaded = std::make_unique<Session>(plan(), *kernels, *own, session);
  });
}

const LoadedProgram &Job::program(plan::ProgramKind kind) const {
  if (const LoadedProgram *program = loaded->program(kind))
    return *program;
  failNoProgram(plan(), kind);
}

void heddle::rt::failNoProgram(const plan::Plan &plan, plan::ProgramKind kind) {
  std::string held;
  for (const plan::Program &program : plan.programs)
    held += std::string(held.empty() ? "" : ", ") + plan::nameOf(program.kind);
  bool isMasked = plan.objective == plan::Objective::MaskedToken;
  std::string unable =
      kind != plan::ProgramKind::Generate ? ""
      : isMasked ? "; a model of masked tokens cannot continue a text"
                 : "; a model continues a text if it reads nothing but ids and "
                   "its attention is causal";
  fail("H0191",
       std::string("this binary holds no ") + plan::nameOf(kind) + " program",
       held.empty() ? "compile it again" : "it holds: " + held + unable);
}
