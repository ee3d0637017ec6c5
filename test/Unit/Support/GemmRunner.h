//===- GemmRunner.h - Compiles and runs one matrix product ----*- C++ -*- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SUPPORT_GEMMRUNNER_H
#define HEDDLE_TEST_UNIT_SUPPORT_GEMMRUNNER_H

#include "LoadedObject.h"
#include "heddle/Codegen/CPU/Gemm.h"
#include "mlir/IR/MLIRContext.h"
#include <memory>
#include <string>

namespace heddle::test {

/// A context with all that CPU code generation needs.
std::unique_ptr<mlir::MLIRContext> createCodegenContext();

/// An epilogue that also gets the extra operand of the kernel, an !llvm.ptr.
using RunnerEpilogue = llvm::function_ref<mlir::Value(
    mlir::OpBuilder &, mlir::Location, mlir::Value extra, mlir::Value acc,
    mlir::Value row, mlir::Value col, mlir::Value mask)>;

/// The same of what sums begin with.
using RunnerInit = llvm::function_ref<mlir::Value(
    mlir::OpBuilder &, mlir::Location, mlir::Value extra, mlir::Value row,
    mlir::Value col, mlir::Value mask)>;

/// One matrix product, compiled and loaded into this process.
class GemmRunner {
public:
  /// Exits with a message when the product cannot be compiled.
  GemmRunner(mlir::MLIRContext &context, const cpu::GemmSpec &spec,
             const cpu::CpuTarget &target, RunnerEpilogue epilogue = nullptr,
             RunnerInit init = nullptr);

  /// Runs the part of one thread with a scratch of its own.
  void run(const void *a, const void *b, void *c, void *extra, int64_t thread,
           int64_t threads, void *scratch) const;
  /// Runs all parts one after the other on this thread.
  void runAll(const void *a, const void *b, void *c, void *extra,
              int64_t threads) const;

  int64_t scratchBytes() const { return scratchSize; }
  double compileSeconds() const { return seconds; }
  /// The object file that was loaded.
  const std::string &object() const { return objectBytes; }

private:
  using Entry = void (*)(const void *, const void *, void *, void *, int64_t,
                         int64_t, void *);
  std::unique_ptr<LoadedObject> loaded;
  Entry entry = nullptr;
  std::string objectBytes;
  int64_t scratchSize;
  double seconds = 0;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_SUPPORT_GEMMRUNNER_H
