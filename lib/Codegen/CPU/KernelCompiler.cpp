//===- KernelCompiler.cpp - Compiles one plan.kernel ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/KernelCompiler.h"
#include "KernelEmitter.h"
#include "heddle/Codegen/CPU/CompileObject.h"
#include "heddle/Codegen/Common/LinalgLowerings.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::cpu {

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

std::string sealOf(const CompiledKernel &kernel, StringRef sourceHash) {
  return codegen::hashOf((kernel.object + "\n" + kernel.symbol + "\n" +
                          Twine(kernel.scratchBytes) + "\n" + sourceHash)
                             .str());
}

std::string describe(const CpuTarget &target) {
  return target.cpu + "\n" + target.tune + "\n" + target.features + "\n" +
         std::to_string(target.vectorBits);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

void registerKernelCompiler(DialectRegistry &registry) {
  registry.insert<planir::PlanDialect, nn::NNDialect>();
  codegen::registerLinalgLowerings(registry);
  registerCpuCodegen(registry);
}

static LogicalResult generate(KernelEmitter &k) {
  switch (k.kernel.getGenerator()) {
  case nn::Generator::Rows:
    return emitRowsKernel(k);
  case nn::Generator::Columns:
    return emitColumnsKernel(k);
  case nn::Generator::Reduce:
    return emitReduceKernel(k);
  case nn::Generator::Scatter:
    return emitScatterKernel(k);
  case nn::Generator::BlockSums:
    return emitBlockSumsKernel(k);
  case nn::Generator::Segments:
    return emitSegmentsKernel(k);
  case nn::Generator::Signs:
    return emitSignsKernel(k);
  case nn::Generator::Gemm:
    return emitGemmKernel(k);
  case nn::Generator::Attention:
    return emitAttentionKernel(k);
  case nn::Generator::Cache:
    return emitCacheKernel(k);
  }
  llvm_unreachable("all generators handled");
}

FailureOr<int64_t> emitKernelFunction(planir::KernelOp kernel, StringRef symbol,
                                      const CpuTarget &target,
                                      ModuleOp module) {
  if (failed(codegen::lowerBodyToLinalg(kernel.getBody().front())))
    return failure();
  MLIRContext *context = module.getContext();
  Location loc = UnknownLoc::get(context);
  OpBuilder builder(module.getBodyRegion());
  Type pointer = LLVM::LLVMPointerType::get(context);
  Type i64 = builder.getI64Type();
  auto function = builder.create<func::FuncOp>(
      loc, symbol,
      builder.getFunctionType({pointer, pointer, i64, i64, pointer, pointer},
                              {}));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  LoopBuilder loops(builder, loc);
  KernelEmitter emitter(kernel, loops, target);
  emitter.self = {entry->getArgument(2), entry->getArgument(3),
                  entry->getArgument(5)};
  emitter.scratch = entry->getArgument(4);
  emitter.bindArguments(entry->getArgument(0), entry->getArgument(1));
  if (failed(generate(emitter)))
    return failure();
  builder.create<func::ReturnOp>(loc);
  return emitter.scratchBytes;
}

/// Removes the body of the function except for the return.
static void clearFunction(func::FuncOp function) {
  function.eraseBody();
  auto builder = OpBuilder::atBlockBegin(function.addEntryBlock());
  builder.create<func::ReturnOp>(function.getLoc());
}

FailureOr<CompiledKernel> compileKernel(const codegen::KernelSource &source,
                                        const CpuTarget &target,
                                        MLIRContext &context, bool sizesOnly) {
  OwningOpRef<ModuleOp> parsed = codegen::parseSource(source, context);
  if (!parsed)
    return failure();
  auto kernel = *parsed->getOps<planir::KernelOp>().begin();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  FailureOr<int64_t> scratch =
      emitKernelFunction(kernel, source.symbol, target, *module);
  if (failed(scratch))
    return failure();
  if (sizesOnly)
    clearFunction(module->lookupSymbol<func::FuncOp>(source.symbol));
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> object =
      compileToObject(*module, target);
  if (!object) {
    kernel.emitError(llvm::toString(object.takeError()));
    return failure();
  }
  return CompiledKernel{source.symbol, *scratch, (*object)->getBuffer().str()};
}

} // namespace heddle::cpu
