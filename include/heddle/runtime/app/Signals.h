//===- Signals.h - A clean stop when a signal asks for it -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SIGNALS_H
#define HEDDLE_RUNTIME_APP_SIGNALS_H

namespace heddle::rt {

/// From here on SIGINT, SIGTERM and, unless it is ignored, SIGHUP are only
/// noted; a second one of a kind ends the process (io::StopRequests).
void catchStopSignals();

/// The signal that came first, or 0.
int stopSignal();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SIGNALS_H
