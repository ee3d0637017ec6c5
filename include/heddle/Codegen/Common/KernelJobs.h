//===- KernelJobs.h - Compiling the kernels of models -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// XXH3 of a text, hexadecimal.
std::string hashOf(llvm::StringRef text);

/// A kernel in the form that is hashed and compiled: without names, paths and
/// shardings, which do not change its code.
struct KernelSource {
  std::string text;   ///< The kernel as MLIR, in the generic form.
  std::string hash;   ///< Of the text and the target, hexadecimal.
  std::string symbol; ///< The name of the function: operations and hash.
};

/// The source of `kernel` for the machine that `target` describes.
KernelSource sourceOf(planir::KernelOp kernel, llvm::StringRef target);

/// Reports H0397 when the hash that `kernel` has is of another source than its
/// own for `target`.
mlir::LogicalResult verifySource(planir::KernelOp kernel,
                                 llvm::StringRef target);

/// The kernel of a source, in a module of its own; null when it is damaged.
mlir::OwningOpRef<mlir::ModuleOp> parseSource(const KernelSource &source,
                                              mlir::MLIRContext &context);

/// Makes the code of a source, as bytes that the cache keeps. It is called on
/// several threads, each with a context of its own, to which errors go.
using CompileSource = std::function<mlir::FailureOr<std::string>(
    const KernelSource &source, mlir::MLIRContext &context)>;

/// Kernels that are compiled together: those of all models at once, as the
/// stages of a pipeline have most in common.
class KernelJobs {
public:
  /// What came of a source.
  struct Result {
    std::string code;
    bool isCached = false;
    std::string error; ///< Empty when there is code.
  };
  /// A kernel that stays.
  struct Job {
    planir::KernelOp kernel;
    KernelSource source;
    CompileSource compile;
    Result *result; ///< Shared by all that have this source.
  };

  /// Adds the kernels of a model, or of a module, that `wanted` holds of. Of
  /// those with equal sources one stays, to which the launches of the others
  /// go. Returns how many went.
  int64_t add(mlir::Operation *root, llvm::StringRef target,
              const CompileSource &compile,
              llvm::function_ref<bool(planir::KernelOp)> wanted);

  /// Compiles every source once, on as many threads as the machine has, or
  /// takes it from the cache: a directory of files by the hash of the source
  /// and this compiler; empty or "off" for none. `registerDialects` says what a
  /// context needs, and `tools` what else has a part in the code, as the
  /// version of an assembler.
  void run(llvm::StringRef cache,
           llvm::function_ref<void(mlir::DialectRegistry &)> registerDialects,
           llvm::StringRef tools = "");

  /// In the order in which they were added.
  llvm::ArrayRef<Job> all() const { return jobs; }

private:
  std::vector<Job> jobs;
  std::vector<size_t> distinct; ///< Of `jobs`, one for each result.
  llvm::StringMap<Result> results;
};

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_KERNELJOBS_H
