//===- LinalgLowerings.cpp - Lowers nn operations to linalg ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/LinalgLowerings.h"
#include "LinalgModel.h"
#include "dialects/NN/HeadColumns.h"
#include "mlir/IR/DialectRegistry.h"

using namespace mlir;

namespace heddle::codegen {

/// Whether the code generator `generator` reads nn operations whole: it has its
/// own algorithm for an operation, such as attention, and needs the nn
/// operation itself. Such operations are not lowered to linalg.
static bool isReadWhole(Generator generator) {
  switch (generator) {
  case Generator::Rows:
  case Generator::Columns:
  case Generator::Reduce:
    return false;
  case Generator::Scatter:
  case Generator::BlockSums:
  case Generator::Segments:
  case Generator::Signs:
  case Generator::Gemm:
  case Generator::Attention:
  case Generator::Cache:
    return true;
  }
  llvm_unreachable("all generators handled");
}

/// Whether the code generator of the kernel with this body reads `op` whole
/// (has its own algorithm for it), so that `op` is not lowered. The code
/// generator for matrix products also has algorithms for operations that it
/// fuses: column sums and operations on attention heads.
static bool isReadWhole(Block &body, nn::LinalgLoweringOpInterface op) {
  Generator generator = op.getGenerator();
  if (isReadWhole(generator))
    return true;
  auto kernel = dyn_cast<planir::KernelOp>(body.getParentOp());
  if (!kernel || kernel.getGenerator() != Generator::Gemm)
    return false;
  return generator == Generator::Columns || nn::headColumnsOf(op) > 0;
}

FailureOr<SmallVector<Value>> lowerToLinalg(Operation *op) {
  OpBuilder builder(op);
  SmallVector<Value> results;
  if (failed(cast<nn::LinalgLoweringOpInterface>(op).lowerToLinalg(
          builder, op->getOperands(), results)))
    return failure();
  op->replaceAllUsesWith(results);
  op->erase();
  return results;
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
    attachSignLowerings(context);
    attachGroupLowerings(context);
    attachAttentionLowerings(context);
    attachCacheLowerings(context);
    attachProductLowerings(context);
  });
}

LogicalResult lowerBodyToLinalg(Block &body, WholeOps whole) {
  for (Operation &op : llvm::make_early_inc_range(body)) {
    auto lowering = dyn_cast<nn::LinalgLoweringOpInterface>(op);
    if (!lowering || (whole == WholeOps::Stay && isReadWhole(body, lowering)))
      continue;
    if (failed(lowerToLinalg(&op)))
      return failure();
  }
  return success();
}

} // namespace heddle::codegen
