//===- DataFeed.cpp - Batches of a token file -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/core/Philox.h"

#include <cstring>

using namespace heddle;
using namespace heddle::rt;

DataFeed::DataFeed(const std::string &path, const BatchShape &shape)
    : file(io::TokenFile::open(path, shape.vocab)), shape(shape),
      row(shape.seq + 1) {
  file.requireSize(shape.rows * shape.seq + 1,
                   "one batch of " + std::to_string(shape.rows) + " rows x " +
                       std::to_string(shape.seq) + " tokens");
  count = (file.size() - 1) / (shape.rows * shape.seq);
}

void DataFeed::shuffle(uint64_t newSeed) {
  shuffled = true;
  seed = newSeed;
}

void DataFeed::read(int64_t first, int64_t rows, int32_t *ids,
                    int32_t *labels) {
  int64_t perPass = count * shape.rows;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t pass = (first + r) / perPass;
    int64_t index = (first + r) % perPass;
    if (shuffled)
      index = permute(index, perPass, seed, uint32_t(pass));
    file.read(index * shape.seq, shape.seq + 1, shape.vocab, row.data());
    memcpy(ids + r * shape.seq, row.data(), shape.seq * sizeof(int32_t));
    memcpy(labels + r * shape.seq, row.data() + 1, shape.seq * sizeof(int32_t));
  }
}
