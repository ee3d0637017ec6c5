//===- KernelJobs.h - Compiles the kernels of models ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Back ends compile kernels through KernelJobs: it finds kernels with equal
// code, takes code from the cache of compiled kernels, and compiles the others
// in parallel.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_KERNELJOBS_H
#define HEDDLE_CODEGEN_COMMON_KERNELJOBS_H

#include "dialects/Plan/PlanDialect.h"
#include "llvm/ADT/StringMap.h"
#include <functional>
#include <string>
#include <vector>

namespace heddle::codegen {

/// The XXH3 hash of a string, hexadecimal.
std::string hashOf(llvm::StringRef text);

/// A kernel in the form that is hashed and compiled: without names, module
/// paths and shardings, which do not change its code.
struct KernelSource {
  std::string text;   ///< The kernel as MLIR, in the generic form.
  std::string hash;   ///< The hash of text and target, hexadecimal.
  std::string symbol; ///< The function's name: operations and hash.
};

/// The source of `kernel` for the machine that `target` describes.
KernelSource sourceOf(planir::KernelOp kernel, llvm::StringRef target);

/// Reports H0397 if the attribute `hash` of `kernel` is not the hash of its
/// source for `target`.
mlir::LogicalResult verifySource(planir::KernelOp kernel,
                                 llvm::StringRef target);

/// Parses a source into a module that holds the kernel; null if it is invalid.
mlir::OwningOpRef<mlir::ModuleOp> parseSource(const KernelSource &source,
                                              mlir::MLIRContext &context);

/// A function that compiles a source to code, the bytes that the cache keeps.
/// KernelJobs calls it on several threads. Each thread has its own `context`,
/// to which the function reports errors.
using CompileSource = std::function<mlir::FailureOr<std::string>(
    const KernelSource &source, mlir::MLIRContext &context)>;

/// Kernels that are compiled together. These are the kernels of all models of a
/// module, because the stages of a pipeline share most kernels.
class KernelJobs {
public:
  /// The result of compiling one source.
  struct Result {
    std::string code;
    bool isCached = false;
    std::string error; ///< Empty if there is code.
  };
  /// A kernel that remains after kernels with equal sources were merged.
  struct Job {
    planir::KernelOp kernel;
    KernelSource source;
    CompileSource compile;
    Result *result; ///< Shared by all jobs with the same source.
  };

  /// Adds the kernels of `root`, a model or a module, for which `wanted` is
  /// true. Merges kernels with equal sources: one remains, and launches of the
  /// others are redirected to it. Returns the number of kernels erased.
  int64_t add(mlir::Operation *root, llvm::StringRef target,
              const CompileSource &compile,
              llvm::function_ref<bool(planir::KernelOp)> wanted);

  /// Compiles every source once, on as many threads as the machine has. `cache`
  /// is a directory of compiled code; empty or "off": there is no cache. The
  /// name of a file in it is a hash of the source, of this compiler and of
  /// `tools`, and code with this hash is not compiled again. `tools` names
  /// other programs on which the code depends, such as an assembler, with their
  /// versions. `registerDialects` prepares each thread's context.
  void run(llvm::StringRef cache,
           llvm::function_ref<void(mlir::DialectRegistry &)> registerDialects,
           llvm::StringRef tools = "");

  /// All jobs, in the order in which they were added.
  llvm::ArrayRef<Job> all() const { return jobs; }

private:
  std::vector<Job> jobs;
  std::vector<size_t> distinct; ///< Indices into `jobs`: one for each result.
  llvm::StringMap<Result> results;
};

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_KERNELJOBS_H
