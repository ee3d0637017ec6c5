//===- PortBatch.h - Splits a batch over runs and ranks ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs and outputs of `heddle eval` are whole tensors. These functions give
// each run and rank its part, and join the outputs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_PORTBATCH_H
#define HEDDLE_LIB_EVAL_PORTBATCH_H

#include "heddle/Eval/RankInterpreter.h"

namespace heddle::eval {

/// The rows of `first`, then those of `second`.
Tensor concatenate(const Tensor &first, const Tensor &second);

/// The part of `value` that a port of this shape gets in one of `parts` runs:
/// all of it if it has as many elements, else one of `parts` equal ranges of
/// elements; none if neither fits.
std::optional<Tensor> partOfInput(const Tensor &value,
                                  llvm::ArrayRef<int64_t> shape, int64_t part,
                                  int64_t parts);

/// The type of a port's whole tensor, from the program's `ports`.
mlir::ShapedType wholeType(mlir::DictionaryAttr ports, llvm::StringRef name,
                           mlir::ShapedType type);

/// The number of runs into which the batch of `inputs` is split for a port of
/// this type; none if the inputs do not have the port, or it does not take the
/// batch.
std::optional<int64_t> partsOf(nn::PortAttr port, mlir::Type type,
                               mlir::DictionaryAttr ports,
                               const TensorMap &inputs);

/// The placement of the parts of `whole` by a sharding, and by the segments of
/// the last dimension if there are any.
plan::Placement placementOf(mlir::ShapedType whole,
                            dist::TensorShardingAttr sharding,
                            mlir::DenseI64ArrayAttr segments);

/// The part of the inputs that this rank gets for the port `name`. Reports at
/// `at` if it does not fit.
mlir::FailureOr<Tensor> inputOf(mlir::Operation *at, llvm::StringRef name,
                                mlir::ShapedType type,
                                mlir::DictionaryAttr ports,
                                const TensorMap &inputs,
                                const BatchSlice &batch, const Rank &rank);

/// Adds the output of one run: scalars are summed, other outputs concatenated.
void addOutput(const std::string &name, const Tensor &value,
               TensorMap &outputs);

/// The value of an output.
struct PortValue {
  nn::PortAttr port;
  Tensor value;
};

/// Adds the outputs of the run on part `batch.part`, as addOutput. The loss
/// becomes the mean of all parts, weighted by their `loss_weight`.
void addOutputs(llvm::ArrayRef<PortValue> given, const BatchSlice &batch,
                TensorMap &outputs);

/// Writes a rank's part of the output `name` to the whole tensor in `outputs`,
/// as the program's `ports` say; false if the output is not split. Reports at
/// `at` if it does not fit.
mlir::FailureOr<bool> addPart(mlir::Operation *at, const std::string &name,
                              const Tensor &part, mlir::DictionaryAttr ports,
                              const plan::Mesh &mesh, int64_t rank,
                              TensorMap &outputs);

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_PORTBATCH_H
