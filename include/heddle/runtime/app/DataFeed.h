//===- DataFeed.h - Batches of token files ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_DATAFEED_H
#define HEDDLE_RUNTIME_APP_DATAFEED_H

#include "heddle/runtime/core/Part.h"
#include "heddle/runtime/io/Checkpoint.h"
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

/// A token file and its share of the rows.
struct DataChoice {
  std::string path;
  double weight = 0; ///< 0: not given.
};

/// Takes what `--data` was given apart: `FILE` or `FILE:WEIGHT`; a colon that
/// belongs to the name of a file that is there is none of these. Throws H0186
/// for a weight that is no positive number, or that only some files have.
std::vector<DataChoice> parseData(const std::vector<std::string> &arguments);

/// Reads batches of rows. In a file, row r of batch b takes seq + 1 tokens at
/// (b * rows + r) * seq, the first ones are inputs, the last ones labels.
///
/// Of several files each gives its rows in its own order, from its beginning
/// again after its last. Whose turn it is follows from the weights alone: that
/// of the file which has given the fewest rows for its weight.
class DataFeed {
public:
  /// Throws H0347 when the file is shorter than one batch.
  DataFeed(const std::string &path, const BatchShape &shape)
      : DataFeed(std::vector<DataChoice>{{path, 0}}, shape) {}
  /// Without weights, files count by their rows. Throws H0347 when one is
  /// shorter than a batch or, of several, than a row.
  DataFeed(const std::vector<DataChoice> &files, const BatchShape &shape);

  /// From here on the rows of every pass over a file are permuted, each pass in
  /// its own way that `seed` chooses.
  void shuffle(uint64_t seed);

  /// Whole batches in the first file.
  int64_t batches() const { return sources.front().passRows / shape.rows; }
  /// The files, in their order.
  int64_t numFiles() const { return sources.size(); }
  const io::TokenFile &file(int64_t index) const { return sources[index].file; }
  /// Says what the hash of a file's tokens is, for `state`.
  void setDigest(int64_t index, const std::string &digest) {
    sources[index].digest = digest;
  }

  /// Which of a row's tokens are meant.
  enum class What { Inputs, Labels };
  /// Reads tokens of the rows from row `first` on, which is counted from where
  /// this feed began. `runs` says which of them, in a tensor of these rows, and
  /// where in `target`. Throws H0346 at a token that the vocabulary does not
  /// have.
  void read(int64_t first, const std::vector<Run> &runs, What what,
            int32_t *target);

  /// Where a run stands that has read `rows` rows of this feed.
  io::DataState state(int64_t rows);
  /// Begins where a run stood with as many files: with the next token of each,
  /// in the same pass. `sameMix`: its weights were the same, so that whose turn
  /// it is goes on too. To be called before anything is read.
  void resume(const io::DataState &state, bool sameMix);
  /// Begins after `steps` batches of the first file.
  void resumeSteps(int64_t steps);

private:
  /// Rows that follow each other in a file: rows next..end-1 of those that
  /// begin at the token `origin`.
  struct Pass {
    int64_t number = 0;
    int64_t origin = 0;
    int64_t permuted = 0; ///< Rows among which --shuffle chooses.
    int64_t next = 0, end = 0;
  };
  struct Source {
    io::TokenFile file;
    DataChoice choice;
    std::string digest;
    int64_t units = 1;    ///< Of its weight; whole numbers add up exactly.
    int64_t passRows = 0; ///< Of a pass from the beginning of the file.
    int64_t before = 0;   ///< Rows that runs before this one took.
    Pass pass;            ///< The one in which this run begins.
    // Of the mixture, after the rows that were planned.
    int64_t taken = 0, credit = 0, firstCredit = 0;
  };
  /// Where a row's tokens are.
  struct RowPosition {
    int64_t source = 0;
    int64_t token = 0;
  };

  int64_t rowsFrom(const Source &source, int64_t origin) const;
  void begin(Source &source, Pass pass) const;
  Pass passAfter(const Source &source, int64_t rows) const;
  RowPosition positionOf(int64_t row) const;
  int64_t tokenOf(int64_t source, int64_t row) const;
  int64_t chooseSource();
  void advance(int64_t row);
  void plan(int64_t first);

  BatchShape shape;
  std::vector<Source> sources;
  std::optional<uint64_t> seed; ///< Of the shuffle.
  int64_t units = 0;            ///< Of all sources.
  int64_t rowsBefore = 0, tokensBefore = 0;

  // A mixture's rows of one batch: the source of each and the row in it, both
  // counted from the beginning of this feed.
  struct Planned {
    int64_t source, row;
  };
  std::vector<Planned> planned;
  int64_t plannedFirst = -1;
  int64_t at = 0; ///< The row before which `taken` and `credit` stand.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_DATAFEED_H
