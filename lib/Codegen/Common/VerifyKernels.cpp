//===- VerifyKernels.cpp - The pass kernels-verify ------------------------===//
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
#define GEN_PASS_DEF_KERNELSVERIFY
#include "include/heddle/Codegen/Common/Passes.h.inc"
} // namespace heddle

namespace {

struct KernelsVerify : heddle::impl::KernelsVerifyBase<KernelsVerify> {
  void runOnOperation() override {
    llvm::MapVector<const codegen::Target *, SmallVector<Operation *>> roots;
    for (Operation &root : getOperation().getOps()) {
      if (!isa<nn::ModelOp, planir::ProgramOp>(root))
        continue;
      FailureOr<const codegen::Target *> target = codegen::findTarget(&root);
      if (failed(target))
        return signalPassFailure();
      roots[*target].push_back(&root);
      if (factsOf((*target)->name()).kernelsRunOnHost ||
          !codegen::hasKernelsOnHost(&root))
        continue;
      target = codegen::findHostTarget(&root);
      if (failed(target))
        return signalPassFailure();
      roots[*target].push_back(&root);
    }
    for (auto &[target, own] : roots)
      if (failed(target->verify(own)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
