//===- KernelHarness.cpp - Compiles and runs one plan.kernel --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
#include <map>
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

std::shared_ptr<const LoadedKernel::Code>
LoadedKernel::codeOf(planir::KernelOp op, const cpu::CpuTarget &target) {
  static std::map<std::string, std::shared_ptr<const Code>> codes;
  codegen::KernelSource source = cpu::sourceOf(op, target);
  // The hash says nothing of tiles that this machine lacks.
  std::shared_ptr<const Code> &code =
      codes[source.hash + (target.emulatesAmx ? " emulates tiles" : "")];
  if (code)
    return code;
  FailureOr<cpu::CompiledKernel> kernel =
      cpu::compileKernel(source, target, *op->getContext());
  if (failed(kernel))
    exit(1);
  auto object =
      llvm::MemoryBuffer::getMemBufferCopy(kernel->object, kernel->symbol);
  code.reset(new Code{*kernel, {std::move(object), target}});
  return code;
}

LoadedKernel::LoadedKernel(planir::KernelOp op, const cpu::CpuTarget &target)
    : code(codeOf(op, target)),
      entry(code->loaded.lookup<rt::KernelFunction>(code->kernel.symbol)) {}

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
  Scratch scratch(code->kernel.scratchBytes);
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
      Scratch scratch(code->kernel.scratchBytes);
      entry(refs.data(), scalars.data(), thread, threads, scratch.data, &taken);
    });
  for (std::thread &worker : pool)
    worker.join();
}

} // namespace heddle::test
