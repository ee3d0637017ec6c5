//===- Compile.h - The phases in order --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
/// As the command line and the dumps name it: `import`, `model`, ...
llvm::StringRef phaseName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef name);

/// What the driver asks of `compile`, beside the strategy in the module.
struct CompileOptions {
  std::string output; ///< The binary; may be empty with `stopAfter`.
  /// A second module, after import, whose model guesses tokens for the first
  /// one's; or null. It goes through the same phases after it, and gets as many
  /// pages of the cache.
  mlir::ModuleOp draft;
  int64_t guesses = 0; ///< Of the draft, for a text, that are checked at once.
  int64_t cachePages = 0; ///< 0: as the strategy says.
  /// Several: the binary holds code for each. One or none: the strategy says.
  std::vector<config::Target> targets;
  std::string dumpPhases;  ///< A directory for one file per phase; or empty.
  std::string stopAfter;   ///< A phase's name; or empty: to the end.
  std::string startFrom;   ///< The phase after which the module was dumped.
  std::string cache;       ///< Directory of compiled kernels, "" for none.
  std::string cluster;     ///< JSON for `explain`; "" for none.
  std::string runtimePath; ///< The prebuilt runtime, `heddle-rt`.
  bool timing = false;     ///< Print the seconds of each phase.
  bool verbose = false;
  bool shardingReasons = false; ///< Print why values are sharded as they are.
  LayerPrograms splitLayers = LayerPrograms::None;
  /// Takes the plans, one for each target, in place of a binary. Kernels for
  /// x86-64 then have no code.
  std::vector<plan::Plan> *plans = nullptr;
  /// Writes no binary, and makes no code either: says what one would need.
  bool dryRun = false;
  bool makesCode() const { return !plans && !dryRun; }
  /// Asked, if given, with the bytes that a rank needs at least of each kind of
  /// memory: after the fuse phase those of modelStateBytes, after the memory
  /// phase all. If it says no, `compile` fails without an error.
  std::function<bool(Phase phase, const plan::PerMemory<int64_t> &bytes)>
      goesOn;
};

/// Registers the dialects, interfaces and translations that the phases use.
void registerAllDialects(mlir::DialectRegistry &registry);
/// Registers every pass and the pipeline of every phase for heddle-opt.
void registerAllPasses();

/// Adds the passes that check what a phase leaves: after its own, and of a dump
/// that is handed in.
void buildPhaseVerifier(Phase phase, mlir::OpPassManager &pm);
/// Adds the passes of one phase, ending in its verifier.
void buildPhase(Phase phase, mlir::OpPassManager &pm,
                const CompileOptions &options);

/// Takes in a module that the user handed in, dumped after `phase`: what
/// nothing uses is erased, all that the phases after it rely on is checked.
mlir::LogicalResult takeIn(mlir::ModuleOp module, Phase phase);

/// Runs the phases after `startFrom` (or after import) on the module, writes
/// the dumps, and in the end the binary. Diagnostics go to the context's
/// handler; a message may begin with its code, as "H0213: ...".
mlir::LogicalResult compile(mlir::ModuleOp module,
                            const CompileOptions &options);

} // namespace heddle

#endif // HEDDLE_PIPELINES_COMPILE_H
