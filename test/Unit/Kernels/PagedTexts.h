//===- PagedTexts.h - Kernels of attention over a cache ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_PAGEDTEXTS_H
#define HEDDLE_TEST_UNIT_KERNELS_PAGEDTEXTS_H

#include "KernelReference.h"
#include <algorithm>

namespace heddle::test {

/// Requests of `tokens` each, the last of which see `contexts` keys.
struct Paged {
  std::vector<int64_t> contexts;
  int64_t tokens, heads, kv, dims;
  const char *cache = "f32", *type = "f32";
  int64_t window = 0;
  const char *softcap = "";
  int64_t pageTokens = 16;
  /// Whether kernels that rotate heads compute a norm of each head before. Then
  /// its weight is the first argument of all kernels.
  bool hasNorms = false;
  /// With `block` above 0: `layouts` layouts of random blocks of so many keys.
  /// They are the first argument of all kernels.
  int64_t block = 0, layouts = 1;

  int64_t rows() const { return static_cast<int64_t>(contexts.size()); }
  int64_t rowPages() const {
    int64_t most = *std::max_element(contexts.begin(), contexts.end());
    return most / pageTokens + 2;
  }
  int64_t layoutBlocks() const {
    return (rowPages() * pageTokens + block - 1) / block;
  }
  int64_t pages() const { return rows() * rowPages() + 3; }
  bool isCoded() const { return std::string(cache) == "i8"; }
};

/// Requests that see some blocks of `block` keys, by `layouts` layouts.
inline Paged sparse(Paged p, int64_t block, int64_t layouts) {
  p.block = block;
  p.layouts = layouts;
  return p;
}

enum class PagedResult { Whole, Parts };

/// The texts of two kernels: the attention, and what joins its parts.
struct PagedKernels {
  std::string attention, join;
};
/// With `rotates` the attention kernel first rotates q, k and v.
PagedKernels pagedKernels(const Paged &p, PagedResult result,
                          bool rotates = false);
/// The text of the kernel that writes the cache, with the same arguments.
std::string cacheWriteKernel(const Paged &p, bool rotates = false);

/// The text of the kernel that rotates q, k and v, writes the cache and
/// computes attention over it, with the same arguments, and of the kernel that
/// rotates.
std::string fusedKernel(const Paged &p, PagedResult result);
std::string rotaryKernel(const Paged &p);
/// The text of the kernel that computes norms of the heads of the tokens, from
/// the tokens and the weight.
std::string headNormKernel(const Paged &p);

/// Random keys, values and rows; pages in any order. Keys and values that no
/// request has are NaN, and so are, if there is one token and one layout, pages
/// of blocks that a token does not see. The last request lacks its last token,
/// if it has more than one.
std::vector<eval::Tensor> pagedArguments(const Paged &p);

/// `arguments` are those of one request. Returns the arguments of a launch for
/// its token `token` alone.
std::vector<eval::Tensor>
tokenAlone(const Paged &p, std::vector<eval::Tensor> arguments, int64_t token);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_PAGEDTEXTS_H
