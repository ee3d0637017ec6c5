//===- AttentionRunner.cpp - Compiles and runs one attention ------------ ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionRunner.h"
#include "heddle/Codegen/CPU/CompileObject.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <chrono>
#include <cstdlib>
#include <cstring>

using namespace mlir;

namespace heddle::test {

static LogicalResult emitBody(OpBuilder &builder, Location loc,
                              const cpu::AttentionSpec &spec,
                              const cpu::CpuTarget &target,
                              AttentionRunner::Pass pass, bool hasLengths,
                              Block &entry) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto load = [&](Type type, Value base, int32_t index) -> Value {
    Value address = builder.create<LLVM::GEPOp>(loc, pointer, type, base,
                                                ArrayRef<LLVM::GEPArg>(index));
    return builder.create<LLVM::LoadOp>(loc, type, address);
  };
  // Tensors are raw pointers when q, k and v are packed, else memrefs.
  int32_t next = 0;
  auto take = [&](int count) {
    SmallVector<Value> tensors;
    for (int i = 0; i < count; ++i) {
      Value tensor = load(pointer, entry.getArgument(0), next++);
      if (!spec.packed)
        tensor = cpu::memrefFromPointer(builder, loc, tensor,
                                        MemRefType::get({1}, spec.elementType));
      tensors.push_back(tensor);
    }
    return tensors;
  };
  cpu::AttentionRandom random;
  cpu::AttentionKeys keys;
  auto takeRest = [&] {
    auto scalar = [&](int32_t index) {
      return load(builder.getI64Type(), entry.getArgument(1), index);
    };
    if (spec.p > 0)
      random = {take(1)[0], scalar(0), scalar(1),
                spec.parts > 1 ? scalar(2) : Value()};
    if (hasLengths)
      keys.lengths = take(1)[0];
    if (spec.block) {
      keys.layout = take(1)[0];
      keys.part = spec.parts > 1 ? scalar(2) : Value();
    }
  };
  Value thread = entry.getArgument(2), threads = entry.getArgument(3);
  Value scratch = entry.getArgument(4);
  int operands = spec.packed ? 1 : 3;
  if (pass == AttentionRunner::Pass::Forward) {
    auto qkv = take(operands), results = take(2);
    takeRest();
    return cpu::emitAttention(builder, loc, spec, target, qkv, results[0],
                              results[1], random, keys, scratch, thread,
                              threads);
  }
  auto grad = take(1), qkv = take(operands), forward = take(2);
  auto results = take(operands);
  takeRest();
  return cpu::emitAttentionGrad(builder, loc, spec, target, grad[0], qkv,
                                forward[0], forward[1], results, random, keys,
                                scratch, thread, threads);
}

AttentionRunner::AttentionRunner(MLIRContext &context,
                                 const cpu::AttentionSpec &spec,
                                 const cpu::CpuTarget &target, Pass pass,
                                 bool hasLengths)
    : scratchSize(pass == Pass::Forward
                      ? cpu::attentionScratchBytes(spec, target)
                      : cpu::attentionGradScratchBytes(spec, target)) {
  using Clock = std::chrono::steady_clock;
  llvm::ExitOnError exitOnError("attention: ");
  auto start = Clock::now();
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder builder(module->getBodyRegion());
  Type pointer = LLVM::LLVMPointerType::get(&context);
  Type i64 = builder.getI64Type();
  auto function = builder.create<func::FuncOp>(
      loc, "attention",
      builder.getFunctionType({pointer, pointer, i64, i64, pointer}, {}));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  if (failed(emitBody(builder, loc, spec, target, pass, hasLengths, *body)))
    exitOnError(
        llvm::createStringError(llvm::inconvertibleErrorCode(), "refused"));
  builder.create<func::ReturnOp>(loc);
  auto object = exitOnError(cpu::compileToObject(*module, target));
  seconds = std::chrono::duration<double>(Clock::now() - start).count();
  objectBytes = object->getBuffer().str();

  loaded = std::make_unique<LoadedObject>(std::move(object), target);
  entry = loaded->lookup<Entry>("attention");
}

void AttentionRunner::run(const std::vector<void *> &tensors,
                          const std::array<int64_t, 3> &scalars, int64_t thread,
                          int64_t threads, void *scratch) const {
  entry(tensors.data(), scalars.data(), thread, threads, scratch);
}

void AttentionRunner::runAll(const std::vector<void *> &tensors,
                             const std::array<int64_t, 3> &scalars,
                             int64_t threads) const {
  // Of NaN: nothing may be read before it is written.
  void *scratch = std::aligned_alloc(64, (scratchSize + 63) / 64 * 64);
  std::memset(scratch, 0xff, scratchSize);
  for (int64_t thread = 0; thread < threads; ++thread)
    run(tensors, scalars, thread, threads, scratch);
  std::free(scratch);
}

} // namespace heddle::test
