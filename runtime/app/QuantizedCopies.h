//===- QuantizedCopies.h - Weights quantized in training --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The copies of weights in compute precision that training quantizes (MoQ), and
// the numbers that say how.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_QUANTIZEDCOPIES_H
#define HEDDLE_RUNTIME_APP_QUANTIZEDCOPIES_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/io/Safetensors.h"
#include <map>
#include <optional>
#include <set>

namespace heddle::rt {

/// Computes the quantized copies of weights, with the bits and the mixing ratio
/// that the session's states have. Reads `weights`; if it is null, uses initial
/// values. All other states must have their values.
void makeQuantizedCopies(Job &job, const io::WeightSet *weights);

/// For each group of modules whose weights are quantized, the state that holds
/// its bits.
std::map<std::string, const Value *> quantizedBits(const Session &session);

/// The index of the quantized copy of a parameter in a stage's states; nullopt
/// if it has none.
std::optional<size_t> quantizedCopyOf(const plan::Stage &stage,
                                      const plan::State &parameter);

/// Describes the groups of modules for people and for `info --json`: their
/// settings, and which weights they take. Empty if nothing is quantized.
nlohmann::ordered_json describeQuantization(const plan::Plan &plan);
std::vector<std::string> quantizationLines(const plan::Plan &plan);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_QUANTIZEDCOPIES_H
