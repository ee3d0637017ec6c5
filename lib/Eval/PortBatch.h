//===- PortBatch.h - Splits a batch over runs and ranks ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts between whole tensors and parts. `heddle eval` reads and writes
// whole tensors. A rank gets and returns a part of them in each run.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_PORTBATCH_H
#define HEDDLE_LIB_EVAL_PORTBATCH_H

#include "heddle/Eval/RankInterpreter.h"

namespace heddle::eval {

/// The rows of `first`, followed by those of `second`.
Tensor concatenate(const Tensor &first, const Tensor &second);

/// The part of `value` that a port of shape `shape` gets in run `part` of
/// `parts` runs. If `value` has as many elements as the port, the port gets all
/// of them in every run. If it has `parts` times as many, the port gets one of
/// `parts` equal ranges. Returns nullopt if `value` has any other number of
/// elements.
std::optional<Tensor> partOfInput(const Tensor &value,
                                  llvm::ArrayRef<int64_t> shape, int64_t part,
                                  int64_t parts);

/// The type of the whole tensor of a port, according to the program's attribute
/// `ports`.
mlir::ShapedType wholeType(mlir::DictionaryAttr ports, llvm::StringRef name,
                           mlir::ShapedType type);

/// The number of runs into which the batch in `inputs` must be split, because
/// the port takes only a part of it in one run. Returns nullopt if the port
/// does not belong to the batch, or is not in `inputs`.
std::optional<int64_t> partsOf(nn::PortAttr port, mlir::Type type,
                               mlir::DictionaryAttr ports,
                               const TensorMap &inputs);

/// How the parts of the ranks are placed in a tensor of type `whole`: according
/// to the sharding, and to the segments of the last dimension if there are any.
plan::Placement placementOf(mlir::ShapedType whole,
                            dist::TensorShardingAttr sharding,
                            mlir::DenseI64ArrayAttr segments);

/// The part of the input `name` that the rank `rank` gets in the run `batch`.
/// Reports an error at `at` if the input has a shape that does not fit.
mlir::FailureOr<Tensor> inputOf(mlir::Operation *at, llvm::StringRef name,
                                mlir::ShapedType type,
                                mlir::DictionaryAttr ports,
                                const TensorMap &inputs,
                                const BatchSlice &batch, const Rank &rank);

/// Adds an output of one run to the outputs of earlier runs: scalars are added
/// up, other outputs are concatenated.
void addOutput(const std::string &name, const Tensor &value,
               TensorMap &outputs);

/// An output of a program: its port and its value.
struct PortValue {
  nn::PortAttr port;
  Tensor value;
};

/// Adds the outputs of a run to the outputs of earlier runs as `addOutput`
/// does, except for the loss. The loss becomes the mean over all parts of the
/// batch, weighted with the `loss_weight` of each part.
void addOutputs(llvm::ArrayRef<PortValue> given, const BatchSlice &batch,
                TensorMap &outputs);

/// Writes a rank's part of the output `name` into the whole tensor in
/// `outputs`, according to the program's attribute `ports`. Returns false if
/// ranks do not split the output. Reports an error at `at` if the part has a
/// shape that does not fit.
mlir::FailureOr<bool> addPart(mlir::Operation *at, const std::string &name,
                              const Tensor &part, mlir::DictionaryAttr ports,
                              const plan::Mesh &mesh, int64_t rank,
                              TensorMap &outputs);

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_PORTBATCH_H
