//===- PortBatch.h - Splits a batch over runs and ranks ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts between whole tensors, which `heddle eval` reads and writes, and the
// parts of these tensors that one rank gets and returns in one run.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_PORTBATCH_H
#define HEDDLE_LIB_EVAL_PORTBATCH_H

#include "heddle/Eval/RankInterpreter.h"

namespace heddle::eval {

/// The rows of `first`, followed by those of `second`.
Tensor concatenate(const Tensor &first, const Tensor &second);

/// Returns the part of the input `value` that run number `part` gets, out of
/// `parts` runs. `shape` is the shape of the program's input. If `value` has as
/// many elements as this shape, every run gets all of them. If it has `parts`
/// times as many, each run gets one of `parts` equal ranges. Returns nullopt
/// for any other number of elements.
std::optional<Tensor> partOfInput(const Tensor &value,
                                  llvm::ArrayRef<int64_t> shape, int64_t part,
                                  int64_t parts);

/// The type of the whole tensor of the program's input or output `name`,
/// according to the program's attribute `ports`. It is `type` if ranks do not
/// split the tensor.
mlir::ShapedType wholeType(mlir::DictionaryAttr ports, llvm::StringRef name,
                           mlir::ShapedType type);

/// The number of runs into which the batch in `inputs` must be split, because
/// the program's input `port` takes only a part of it in one run. Returns
/// nullopt if this input does not belong to the batch, or is not in `inputs`.
std::optional<int64_t> partsOf(nn::PortAttr port, mlir::Type type,
                               mlir::DictionaryAttr ports,
                               const TensorMap &inputs);

/// Returns which part of a tensor of type `whole` each rank holds, according to
/// the sharding. `segments` are ranges of the last dimension that are split
/// separately, such as q, k and v; null if there are none.
plan::Placement placementOf(mlir::ShapedType whole,
                            dist::TensorShardingAttr sharding,
                            mlir::DenseI64ArrayAttr segments);

/// The part of the input `name` that the rank `rank` gets in one run. `batch`
/// says which part of the batch this run computes. Reports an error at `at` if
/// the input has a shape that does not fit.
mlir::FailureOr<Tensor> inputOf(mlir::Operation *at, llvm::StringRef name,
                                mlir::ShapedType type,
                                mlir::DictionaryAttr ports,
                                const TensorMap &inputs,
                                const BatchSlice &batch, const Rank &rank);

/// Adds an output of one run to the outputs of earlier runs: scalars are added
/// up, other outputs are concatenated.
void addOutput(const std::string &name, const Tensor &value,
               TensorMap &outputs);

/// An output of a program: its description (port) and its value.
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
