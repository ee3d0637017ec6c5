//===- DataFeed.cpp - Batches from files of tokens ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads rows from token files: parses --data, chooses the file of each row if
// there are several, shuffles, and resumes.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/core/Philox.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

//===----------------------------------------------------------------------===//
// Values of --data
//===----------------------------------------------------------------------===//

/// Parses a number. Returns nothing if `text` has other characters before or
/// after the number.
static std::optional<double> parseNumber(const std::string &text) {
  double value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end)
    return std::nullopt;
  return value;
}

static DataChoice parseChoice(const std::string &text) {
  size_t colon = text.rfind(':');
  // A value of --data that names an existing file has no weight. A Megatron
  // pair (.bin and .idx) may be named by the common prefix of the two files.
  if (colon == std::string::npos || io::pathExists(text) ||
      io::pathExists(text + ".idx"))
    return {text, 0};
  std::optional<double> weight = parseNumber(text.substr(colon + 1));
  if (!weight)
    return {text, 0};
  if (!std::isfinite(*weight) || *weight <= 0)
    fail("H0186", "--data " + text + ": a weight is a positive number",
         "write it as --data " + text.substr(0, colon) + ":0.5");
  return {text.substr(0, colon), *weight};
}

std::vector<DataChoice>
heddle::rt::parseData(const std::vector<std::string> &arguments) {
  std::vector<DataChoice> choices;
  for (const std::string &text : arguments)
    choices.push_back(parseChoice(text));
  for (const DataChoice &choice : choices)
    if ((choice.weight == 0) != (choices.front().weight == 0))
      fail("H0186",
           "--data: some files have a weight and others, as " + choice.path +
               ", have none",
           "give every file one, as FILE:0.5, or none: then they count by "
           "their rows");
  return choices;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

DataFeed::DataFeed(const std::vector<DataChoice> &files,
                   const BatchShape &shape)
    : shape(shape) {
  double sum = 0;
  for (const DataChoice &choice : files)
    sum += choice.weight;
  int64_t rows = files.size() == 1 ? shape.rows : 1;
  for (const DataChoice &choice : files) {
    Source source;
    source.file = io::TokenFile::open(choice.path, shape.vocab);
    source.choice = choice;
    source.file.requireSize(
        rows * shape.seq + 1,
        rows > 1 ? "one batch of " + std::to_string(rows) + " rows x " +
                       std::to_string(shape.seq) + " tokens"
                 : "one row of " + std::to_string(shape.seq) + " tokens");
    sources.push_back(std::move(source));
  }
  for (Source &source : sources) {
    source.passRows = rowsFrom(source, 0);
    constexpr double resolution = 1 << 30;
    source.units = source.passRows;
    if (sum > 0)
      source.units = std::max<int64_t>(
          1, std::llround(source.choice.weight / sum * resolution));
    units += source.units;
    begin(source, {0, 0, source.passRows, 0, source.passRows});
  }
}

void DataFeed::shuffle(uint64_t newSeed) { seed = newSeed; }

/// Returns the number of rows in that part of a file that begins at the token
/// `origin`. If the feed has a single file, only whole batches count.
int64_t DataFeed::rowsFrom(const Source &source, int64_t origin) const {
  int64_t whole = sources.size() > 1 ? 1 : shape.rows;
  int64_t tokens = std::max<int64_t>(0, source.file.size() - 1 - origin);
  return tokens / (shape.seq * whole) * whole;
}

/// Sets in which pass (epoch) over the file `source` this run starts: in `pass`
/// or, if all rows of `pass` were read, at the first row of the next pass.
void DataFeed::begin(Source &source, Pass pass) const {
  int64_t rest = source.file.size() - 1 - pass.origin;
  bool fits = rest > 0 && pass.permuted <= rest / shape.seq;
  if (pass.next >= pass.end || !fits)
    pass = {pass.number + 1, 0, source.passRows, 0, source.passRows};
  source.pass = pass;
}

/// Returns the pass over a file (epoch) in which this feed is after it has read
/// `rows` rows of the file. The result's `next` is the row to read next.
DataFeed::Pass DataFeed::passAfter(const Source &source, int64_t rows) const {
  Pass pass = source.pass;
  if (rows < pass.end - pass.next) {
    pass.next += rows;
    return pass;
  }
  rows -= pass.end - pass.next;
  return {pass.number + 1 + rows / source.passRows, 0, source.passRows,
          rows % source.passRows, source.passRows};
}

/// Returns the index of the token at which a row of file number `index` begins.
/// `row` is the number of rows of this file that the feed reads before this
/// row.
int64_t DataFeed::tokenOf(int64_t index, int64_t row) const {
  Pass pass = passAfter(sources[index], row);
  int64_t place = pass.next;
  if (seed)
    place = permute(place, pass.permuted, *seed + index, uint32_t(pass.number));
  return pass.origin + place * shape.seq;
}

//===----------------------------------------------------------------------===//
// The mixture
//===----------------------------------------------------------------------===//

/// Chooses the file of the next row by weighted round-robin. First each file's
/// weight is added to its credit. Then the file with the most credit is chosen,
/// the first among equals, and its credit is reduced by the sum of all weights.
/// So the number of rows from each file stays close to its weight's fraction of
/// all rows.
int64_t DataFeed::chooseSource() {
  size_t best = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    sources[i].credit += sources[i].units;
    if (sources[i].credit > sources[best].credit)
      best = i;
  }
  sources[best].credit -= units;
  return best;
}

/// Advances the files' counters `taken` and `credit` to row `row` of the
/// mixture. Starts from row 0 again if the counters are already past that row.
void DataFeed::advance(int64_t row) {
  if (row < at) {
    for (Source &source : sources) {
      source.taken = 0;
      source.credit = source.firstCredit;
    }
    at = 0;
  }
  for (; at < row; ++at)
    ++sources[chooseSource()].taken;
}

/// Chooses the file of each row in the batch whose first row is `first`.
void DataFeed::plan(int64_t first) {
  if (first == plannedFirst)
    return;
  advance(first);
  planned.clear();
  for (; at < first + shape.rows; ++at) {
    int64_t source = chooseSource();
    planned.push_back({source, sources[source].taken++});
  }
  plannedFirst = first;
}

DataFeed::RowPosition DataFeed::positionOf(int64_t row) const {
  if (sources.size() == 1)
    return {0, tokenOf(0, row)};
  assert(row >= plannedFirst && row < plannedFirst + shape.rows);
  const Planned &chosen = planned[row - plannedFirst];
  return {chosen.source, tokenOf(chosen.source, chosen.row)};
}

void DataFeed::read(int64_t first, const std::vector<ElementRange> &runs,
                    What what, int32_t *target) {
  if (sources.size() > 1)
    plan(first);
  int64_t shift = what == What::Labels ? 1 : 0;
  for (const ElementRange &run : runs)
    for (int64_t done = 0; done < run.count;) {
      int64_t row = (run.whole + done) / shape.seq;
      int64_t column = (run.whole + done) % shape.seq;
      int64_t tokens = std::min(run.count - done, shape.seq - column);
      RowPosition position = positionOf(first + row);
      sources[position.source].file.read(position.token + column + shift,
                                         tokens, shape.vocab,
                                         target + run.local + done);
      done += tokens;
    }
}

//===----------------------------------------------------------------------===//
// Resumption
//===----------------------------------------------------------------------===//

io::DataState DataFeed::state(int64_t rows) {
  io::DataState state;
  state.rows = rowsBefore + rows;
  state.tokens = tokensBefore + rows * shape.seq;
  state.batch = shape.rows;
  state.seq = shape.seq;
  state.shuffle = seed;
  if (sources.size() > 1)
    advance(rows);
  for (const Source &source : sources) {
    int64_t taken = sources.size() > 1 ? source.taken : rows;
    Pass pass = passAfter(source, taken);
    state.sources.push_back({source.choice.path, source.digest,
                             source.file.size(), source.choice.weight,
                             source.before + taken, pass.number, pass.origin,
                             pass.next, pass.permuted});
  }
  return state;
}

void DataFeed::resume(const io::DataState &state, bool sameMix) {
  assert(state.sources.size() == sources.size() && at == 0);
  rowsBefore = state.rows;
  tokensBefore = state.tokens;
  __int128 taken = 0;
  for (const io::DataSourceState &saved : state.sources)
    taken += saved.taken;
  for (size_t i = 0; i < sources.size(); ++i) {
    Source &source = sources[i];
    const io::DataSourceState &saved = state.sources[i];
    source.before = saved.taken;
    __int128 credit = source.units * taken - __int128(saved.taken) * units;
    __int128 most = __int128(units) * sources.size();
    if (sameMix && credit <= most && credit >= -most)
      source.credit = source.firstCredit = int64_t(credit);
    Pass pass{saved.pass, saved.origin, saved.passRows, saved.row, 0};
    int64_t whole = sources.size() > 1 ? 1 : shape.rows;
    if (seed) {
      int64_t left = std::max<int64_t>(0, pass.permuted - pass.next);
      pass.end = pass.next + left / whole * whole;
    } else {
      // The rows of this run may be longer or shorter than those of the saved
      // run. So do not count rows, but begin at the token that the saved run
      // would have read next.
      pass.origin += saved.row * state.seq;
      pass.next = 0;
      pass.permuted = pass.end = rowsFrom(source, pass.origin);
    }
    begin(source, pass);
  }
}

void DataFeed::resumeSteps(int64_t steps) {
  Source &source = sources.front();
  rowsBefore = source.before = steps * shape.rows;
  tokensBefore = rowsBefore * shape.seq;
  source.pass = passAfter(source, rowsBefore);
}
