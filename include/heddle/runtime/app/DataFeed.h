//===- DataFeed.h - Batches from files of tokens ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads batches of training tokens from the files of `--data`: mixes several
// files by weight, shuffles, and continues where a checkpoint stopped. Each
// rank reads only its own rows.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_DATAFEED_H
#define HEDDLE_RUNTIME_APP_DATAFEED_H

#include "heddle/runtime/core/RankShard.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/TokenFile.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// The shape of a batch.
struct BatchShape {
  int64_t rows = 0;
  int64_t seq = 0;
  int64_t vocab = 0;
};

/// A file of tokens with its weight in the mixture.
struct DataChoice {
  std::string path;
  double weight = 0; ///< 0: no weight was given.
};

/// Parses values of `--data`: `FILE` or `FILE:WEIGHT`. The value is only a file
/// name, even with a colon, if such a file exists. Throws H0186 for a weight
/// that is not a positive number, or if only some files have weights.
std::vector<DataChoice> parseData(const std::vector<std::string> &arguments);

/// Reads batches of rows. In a file, row r of batch b consists of seq + 1
/// tokens, the first of which has the index (b * rows + r) * seq. The first seq
/// tokens of a row are the inputs, and its last seq tokens are the labels.
///
/// With several files, each yields its rows in order and starts again after its
/// last row. The next row always comes from the file that has yielded the
/// fewest rows relative to its weight.
class DataFeed {
public:
  /// Throws H0347 when the file is shorter than one batch.
  DataFeed(const std::string &path, const BatchShape &shape)
      : DataFeed(std::vector<DataChoice>{{path, 0}}, shape) {}
  /// Without weights, each file is weighted by its number of rows. Throws H0347
  /// when one of several files is shorter than a row, or a single file shorter
  /// than a batch.
  DataFeed(const std::vector<DataChoice> &files, const BatchShape &shape);

  /// From now on, permutes the rows of each pass over a file (epoch),
  /// differently in each pass. `seed` determines the permutations.
  void shuffle(uint64_t seed);

  /// Number of whole batches in the first file.
  int64_t batches() const { return sources.front().passRows / shape.rows; }
  /// The number of files. A file's index is its position in `--data`.
  int64_t numFiles() const { return sources.size(); }
  const io::TokenFile &file(int64_t index) const { return sources[index].file; }
  /// Sets the hash of a file's tokens, which `state` returns, so that a
  /// checkpoint can detect a changed file.
  void setDigest(int64_t index, const std::string &digest) {
    sources[index].digest = digest;
  }

  /// Which tokens of a row to read.
  enum class What { Inputs, Labels };
  /// Reads tokens of the batch whose first row is row `first` of this feed.
  /// `runs` are the ranges of elements that this rank needs from the tensor of
  /// the whole batch. A range has the offset in `target` where its tokens are
  /// written. Throws H0346 for a token outside the vocabulary.
  void read(int64_t first, const std::vector<ElementRange> &runs, What what,
            int32_t *target);

  /// Returns the position in each file after `rows` rows of this feed. A
  /// checkpoint stores it, so that a later run can resume.
  io::DataState state(int64_t rows);
  /// Resumes at the position `state` of an earlier run, which had the same
  /// number of files. Each file continues at its next token, in the same pass.
  /// `sameMix` says that the files' weights have not changed; then the order in
  /// which the files are chosen continues too. Must be called before rows are
  /// read.
  void resume(const io::DataState &state, bool sameMix);
  /// Starts at the row that follows the first `steps` batches of the first
  /// file.
  void resumeSteps(int64_t steps);

private:
  /// One pass (epoch) over a file. Row 0 of the pass begins at the token
  /// `origin`. The rows from `next` to end - 1 have not been read yet.
  struct Pass {
    int64_t number = 0;
    int64_t origin = 0;
    int64_t permuted = 0; ///< Number of rows that --shuffle permutes.
    int64_t next = 0, end = 0;
  };
  struct Source {
    io::TokenFile file;
    DataChoice choice;
    std::string digest;
    /// The file's weight as an integer, so that sums are exact.
    int64_t units = 1;
    /// Number of rows in a full pass, which starts at the file's first token.
    /// The first pass after a resume may start later.
    int64_t passRows = 0;
    int64_t before =
        0;     ///< Number of the file's rows that earlier runs have read.
    Pass pass; ///< The pass in which this run starts.
    // `taken` counts the rows that were taken from this file so far. `credit`
    // is the file's counter for the weighted round-robin in `chooseSource`.
    // `firstCredit` is its value before the first row of this run.
    int64_t taken = 0, credit = 0, firstCredit = 0;
  };
  /// The file and the first token of a row.
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
  std::optional<uint64_t> seed; ///< Seed of --shuffle.
  int64_t units = 0;            ///< Sum of the files' weights (Source::units).
  int64_t rowsBefore = 0, tokensBefore = 0;

  // Where a row of a batch comes from if there are several files: the index of
  // the file, and the number of rows that were taken from this file before.
  struct Planned {
    int64_t source, row;
  };
  std::vector<Planned> planned;
  int64_t plannedFirst = -1;
  int64_t at = 0; ///< The row to which `taken` and `credit` have been advanced.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_DATAFEED_H
