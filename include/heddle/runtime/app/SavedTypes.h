//===- SavedTypes.h - Element types of saved weights ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides in which type each tensor of a checkpoint is saved, and converts
// tensors while they are written.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SAVEDTYPES_H
#define HEDDLE_RUNTIME_APP_SAVEDTYPES_H

#include "heddle/runtime/io/Checkpoint.h"

#include <optional>
#include <set>

namespace heddle::rt {

/// Determines the element type of each of the model's tensors in checkpoints.
/// By default a tensor keeps the type of the file from which it was loaded,
/// since config.json names that type and other programs expect it.
class SavedTypes {
public:
  /// Saves each tensor in the type that its state has in the plan.
  SavedTypes() = default;
  /// Saves each tensor in the type that it has in `files`, if that is a float
  /// type.
  explicit SavedTypes(io::WeightSet files) : files(std::move(files)) {}
  /// Returns the types that the tensors of the checkpoint in `directory` have.
  /// A run that resumes the checkpoint saves with the same types.
  static SavedTypes ofCheckpoint(const std::string &directory);

  /// Uses the type `dtype` for all tensors, as `--save-dtype` asks.
  void useForAll(const std::string &dtype) { forAll = dtype; }

  /// Converts the tensors of the model in `contents` from the types of the
  /// plan's states to the types in which they are saved. If this rounds a
  /// tensor, its exact values are added to `contents.masters`. `trained` names
  /// the tensors that training changes. Also writes the most frequent type into
  /// config.json.
  void apply(io::CheckpointContents &contents,
             const std::set<std::string> &trained) const;

private:
  std::string typeOf(const io::SharedTensor &tensor) const;
  std::string typeOfValues(const io::SharedTensor &tensor,
                           bool isTrained) const;

  std::optional<io::WeightSet> files;
  std::set<std::string> masters; ///< Tensors that were loaded from masters.
  std::string forAll;            ///< "": each tensor has its own type.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SAVEDTYPES_H
