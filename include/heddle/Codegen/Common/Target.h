//===- Target.h - A back end: what makes code of kernels --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_TARGET_H
#define HEDDLE_CODEGEN_COMMON_TARGET_H

#include "dialects/Dist/Strategy.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/PlanFormat/Plan.h"
#include "mlir/Pass/PassManager.h"

namespace heddle::codegen {

/// How kernels are to be compiled.
struct TargetOptions {
  std::string cache; ///< A directory of compiled kernels; empty or off: none.
  /// The plan is not for running: kernels may have less code than they need.
  bool sizesOnly = false;
};

/// What a target puts into one kernel, beside what every target does. The phase
/// fuse reads it, and no other property of a target.
struct FusionRules {
  /// What the strategy leaves of it.
  config::Fusion policy = config::Fusion::Deep;
  /// The product that is a weight's gradient also sums the rows of the gradient
  /// that it multiplies: that of the bias.
  bool sumsInProducts = false;
  /// Such a sum may be added to an initial value.
  bool sumsOntoInits = false;
  /// So many sums of a vector onto another one share a kernel, whatever their
  /// lengths; 0 or 1: each has its own.
  int64_t vectorSums = 0;
  /// Products with packed weights that multiply the same rows are one kernel.
  bool joinsPackedProducts = false;
  /// Operations on heads are in the kernel of the products with packed weights
  /// that make these heads.
  bool headsInPackedProducts = false;
  /// Products with packed weights of at most so many rows are one kernel with
  /// the row-wise operations that make these rows; 0: none.
  int64_t rowsOfPrologues = 0;
  /// What is one element for each column, as a norm's weight and 1, is made
  /// again for each row in the one kernel that reads it.
  bool columnsInRows = false;
  /// So many sums over rows, of one element for each column, may stand in a
  /// kernel that makes something of these rows; 0: none.
  int64_t sumsInRows = 0;
  /// Elements of all of them at most; three take as many as four.
  int64_t elementsOfSums = 0;
  /// Rows of what products read and write begin at multiples of so many bytes,
  /// with gaps where that needs them; 0: without gaps.
  int64_t rowAlignment = 0;
};

/// A back end. Strategies name it; `findTarget` finds it.
class Target {
public:
  virtual ~Target() = default;

  /// The word of the setting `target` that means it.
  virtual config::Target name() const = 0;
  /// Whether it makes code of such kernels. A kernel that it has no generator
  /// for stays without an object, which is a remark.
  virtual bool supports(nn::Generator generator) const = 0;
  /// What it puts into one kernel in plans of this strategy.
  virtual FusionRules fusionRules(const dist::Strategy &strategy) const {
    return {};
  }
  /// Everything that its passes need in a context.
  virtual void registerDialects(mlir::DialectRegistry &registry) const = 0;
  /// Adds the passes that give every kernel of a module's models its object.
  virtual void buildPipeline(mlir::OpPassManager &pm,
                             const TargetOptions &options) const = 0;
  /// Checks that the kernels of models or plans have the code that they name,
  /// and that it is this target's. Reports H0397.
  virtual mlir::LogicalResult
  verify(llvm::ArrayRef<mlir::Operation *> roots) const = 0;
  /// What runs the kernels; none (with an error, H0203) when no binary can be
  /// written.
  virtual mlir::FailureOr<plan::DeviceKind>
  deviceOf(planir::ProgramOp program) const = 0;
  /// What the machine's CPU must have to run a binary of this plan, as the
  /// runtime's CPU check names it.
  virtual mlir::FailureOr<std::vector<std::string>>
  requirementsOf(planir::ProgramOp program) const = 0;
  /// The code of kernels as a binary carries it. `plan::Kernel::text` is a
  /// number in the list. `host` is what the target of the host's cores made of
  /// the kernels that run there; empty where none do. Reports H0397 or H0911.
  virtual mlir::FailureOr<std::string>
  imageOf(llvm::ArrayRef<planir::ObjectOp> objects,
          llvm::StringRef host) const = 0;
};

/// Adds a target of a new name. No thread may ask for targets meanwhile.
void registerTarget(std::unique_ptr<Target> target);

/// All that were registered, in the order of their names in the setting.
llvm::ArrayRef<const Target *> allTargets();

/// The target of a model's or plan's strategy. Reports H0245 when there is none
/// in this build.
mlir::FailureOr<const Target *> findTarget(mlir::Operation *root);

/// What makes the code of kernels that the host's cores run: x86-64. Reports
/// H0245 when it is not in this build.
mlir::FailureOr<const Target *> findHostTarget(mlir::Operation *root);

/// Whether the host's cores run one of the kernels of a model or plan.
bool hasKernelsOnHost(mlir::Operation *root);

/// The strategy of a model or of a plan.
dist::Strategy strategyOf(mlir::Operation *root);

/// The object of a kernel, where it names one that is there.
planir::ObjectOp objectOf(const mlir::SymbolTable &symbols,
                          planir::KernelOp kernel);

/// The code that an object holds; reports H0397 when it is not base64.
mlir::FailureOr<std::string> codeOf(planir::ObjectOp object);

/// A kernel as MLIR in the generic form, without names, paths, shardings and
/// what was compiled: kernels of equal text have the same code.
std::string textOf(planir::KernelOp kernel);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_TARGET_H
