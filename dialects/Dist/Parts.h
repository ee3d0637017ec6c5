//===- Parts.h - Whether a tensor is a rank's part of another ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_PARTS_H
#define HEDDLE_DIALECTS_DIST_PARTS_H

#include "dialects/Dist/DistDialect.h"
#include "mlir/IR/BuiltinTypes.h"

namespace heddle::dist {

/// Ranks along the axes; each must be one of a mesh's.
int64_t groupSize(const Strategy &strategy, mlir::ArrayAttr axes);

/// `part` is what a rank has of `whole` when that is split so: along each
/// dimension a run of each segment, the longest that any rank has. `segments`
/// are of the last dimension; null: one.
mlir::LogicalResult verifyPart(mlir::Operation *op, mlir::ShapedType part,
                               mlir::Type whole, TensorShardingAttr sharding,
                               mlir::DenseI64ArrayAttr segments,
                               const Strategy &strategy);

/// The ports of a step that are split: `{ids = {whole = tensor<1x8xi32>,
/// sharding = #dist.sharding<...>}}`. `typeOf` gives the type that a port has
/// on a rank: none for one that is not there, null for one that holds values of
/// all micro-batches, which have a dimension more.
mlir::LogicalResult verifyPorts(
    mlir::Operation *op, mlir::DictionaryAttr ports,
    llvm::function_ref<std::optional<mlir::ShapedType>(llvm::StringRef)> typeOf,
    const Strategy &strategy);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_PARTS_H
