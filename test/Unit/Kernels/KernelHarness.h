//===- KernelHarness.h - Compiles, runs, checks a plan.kernel ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H
#define HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H

#include "../Support/LoadedObject.h"
#include "KernelReference.h"
#include "heddle/Codegen/CPU/KernelCompiler.h"
#include "heddle/runtime/core/KernelFunction.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <string>
#include <vector>

namespace heddle::test {

/// The target of that name; "amx" and "amx-fp16" have emulated tiles, where the
/// machine can do the rest.
std::optional<cpu::CpuTarget> targetOf(const std::string &march);

/// The first kernel of a text.
struct ParsedKernel {
  /// Exits with a message when the text cannot be parsed.
  explicit ParsedKernel(const std::string &text);
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  planir::KernelOp kernel;
};

/// One kernel, compiled and loaded into this process. A kernel that was
/// compiled before, for the same target, is not compiled again: many tests run
/// one on several arguments.
class LoadedKernel {
public:
  /// Exits with a message when the kernel cannot be compiled.
  LoadedKernel(planir::KernelOp kernel, const cpu::CpuTarget &target);

  /// Runs the parts of `threads` threads one after the other.
  void run(const std::vector<void *> &refs, const std::vector<int64_t> &scalars,
           int64_t threads) const;
  /// Runs them at the same time.
  void runParallel(const std::vector<void *> &refs,
                   const std::vector<int64_t> &scalars, int64_t threads) const;
  /// Runs the part of one thread, whose scratch is `compiled().scratchBytes`.
  /// All threads of a launch have the same `taken`, which begins as 0.
  void runPart(const std::vector<void *> &refs, int64_t thread, int64_t threads,
               void *scratch, int64_t &taken) const {
    entry(refs.data(), nullptr, thread, threads, scratch, &taken);
  }
  const cpu::CompiledKernel &compiled() const { return code->kernel; }

private:
  struct Code {
    cpu::CompiledKernel kernel;
    LoadedObject loaded;
  };
  static std::shared_ptr<const Code> codeOf(planir::KernelOp op,
                                            const cpu::CpuTarget &target);

  std::shared_ptr<const Code> code;
  rt::KernelFunction entry = nullptr;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H
