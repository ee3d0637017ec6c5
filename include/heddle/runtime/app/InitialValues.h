//===- InitialValues.h - First values of states -----------------*- C++ -*-===//
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

/// Fills `count` floats with the numbers first.. of a state's random stream:
/// normal with the given mean and standard deviation. `site` names the stream.
void fillNormal(float *values, int64_t first, int64_t count, uint64_t seed,
                uint32_t site, double mean, double stddev);

/// The elements first .. first + count of the first value of a state that is
/// not loaded and has the shape `whole`. Every state of a seed has a random
/// stream of its own, by its name.
void initialValues(const plan::Init &init, const std::string &name,
                   const std::vector<int64_t> &whole, uint64_t seed,
                   int64_t first, int64_t count, float *values);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_INITIALVALUES_H
