//===- StageFragments.h - Writes the fragments of a stage -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the body of one fragment (forward or backward pass of a pipeline
// stage) into the model of its stage. StageWriter uses it for every fragment
// that the stage runs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PIPE_STAGEFRAGMENTS_H
#define HEDDLE_LIB_TRANSFORMS_PIPE_STAGEFRAGMENTS_H

#include "Fragments.h"
#include "mlir/IR/IRMapping.h"

namespace heddle::pipe {

/// Writes one fragment (forward or backward pass of a pipeline stage) of a
/// micro-batch at the builder's insertion point. Before each operation it
/// writes the receives, and the reads of saved values, that the operation
/// needs. After each operation it sends and saves the results that other
/// fragments need.
class FragmentWriter {
public:
  /// `mapping` maps the step's inputs and the number of the micro-batch from
  /// the whole model to this stage. `slot` is the index of the micro-batch's
  /// entry in each state that saves values for later fragments; null outside of
  /// training.
  FragmentWriter(mlir::OpBuilder &builder, const mlir::SymbolTable &symbols,
                 const Fragments &fragments, const Routes &routes,
                 int64_t fragment, const mlir::IRMapping &mapping,
                 mlir::Value slot)
      : builder(builder), symbols(symbols), fragments(fragments),
        routes(routes), fragment(fragment), mapping(mapping), slot(slot) {}

  void write();
  /// The value in this fragment (a stage's forward or backward pass) that
  /// corresponds to a value in the body of the whole model's loop over
  /// micro-batches; null if there is none.
  mlir::Value lookup(mlir::Value value) const {
    return mapping.lookupOrNull(value);
  }

private:
  void markNeeded(mlir::Value value);
  void clone(mlir::Operation &op);
  void arrive(mlir::Value value, const Arrival &arrival);
  void depart(mlir::Value value);
  void takeOver(const PassedSum &sum, mlir::Operation *clone);
  mlir::Value zerosFor(nn::CallOp call, unsigned number);
  void finish(const PassedSum &sum);

  mlir::OpBuilder &builder;
  const mlir::SymbolTable &symbols; ///< Symbols of the whole model.
  const Fragments &fragments;
  const Routes &routes;
  int64_t fragment;
  mlir::IRMapping mapping;
  mlir::Value slot;
  /// The operations that this fragment (forward or backward pass of a stage)
  /// must repeat, because it uses their results.
  llvm::DenseSet<mlir::Operation *> needed;
};

} // namespace heddle::pipe

#endif // HEDDLE_LIB_TRANSFORMS_PIPE_STAGEFRAGMENTS_H
