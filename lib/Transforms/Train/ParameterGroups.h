//===- ParameterGroups.h - Parameter groups of the strategy -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_PARAMETERGROUPS_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_PARAMETERGROUPS_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Settings/ParameterGroup.h"

namespace heddle::train {

/// The parameter groups that the user defined by the option `--group`, in the
/// user's order. They are part of the strategy: the settings of the
/// compilation.
class ParameterGroups {
public:
  /// Reads the groups. A group with an error is skipped, because `verify`
  /// reports it.
  explicit ParameterGroups(nn::ModelOp model);

  /// Emits an error for a group that cannot be read (H0140), an invalid pattern
  /// (H0141), and a pattern that matches no parameter (H0142).
  mlir::LogicalResult verify();

  /// The index of the first group that has a pattern which matches the
  /// parameter's name, either in the model or in the weight files. Returns
  /// nullopt if no group has one.
  std::optional<size_t> of(nn::StateOp parameter) const;

  const config::ParameterGroup &operator[](size_t number) const {
    return groups[number];
  }

private:
  bool matches(size_t number, nn::StateOp parameter) const;

  nn::ModelOp model;
  llvm::SmallVector<config::ParameterGroup> groups;
};

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_PARAMETERGROUPS_H
