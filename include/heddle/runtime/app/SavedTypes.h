//===- SavedTypes.h - Element types of saved weights ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SAVEDTYPES_H
#define HEDDLE_RUNTIME_APP_SAVEDTYPES_H

#include "heddle/runtime/io/Checkpoint.h"

#include <optional>
#include <set>

namespace heddle::rt {

/// The element types that a model's tensors have in the checkpoints of a run.
/// A tensor keeps the type of the file that it was loaded from: config.json
/// names that type, and other programs load the weights in it.
class SavedTypes {
public:
  /// Every tensor has the type of its state in the plan.
  SavedTypes() = default;
  /// Every tensor has its type in `files`, if that is a type of floats.
  explicit SavedTypes(io::WeightSet files) : files(std::move(files)) {}
  /// The types of the model's files in a checkpoint that a run resumes.
  static SavedTypes ofCheckpoint(const std::string &directory);

  /// Gives all tensors one type: `--save-dtype`.
  void useForAll(const std::string &dtype) { forAll = dtype; }

  /// Takes the model of `contents` with the types of its states, and gives it
  /// the types that are saved. A tensor that this rounds is added to
  /// `contents.masters` as it was. `trained` names the tensors that training
  /// changes. Writes the type of most elements into config.json.
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
