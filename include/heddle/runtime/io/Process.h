//===- Process.h - What a program does for all its files --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_PROCESS_H
#define HEDDLE_RUNTIME_IO_PROCESS_H

namespace heddle::io {

/// Readies a program, before it opens anything. No file gets the number of
/// stdin, stdout or stderr when these are closed. A signal that ends the
/// process removes its temporaries. A file that becomes shorter while it is
/// mapped ends it with H0432. A file over the limit of the process's files is
/// an error of its writing.
void prepareProcess();

/// From here on the signal ends the process, after its temporaries were
/// removed. May be called in the handler of a signal.
void endOnSignal(int signal);

/// Throws H0431 for what could not be printed, for the reason `error` (an
/// errno, or 0 when none is known).
[[noreturn]] void failToPrint(int error);
/// Sends what was printed on its way; throws H0431 when some of it was lost.
void flushStandardOutput();

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_PROCESS_H
