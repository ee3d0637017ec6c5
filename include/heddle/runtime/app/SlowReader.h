//===- SlowReader.h - Pipes whose reader is slow ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps a run going when its output is a pipe that nobody reads.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SLOWREADER_H
#define HEDDLE_RUNTIME_APP_SLOWREADER_H

namespace heddle::rt {

/// Limits how long writes to a pipe wait for the pipe's reader. Without a
/// limit, a pipe that nobody reads would stop a run, even one that a signal
/// asks to end.
class SlowReader {
public:
  /// Whether the pipe has room for a line. Waits up to a second for the reader.
  /// Does not wait after a stop signal, or if an earlier wait was in vain.
  bool takes(int descriptor);

private:
  bool isStalled = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SLOWREADER_H
