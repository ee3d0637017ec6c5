//===- Strategy.h - The user's settings as an attribute ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All settings of one compilation (the strategy). A model has them as the
// attribute #dist.strategy.
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

/// The settings in `#dist.strategy<{...}>`, with one field per row of
/// Settings.def. Passes read settings only from this attribute.
using Strategy = config::Settings;

/// A bit set with one bit for each setting, all of them set. It says that a
/// strategy's text gives a value for every setting.
llvm::APInt allWritten();
/// The bit set, with one bit for each setting, in which only the bit of the
/// setting `key` is set.
llvm::APInt bitOf(llvm::StringRef key);

/// The number of blocks of scratch memory that one launch of a kernel needs: on
/// a CPU one per thread, on a GPU a single one.
inline int64_t scratchUsers(const Strategy &strategy) {
  return factsOf(strategy.target).hasScratchPerThread ? strategy.threads : 1;
}

/// Describes the first error in the strategy; "" if there is none.
std::string verifyStrategy(const Strategy &strategy);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_STRATEGY_H
