//===- FrameUse.h - Which bytes of a frame are in use -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the bytes of a frame that are in use at a command, by owner, and finds
// the command at which most are. The memory planner and `explain` use it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_FRAMEUSE_H
#define HEDDLE_PLANFORMAT_FRAMEUSE_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle::plan {

/// A range of bytes of a frame, and the commands during which it is in use.
struct FrameRange {
  std::string owner; ///< The use, as in Memory::owners.
  int64_t offset = 0;
  int64_t bytes = 0; ///< With the padding for alignment.
  int64_t first = 0, last = 0;
  /// The last command during which work of the previous run may still use the
  /// bytes; -1: no such work does.
  int64_t settled = -1;

  bool isLive(int64_t command) const {
    return first <= command && command <= last;
  }
};

/// Returns how many bytes are in use while `command` runs, by owner. Bytes that
/// work of the previous run may still use count as in use until they are
/// overwritten. No byte is counted twice.
std::map<std::string, int64_t> ownersAt(int64_t command,
                                        const std::vector<FrameRange> &ranges);

/// Returns the command at which most bytes are in use. If there are several, it
/// is the one at which the earliest entry of `ranges` begins. Returns 0 if
/// `ranges` is empty.
int64_t peakCommand(const std::vector<FrameRange> &ranges);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_FRAMEUSE_H
