//===- KernelRunner.cpp - Calls compiled kernels on host memory -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads the objects of a model or plan into this process, and calls them.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "PtxRunner.h"
#include "heddle/Eval/Files.h"
#include "heddle/runtime/core/KernelFunction.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/TargetSelect.h"
#include <cstring>

using namespace mlir;

namespace heddle::eval {

static constexpr int64_t alignment = 64;

static int64_t alignUp(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

HostBuffer::HostBuffer(int64_t bytes) {
  int64_t size = std::max(alignUp(bytes), alignment);
  memory.reset(static_cast<char *>(std::aligned_alloc(alignment, size)));
  std::memset(memory.get(), 0, size);
}

namespace {
/// Runs x86-64 objects.
class ObjectRunner : public KernelRunner {
public:
  static std::unique_ptr<ObjectRunner> create(Operation *symbolTable,
                                              int64_t threads);

  /// Calls the kernel once for each thread, one call after the other. Threads
  /// of a kernel do not wait for each other, so the result is the same as in
  /// parallel.
  LogicalResult launch(planir::KernelOp kernel, ArrayRef<void *> refs,
                       ArrayRef<int64_t> scalars, char *scratch,
                       int64_t stride) override;

private:
  ObjectRunner(int64_t threads, std::unique_ptr<llvm::orc::LLJIT> loader)
      : KernelRunner(threads), loader(std::move(loader)) {}

  std::unique_ptr<llvm::orc::LLJIT> loader;
};

/// Runs the kernels of a plan for GPUs: PTX in the emulator, and the objects of
/// kernels for the host in this process.
class MixedRunner : public KernelRunner {
public:
  MixedRunner(std::unique_ptr<KernelRunner> gpu,
              std::unique_ptr<KernelRunner> host)
      : KernelRunner(gpu->scratchUsers()), gpu(std::move(gpu)),
        host(std::move(host)) {}

  LogicalResult launch(planir::KernelOp kernel, ArrayRef<void *> refs,
                       ArrayRef<int64_t> scalars, char *scratch,
                       int64_t stride) override {
    return (kernel.getOnHost() ? host : gpu)
        ->launch(kernel, refs, scalars, scratch, stride);
  }

private:
  std::unique_ptr<KernelRunner> gpu, host;
};
} // namespace

/// Whether this process can call the kernels of a model or plan. It cannot if
/// they are PTX, which the emulator executes. Kernels that a GPU's plan runs on
/// the host's cores (`onHost`) do not count here.
static bool runInProcess(Operation *symbolTable) {
  auto strategy = symbolTable->getAttrOfType<dist::StrategyAttr>("strategy");
  return !strategy || factsOf(strategy.getValue().target).kernelsRunOnHost;
}

static llvm::Error addObject(llvm::orc::LLJIT &loader,
                             planir::ObjectOp object) {
  std::vector<char> bytes;
  if (llvm::Error error = llvm::decodeBase64(object.getData(), bytes))
    return error;
  return loader.addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(
      StringRef(bytes.data(), bytes.size()), object.getSymName()));
}

std::unique_ptr<ObjectRunner> ObjectRunner::create(Operation *symbolTable,
                                                   int64_t threads) {
  Diagnostic error;
  if (!takeTiles(error)) {
    InFlightDiagnostic emitted = symbolTable->emitError(error.code)
                                 << ": " << error.message;
    emitted.attachNote() << "help: " << error.help;
    return nullptr;
  }
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto loader = llvm::orc::LLJITBuilder().create();
  if (!loader) {
    symbolTable->emitError("kernels cannot be loaded: ")
        << llvm::toString(loader.takeError());
    return nullptr;
  }
  llvm::SetVector<Operation *> objects;
  for (auto kernel : symbolTable->getRegion(0).getOps<planir::KernelOp>())
    if (kernel.getObject() && (runInProcess(symbolTable) || kernel.getOnHost()))
      objects.insert(
          SymbolTable::lookupSymbolIn(symbolTable, kernel.getObjectAttr()));
  for (Operation *op : objects) {
    auto object = dyn_cast_or_null<planir::ObjectOp>(op);
    if (!object)
      continue;
    if (llvm::Error error = addObject(**loader, object)) {
      object.emitError("is no object: ") << llvm::toString(std::move(error));
      return nullptr;
    }
  }
  return std::unique_ptr<ObjectRunner>(
      new ObjectRunner(threads, std::move(*loader)));
}

LogicalResult ObjectRunner::launch(planir::KernelOp kernel,
                                   ArrayRef<void *> refs,
                                   ArrayRef<int64_t> scalars, char *scratch,
                                   int64_t stride) {
  if (!kernel.getSymbol())
    return kernel.emitError("is not compiled");
  auto address = loader->lookup(*kernel.getSymbol());
  if (!address)
    return kernel.emitError("cannot be loaded: ")
           << llvm::toString(address.takeError());
  auto function = address->toPtr<rt::KernelFunction>();
  int64_t taken = 0;
  for (int64_t thread = 0; thread < scratchUsers(); ++thread)
    function(refs.data(), scalars.data(), thread, scratchUsers(),
             scratch + thread * stride, &taken);
  return success();
}

std::unique_ptr<KernelRunner> KernelRunner::create(Operation *symbolTable,
                                                   int64_t threads) {
  if (runInProcess(symbolTable))
    return ObjectRunner::create(symbolTable, threads);
  std::unique_ptr<KernelRunner> gpu = PtxRunner::create(symbolTable);
  auto kernels = symbolTable->getRegion(0).getOps<planir::KernelOp>();
  if (!gpu || llvm::none_of(kernels, [](planir::KernelOp kernel) {
        return kernel.getOnHost();
      }))
    return gpu;
  std::unique_ptr<KernelRunner> host =
      ObjectRunner::create(symbolTable, /*threads=*/1);
  if (!host)
    return nullptr;
  return std::make_unique<MixedRunner>(std::move(gpu), std::move(host));
}

LogicalResult KernelRunner::launch(planir::KernelOp kernel,
                                   ArrayRef<void *> refs,
                                   ArrayRef<int64_t> scalars) {
  int64_t stride =
      std::max(alignUp(kernel.getScratchBytes().value_or(0)), alignment);
  HostBuffer scratch(stride * users);
  return launch(kernel, refs, scalars, scratch.data(), stride);
}

} // namespace heddle::eval
