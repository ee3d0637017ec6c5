//===- Encoder.cpp - The interface of embedding models --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/Encoder.h"

using namespace heddle::rt;

std::vector<size_t>
heddle::rt::nextBatch(const Encoder &encoder,
                      const std::vector<const EncoderText *> &texts) {
  std::vector<size_t> batch;
  auto bucketOf = [&](size_t i) {
    return encoder.bucketOf(int64_t(texts[i]->tokens.size()));
  };
  const size_t room = size_t(encoder.limits().maxRows);
  for (size_t i = 0; i < texts.size() && batch.size() < room; ++i)
    if (bucketOf(i) == bucketOf(0))
      batch.push_back(i);
  return batch;
}
