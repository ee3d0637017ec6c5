//===- Strategy.h - The user's settings as an attribute ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The settings of a compilation, as the attribute #dist.strategy of a model.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_STRATEGY_H
#define HEDDLE_DIALECTS_DIST_STRATEGY_H

#include "heddle/Settings/Settings.h"
#include "llvm/ADT/APInt.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringRef.h"

namespace heddle::config {
bool operator==(const Settings &a, const Settings &b);
llvm::hash_code hash_value(const Settings &settings);
} // namespace heddle::config

namespace heddle::dist {

/// The contents of `#dist.strategy<{...}>`: the rows of Settings.def. Passes
/// get settings from this attribute only.
using Strategy = config::Settings;

/// The bits of a strategy in which every setting is written.
llvm::APInt allWritten();
/// The bit of the setting with this key.
llvm::APInt bitOf(llvm::StringRef key);

/// How many blocks of a kernel's scratch memory a launch needs: one for each
/// thread of a CPU, one for a whole launch of a GPU.
inline int64_t scratchUsers(const Strategy &strategy) {
  return factsOf(strategy.target).hasScratchPerThread ? strategy.threads : 1;
}

/// Describes the first error in the strategy; "" if there is none.
std::string verifyStrategy(const Strategy &strategy);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_STRATEGY_H
