//===- PredictProgram.cpp - The time of a program on a GPU ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PredictProgram.h"
#include "ExplainProgram.h"
#include "ExplainText.h"
#include "heddle/Cost/GpuTime.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/core/ProgramNeeds.h"

#include <iostream>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// What one call of a kernel executes. Empty if the emulator could not run it.
static std::optional<cost::LaunchWork> countedWork(const json &kernel) {
  cost::LaunchWork work;
  for (const json &launch : kernel["launches"]) {
    const json &counted = launch["counted"];
    if (!counted.contains("instructions"))
      return std::nullopt;
    work.instructions += counted["instructions"].get<double>();
    work.tensorOperations += counted["tensor_operations"].get<double>();
  }
  return work;
}

json driver::predictProgram(const plan::Plan &plan,
                            const plan::Program &program, const json &kernels,
                            int64_t context) {
  const cost::GpuSpeed *gpu = cost::findGpuSpeed(plan.target);
  rt::ProgramNeeds needs = rt::needsOf(plan, program);
  if (!gpu || needs.caches.empty())
    return nullptr;
  if (context == 0)
    context = plan.serving.maxContext;
  double cacheBytes =
      needs.cacheBytesAt(context) * double(sizeOf(program).first);
  int64_t readers = 0; // The calls among which the cache is shared out.
  for (const json &kernel : kernels)
    readers += kernel["reads_cache"] ? kernel["calls"].get<int64_t>() : 0;
  cost::GpuTime time;
  cost::LaunchCost cost;
  if (gpu->overlapsLaunches)
    cost.gap = 0;
  for (const json &kernel : kernels) {
    std::optional<cost::LaunchWork> work = countedWork(kernel);
    if (!work)
      return nullptr;
    // The memory that moves, and the instructions, are those of all launches of
    // the kernel together; each of them has a beginning and an end.
    auto launches = int64_t(std::max<size_t>(1, kernel["launches"].size()));
    work->bytes = kernel["reads_cache"] ? cacheBytes / double(readers)
                                        : kernel["bytes"].get<double>();
    for (double *part :
         {&work->bytes, &work->instructions, &work->tensorOperations})
      *part /= double(launches);
    time.add(*gpu, *work, launches * kernel["calls"].get<int64_t>(), cost);
  }
  return {{"gpu", gpu->name},
          {"context", context},
          {"rows", sizeOf(program).first},
          {"bytes", time.bytes},
          {"seconds", time.seconds()},
          {"memory_s", time.memory},
          {"issue_s", time.issue},
          {"tensor_s", time.tensor},
          {"launch_s", time.launches},
          {"bound_by", time.bound()},
          {"share_of_copy", time.shareOfCopy(*gpu)},
          {"copy_bytes_per_s", gpu->copyBytesPerSecond}};
}

void driver::printPrediction(const json &predicted) {
  if (predicted.is_null())
    return;
  std::cout << "predicted on an " << predicted["gpu"].get<std::string>()
            << ", with a context of " << predicted["context"] << ": "
            << formatSeconds(predicted["seconds"]) << ", bounded by "
            << predicted["bound_by"].get<std::string>() << "\n  memory "
            << formatSeconds(predicted["memory_s"]) << " for "
            << plan::formatBytes(int64_t(predicted["bytes"].get<double>()))
            << ", issue slots " << formatSeconds(predicted["issue_s"])
            << ", tensor cores " << formatSeconds(predicted["tensor_s"])
            << ", begin and end of launches "
            << formatSeconds(predicted["launch_s"]) << ";\n  "
            << formatNumber("%.0f %%",
                            100 * predicted["share_of_copy"].get<double>())
            << " of the bandwidth that a copy reaches, "
            << formatNumber("%.2f TB/s",
                            predicted["copy_bytes_per_s"].get<double>() / 1e12)
            << "\n";
}
