//===- DataFeed.cpp - Batches of a token file -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/core/Philox.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

DataFeed::DataFeed(const std::string &path, const BatchShape &shape)
    : file(io::TokenFile::open(path, shape.vocab)), shape(shape) {
  file.requireSize(shape.rows * shape.seq + 1,
                   "one batch of " + std::to_string(shape.rows) + " rows x " +
                       std::to_string(shape.seq) + " tokens");
  count = (file.size() - 1) / (shape.rows * shape.seq);
}

void DataFeed::shuffle(uint64_t newSeed) {
  shuffled = true;
  seed = newSeed;
}

/// Where a row's tokens begin in the file.
int64_t DataFeed::placeOf(int64_t row) const {
  int64_t perPass = count * shape.rows;
  int64_t pass = row / perPass, index = row % perPass;
  if (shuffled)
    index = permute(index, perPass, seed, uint32_t(pass));
  return index * shape.seq;
}

void DataFeed::read(int64_t first, const std::vector<Run> &runs, What what,
                    int32_t *target) {
  int64_t shift = what == What::Labels ? 1 : 0;
  for (const Run &run : runs)
    for (int64_t done = 0; done < run.count;) {
      int64_t row = (run.whole + done) / shape.seq;
      int64_t column = (run.whole + done) % shape.seq;
      int64_t tokens = std::min(run.count - done, shape.seq - column);
      file.read(placeOf(first + row) + column + shift, tokens, shape.vocab,
                target + run.local + done);
      done += tokens;
    }
}
