//===- LinalgModel.h - External models of the lowering ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Helpers for the files that lower nn operations to linalg. Such a file, for
// example NormLowerings.cpp, attaches LinalgLoweringOpInterface to operations.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_COMMON_LINALGMODEL_H
#define HEDDLE_LIB_CODEGEN_COMMON_LINALGMODEL_H

#include "LinalgBuilder.h"
#include "dialects/NN/NNDialect.h"

namespace heddle::codegen {

using nn::Generator;

/// A function that lowers the operation `op` to linalg. It must read the
/// operands from `in`, not from `op`: callers of LinalgLoweringOpInterface may
/// pass other operands than those of `op`.
template <typename OpT>
using LowerFn = Values (*)(OpT op, typename OpT::Adaptor in, LinalgBuilder &b);

/// Implements LinalgLoweringOpInterface for the operation `OpT`: `lower` lowers
/// it to linalg, and `generator` is the code generator of its kernels.
template <typename OpT, LowerFn<OpT> lower, Generator generator>
struct LinalgModel : nn::LinalgLoweringOpInterface::ExternalModel<
                         LinalgModel<OpT, lower, generator>, OpT> {
  Generator getGenerator(mlir::Operation *) const { return generator; }

  mlir::LogicalResult
  lowerToLinalg(mlir::Operation *op, mlir::OpBuilder &builder,
                mlir::ValueRange operands,
                llvm::SmallVectorImpl<mlir::Value> &results) const {
    LinalgBuilder linalg(op->getLoc(), builder);
    auto concrete = llvm::cast<OpT>(op);
    results.append(
        lower(concrete, typename OpT::Adaptor(operands, concrete), linalg));
    return mlir::success();
  }
};

template <typename OpT, LowerFn<OpT> lower,
          Generator generator = Generator::Rows>
void attachLinalg(mlir::MLIRContext *context) {
  OpT::template attachInterface<LinalgModel<OpT, lower, generator>>(*context);
}

/// Builds the body of an nn.map or nn.update for `arguments`, in f32, and
/// returns its results.
Values runScalars(ScalarBuilder &s, mlir::Block &body,
                  mlir::ValueRange arguments);

/// Whether dropout with probability `p` keeps the element with index `element`
/// (i64) of the global batch's tensor.
mlir::Value keepsElement(ScalarBuilder &s, mlir::Value rng, mlir::Value element,
                         mlir::Value layer, uint32_t site, double p);

void attachAttentionLowerings(mlir::MLIRContext *context);
void attachCacheLowerings(mlir::MLIRContext *context);
void attachElementwiseLowerings(mlir::MLIRContext *context);
void attachEmbeddingLowerings(mlir::MLIRContext *context);
void attachNormLowerings(mlir::MLIRContext *context);
void attachLossLowerings(mlir::MLIRContext *context);
void attachOptimizerLowerings(mlir::MLIRContext *context);
void attachSignLowerings(mlir::MLIRContext *context);
void attachGroupLowerings(mlir::MLIRContext *context);
void attachProductLowerings(mlir::MLIRContext *context);

using nn::tensorOf;

} // namespace heddle::codegen

#endif // HEDDLE_LIB_CODEGEN_COMMON_LINALGMODEL_H
