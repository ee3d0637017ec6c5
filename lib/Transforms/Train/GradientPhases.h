//===- GradientPhases.h - Phases that train a parameter ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model may have several train programs, one for each phase of a run. Each
// computes the gradients of the parameters that it trains.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_GRADIENTPHASES_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_GRADIENTPHASES_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::train {

/// Says which of the train programs compute the gradient of a parameter.
class GradientPhases {
public:
  explicit GradientPhases(nn::ModelOp model) {
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == nn::ProgramKind::Train) {
        ++count;
        step.walk([&](nn::SetOp set) {
          auto &steps = writers[set.getState()];
          if (!llvm::is_contained(steps, step))
            steps.push_back(step);
        });
      }
  }

  /// Whether `step` trains the parameter. A single train program trains all.
  bool trains(nn::StepOp step, nn::StateOp parameter) const {
    return count == 1 || llvm::is_contained(writersOf(parameter), step);
  }

  /// The end of the name of a parameter's group: the phases that train it;
  /// empty if all do.
  std::string suffix(nn::StateOp parameter) const {
    llvm::SmallVector<nn::StepOp> steps = writersOf(parameter);
    std::string names;
    if (count > 1 && steps.size() < count)
      for (nn::StepOp step : steps)
        names += "." + step.getPhase()->getName().str();
    return names;
  }

private:
  llvm::SmallVector<nn::StepOp> writersOf(nn::StateOp parameter) const {
    return writers.lookup((parameter.getSymName() + ".grad").str());
  }

  size_t count = 0; ///< The number of train programs.
  /// For each state, the train programs that write it, in order.
  llvm::StringMap<llvm::SmallVector<nn::StepOp>> writers;
};

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_GRADIENTPHASES_H
