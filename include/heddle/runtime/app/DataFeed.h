//===- DataFeed.h - Batches of a token file ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_DATAFEED_H
#define HEDDLE_RUNTIME_APP_DATAFEED_H

#include "heddle/runtime/core/Part.h"
#include "heddle/runtime/io/TokenFile.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// The extents of a batch.
struct BatchShape {
  int64_t rows = 0;
  int64_t seq = 0;
  int64_t vocab = 0;
};

/// Reads batches of rows: row r of batch b takes seq + 1 tokens at
/// (b * rows + r) * seq, the first ones are inputs, the last ones labels.
class DataFeed {
public:
  /// Throws H0347 when the file is shorter than one batch.
  DataFeed(const std::string &path, const BatchShape &shape);

  /// From here on the rows of every pass over the file are permuted, each pass
  /// in its own way that `seed` chooses.
  void shuffle(uint64_t seed);

  /// Whole batches in the file.
  int64_t batches() const { return count; }

  /// Which of a row's tokens are meant.
  enum class What { Inputs, Labels };
  /// Reads tokens of the rows from row `first` on, which is counted over the
  /// whole run; rows beyond the last batch begin the file again. `runs` says
  /// which of them, in a tensor of these rows, and where in `target`. Throws
  /// H0346 at a token that the vocabulary does not have.
  void read(int64_t first, const std::vector<Run> &runs, What what,
            int32_t *target);

private:
  int64_t placeOf(int64_t row) const;

  io::TokenFile file;
  BatchShape shape;
  int64_t count = 0;
  bool shuffled = false;
  uint64_t seed = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_DATAFEED_H
