//===- RowCopies.cpp - Copies of offloaded table rows to a GPU ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers rows of an offloaded table on the host, when a stream reaches the
// copy, and copies them to the GPU.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/RowCopies.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

/// The ids are read when the stream reaches the copy. Each run of a captured
/// graph therefore copies the rows that its own ids choose.
void RowCopies::copy(StreamHandle stream, const RowCopy &rows, bool repeats) {
  constexpr int64_t idBytes = sizeof(int32_t);
  char *buffer = files.buffer();
  bool isFile = files.holds(rows.source);
  io::OffloadTime *of =
      isFile && !repeats ? files.copyTimes()->next() : nullptr;
  char *ids = buffer + bufferBytes;
  int64_t atOnce = std::min(mostIds, bufferBytes / rows.rowBytes);
  for (int64_t first = 0; first < rows.count; first += atOnce) {
    io::RowChoice choice = {rows.rowBytes, rows.tableRows,
                            reinterpret_cast<const int32_t *>(ids),
                            std::min(atOnce, rows.count - first), rows.first};
    auto gather = [=] {
      if (of && first == 0)
        of->begin = io::steadyNow();
      if (isFile)
        files.readRows(buffer, rows.source, choice);
      else
        choice.gather(buffer,
                      reinterpret_cast<const char *>(rows.source.value()));
    };
    check(driver.copyOut(ids, (rows.ids + first * idBytes).value(),
                         choice.count * idBytes, stream),
          "a copy of ids");
    tasks.add(stream, gather, repeats);
    check(driver.copyIn((rows.target + first * rows.rowBytes).value(), buffer,
                        choice.count * rows.rowBytes, stream),
          "a copy");
  }
  if (of)
    tasks.add(
        stream, [=] { of->end = io::steadyNow(); }, repeats);
}
