//===- StepProfile.cpp - A training step by module ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepProfile.h"

using namespace heddle;
using namespace heddle::rt;

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
  auto addLaunch = [&](const LaunchInfo &info, bool isBackward,
                       double seconds) {
    std::vector<double> shares = divide(plan.kernels[info.kernel()]);
    for (size_t share = 0; share < shares.size(); ++share) {
      ModuleCosts &costs =
          profile.model
              .at(moduleOf(plan, *info.command, share, info.layerPath()))
              .own;
      (isBackward ? costs.backwardSeconds : costs.forwardSeconds) +=
          shares[share] * seconds;
    }
  };
  profile.parts = partsOfStep(plan, commands, times, addLaunch);
  return profile;
}
