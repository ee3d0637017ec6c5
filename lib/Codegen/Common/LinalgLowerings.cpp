//===- LinalgLowerings.cpp - nn operations as linalg ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/LinalgLowerings.h"
#include "LinalgModel.h"
#include "mlir/IR/DialectRegistry.h"

using namespace mlir;

namespace heddle::codegen {

/// Whether kernels of this generator read the nn operation itself.
static bool isReadWhole(Generator generator) {
  switch (generator) {
  case Generator::Rows:
  case Generator::Columns:
  case Generator::Reduce:
    return false;
  case Generator::Scatter:
  case Generator::BlockSums:
  case Generator::Segments:
  case Generator::Gemm:
  case Generator::Attention:
  case Generator::Cache:
    return true;
  }
  llvm_unreachable("all generators handled");
}

/// Whether a kernel reads the operation itself. A product sums columns as it
/// multiplies.
static bool isReadWhole(Block &body, Generator generator) {
  auto kernel = dyn_cast<planir::KernelOp>(body.getParentOp());
  return isReadWhole(generator) || (generator == Generator::Columns && kernel &&
                                    kernel.getGenerator() == Generator::Gemm);
}

void registerLinalgLowerings(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, linalg::LinalgDialect, math::MathDialect,
                  tensor::TensorDialect>();
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    attachElementwiseLowerings(context);
    attachEmbeddingLowerings(context);
    attachNormLowerings(context);
    attachLossLowerings(context);
    attachOptimizerLowerings(context);
    attachAttentionLowerings(context);
    attachCacheLowerings(context);
    attachProductLowerings(context);
  });
}

LogicalResult lowerBodyToLinalg(Block &body, WholeOps whole) {
  for (Operation &op : llvm::make_early_inc_range(body)) {
    auto lowering = dyn_cast<nn::LinalgLoweringOpInterface>(op);
    if (!lowering ||
        (whole == WholeOps::Stay && isReadWhole(body, lowering.getGenerator())))
      continue;
    OpBuilder builder(&op);
    SmallVector<Value> results;
    if (failed(lowering.lowerToLinalg(builder, op.getOperands(), results)))
      return failure();
    op.replaceAllUsesWith(results);
    op.erase();
  }
  return success();
}

} // namespace heddle::codegen
