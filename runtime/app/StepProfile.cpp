//===- StepProfile.cpp - A training step by module ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepProfile.h"

#include <map>

using namespace heddle;
using namespace heddle::rt;

bool heddle::rt::copiesFile(const plan::Command &command) {
  constexpr plan::MemoryKind file = plan::MemoryKind::File;
  if (const auto *rows = command.as<plan::command::CopyRows>())
    return rows->source.memory == file;
  const auto *copy = command.as<plan::command::Copy>();
  return copy && (copy->target.memory == file || copy->source.memory == file);
}

double StepProfile::notCovered() const {
  ModuleCosts costs = model.total();
  return seconds - costs.forwardSeconds - costs.backwardSeconds - waits -
         optimizer - copies;
}

namespace {

/// Finds out whether a command belongs to the backward pass. In a pipeline the
/// schedule says so. Otherwise the backward pass begins after the loss, and
/// ends with the micro-batch.
class PassFinder {
public:
  explicit PassFinder(const plan::Plan &plan) : plan(plan) {}

  /// Returns whether the next command of the program is in the backward pass.
  bool isBackward(const LaunchInfo &info) {
    if (info.fragment.kind) {
      backward = true; // Of the commands after the schedule.
      return info.fragment.kind->kind != plan::FragmentKind::Forward;
    }
    // A loop repeats its commands. So a command outside of layers is in the
    // same pass in each micro-batch, and tells when the next one begins.
    if (!info.layer)
      backward = known.try_emplace(info.command, backward).first->second;
    bool result = backward;
    if (info.kernel() >= 0 && !info.layer)
      for (size_t i = 0; i < plan.kernels[info.kernel()].shares.size(); ++i)
        backward |= moduleOf(plan, *info.command, i, "") == "loss";
    return result;
  }

private:
  const plan::Plan &plan;
  bool backward = false;
  std::map<const plan::Command *, bool> known;
};

} // namespace

/// The share of a launch's time that belongs to each module of its kernel: as
/// its FLOPs if the kernel computes products, or else as its bytes.
static std::vector<double> divide(const plan::Kernel &kernel) {
  std::vector<double> shares;
  double sum = 0;
  for (const plan::ModuleShare &share : kernel.shares) {
    shares.push_back(kernel.modelFlops > 0 ? share.flops : share.bytes);
    sum += shares.back();
  }
  for (double &share : shares)
    share = sum > 0 ? share / sum : 1.0 / double(shares.size());
  return shares;
}

StepProfile heddle::rt::profileStep(const plan::Plan &plan,
                                    const CommandList &commands,
                                    const LaunchTime *times) {
  StepProfile profile;
  profile.model = countModules(plan, forwardProgram(plan)).model;
  PassFinder passes(plan);
  for (size_t i = 0; i < commands.size(); ++i) {
    const LaunchInfo &info = commands.info(i);
    bool isBackward = passes.isBackward(info);
    if (times[i].isSkipped()) {
      profile.skipsLayers |= info.layer != nullptr;
      continue;
    }
    double seconds = double(times[i].end - times[i].begin) * 1e-9;
    using namespace plan::command;
    if (copiesFile(*info.command)) {
      profile.fileCopies += seconds;
    } else if (info.kernel() < 0) {
      bool moves = info.command->as<Copy>() || info.command->as<CopyRows>() ||
                   info.command->as<Fill>();
      (moves ? profile.copies : profile.waits) += seconds;
    } else if (const plan::Kernel &kernel = plan.kernels[info.kernel()];
               kernel.updates) {
      profile.launches += 1;
      profile.optimizer += seconds;
    } else {
      profile.launches += 1;
      profile.sharedLaunches += kernel.shares.size() > 1;
      std::vector<double> shares = divide(kernel);
      for (size_t share = 0; share < shares.size(); ++share) {
        ModuleCosts &costs =
            profile.model
                .at(moduleOf(plan, *info.command, share, info.layerPath()))
                .own;
        (isBackward ? costs.backwardSeconds : costs.forwardSeconds) +=
            shares[share] * seconds;
      }
    }
  }
  return profile;
}
