//===- KernelCheck.cpp - Kernel tests on the CPU --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Support/AmxEmulation.h"
#include "KernelHarness.h"
#include "KernelReference.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace heddle::test {

using eval::Tensor;

std::optional<cpu::CpuTarget> targetOf(const std::string &march) {
  if (march == "amx" || march == "amx-fp16")
    return emulatedAmxTarget(/*hasFp16=*/march == "amx-fp16");
  return cpu::CpuTarget::parse(march);
}

/// For AVX-512, AVX2 and what else is asked for, each with one thread and with
/// more, some with nothing to do. The number of threads changes no bit, nor do
/// the machine's tiles in place of emulated ones.
void KernelCheck::run() const {
  ParsedKernel parsed(text);
  planir::KernelOp kernel = parsed.kernel;
  std::vector<Tensor> arguments = randomArguments(kernel, *this);
  std::vector<Tensor> expected = evaluate(kernel, arguments);
  for (const std::string &march : marches) {
    std::optional<cpu::CpuTarget> target = targetOf(march);
    if (!target)
      continue;
    LoadedKernel loaded(kernel, *target);
    auto runOn = [&](const LoadedKernel &on, int64_t threads) {
      return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
        if (threads < 17)
          on.runParallel(refs, scalars, threads);
        else
          on.run(refs, scalars, threads);
      });
    };
    std::vector<Tensor> alone = runOn(loaded, 1);
    for (size_t i = 0; i < expected.size(); ++i)
      expectNear(alone[i], expected[i], tolerance,
                 march + ", result " + std::to_string(i) + " of\n" + text);
    auto expectSame = [&](const std::vector<Tensor> &results,
                          const std::string &how) {
      for (size_t i = 0; i < expected.size(); ++i)
        expectSameBits(results[i], alone[i],
                       march + ", " + how + ", result " + std::to_string(i) +
                           " of\n" + text);
    };
    for (int64_t threads : {2, 3, 17})
      expectSame(runOn(loaded, threads), std::to_string(threads) + " threads");
    std::optional<cpu::CpuTarget> native = targetOf("native");
    if (target->emulatesAmx &&
        (target->hasAmxFp16 ? native->hasAmxFp16 : native->hasAmx))
      expectSame(runOn(LoadedKernel(kernel, *targetOf("native")), 1),
                 "tiles of this machine");
  }
}

} // namespace heddle::test
