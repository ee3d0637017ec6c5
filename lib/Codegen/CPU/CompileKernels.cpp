//===- CompileKernels.cpp - Every plan.kernel to an object ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ObjectCache.h"
#include "heddle/Codegen/CPU/CpuBackEnd.h"
#include "heddle/Codegen/CPU/Passes.h"
#include "llvm/Support/Base64.h"
#include <atomic>
#include <deque>
#include <thread>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_CPUCOMPILEKERNELS
#include "include/heddle/Codegen/CPU/Passes.h.inc"
} // namespace heddle

namespace {
/// One kernel to compile, and what came of it.
struct Job {
  planir::KernelOp kernel;
  cpu::KernelSource source;
  cpu::CpuTarget target;
  std::optional<cpu::CompiledKernel> result = std::nullopt;
  bool cached = false;
  std::string error = "";
  StringAttr data = nullptr; ///< The object in base64.
  StringAttr seal = nullptr; ///< The object's hash.
};

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// Compiles jobs one after the other, in a context of its own.
class Worker {
public:
  explicit Worker(const cpu::ObjectCache &cache) : cache(cache) {}

  void run(Job &job) {
    job.result = cache.find(job.source);
    job.cached = job.result.has_value();
    if (job.cached)
      return;
    if (!context)
      createContext();
    ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
      job.error += (job.error.empty() ? "" : "; ") + diagnostic.str();
    });
    FailureOr<cpu::CompiledKernel> compiled =
        cpu::compileKernel(job.source, job.target, *context);
    if (failed(compiled))
      return;
    job.result = std::move(*compiled);
    cache.add(job.source, *job.result);
  }

private:
  void createContext() {
    DialectRegistry registry;
    cpu::registerKernelCompiler(registry);
    context = std::make_unique<MLIRContext>(registry,
                                            MLIRContext::Threading::DISABLED);
    context->loadAllAvailableDialects();
  }

  const cpu::ObjectCache &cache;
  std::unique_ptr<MLIRContext> context;
};

void compileAll(ArrayRef<Job *> jobs, const cpu::ObjectCache &cache) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    Worker worker(cache);
    for (size_t job; (job = next++) < jobs.size();)
      worker.run(*jobs[job]);
  };
  size_t count = std::min<size_t>(
      std::max(1u, std::thread::hardware_concurrency()), jobs.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

struct CpuCompileKernels
    : heddle::impl::CpuCompileKernelsBase<CpuCompileKernels> {
  using Base::Base;

  void runOnOperation() override {
    // All models at once: the stages of a pipeline have most kernels in common.
    std::deque<Job> jobs;
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      FailureOr<cpu::CpuTarget> target = cpu::machineOf(model, march);
      if (failed(target))
        return signalPassFailure();
      deduplicate(model, *target, jobs);
    }
    if (failed(compile(jobs)))
      signalPassFailure();
  }

private:
  /// Adds a model's distinct kernels; launches of the rest are redirected.
  void deduplicate(nn::ModelOp model, const cpu::CpuTarget &target,
                   std::deque<Job> &jobs) {
    llvm::StringMap<planir::KernelOp> byHash;
    llvm::DenseMap<StringAttr, planir::KernelOp> replacements;
    for (auto kernel :
         llvm::make_early_inc_range(model.getOps<planir::KernelOp>())) {
      cpu::KernelSource source = cpu::sourceOf(kernel, target);
      auto [entry, isNew] = byHash.try_emplace(source.hash, kernel);
      if (isNew) {
        jobs.push_back({kernel, std::move(source), target});
        continue;
      }
      replacements[kernel.getSymNameAttr()] = entry->second;
      kernel.erase();
      ++numShared;
    }
    model.walk([&](planir::LaunchOp launch) {
      auto found = replacements.find(launch.getKernelAttr().getAttr());
      if (found != replacements.end())
        launch.setKernel(found->second.getSymName());
    });
  }

  LogicalResult compile(std::deque<Job> &jobs) {
    llvm::StringMap<Job *> byHash; // Of all models.
    std::vector<Job *> distinct;
    for (Job &job : jobs)
      if (byHash.try_emplace(job.source.hash, &job).second)
        distinct.push_back(&job);
    compileAll(distinct, cpu::ObjectCache(cache));
    OpBuilder builder(&getContext());
    for (Job &job : jobs) {
      Job &compiled = *byHash.lookup(job.source.hash);
      if (!compiled.result)
        return job.kernel.emitError("H0910: cannot be compiled: ")
               << compiled.error;
      compiled.cached ? ++numCached : ++numCompiled;
      if (!compiled.data) {
        compiled.data =
            builder.getStringAttr(llvm::encodeBase64(compiled.result->object));
        compiled.seal = builder.getStringAttr(
            cpu::sealOf(*compiled.result, compiled.source.hash));
      }
      attach(builder, job.kernel, compiled);
    }
    return success();
  }

  void attach(OpBuilder &builder, planir::KernelOp kernel,
              const Job &compiled) {
    builder.setInsertionPointAfter(kernel);
    auto object = builder.create<planir::ObjectOp>(
        kernel.getLoc(),
        builder.getStringAttr(kernel.getSymName() + Twine(".o")), compiled.data,
        compiled.seal);
    kernel.setObject(object.getSymName());
    kernel.setSymbol(compiled.result->symbol);
    kernel.setHash(compiled.source.hash);
    kernel.setScratchBytes(compiled.result->scratchBytes);
  }
};

} // namespace
