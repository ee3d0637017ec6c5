//===- CompileKernels.cpp - The pass kernels-compile ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Passes.h"
#include "heddle/Codegen/Common/Target.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_KERNELSCOMPILE
#include "include/heddle/Codegen/Common/Passes.h.inc"
} // namespace heddle

namespace {

struct KernelsCompile : heddle::impl::KernelsCompileBase<KernelsCompile> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    for (const codegen::Target *target : codegen::allTargets())
      target->registerDialects(registry);
  }

  void runOnOperation() override {
    // The models of a module are the pipeline stages of one plan, which have
    // the same target.
    auto models = getOperation().getOps<nn::ModelOp>();
    if (models.empty())
      return;
    FailureOr<const codegen::Target *> target =
        codegen::findTarget(*models.begin());
    if (failed(target))
      return signalPassFailure();
    OpPassManager pipeline(ModuleOp::getOperationName());
    (*target)->buildPipeline(pipeline, {cache, sizesOnly});
    if (!factsOf((*target)->name()).kernelsRunOnHost &&
        llvm::any_of(models, codegen::hasKernelsOnHost)) {
      FailureOr<const codegen::Target *> host =
          codegen::findHostTarget(*models.begin());
      if (failed(host))
        return signalPassFailure();
      (*host)->buildPipeline(pipeline, {cache, sizesOnly});
    }
    if (failed(runPipeline(pipeline, getOperation())))
      signalPassFailure();
  }
};

} // namespace
