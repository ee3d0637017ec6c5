//===- Summary.cpp - What the driver prints about a binary ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Summary.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/MemoryHelp.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle;

/// Describes the memory of a rank. For a GPU it lists device memory, host
/// memory and pinned memory separately.
static std::string memoryOf(const plan::Plan &plan) {
  auto of = [&](plan::MemoryKind kind) { return plan.memory.peakBytes(kind); };
  int64_t onFile = of(plan::MemoryKind::File);
  int64_t host = of(plan::MemoryKind::Host);
  int64_t pinned = of(plan::MemoryKind::Pinned);
  std::string text =
      plan::formatExactBytes(plan.memory.peakBytes()) + " of memory";
  if (plan.device == plan::DeviceKind::Cuda && host + pinned > 0) {
    text = plan::formatExactBytes(of(plan::MemoryKind::Device)) +
           " of device memory";
    if (host > 0)
      text += ", " + plan::formatExactBytes(host) + " of host memory";
    if (pinned > 0)
      text += ", " + plan::formatExactBytes(pinned) + " of pinned memory";
  }
  return text +
         (onFile > 0 ? ", " + plan::formatExactBytes(onFile) + " on file" : "");
}

/// Returns the bytes that a rank needs of its machine's main memory. On a GPU
/// these are host and pinned memory, without device memory.
static int64_t machineBytesOf(const plan::Plan &plan,
                              const plan::Memory &memory) {
  if (plan.device == plan::DeviceKind::Cpu)
    return memory.peakBytes();
  return memory.peakBytes(plan::MemoryKind::Host) +
         memory.peakBytes(plan::MemoryKind::Pinned);
}

static void warnOfLargePlan(const plan::Plan &plan) {
  const plan::Memory *largest = &plan.memory;
  for (const plan::Stage &stage : plan.stages)
    if (machineBytesOf(plan, stage.memory) > machineBytesOf(plan, *largest))
      largest = &stage.memory;
  int64_t needed = machineBytesOf(plan, *largest);
  int64_t here = plan::machineBytes();
  if (needed > here)
    llvm::errs() << "warning: a rank needs " << plan::formatBytes(needed)
                 << ", this machine has " << plan::formatBytes(here)
                 << "; the most have: " << plan::largestOwners(*largest)
                 << "\n";
}

static void printOwners(const plan::Plan &plan) {
  for (const plan::Owner &owner : plan.memory.owners)
    llvm::errs() << llvm::format("%14s  ",
                                 plan::formatBytes(owner.bytes).c_str())
                 << owner.name << "\n";
}

void heddle::summarize(llvm::ArrayRef<emit::Code> codes,
                       const CompileOptions &options) {
  for (const emit::Code &code : codes) {
    const plan::Plan &plan = code.plan;
    llvm::errs() << (options.dryRun ? "dry run" : options.output) << ": "
                 << (code.model == emit::Model::Draft ? "the draft: " : "")
                 << (options.targets.size() > 1 ? "for " + plan.target + ": "
                                                : "")
                 << plan.parameters << " parameters, " << plan.kernels.size()
                 << " kernels, " << memoryOf(plan) << "\n";
    if (options.dryRun)
      printOwners(plan);
    if (options.cluster.empty())
      warnOfLargePlan(plan);
  }
}
