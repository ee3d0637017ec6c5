//===- LogWriters.h - CSV and TensorBoard logs ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writers of the run log in other formats than JSON lines: CSV and TensorBoard.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_LOGWRITERS_H
#define HEDDLE_RUNTIME_APP_LOGWRITERS_H

#include "heddle/runtime/app/RunLog.h"

namespace heddle::rt {

/// Creates a CSV log with a row for each step and each validation. With
/// `append` existing rows stay. Throws H0411 if the file cannot be written.
/// Throws H0440 if rows are to be appended to a file with other columns.
std::unique_ptr<LogWriter> makeCsvLog(const std::string &path, bool append);

/// Creates a new event file for TensorBoard in `directory`, and the directory
/// if it does not exist. `step` is the number of steps that earlier runs made.
/// The file tells TensorBoard to hide later steps in the directory's other
/// files, because this run repeats those steps. Throws H0402 if the directory
/// cannot be created, and H0411 if the file cannot be written.
std::unique_ptr<LogWriter> makeTensorBoardLog(const std::string &directory,
                                              int64_t step);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_LOGWRITERS_H
