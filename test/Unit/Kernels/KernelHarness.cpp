//===- KernelHarness.cpp - Compiles and runs one plan.kernel --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "mlir/Parser/Parser.h"
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

using namespace mlir;

namespace heddle::test {

ParsedKernel::ParsedKernel(const std::string &text) {
  DialectRegistry registry;
  cpu::registerKernelCompiler(registry);
  context = createKernelContext(registry);
  module = parseSourceString<ModuleOp>(text, context.get());
  if (!module)
    exit(1);
  kernel = *module->getOps<planir::KernelOp>().begin();
}

LoadedKernel::LoadedKernel(planir::KernelOp op, const cpu::CpuTarget &target) {
  using Clock = std::chrono::steady_clock;
  llvm::ExitOnError exitOnError("kernel: ");
  auto start = Clock::now();
  FailureOr<cpu::CompiledKernel> result =
      cpu::compileKernel(cpu::sourceOf(op, target), target, *op->getContext());
  if (failed(result))
    exit(1);
  seconds = std::chrono::duration<double>(Clock::now() - start).count();
  kernel = *result;
  loaded = std::make_unique<LoadedObject>(
      llvm::MemoryBuffer::getMemBufferCopy(kernel.object, kernel.symbol),
      target);
  entry = loaded->lookup<rt::KernelFunction>(kernel.symbol);
}

namespace {
struct Scratch {
  explicit Scratch(int64_t bytes)
      : data(std::aligned_alloc(64, (bytes + 64) / 64 * 64)) {}
  ~Scratch() { std::free(data); }
  void *data;
};
} // namespace

void LoadedKernel::run(const std::vector<void *> &refs,
                       const std::vector<int64_t> &scalars,
                       int64_t threads) const {
  Scratch scratch(kernel.scratchBytes);
  int64_t taken = 0;
  for (int64_t thread = 0; thread < threads; ++thread)
    entry(refs.data(), scalars.data(), thread, threads, scratch.data, &taken);
}

void LoadedKernel::runParallel(const std::vector<void *> &refs,
                               const std::vector<int64_t> &scalars,
                               int64_t threads) const {
  std::vector<std::thread> pool;
  int64_t taken = 0;
  for (int64_t thread = 0; thread < threads; ++thread)
    pool.emplace_back([&, thread] {
      Scratch scratch(kernel.scratchBytes);
      entry(refs.data(), scalars.data(), thread, threads, scratch.data, &taken);
    });
  for (std::thread &worker : pool)
    worker.join();
}

} // namespace heddle::test
