//===- NNDialect.h - The nn dialect -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The header for users of the nn dialect: operations, attributes, interfaces.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_NNDIALECT_H
#define HEDDLE_DIALECTS_NN_NNDIALECT_H

#include "dialects/Dist/ByteSize.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/NN/GradientContext.h"
#include "dialects/NN/OpProperties.h"
#include "heddle/PlanFormat/Condition.h"
#include "heddle/PlanFormat/PackedWeight.h"
#include "heddle/PlanFormat/Phase.h"
#include "heddle/PlanFormat/Quantizer.h"
#include "heddle/Weights/Source.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/NN/NNEnums.h.inc"

namespace heddle::eval {
class Tensor;
}

namespace heddle::nn {
/// The type of `value`, which must be a ranked tensor.
inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
/// The size in bytes of a value that is a ranked tensor; 0 for other types.
double bytesOf(mlir::Value value);

/// Pads a number of elements as buckets do (NN_BucketOp). If `parts` is 1,
/// returns the number of elements that a tensor of `elements` elements takes in
/// a bucket. Otherwise returns the size of a bucket whose tensors take
/// `elements` elements, padded so that `parts` ranks can have equal shards.
int64_t paddedElements(int64_t elements, int64_t parts = 1);
/// The sizes, in elements, of the segments on which `op`, an nn.segment_sums or
/// nn.scale_segments, works. A segment is a tensor of the operation's bucket
/// with its padding.
llvm::SmallVector<int64_t> segmentsOf(mlir::Operation *op);
/// The elements, without padding, of each segment of an nn.segment_maxima.
llvm::SmallVector<int64_t> segmentCountsOf(mlir::Operation *op);
/// A short name of the operation for reports: for an nn.map the name of its
/// function, such as "gelu_tanh", otherwise the mnemonic.
llvm::StringRef labelOf(mlir::Operation *op);

/// Whether states of this role, such as gradients, are written in every step
/// before they are read. States of other roles keep their values from step to
/// step.
bool isMadeInStep(StateRole role);

/// The letters by which sharding rules (dist::buildRule) name the first `count`
/// dimensions of a tensor: "bt" for two.
std::string leadingLetters(int64_t count);
} // namespace heddle::nn

#include "dialects/NN/NNDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttrs.h.inc"

#include "dialects/NN/NNInterfaces.h.inc"

namespace heddle::nn {
/// Verifies `layout`, which says which blocks of keys the attention `op` reads;
/// null if `mask` has no block. `heads` is the number of heads over all ranks,
/// or that of one rank.
mlir::LogicalResult verifyLayout(mlir::Operation *op, mlir::Value layout,
                                 MaskAttr mask, int64_t heads);
} // namespace heddle::nn

#define GET_OP_CLASSES
#include "dialects/NN/NNOps.h.inc"

#endif // HEDDLE_DIALECTS_NN_NNDIALECT_H
