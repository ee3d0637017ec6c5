//===- PackState.h - Fill the states of packed weights ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_PACKSTATE_H
#define HEDDLE_RUNTIME_APP_PACKSTATE_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/core/UploadRing.h"

namespace heddle::rt {

/// The bytes of a panel of a packed weight. A panel is the first dimension of
/// the state.
int64_t panelBytes(const Value &packed);

/// Fills the state with this index, which is a packed weight, from this rank's
/// shard of the float weight. `given` is as in packPanels. A slot of `ring`
/// must hold a panel.
void packState(Job &job, UploadRing &ring, size_t index, const float *weight,
               const GroupScales &given);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_PACKSTATE_H
