//===- Process.h - Set up a process for file I/O ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prepares a process for file I/O: standard streams, signals, mapped files. The
// driver `heddle` and compiled binaries call `prepareProcess` first.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_PROCESS_H
#define HEDDLE_RUNTIME_IO_PROCESS_H

namespace heddle::io {

/// Prepares a process. Call it before the process opens a file. Afterwards:
///
/// - No file gets the descriptor of stdin, stdout or stderr if these are
///   closed.
/// - A signal that ends the process removes its temporary files.
/// - Truncation of a mapped file ends the process with H0432.
/// - Exceeding the limit of the file size is an error of the write, not a
///   signal.
void prepareProcess();

/// From now on the signal ends the process, after its temporary files are
/// removed. Safe in a signal handler.
void endOnSignal(int signal);

/// Throws H0431 for a failed write to stdout; `error` is an errno, or 0 if
/// unknown.
[[noreturn]] void failToPrint(int error);
/// Flushes stdout; throws H0431 when output was lost.
void flushStandardOutput();

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_PROCESS_H
