//===- OtherModel.h - Warn of weights of another model ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_OTHERMODEL_H
#define HEDDLE_RUNTIME_APP_OTHERMODEL_H

#include "heddle/runtime/app/Job.h"

#include <string>

namespace heddle::rt {

/// Warns (H0418) if the config.json beside the weights describes another
/// computation than the binary although all shapes match: another number of
/// heads, epsilon or base of rotary positions. `directory` may be "" or have no
/// config.json.
void warnOfOtherModel(const Job &job, const std::string &directory);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_OTHERMODEL_H
