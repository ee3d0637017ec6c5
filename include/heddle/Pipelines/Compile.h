//===- Compile.h - Compiles a module to a binary ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface between the drivers (heddle, heddle-opt, tests) and the phases
// of a compilation.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_COMPILE_H
#define HEDDLE_PIPELINES_COMPILE_H

#include "heddle/Pipelines/LayerPrograms.h"
#include "heddle/PlanFormat/Plan.h"
#include "heddle/Settings/Settings.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// The phases of a compilation, in order (docs/phases.md).
enum class Phase {
  Import,
  Model,
  Train,
  Shard,
  Pipe,
  Spmd,
  Fuse,
  Kernels,
  Memory,
  Prove,
  Emit,
};

/// Every phase, in order.
llvm::ArrayRef<Phase> allPhases();
/// The phase's name on the command line and in dumps: `import`, `model`, ...
llvm::StringRef phaseName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef name);

/// The options of `compile`, in addition to the settings that the module has as
/// an attribute (#dist.strategy).
struct CompileOptions {
  std::string output; ///< Path of the binary; may be empty with `stopAfter`.
  /// A second module, as it is after the phase import, or null. It has a draft
  /// model, which guesses tokens for the main model. The draft model runs
  /// through the same phases after the main model, and its cache gets as many
  /// pages as the main model's cache.
  mlir::ModuleOp draft;
  /// The number of the draft model's guesses that the main model verifies at
  /// once for a request.
  int64_t guesses = 0;
  /// The number of pages of the key-value cache. If it is 0, the number follows
  /// from the user's settings (`--kv-cache` or `--max-batch`).
  int64_t cachePages = 0;
  /// The targets of the binary. If there are several, the binary has code for
  /// each. If there is none, the module's #dist.strategy names the target.
  std::vector<config::Target> targets;
  std::string dumpPhases; ///< Directory for one dump per phase; may be empty.
  /// Name of the last phase to run. Empty to run all phases.
  std::string stopAfter;
  /// The name of the phase after which the user dumped the module. Empty if the
  /// module is no dump.
  std::string startFrom;
  std::string cache;       ///< Directory of compiled kernels; may be empty.
  std::string cluster;     ///< Cluster description, as JSON; may be empty.
  std::string runtimePath; ///< Path of the prebuilt runtime, `heddle-rt`.
  bool timing = false;     ///< Print the seconds of each phase.
  bool verbose = false;
  bool shardingReasons = false; ///< Print why values are sharded as they are.
  LayerPrograms splitLayers = LayerPrograms::None;
  /// If set, receives one plan for each target, and no binary is written.
  /// Kernels for x86-64 are not compiled then.
  std::vector<plan::Plan> *plans = nullptr;
  /// If set, kernels are not compiled and no binary is written. The memory that
  /// the binary would need is printed.
  bool dryRun = false;
  bool makesCode() const { return !plans && !dryRun; }
  /// If set, the function is called twice with the bytes that a rank needs of
  /// each kind of memory: after the fuse phase only for the model's states, and
  /// after the memory phase for everything. If it returns false, `compile`
  /// fails without an error message.
  std::function<bool(Phase phase, const plan::PerMemory<int64_t> &bytes)>
      goesOn;
};

/// Registers the dialects, interfaces and translations that the phases use.
void registerAllDialects(mlir::DialectRegistry &registry);
/// Registers every pass and the pipeline of every phase for heddle-opt.
void registerAllPasses();

/// Adds the passes that verify the result of a phase. They run at the end of
/// the phase, and on a dump that the user compiles.
void buildPhaseVerifier(Phase phase, mlir::OpPassManager &pm);
/// Adds the passes of one phase, ending with its verifier.
void buildPhase(Phase phase, mlir::OpPassManager &pm,
                const CompileOptions &options);

/// Prepares a module that the user dumped after `phase` and now compiles.
/// Erases unused operations, and verifies everything that later phases rely on.
mlir::LogicalResult takeIn(mlir::ModuleOp module, Phase phase);

/// Runs the phases after `startFrom` (or after import) on the module, and
/// writes dumps and the binary. Diagnostics go to the handler of the module's
/// MLIRContext. A message may begin with its code, as in "H0213: ...".
mlir::LogicalResult compile(mlir::ModuleOp module,
                            const CompileOptions &options);

} // namespace heddle

#endif // HEDDLE_PIPELINES_COMPILE_H
