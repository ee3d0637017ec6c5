//===- RunChoices.cpp - What a run may change in a plan -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/RunChoices.h"

using namespace heddle;

void plan::setThreads(Plan &plan, int64_t threads) {
  // On a CPU, each thread has its own scratch memory, so the size of all
  // scratch memory depends on the number of threads. On a GPU, the running
  // kernel uses all scratch memory.
  if (plan.device != DeviceKind::Cpu || threads == plan.threads)
    return;
  Memory &memory = plan.memory;
  // Scratch memory is the last range of the arena. Therefore the arena's size
  // for `users` threads follows from the size of their scratch memory.
  auto pagesFor = [&](int64_t users) {
    constexpr int64_t pageBytes = 4096;
    int64_t end = memory.scratchOffset + memory.scratchBytesPerThread * users;
    return (end + pageBytes - 1) / pageBytes * pageBytes;
  };
  int64_t more = memory.scratchBytesPerThread * (threads - plan.threads);
  int64_t moreArena = pagesFor(threads) - pagesFor(plan.threads);
  plan.threads = threads;
  memory.arenaBytes[MemoryKind::Device] += moreArena;
  for (Owner &owner : memory.owners)
    if (owner.name == scratchOwner)
      owner.bytes += more;
    else if (owner.name == unusedOwner)
      owner.bytes += moreArena - more;
}

bool plan::hasThreadsOfMachine(const Plan &plan) {
  auto found = plan.strategy.find(threadsOfMachineKey);
  return found != plan.strategy.end() && *found == true;
}

std::optional<plan::ProfileChoice> plan::profileOf(const Plan &plan) {
  auto found = plan.strategy.find(profileKey);
  if (found == plan.strategy.end())
    return std::nullopt;
  return ProfileChoice{found->at("step"), found->at("depth"), found->at("top"),
                       found->at("file")};
}

void plan::setProfile(Plan &plan, const ProfileChoice &choice) {
  plan.strategy[profileKey] = {{"step", choice.step},
                               {"depth", choice.depth},
                               {"top", choice.top},
                               {"file", choice.file}};
}

plan::ReportChoice plan::reportsOf(const Plan &plan) {
  auto found = plan.strategy.find(reportsKey);
  if (found == plan.strategy.end())
    return {};
  return {found->at("wall_clock_breakdown"), found->at("comms_logger"),
          found->at("memory_breakdown"), found->at("log_tensorboard"),
          found->at("log_csv")};
}

void plan::setReports(Plan &plan, const ReportChoice &choice) {
  plan.strategy[reportsKey] = {
      {"wall_clock_breakdown", choice.wallClockBreakdown},
      {"comms_logger", choice.commsLogger},
      {"memory_breakdown", choice.memoryBreakdown},
      {"log_tensorboard", choice.logTensorBoard},
      {"log_csv", choice.logCsv}};
}
