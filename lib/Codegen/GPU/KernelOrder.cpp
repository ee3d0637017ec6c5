//===- KernelOrder.cpp - Kernels that begin early -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelOrder.h"
#include "ThreadCode.h"

using namespace mlir;

namespace heddle::gpu {

static constexpr StringLiteral waitText = "griddepcontrol.wait;";

static void emitOrder(OpBuilder &builder, Location loc, StringRef text) {
  emitPtx(builder, loc, TypeRange(), ValueRange(), text, "~{memory}",
          /*hasSideEffects=*/true);
}

void waitForKernelsBefore(OpBuilder &builder, Location loc) {
  emitOrder(builder, loc, waitText);
}

void beginEarly(mlir::gpu::GPUFuncOp func) {
  bool waits = func.walk([](LLVM::InlineAsmOp op) {
                     return op.getAsmString() == waitText
                                ? WalkResult::interrupt()
                                : WalkResult::advance();
                   })
                   .wasInterrupted();
  auto builder = OpBuilder::atBlockBegin(&func.getBody().front());
  emitOrder(builder, func.getLoc(), "griddepcontrol.launch_dependents;");
  if (!waits)
    waitForKernelsBefore(builder, func.getLoc());
}

} // namespace heddle::gpu
