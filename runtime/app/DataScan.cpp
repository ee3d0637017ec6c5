//===- DataScan.cpp - Check all tokens before the first step --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainData.h"
#include "heddle/runtime/app/Signals.h"

#include <algorithm>
#include <atomic>
#include <sstream>

using namespace heddle;
using namespace heddle::rt;

/// Number of tokens in a block, the unit of the scan, which fits into a core's
/// cache. A file's hash is computed from those of its blocks, so it depends on
/// this number.
static constexpr int64_t blockTokens = int64_t(1) << 18;

namespace {

/// The work of one rank: it checks the tokens of the blocks rank, rank + ranks,
/// ... of a file, and computes their hashes.
struct ScanWork {
  ScanWork(const io::TokenFile &file, int64_t tokens, const Ranks &ranks)
      : file(file), tokens(tokens), rank(ranks.rank()), ranks(ranks.size()),
        bad(tokens) {}
  void run();

  const io::TokenFile &file;
  int64_t tokens, rank, ranks, vocab = 0;
  std::vector<uint64_t> hashes; ///< Hashes of this rank's blocks, in order.
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> bad; ///< First bad token, or the number of tokens.
};

} // namespace

static void scanShare(const void *context, int64_t, int64_t) {
  // The thread pool passes `context` as a const pointer, but it points to a
  // ScanWork that is not const. Threads write to different elements of its list
  // of hashes.
  const_cast<ScanWork *>(static_cast<const ScanWork *>(context))->run();
}

void ScanWork::run() {
  for (int64_t i = next++; i < int64_t(hashes.size()) && stopSignal() == 0;
       i = next++) {
    int64_t first = (rank + i * ranks) * blockTokens;
    io::TokenFile::Scan found =
        file.scan(first, std::min(blockTokens, tokens - first), vocab);
    hashes[i] = found.hash;
    int64_t known = bad;
    while (found.firstBad >= 0 && found.firstBad < known &&
           !bad.compare_exchange_weak(known, found.firstBad)) {
    }
  }
}

/// Serializes this rank's result for rank 0: the first token outside of the
/// vocabulary, then the hashes of its blocks.
static std::string describe(const ScanWork &work) {
  std::string text = std::to_string(work.bad.load());
  for (uint64_t hash : work.hashes)
    text += " " + std::to_string(hash);
  return text;
}

std::string heddle::rt::scanTokens(Job &job, const io::TokenFile &file,
                                   int64_t tokens) {
  Ranks &ranks = job.ranks();
  ranks.setActivity("the check of the data");
  int64_t blocks = (tokens + blockTokens - 1) / blockTokens;
  ScanWork work(file, tokens, ranks);
  work.vocab = job.plan().vocabSize;
  work.hashes.resize(
      std::max<int64_t>(0, (blocks - work.rank + work.ranks - 1) / work.ranks));
  job.threadPool().run(scanShare, &work);
  bool isWhole = ranks.maximum(stopSignal()) == 0;

  int64_t bad = tokens;
  std::vector<uint64_t> hashes(blocks);
  std::vector<std::string> all = ranks.exchange(describe(work));
  for (int64_t rank = 0; rank < int64_t(all.size()); ++rank) {
    std::istringstream text(all[rank]);
    int64_t first = tokens;
    text >> first;
    bad = std::min(bad, first);
    for (int64_t i = rank; i < blocks; i += work.ranks)
      text >> hashes[i];
  }
  ranks.together([&] {
    if (bad < tokens)
      file.failForeign(bad, work.vocab);
  });
  if (!isWhole)
    return "";
  return io::hexDigest(
      io::hashBytes(hashes.data(), blocks * int64_t(sizeof(uint64_t))));
}
