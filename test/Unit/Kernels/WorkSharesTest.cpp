//===- WorkSharesTest.cpp - Who does what of a kernel's work --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/WorkShares.h"
#include "../Support/GemmRunner.h"
#include "../Support/LoadedObject.h"
#include "heddle/Codegen/CPU/CompileObject.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <gtest/gtest.h>
#include <thread>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace {

/// counts, thread, threads, taken.
using Entry = void (*)(int64_t *, int64_t, int64_t, int64_t *);

/// A function that adds 1 to `counts` at each unit of work that is done.
class Work {
public:
  using Emit =
      llvm::function_ref<void(cpu::LoopBuilder &, const cpu::LaunchThread &,
                              llvm::function_ref<void(Value)> count)>;

  explicit Work(Emit emit) : context(createCodegenContext()) {
    Location loc = UnknownLoc::get(context.get());
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    OpBuilder builder(module->getBodyRegion());
    Type pointer = LLVM::LLVMPointerType::get(context.get());
    Type i64 = builder.getI64Type();
    auto function = builder.create<func::FuncOp>(
        loc, "work", builder.getFunctionType({pointer, i64, i64, pointer}, {}));
    Block *body = function.addEntryBlock();
    builder.setInsertionPointToStart(body);
    cpu::LoopBuilder b(builder, loc);
    cpu::LaunchThread self = {body->getArgument(1), body->getArgument(2),
                              body->getArgument(3)};
    emit(b, self, [&](Value unit) {
      b.create<LLVM::AtomicRMWOp>(
          LLVM::AtomicBinOp::add, b.advance(body->getArgument(0), i64, unit),
          b.constant(1), LLVM::AtomicOrdering::monotonic);
    });
    builder.create<func::ReturnOp>(loc);
    llvm::ExitOnError exitOnError("work: ");
    auto target = *cpu::CpuTarget::parse("native");
    loaded = std::make_unique<LoadedObject>(
        exitOnError(cpu::compileToObject(*module, target)), target);
    entry = loaded->lookup<Entry>("work");
  }

  /// How often each of `units` is done: by threads one after the other, or at
  /// the same time.
  std::vector<int64_t> run(int64_t units, int64_t threads, bool together) {
    std::vector<int64_t> counts(units);
    std::vector<std::thread> pool;
    int64_t taken = 0;
    for (int64_t thread = 0; thread < threads; ++thread) {
      pool.emplace_back(entry, counts.data(), thread, threads, &taken);
      if (!together)
        pool.back().join();
    }
    for (std::thread &thread : pool)
      if (thread.joinable())
        thread.join();
    return counts;
  }

private:
  std::unique_ptr<MLIRContext> context;
  std::unique_ptr<LoadedObject> loaded;
  Entry entry = nullptr;
};

void expectEachOnce(Work &work, int64_t units) {
  for (int64_t threads : {1, 2, 3, 16})
    for (bool together : {false, true})
      EXPECT_EQ(work.run(units, threads, together),
                std::vector<int64_t>(units, 1))
          << units << " units, " << threads << " threads";
}

TEST(WorkShares, EveryPieceIsTakenOnce) {
  for (int64_t count : {1, 2, 17, 1000}) {
    Work work([&](cpu::LoopBuilder &b, const cpu::LaunchThread &self,
                  llvm::function_ref<void(Value)> done) {
      self.forTaken(b, count, done);
    });
    expectEachOnce(work, count);
  }
}

/// With and without pieces, that divide what is left or do not.
TEST(WorkShares, EveryUnitOfEveryRoundIsDoneOnce) {
  constexpr int64_t rounds = 5;
  for (auto [units, least] : {std::pair<int64_t, int64_t>{1, 1},
                              {6, 1},
                              {7, 1},
                              {100, 1},
                              {101, 7},
                              {1000, 300},
                              {1003, 3}}) {
    Work work([&, units = units, least = least](
                  cpu::LoopBuilder &b, const cpu::LaunchThread &self,
                  llvm::function_ref<void(Value)> done) {
      cpu::WorkShares shares(b, self, units, least);
      b.forLoop(b.constant(0), b.constant(rounds), 1, {shares.none()},
                [&](Value round, ValueRange held) -> cpu::LoopBuilder::Values {
                  return {shares.emitRound(
                      round, held[0], [&](Value begin, Value end) {
                        b.forLoop(begin, end, 1, [&](Value unit) {
                          done(b.add(b.mul(round, units), unit));
                        });
                      })};
                });
    });
    expectEachOnce(work, rounds * units);
  }
}

} // namespace
