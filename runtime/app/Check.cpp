//===- Check.cpp - The verb check -----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `check` runs every GPU kernel of a binary on random data and compares the
// results with those of a kernel that was compiled without optimizations
// (KernelCheck.h).
//
//===----------------------------------------------------------------------===//

#include "KernelCheck.h"
#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/core/ProgramNeeds.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <chrono>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::ordered_json;

/// Reads the plan for this machine's GPU.
static Binary readForGpu(const CheckOptions &options) {
  std::vector<Binary> targets = readTargets(options.binary);
  auto isForGpu = [](const Binary &target) {
    return target.plan.device == plan::DeviceKind::Cuda;
  };
  if (std::none_of(targets.begin(), targets.end(), isForGpu))
    fail("H0188",
         "check compares the kernels of GPUs, and this binary holds " +
             targets.front().plan.target,
         "compile it with --target sm_90, or with x86-64,sm_90 for both");
  DeviceOptions device;
  device.kind = plan::nameOf(plan::DeviceKind::Cuda);
  return std::move(targets[chooseTarget(targets, device, 0)]);
}

static ordered_json describe(const CheckedKernel &kernel,
                             const plan::Kernel &planned) {
  return {{"name", kernel.name},
          {"ops", planned.ops},
          // JSON has no infinity.
          {"error", std::min(kernel.error, 1e300)},
          {"tolerance", kernel.tolerance},
          {"agrees", kernel.agrees()},
          {"elements", kernel.elements},
          {"compared", kernel.compared},
          {"seconds", kernel.seconds},
          {"plain_seconds", kernel.plainSeconds}};
}

int heddle::rt::runCheck(const CheckOptions &options, Ranks &ranks) {
  if (ranks.rank() != 0)
    return 0;
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  Binary binary = readForGpu(options);
  const std::vector<plan::Kernel> &kernels = binary.plan.kernels;
  ThreadPool pool(1);
  std::unique_ptr<Device> device =
      openDevice(binary.plan, options.device, 0, pool);
  KernelChecker checker(*device, binary.kernels, kernels, options.sampleTerms);
  if (!options.json)
    printf("%s\n%9s %9s %10s %10s  %s\n", device->model().c_str(), "error",
           "may be", "ms", "plain ms", "kernel");
  const std::vector<KernelConstants> constants =
      constantOperandsOf(binary.plan);
  std::string wrong;
  size_t numChecked = 0, numWrong = 0;
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const plan::Kernel &kernel = kernels[i];
    if (kernel.onHost)
      continue;
    ++numChecked;
    CheckedKernel checked = checker.check(kernel, constants[i]);
    if (options.json)
      list.push_back(describe(checked, kernel));
    else
      printf("%9.2g %9.2g %10.3f %10.3f  %s (%s)%s\n", checked.error,
             checked.tolerance, 1e3 * checked.seconds,
             1e3 * checked.plainSeconds, kernel.name.c_str(),
             kernel.ops.c_str(), checked.agrees() ? "" : "  WRONG");
    // Print each line at once, so that a user who ends the process early sees
    // which kernels have been checked.
    fflush(stdout);
    if (checked.agrees())
      continue;
    wrong += (numWrong++ ? ", " : "") + kernel.name;
  }
  std::chrono::duration<double> time = Clock::now() - start;
  if (options.json) {
    ordered_json all = {{"gpu", device->model()},
                        {"target", binary.plan.target},
                        {"agree", numWrong == 0},
                        {"seconds", time.count()},
                        {"kernels", list}};
    printf("%s\n", all.dump().c_str());
  }
  if (numWrong)
    fail("H0456",
         std::to_string(numWrong) + " of " + std::to_string(numChecked) +
             " kernels give other numbers on this " + device->model() +
             " than plain ones of the same bodies: " + wrong,
         "do not train with this binary here; report it with this output, the "
         "driver's version and the command that compiled the binary");
  if (!options.json)
    printf("all %zu kernels agree%s, found in %.1f s\n", numChecked,
           options.sampleTerms ? " in the elements that were compared" : "",
           time.count());
  return 0;
}
