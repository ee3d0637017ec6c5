//===- RowCopies.h - Copies of offloaded table rows to a GPU ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies rows for embedding lookups whose table is offloaded to the host or to
// a file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_ROWCOPIES_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_ROWCOPIES_H

#include "runtime/devices/cuda/FileCopies.h"

namespace heddle::rt::cuda {

/// Copies rows of an offloaded table to a GPU. Ids in the GPU's memory choose
/// the rows. First the ids are copied to pinned memory. Then the host gathers
/// the rows in pinned memory, and they are copied to the GPU. All of this runs
/// on the stream that reads files, and uses the pinned memory for these reads.
class RowCopies {
public:
  RowCopies(const Driver &driver, HostTasks &tasks, FileCopies &files)
      : driver(driver), tasks(tasks), files(files) {}

  /// Submits the copy of rows to the stream. With `repeats` it is captured in a
  /// graph.
  void copy(StreamHandle stream, const RowCopy &rows, bool repeats);

private:
  static constexpr int64_t mostIds = 4096; ///< At the end of the buffer, after
                                           ///< the rows.
  static constexpr int64_t bufferBytes =
      plan::stagingRingBytes - mostIds * int64_t(sizeof(int32_t));
  static_assert(io::RowChoice::mostRowBytes <= bufferBytes);

  const Driver &driver;
  HostTasks &tasks;
  FileCopies &files;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_ROWCOPIES_H
