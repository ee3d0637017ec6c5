//===- ParameterGroups.h - Which group a parameter is of --------*- C++ -*-===//
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

/// The groups that the strategy names, in its order.
class ParameterGroups {
public:
  /// Groups that cannot be read are left out; `verify` names them.
  explicit ParameterGroups(nn::ModelOp model);

  /// Refuses what is no group, and a pattern that matches no parameter.
  mlir::LogicalResult verify();

  /// The number of the first group that matches the parameter's name, in the
  /// model or in the weight files; nothing where there is none.
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
