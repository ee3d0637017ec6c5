//===- GemmRunner.cpp - Compiles and runs one matrix product ------------ ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmRunner.h"
#include "heddle/Codegen/CPU/CompileObject.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <chrono>
#include <cstdlib>

using namespace mlir;

namespace heddle::test {

std::unique_ptr<MLIRContext> createCodegenContext() {
  DialectRegistry registry;
  cpu::registerCpuCodegen(registry);
  auto context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

static OwningOpRef<ModuleOp> buildModule(MLIRContext &context,
                                         const cpu::GemmSpec &spec,
                                         const cpu::CpuTarget &target,
                                         RunnerEpilogue epilogue,
                                         RunnerInit init) {
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder builder(module->getBodyRegion());
  Type pointer = LLVM::LLVMPointerType::get(&context);
  Type i64 = builder.getI64Type();
  auto function = builder.create<func::FuncOp>(
      loc, "gemm",
      builder.getFunctionType(
          {pointer, pointer, pointer, pointer, i64, i64, pointer}, {}));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  Value extra = body->getArgument(3);
  auto bound = [&](OpBuilder &b, Location l, Value acc, Value row, Value col,
                   Value mask) {
    return epilogue(b, l, extra, acc, row, col, mask);
  };
  cpu::EpilogueFn onTile = nullptr;
  if (epilogue)
    onTile = bound;
  auto begun = [&](OpBuilder &b, Location l, Value row, Value col, Value mask) {
    return init(b, l, extra, row, col, mask);
  };
  if (failed(cpu::emitGemm(builder, loc, spec, target, body->getArgument(0),
                           body->getArgument(1), body->getArgument(2),
                           body->getArgument(6), body->getArgument(4),
                           body->getArgument(5), onTile,
                           init ? cpu::InitFn(begun) : cpu::InitFn())))
    exit(1);
  builder.create<func::ReturnOp>(loc);
  if (std::getenv("HEDDLE_DUMP_GEMM"))
    module->dump();
  return module;
}

GemmRunner::GemmRunner(MLIRContext &context, const cpu::GemmSpec &spec,
                       const cpu::CpuTarget &target, RunnerEpilogue epilogue,
                       RunnerInit init)
    : scratchSize(cpu::gemmScratchBytes(spec, target)) {
  using Clock = std::chrono::steady_clock;
  llvm::ExitOnError exitOnError("gemm: ");
  auto start = Clock::now();
  OwningOpRef<ModuleOp> module =
      buildModule(context, spec, target, epilogue, init);
  auto object = exitOnError(cpu::compileToObject(*module, target));
  seconds = std::chrono::duration<double>(Clock::now() - start).count();
  objectBytes = object->getBuffer().str();

  loaded = std::make_unique<LoadedObject>(std::move(object), target);
  entry = loaded->lookup<Entry>("gemm");
}

void GemmRunner::run(const void *a, const void *b, void *c, void *extra,
                     int64_t thread, int64_t threads, void *scratch) const {
  entry(a, b, c, extra, thread, threads, scratch);
}

void GemmRunner::runAll(const void *a, const void *b, void *c, void *extra,
                        int64_t threads) const {
  void *scratch = std::aligned_alloc(64, (scratchSize + 63) / 64 * 64);
  for (int64_t thread = 0; thread < threads; ++thread)
    run(a, b, c, extra, thread, threads, scratch);
  std::free(scratch);
}

} // namespace heddle::test
