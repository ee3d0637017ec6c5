//===- NNDialect.h - What is computed ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_NNDIALECT_H
#define HEDDLE_DIALECTS_NN_NNDIALECT_H

#include "dialects/Dist/ByteSize.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/NN/GradientContext.h"
#include "dialects/NN/OpProperties.h"
#include "heddle/PlanFormat/Packed.h"
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
/// Bytes of a ranked tensor; 0 of anything else.
double bytesOf(mlir::Value value);

/// Elements of a member of a bucket, padding included (NN_BucketOp); of a whole
/// bucket, so that it has so many equal parts.
int64_t paddedElements(int64_t elements, int64_t parts = 1);
/// The sizes of the segments of an nn.segment_sums or nn.scale_segments: of the
/// members of its bucket, with their padding.
llvm::SmallVector<int64_t> segmentsOf(mlir::Operation *op);
/// The operation's name for people: that of its function, or its mnemonic.
llvm::StringRef labelOf(mlir::Operation *op);

/// Whether a step makes it anew, before it reads it; others last from one step
/// to the next.
bool isMadeInStep(StateRole role);

/// The letters of a sharding rule for `count` leading dimensions.
std::string leadingLetters(int64_t count);
} // namespace heddle::nn

#include "dialects/NN/NNDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttrs.h.inc"

#include "dialects/NN/NNInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/NN/NNOps.h.inc"

#endif // HEDDLE_DIALECTS_NN_NNDIALECT_H
