//===- Target.h - The interface of back ends --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A back end implements Target and registers it with registerTarget; passes
// find it by the compilation setting `target`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_TARGET_H
#define HEDDLE_CODEGEN_COMMON_TARGET_H

#include "dialects/Dist/Strategy.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/PlanFormat/Plan.h"
#include "mlir/Pass/PassManager.h"

namespace heddle::codegen {

/// Options for the compilation of kernels.
struct TargetOptions {
  std::string cache; ///< A directory of compiled kernels; empty or off: none.
  /// The caller needs only the sizes in the plan, such as scratch bytes, and
  /// will not run the plan. So kernels may have empty code.
  bool sizesOnly = false;
};

/// The operations that a target can fuse into one kernel, in addition to those
/// that every target can, and the layouts of its operands. This is all that the
/// fuse phase knows about a target.
struct FusionRules {
  /// The compilation setting that limits fusion. The fuse phase applies the
  /// rules below only as far as this setting allows.
  config::Fusion policy = config::Fusion::Deep;
  /// Whether the kernel of a weight's gradient also sums the rows of the
  /// output's gradient, which gives the gradient of the bias.
  bool sumsInProducts = false;
  /// If `sumsInProducts`: whether the sum of rows may start with an initial
  /// value, such as the gradient of the bias from earlier micro-batches.
  bool sumsOntoInits = false;
  /// How many additions of the form a + b may share a kernel, where a and b are
  /// vectors. The vectors of different additions may differ in length. 0 or 1:
  /// each addition has its own kernel.
  int64_t vectorSums = 0;
  /// Whether products with packed weights (nn.packed_linear) that multiply the
  /// same rows share a kernel.
  bool joinsPackedProducts = false;
  /// Whether operations on attention heads, such as rotary embeddings, share
  /// the kernel of the packed-weight products that compute the heads.
  bool headsInPackedProducts = false;
  /// The largest number of rows for which products with packed weights are in
  /// one kernel with the row-wise operations that compute these rows. 0: never.
  int64_t rowsOfPrologues = 0;
  /// If set: returns the reason why the kernel of a product with a packed
  /// weight cannot compute the product's rows by `rows`; empty if it can.
  std::function<std::string(nn::PackedLinearOp product,
                            llvm::ArrayRef<mlir::Operation *> rows)>
      refusalOfPrologue;
  /// Whether each thread block of such a kernel computes all rows, so that the
  /// kernel does not return them.
  bool blocksComputePrologues = false;
  /// The largest number of queries of a key head (tokens of a row, times the
  /// query heads that share the key head) for which one kernel writes keys and
  /// values to the cache and computes attention over it. The kernel then also
  /// computes operations on elements of heads before these, such as rotary
  /// embeddings. 0: never.
  int64_t queriesOfCacheWrites = 0;
  /// Whether a value with one element for each column, such as a norm's weight
  /// plus 1, is computed again for each row in the only kernel that reads it.
  bool columnsInRows = false;
  /// How many column sums (sums over rows, such as the gradient of a norm's
  /// weight) a kernel may have that also computes other results from the same
  /// rows. 0: none.
  int64_t sumsInRows = 0;
  /// The largest number of elements that the column sums of a kernel (see
  /// `sumsInRows`) may have together. The number of sums is rounded up to a
  /// power of two for this limit, so three sums count as four.
  int64_t elementsOfSums = 0;
  /// The leading dimensions of operands and results of products are multiples
  /// of this many bytes; rows are padded if needed. 0: no padding.
  int64_t rowAlignment = 0;
  /// The layout of packed weights that the target's products read.
  nn::PackedLayout packedLayout = nn::PackedLayout::Panels;
};

/// A back end, which compiles kernels for one kind of device. The compilation
/// setting `target` names it, and `findTarget` finds it.
class Target {
public:
  virtual ~Target() = default;

  /// The value of the setting `target` that selects this target.
  virtual config::Target name() const = 0;
  /// Each kernel names the kind of code generator that compiles it. Returns
  /// whether the target has this code generator. If not, the kernel gets no
  /// compiled code, and a remark says so.
  virtual bool supports(nn::Generator generator) const = 0;
  /// The fusion rules for plans that are compiled with the settings `strategy`.
  virtual FusionRules fusionRules(const dist::Strategy &strategy) const {
    return {};
  }
  /// Registers the dialects that the target's passes need.
  virtual void registerDialects(mlir::DialectRegistry &registry) const = 0;
  /// Adds the passes that compile every kernel of a module's models to an
  /// object.
  virtual void buildPipeline(mlir::OpPassManager &pm,
                             const TargetOptions &options) const = 0;
  /// Checks that the kernels of `roots`, models or plans, name objects that
  /// exist and hold code for this target. Reports H0397.
  virtual mlir::LogicalResult
  verify(llvm::ArrayRef<mlir::Operation *> roots) const = 0;
  /// The kind of device that runs the kernels. Fails with the error H0203 if no
  /// binary can be written for it.
  virtual mlir::FailureOr<plan::DeviceKind>
  deviceOf(planir::ProgramOp program) const = 0;
  /// The CPU features that a binary of this plan needs on the host. The runtime
  /// checks these names when the binary starts.
  virtual mlir::FailureOr<std::vector<std::string>>
  requirementsOf(planir::ProgramOp program) const = 0;
  /// Returns the image that a binary contains: the code of `objects`, the
  /// compiled kernels. For a GPU, a kernel of the plan names its code by the
  /// index in `objects`. `host` is the image of the kernels that run on the
  /// host's cores; empty if there are none. Reports H0397 or H0911.
  virtual mlir::FailureOr<std::string>
  imageOf(llvm::ArrayRef<planir::ObjectOp> objects,
          llvm::StringRef host) const = 0;
};

/// Adds a target with a new name. Not thread-safe: call it before any thread
/// asks for targets.
void registerTarget(std::unique_ptr<Target> target);

/// All registered targets, in the order of the values of the setting `target`.
llvm::ArrayRef<const Target *> allTargets();

/// The target that is named by the compilation settings of a model or plan.
/// Reports H0245 if this build does not have it.
mlir::FailureOr<const Target *> findTarget(mlir::Operation *root);

/// The target of kernels that run on the host's cores: x86-64. Reports H0245 if
/// this build does not have it.
mlir::FailureOr<const Target *> findHostTarget(mlir::Operation *root);

/// Whether some kernel of a model or plan runs on the host's cores.
bool hasKernelsOnHost(mlir::Operation *root);

/// The strategy (compilation settings) of a model or of a plan.
dist::Strategy strategyOf(mlir::Operation *root);

/// The plan.object (compiled code) that `kernel` names. Null if `kernel` names
/// none or the plan.object does not exist.
planir::ObjectOp objectOf(const mlir::SymbolTable &symbols,
                          planir::KernelOp kernel);

/// The compiled code in a plan.object, decoded from base64. Reports H0397 if
/// the text is not base64.
mlir::FailureOr<std::string> codeOf(planir::ObjectOp object);

/// A kernel as MLIR in the generic form, without names, module paths, shardings
/// and attributes that compilation added. Kernels with equal text have the same
/// code.
std::string textOf(planir::KernelOp kernel);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_TARGET_H
