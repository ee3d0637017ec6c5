//===- Tags.h - Tags of messages --------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tags of messages. They are below 32768, which every MPI allows:
//
//   0x0000-0x00FF  control: messages that no plan contains, such as those that
//                  compare the ranks' plans at start-up
//   0x1000-0x113F  collectives: 0x1000 + 5 * group + kind, where `group` is
//                  the Communicator::id and there are 5 kinds of collectives
//   0x2000-0x3FFF  send and receive: 0x2000 + channel
//
// Messages with the same tag between two ranks arrive in the order of sending.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_TAGS_H
#define HEDDLE_RUNTIME_COMM_TAGS_H

#include "heddle/PlanFormat/Collective.h"

namespace heddle::rt {

inline constexpr int controlTag = 0x0000;
inline constexpr int collectiveTag = 0x1000;
inline constexpr int channelTag = 0x2000;
inline constexpr int numChannels = 0x2000;

inline int tagOf(plan::CollectiveKind kind, int groupId) {
  return collectiveTag + groupId * plan::numCollectiveKinds +
         static_cast<int>(kind);
}

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_TAGS_H
