//===- CompileKernels.cpp - Every plan.kernel to an object ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ObjectCache.h"
#include "heddle/Codegen/CPU/Passes.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Base64.h"
#include <atomic>
#include <deque>
#include <thread>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_KERNELSCOMPILE
#define GEN_PASS_DEF_KERNELSVERIFY
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

/// The strategy of a model or of a plan.
dist::Strategy strategyOf(Operation *root) {
  return root->getAttrOfType<dist::StrategyAttr>("strategy").getValue();
}

/// Kernels for a GPU are made elsewhere, and have no ELF object.
bool isForCpu(Operation *root) {
  return strategyOf(root).target == config::Target::X86_64;
}

/// The target of a root's strategy, or `march` where that is given.
FailureOr<cpu::CpuTarget> targetOf(Operation *root, StringRef march = "") {
  std::string name =
      march.empty() ? wordOf(strategyOf(root).march) : march.str();
  if (std::optional<cpu::CpuTarget> target = cpu::CpuTarget::parse(name))
    return *target;
  auto diagnostic = root->emitError("H0114: no code can be made for --march ")
                    << name << "; known are ";
  llvm::interleaveComma(cpu::CpuTarget::names(), diagnostic);
  return diagnostic;
}

struct KernelsCompile : heddle::impl::KernelsCompileBase<KernelsCompile> {
  using Base::Base;

  void runOnOperation() override {
    // All models at once: the stages of a pipeline have most kernels in common.
    std::deque<Job> jobs;
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      if (!isForCpu(model))
        continue;
      FailureOr<cpu::CpuTarget> target = targetOf(model, march);
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

//===----------------------------------------------------------------------===//
// Checking
//===----------------------------------------------------------------------===//

struct KernelsVerify : heddle::impl::KernelsVerifyBase<KernelsVerify> {
  using Base::Base;

  void runOnOperation() override {
    checked.clear();
    for (Operation &root : getOperation().getOps())
      if (isa<nn::ModelOp, planir::ProgramOp>(root) && isForCpu(&root) &&
          failed(checkAll(root)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult checkAll(Operation &root) {
    FailureOr<cpu::CpuTarget> target = targetOf(&root);
    if (failed(target))
      return failure();
    SymbolTable symbols(&root);
    for (auto kernel : root.getRegion(0).getOps<planir::KernelOp>())
      if (failed(check(symbols, kernel, *target)))
        return failure();
    return success();
  }

  LogicalResult check(const SymbolTable &symbols, planir::KernelOp kernel,
                      const cpu::CpuTarget &target) {
    if (!kernel.getObject() || !kernel.getSymbol() ||
        !kernel.getScratchBytes() || !kernel.getHash())
      return kernel.emitError("H0397: is not compiled");
    auto object = symbols.lookup<planir::ObjectOp>(*kernel.getObject());
    if (!object)
      return kernel.emitError("H0397: names the object @")
             << *kernel.getObject() << ", which is not there";
    if (cpu::sourceOf(kernel, target).hash != *kernel.getHash()) {
      auto error =
          kernel.emitError("H0397: is not the kernel that its code was "
                           "compiled from, or not for this target");
      error.attachNote()
          << "help: compile it again: edit the dump of the phase "
             "fuse, and --start-from fuse";
      return error;
    }
    // Pipeline stages have most objects in common.
    auto what = std::make_tuple(object.getDataAttr(), object.getHashAttr(),
                                kernel.getSymbolAttr(), kernel.getHashAttr(),
                                kernel.getScratchBytesAttr());
    if (!checked.insert(what).second)
      return success();
    std::vector<char> bytes;
    if (llvm::Error error = llvm::decodeBase64(object.getData(), bytes))
      return object.emitError("H0397: is not base64: ")
             << llvm::toString(std::move(error));
    cpu::CompiledKernel code{kernel.getSymbol()->str(),
                             static_cast<int64_t>(*kernel.getScratchBytes()),
                             std::string(bytes.begin(), bytes.end())};
    if (object.getHash() != cpu::sealOf(code, *kernel.getHash()))
      return object.emitError("H0397: @")
             << object.getSymName() << " is not the code that was compiled for "
             << "@" << kernel.getSymName() << ": its hash differs";
    auto file = llvm::object::ObjectFile::createELFObjectFile(
        {code.object, object.getSymName()});
    if (!file)
      return object.emitError("H0397: is no ELF object: ")
             << llvm::toString(file.takeError());
    return checkSymbols(kernel, **file);
  }

  LogicalResult checkSymbols(planir::KernelOp kernel,
                             const llvm::object::ObjectFile &file) {
    bool defined = false;
    for (const llvm::object::SymbolRef &symbol : file.symbols()) {
      llvm::Expected<StringRef> name = symbol.getName();
      llvm::Expected<uint32_t> flags = symbol.getFlags();
      if (!name || !flags) {
        llvm::consumeError(name.takeError());
        llvm::consumeError(flags.takeError());
        return kernel.emitError("H0397: its object has damaged symbols");
      }
      bool undefined = *flags & llvm::object::SymbolRef::SF_Undefined;
      // LLVM makes calls of loops that copy and fill; the runtime has these.
      bool known = llvm::is_contained({"memcpy", "memmove", "memset"}, *name);
      if (undefined && !known && !name->empty())
        return kernel.emitError("H0397: its object calls ")
               << *name << ", which no kernel may";
      defined |= !undefined && *name == *kernel.getSymbol();
    }
    if (!defined)
      return kernel.emitError("H0397: its object does not define ")
             << *kernel.getSymbol();
    return success();
  }

  llvm::DenseSet<
      std::tuple<Attribute, Attribute, Attribute, Attribute, Attribute>>
      checked;
};

} // namespace
