//===- ErrorFeedback.h - Errors of compressed averages ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_ERRORFEEDBACK_H
#define HEDDLE_PLANFORMAT_ERRORFEEDBACK_H

#include <string_view>

namespace heddle::plan {

/// The beginnings of the names of states with what a compressed average has
/// lost so far: of what a rank sent, and of the means that it sent to all. A
/// rank has errors of its own, so they belong to a number of ranks.
inline constexpr char workerError[] = "worker_error.";
inline constexpr char serverError[] = "server_error.";

/// A state with the number of the tensor whose errors these are, if an
/// optimizer's phases average several tensors; 0: there are no errors.
inline constexpr char errorsOfState[] = "errors_of";

/// Whether the state called `name` holds such errors.
inline bool holdsErrors(std::string_view name) {
  return name.rfind(workerError, 0) == 0 || name.rfind(serverError, 0) == 0;
}

/// The states with what a replica has done by itself since replicas last
/// synchronized: the sum of its steps, what its momentum differs by from the
/// one that replicas share, and the sum of the learning rates.
inline constexpr char localStep[] = "local_step";
inline constexpr char localMomentum[] = "local_momentum";
inline constexpr char localRates[] = "local_rates";

/// Whether the state called `name`, which is for no parameter, is one of these.
inline bool holdsLocalSteps(std::string_view name) {
  return name.rfind("local_", 0) == 0;
}

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_ERRORFEEDBACK_H
