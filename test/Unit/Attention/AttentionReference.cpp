//===- AttentionReference.cpp - Attention in double precision ----------- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionReference.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace heddle::test {

static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0];
    uint64_t second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(second >> 32) ^ counter[1] ^ key0, uint32_t(second),
               uint32_t(first >> 32) ^ counter[3] ^ key1, uint32_t(first)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

double ReferenceAttention::factor(int64_t batch, int64_t head, int64_t query,
                                  int64_t key) const {
  if (spec.p == 0)
    return 1;
  // Of the heads of all parts.
  uint64_t t = spec.seq, heads = spec.parts * spec.heads;
  uint64_t row = (uint64_t(random.microBatch) * spec.batch + batch) * heads +
                 random.part * spec.heads + head;
  uint64_t index = (row * t + query) * t + key;
  uint64_t block = index / 4;
  uint32_t stream = uint32_t(spec.site) + uint32_t(random.layer) * 0x9E3779B9u;
  auto words =
      philox({uint32_t(block), uint32_t(block >> 32), random.rng[2], stream},
             random.rng[0], random.rng[1]);
  bool isKept = words[index % 4] >= std::floor(spec.p * 0x1p32);
  return isKept ? 1 / (1 - spec.p) : 0;
}

int64_t ReferenceAttention::queryAt(int64_t batch, int64_t head,
                                    int64_t row) const {
  return ((batch * spec.seq + row) * spec.heads + head) * spec.headDim;
}

int64_t ReferenceAttention::keyAt(int64_t batch, int64_t head,
                                  int64_t row) const {
  int64_t kvHead = head / (spec.heads / spec.kvHeads);
  return ((batch * spec.seq + row) * spec.kvHeads + kvHead) * spec.headDim;
}

static double dot(const double *a, const double *b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += a[i] * b[i];
  return sum;
}

static void addScaled(double factor, const double *from, double *to,
                      int64_t size) {
  for (int64_t i = 0; i < size; ++i)
    to[i] += factor * from[i];
}

bool ReferenceAttention::isInLayout(int64_t head, int64_t query,
                                    int64_t key) const {
  int64_t layoutHead = spec.layouts == 1 ? 0 : random.part * spec.heads + head;
  int64_t row = layoutHead * spec.layoutBlocks + query / spec.block;
  int64_t column = key / spec.block;
  int32_t word = layout[row * spec.layoutWords() + column / 32];
  return uint32_t(word) >> column % 32 & 1;
}

std::vector<double> ReferenceAttention::probabilities(int64_t batch,
                                                      int64_t head,
                                                      int64_t query,
                                                      double &lse) const {
  int64_t seen = spec.causal ? query + 1 : spec.seq;
  if (!lengths.empty())
    seen = std::min<int64_t>(seen, lengths[batch]);
  lse = std::numeric_limits<float>::lowest();
  int64_t first =
      spec.window ? std::max<int64_t>(query - spec.window + 1, 0) : 0;
  std::vector<double> row(seen, -INFINITY);
  if (first >= seen)
    return {};
  for (int64_t key = first; key < seen; ++key) {
    if (spec.block && !isInLayout(head, query, key))
      continue;
    row[key] = spec.scale * dot(&q[queryAt(batch, head, query)],
                                &k[keyAt(batch, head, key)], spec.headDim);
    if (spec.softcap > 0)
      row[key] = spec.softcap * std::tanh(row[key] / spec.softcap);
  }
  double largest = *std::max_element(row.begin(), row.end()), sum = 0;
  if (largest == -INFINITY)
    return {};
  for (double score : row)
    sum += std::exp(score - largest);
  lse = largest + std::log(sum);
  for (double &score : row)
    score = std::exp(score - lse);
  return row;
}

void ReferenceAttention::forward() {
  output.assign(q.size(), 0);
  lse.assign(spec.batch * spec.heads * spec.seq, 0);
  for (int64_t batch = 0; batch < spec.batch; ++batch)
    for (int64_t head = 0; head < spec.heads; ++head)
      for (int64_t query = 0; query < spec.seq; ++query) {
        auto row =
            probabilities(batch, head, query,
                          lse[(batch * spec.heads + head) * spec.seq + query]);
        for (size_t key = 0; key < row.size(); ++key)
          addScaled(row[key] * factor(batch, head, query, key),
                    &v[keyAt(batch, head, key)],
                    &output[queryAt(batch, head, query)], spec.headDim);
      }
}

ReferenceAttention::Gradients
ReferenceAttention::backward(const std::vector<double> &grad) const {
  Gradients result;
  result.q.assign(q.size(), 0);
  result.k.assign(k.size(), 0);
  result.v.assign(v.size(), 0);
  int64_t dim = spec.headDim;
  for (int64_t batch = 0; batch < spec.batch; ++batch)
    for (int64_t head = 0; head < spec.heads; ++head)
      for (int64_t query = 0; query < spec.seq; ++query) {
        double unused;
        auto row = probabilities(batch, head, query, unused);
        const double *gradRow = &grad[queryAt(batch, head, query)];
        std::vector<double> gradProbability(row.size());
        double mean = 0;
        for (size_t key = 0; key < row.size(); ++key) {
          double kept = factor(batch, head, query, key);
          gradProbability[key] =
              kept * dot(gradRow, &v[keyAt(batch, head, key)], dim);
          mean += row[key] * gradProbability[key];
          addScaled(kept * row[key], gradRow,
                    &result.v[keyAt(batch, head, key)], dim);
        }
        for (size_t key = 0; key < row.size(); ++key) {
          double gradScore =
              spec.scale * row[key] * (gradProbability[key] - mean);
          if (spec.softcap > 0) {
            double product = dot(&q[queryAt(batch, head, query)],
                                 &k[keyAt(batch, head, key)], dim);
            double share = std::tanh(spec.scale * product / spec.softcap);
            gradScore *= 1 - share * share;
          }
          addScaled(gradScore, &k[keyAt(batch, head, key)],
                    &result.q[queryAt(batch, head, query)], dim);
          addScaled(gradScore, &q[queryAt(batch, head, query)],
                    &result.k[keyAt(batch, head, key)], dim);
        }
      }
  return result;
}

} // namespace heddle::test
