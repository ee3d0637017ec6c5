//===- Parts.h - Checks types of a rank's shards ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that the type of a value on one rank agrees with the sharding of the
// whole tensor. The verifiers of the dialects nn and plan use it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_PARTS_H
#define HEDDLE_DIALECTS_DIST_PARTS_H

#include "dialects/Dist/DistDialect.h"
#include "mlir/IR/BuiltinTypes.h"

namespace heddle::dist {

/// The number of ranks along the axes, which must be axes of the mesh.
int64_t groupSize(const Strategy &strategy, mlir::ArrayAttr axes);

/// Checks that `part` is the type of a rank's shard of `whole`, padded to the
/// size of the largest shard. `segments` are the sizes of consecutive segments
/// of the last dimension, such as q, k and v, each of which is split by itself.
/// If `segments` is null, the dimension is one segment.
mlir::LogicalResult verifyPart(mlir::Operation *op, mlir::ShapedType part,
                               mlir::Type whole, TensorShardingAttr sharding,
                               mlir::DenseI64ArrayAttr segments,
                               const Strategy &strategy);

/// Checks the attribute that lists the sharded ports (inputs and outputs) of a
/// step: `{ids = {whole = tensor<1x8xi32>, sharding = #dist.sharding<...>}}`.
/// `typeOf` returns the type of a port on a rank, or nullopt for an unknown
/// port. For a port that holds all micro-batches `typeOf` returns null, so that
/// the port is not checked: its type has one dimension more.
mlir::LogicalResult verifyPorts(
    mlir::Operation *op, mlir::DictionaryAttr ports,
    llvm::function_ref<std::optional<mlir::ShapedType>(llvm::StringRef)> typeOf,
    const Strategy &strategy);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_PARTS_H
