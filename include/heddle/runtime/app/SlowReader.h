//===- SlowReader.h - Who reads what a run writes, or not -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SLOWREADER_H
#define HEDDLE_RUNTIME_APP_SLOWREADER_H

namespace heddle::rt {

/// Who reads the other end of a descriptor: a pipe that nobody empties must not
/// hold up a run, least of all one that a signal ends.
class SlowReader {
public:
  /// Whether a line finds room. A reader gets a second to make some, none after
  /// one that passed in vain, and none after a stop signal.
  bool takes(int descriptor);

private:
  bool isStalled = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SLOWREADER_H
