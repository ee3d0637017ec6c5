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
/// to pinned memory, the host gathers the rows there, and they go to the GPU.
/// Of the stream that reads files, whose ring is that memory.
class RowCopies {
public:
  RowCopies(const Driver &driver, HostTasks &tasks, FileCopies &files)
      : driver(driver), tasks(tasks), files(files) {}

  /// Submits a copy to the stream; with `repeats` a graph is captured.
  void copy(StreamHandle stream, const RowCopy &rows, bool repeats);

private:
  static constexpr int64_t mostIds = 4096; ///< Behind the rows.
  static constexpr int64_t bufferBytes =
      plan::stagingRingBytes - mostIds * int64_t(sizeof(int32_t));
  static_assert(io::RowChoice::mostRowBytes <= bufferBytes);

  const Driver &driver;
  HostTasks &tasks;
  FileCopies &files;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_ROWCOPIES_H
