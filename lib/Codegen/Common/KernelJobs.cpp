//===- KernelJobs.cpp - Compiles the kernels of models --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/KernelJobs.h"
#include "ObjectCache.h"
#include "heddle/Codegen/Common/Target.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Threading.h"
#include "llvm/Support/xxhash.h"
#include <atomic>
#include <thread>

using namespace mlir;
using namespace heddle;
using namespace heddle::codegen;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

std::string codegen::hashOf(StringRef text) {
  llvm::XXH128_hash_t hash =
      llvm::xxh3_128bits(llvm::arrayRefFromStringRef(text));
  return llvm::utohexstr(hash.high64, true, 16) +
         llvm::utohexstr(hash.low64, true, 16);
}

/// A readable name for a kernel: the names of its operations.
static std::string describe(planir::KernelOp kernel) {
  constexpr size_t longest = 64;
  std::string name;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    StringRef next = nn::labelOf(&op);
    if (name.size() + next.size() >= longest)
      break;
    if (!name.empty())
      name += "_";
    name += next;
  }
  return name;
}

KernelSource codegen::sourceOf(planir::KernelOp kernel, StringRef target) {
  KernelSource source;
  source.text = textOf(kernel);
  source.hash = hashOf((source.text + "\n" + target).str());
  source.symbol = "k_" + describe(kernel) + "_" + source.hash.substr(0, 12);
  return source;
}

LogicalResult codegen::verifySource(planir::KernelOp kernel, StringRef target) {
  if (sourceOf(kernel, target).hash == *kernel.getHash())
    return success();
  auto error = kernel.emitError("H0397: is not the kernel that its code was "
                                "compiled from, or not for this target");
  error.attachNote() << "help: compile it again: edit the dump of the phase "
                        "fuse, and --start-from fuse";
  return error;
}

OwningOpRef<ModuleOp> codegen::parseSource(const KernelSource &source,
                                           MLIRContext &context) {
  return parseSourceString<ModuleOp>(source.text, &context, source.symbol);
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

int64_t KernelJobs::add(Operation *root, StringRef target,
                        const CompileSource &compile,
                        llvm::function_ref<bool(planir::KernelOp)> wanted) {
  // Merge kernels within this model only, because a model can launch only its
  // own kernels. Do not merge a kernel that runs on the host with one of the
  // device, because they use different memory.
  llvm::StringMap<planir::KernelOp> ofDevice, ofHost;
  llvm::DenseMap<StringAttr, StringAttr> replacements;
  for (auto kernel : llvm::make_early_inc_range(
           root->getRegion(0).getOps<planir::KernelOp>())) {
    if (!wanted(kernel))
      continue;
    KernelSource source = sourceOf(kernel, target);
    auto [entry, isNew] = (kernel.getOnHost() ? ofHost : ofDevice)
                              .try_emplace(source.hash, kernel);
    if (!isNew) {
      replacements[kernel.getSymNameAttr()] = entry->second.getSymNameAttr();
      kernel.erase();
      continue;
    }
    auto [result, isFirst] = results.try_emplace(source.hash);
    if (isFirst)
      distinct.push_back(jobs.size());
    jobs.push_back({kernel, std::move(source), compile, &result->second});
  }
  root->walk([&](planir::LaunchOp launch) {
    auto found = replacements.find(launch.getKernelAttr().getAttr());
    if (found != replacements.end())
      launch.setKernel(found->second);
  });
  return static_cast<int64_t>(replacements.size());
}

namespace {
/// A thread that compiles one job after the other in its own context.
class Worker {
public:
  Worker(const ObjectCache &cache,
         llvm::function_ref<void(DialectRegistry &)> registerDialects,
         StringRef tools)
      : cache(cache), registerDialects(registerDialects), tools(tools) {}

  void run(const KernelJobs::Job &job) {
    KernelJobs::Result &result = *job.result;
    std::string key = tools.empty()
                          ? job.source.hash
                          : hashOf((job.source.hash + "\n" + tools).str());
    if (std::optional<std::string> code = cache.find(key)) {
      result.code = std::move(*code);
      result.isCached = true;
      return;
    }
    if (!context)
      createContext();
    ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        result.error += (result.error.empty() ? "" : "; ") + diagnostic.str();
    });
    FailureOr<std::string> code = job.compile(job.source, *context);
    if (failed(code)) {
      if (result.error.empty())
        result.error = "no reason is known";
      return;
    }
    result.code = std::move(*code);
    cache.add(key, result.code);
  }

private:
  void createContext() {
    DialectRegistry registry;
    registerDialects(registry);
    context = std::make_unique<MLIRContext>(registry,
                                            MLIRContext::Threading::DISABLED);
    context->loadAllAvailableDialects();
  }

  const ObjectCache &cache;
  llvm::function_ref<void(DialectRegistry &)> registerDialects;
  StringRef tools;
  std::unique_ptr<MLIRContext> context;
};
} // namespace

void KernelJobs::run(
    StringRef directory,
    llvm::function_ref<void(DialectRegistry &)> registerDialects,
    StringRef tools) {
  ObjectCache cache(directory);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    Worker worker(cache, registerDialects, tools);
    for (size_t job; (job = next++) < distinct.size();)
      worker.run(jobs[distinct[job]]);
  };
  size_t count = std::min<size_t>(
      llvm::hardware_concurrency().compute_thread_count(), distinct.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}
