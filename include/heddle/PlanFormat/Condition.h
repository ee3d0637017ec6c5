//===- Condition.h - What a step may skip -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conditions of a plan, by which a training step skips commands. Today there is
// one kind of condition: whether a layer is kept in a step (layer dropping).
// The runtime, the interpreter and the profile of a step evaluate conditions
// with the functions of this file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_CONDITION_H
#define HEDDLE_PLANFORMAT_CONDITION_H

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace heddle::plan {

/// The schedule of progressive layer dropping: theta(t) = (1 - theta) e^(-gamma
/// t) + theta, for step t counted from 0 (Zhang and He, NeurIPS 2020,
/// equation 7).
struct DropProgress {
  double theta = 1; ///< The limit of theta(t), in (0, 1].
  double gamma = 0; ///< How fast theta(t) falls from 1; at least 0.

  double at(int64_t step) const;
};

/// Whether a layer is kept in a step. It is a function of the run's seed and
/// the step alone, so all ranks have the same value before the step begins.
struct Condition {
  std::string name; ///< The symbol in the IR, such as `h.3.kept`.
  std::string path; ///< The layer's module path, such as `h.3`.
  /// The probability of a drop. With `progress` it is multiplied by 1 -
  /// theta(t).
  double rate = 0;
  std::optional<DropProgress> progress{};
  /// The model FLOPs that a step does not compute if the layer is dropped.
  double flops = 0;

  /// The probability with which the layer is kept in step `step`, counted from
  /// 0.
  double keepProbability(int64_t step) const;
  /// Draws whether the layer is kept in step `step` of a run with this seed.
  bool holds(uint64_t seed, int64_t step) const;
};

void to_json(nlohmann::json &json, const Condition &condition);
void from_json(const nlohmann::json &json, Condition &condition);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_CONDITION_H
