//===- PortBatch.h - Ports of programs that see a part of the ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_PORTBATCH_H
#define HEDDLE_LIB_EVAL_PORTBATCH_H

#include "heddle/Eval/RankInterpreter.h"

namespace heddle::eval {

/// The rows of `first`, then those of `second`.
Tensor concatenate(const Tensor &first, const Tensor &second);

/// What a port of this shape gets of `value` in one of `parts` runs: all of it
/// when it has as many elements, else one of `parts` equal runs of elements;
/// none when it fits neither way.
std::optional<Tensor> partOfInput(const Tensor &value,
                                  llvm::ArrayRef<int64_t> shape, int64_t part,
                                  int64_t parts);

/// The type of the whole of a port, by its program's `ports`.
mlir::ShapedType wholeType(mlir::DictionaryAttr ports, llvm::StringRef name,
                           mlir::ShapedType type);

/// Into how many runs the inputs' batch is split for a port of this type; none
/// where the inputs do not have it, or it is not of the batch.
std::optional<int64_t> partsOf(nn::PortAttr port, mlir::Type type,
                               mlir::DictionaryAttr ports,
                               const TensorMap &inputs);

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
                                const TensorMap &inputs,
                                const BatchSlice &batch, const Rank &rank);

/// Adds what one run gave: numbers are summed, other outputs put one after the
/// other.
void addOutput(const std::string &name, const Tensor &value,
               TensorMap &outputs);

/// The value of an output.
struct PortValue {
  nn::PortAttr port;
  Tensor value;
};

/// Adds what a run on part `batch.part` gave: as addOutput, but that the loss
/// is in the end the mean of those of all parts by their `loss_weight`.
void addOutputs(llvm::ArrayRef<PortValue> given, const BatchSlice &batch,
                TensorMap &outputs);

/// Puts a rank's part of the output `name` into the whole of it in `outputs`,
/// by its program's `ports`; false where it is not split. Reports at `at` what
/// does not fit.
mlir::FailureOr<bool> addPart(mlir::Operation *at, const std::string &name,
                              const Tensor &part, mlir::DictionaryAttr ports,
                              const plan::Mesh &mesh, int64_t rank,
                              TensorMap &outputs);

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_PORTBATCH_H
