//===- Signals.h - Stop after a signal --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SIGNALS_H
#define HEDDLE_RUNTIME_APP_SIGNALS_H

namespace heddle::rt {

/// Makes the process record SIGINT, SIGTERM and SIGHUP for `stopSignal`, but
/// not an ignored SIGHUP. If one of these signals comes a second time, it ends
/// the process (io::StopRequests).
void catchStopSignals();

/// Returns the first signal that came, or 0.
int stopSignal();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SIGNALS_H
