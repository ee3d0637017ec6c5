//===- PortBatch.h - Ports of programs that see a part of the batch *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_PORTBATCH_H
#define HEDDLE_EVAL_PORTBATCH_H

#include "heddle/Eval/RankInterpreter.h"

namespace heddle::eval {

/// The rows of `first`, then those of `second`.
Tensor concatenate(const Tensor &first, const Tensor &second);

/// The mean of all elements, a rank-0 tensor.
Tensor meanOf(const Tensor &tensor);

/// What a port of this shape gets of `value` in one of `parts` runs: all of it
/// when it has as many elements, else one of `parts` equal runs of elements;
/// none when it fits neither way.
std::optional<Tensor> partOfInput(const Tensor &value,
                                  llvm::ArrayRef<int64_t> shape, int64_t part,
                                  int64_t parts);

/// The type of the whole of a port, by its program's `ports`.
mlir::ShapedType wholeType(mlir::DictionaryAttr ports, llvm::StringRef name,
                           mlir::ShapedType type);

/// How the parts of `whole` are placed by a sharding, and by the segments of
/// the last dimension where there are any.
plan::Placement placementOf(mlir::ShapedType whole,
                            dist::TensorShardingAttr sharding,
                            mlir::DenseI64ArrayAttr segments);

/// What the port `name` of this rank gets of the inputs: its part of what the
/// port of the whole gets. Reports at `at` what does not fit.
mlir::FailureOr<Tensor> inputOf(mlir::Operation *at, llvm::StringRef name,
                                mlir::ShapedType type,
                                mlir::DictionaryAttr ports,
                                const TensorMap &inputs, const BatchPart &batch,
                                const Rank &rank);

/// Adds what one of `parts` runs gave: losses are averaged, other outputs put
/// one after the other.
void addOutput(const std::string &name, const Tensor &value, int64_t parts,
               TensorMap &outputs);

/// Puts a rank's part of the output `name` into the whole of it in `outputs`,
/// by its program's `ports`; false where it is not split. Reports at `at` what
/// does not fit.
mlir::FailureOr<bool> addPart(mlir::Operation *at, const std::string &name,
                              const Tensor &part, mlir::DictionaryAttr ports,
                              const plan::Mesh &mesh, int64_t rank,
                              TensorMap &outputs);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_PORTBATCH_H
