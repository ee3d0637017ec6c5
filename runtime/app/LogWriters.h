//===- LogWriters.h - Other forms of the log ------------------ -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_LOGWRITERS_H
#define HEDDLE_RUNTIME_APP_LOGWRITERS_H

#include "heddle/runtime/app/RunLog.h"

namespace heddle::rt {

/// A table with a row for each step and for each validation. A file that is
/// appended to keeps its rows. Throws H0411, and H0440 when it is appended to
/// and has other columns.
std::unique_ptr<LogWriter> makeCsvLog(const std::string &path, bool append);

/// A new event file for TensorBoard in `directory`, which is made. `step`: how
/// many steps there were before; what other files of the directory have of
/// later ones is no longer shown. Throws H0402 or H0411.
std::unique_ptr<LogWriter> makeTensorBoardLog(const std::string &directory,
                                              int64_t step);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_LOGWRITERS_H
