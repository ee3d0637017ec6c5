//===- RowCopies.h - Rows of tables that are not on a GPU -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_ROWCOPIES_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_ROWCOPIES_H

#include "runtime/devices/cuda/FileCopies.h"

namespace heddle::rt::cuda {

/// Copies to a GPU the rows that ids there name of tables elsewhere: the ids go
/// to pinned memory, the host gathers the rows there, and they go to the GPU. Of
/// one stream.
class RowCopies {
public:
  RowCopies(const Driver &driver, HostTasks &tasks, FileCopies &files)
      : driver(driver), tasks(tasks), files(files) {}
  ~RowCopies() { close(); }

  /// Submits a copy to the stream; with `repeats` a graph is captured. The
  /// pinned memory is there from the first call on.
  void copy(StreamHandle stream, const RowCopy &rows, bool repeats);
  /// Releases the pinned memory. Nothing is under way.
  void close();

private:
  static constexpr int64_t bufferBytes = int64_t(4) << 20;
  static constexpr int64_t mostIds = 4096; ///< Behind the buffer.
  static_assert(io::RowChoice::mostRowBytes <= bufferBytes);

  const Driver &driver;
  HostTasks &tasks;
  FileCopies &files;
  char *buffer = nullptr;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_ROWCOPIES_H
