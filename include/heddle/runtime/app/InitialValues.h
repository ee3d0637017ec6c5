//===- InitialValues.h - Initial values of states ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_INITIALVALUES_H
#define HEDDLE_RUNTIME_APP_INITIALVALUES_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::rt {

/// Fills `values` with elements first .. first + count - 1 of a random stream
/// with a normal distribution. `seed` and `site` together determine the stream.
/// `site` is a hash of the state's name, so that each state has other values.
void fillNormal(float *values, int64_t first, int64_t count, uint64_t seed,
                uint32_t site, double mean, double stddev);

/// Computes the initial value of a state that is not loaded from a file, for
/// the elements [first, first + count). `whole` is the state's unsharded shape.
/// The state's name and the seed determine the random stream.
void initialValues(const plan::Init &init, const std::string &name,
                   const std::vector<int64_t> &whole, uint64_t seed,
                   int64_t first, int64_t count, float *values);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_INITIALVALUES_H
