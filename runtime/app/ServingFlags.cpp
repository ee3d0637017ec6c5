//===- ServingFlags.cpp - Flags of verbs that generate or encode ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include <sstream>

using namespace heddle;
using namespace heddle::rt;
using io::addFlag;
using io::ValueRange;

namespace heddle::rt {
/// Reads whole numbers above 0 that are separated by commas. Returns false if
/// `text` is no such list. CLI11 calls this function to read a flag.
static bool lexical_cast(const std::string &text, CountList &list) {
  static const ValueRange range = io::range::count(1);
  list.counts.clear();
  std::istringstream words(text + ",");
  for (std::string word; std::getline(words, word, ',');) {
    if (!range.take(word))
      return false;
    list.counts.push_back(std::stoll(word));
  }
  return true;
}
} // namespace heddle::rt

void heddle::rt::addDecodeFlags(CLI::App &verb, BenchOptions &bench) {
  static const ValueRange counts = ValueRange::matching(
      "whole numbers above 0, such as 1,8,32", [](const std::string &text) {
        CountList list;
        return lexical_cast(text, list);
      });
  CLI::Option *decode =
      verb.add_flag("--decode", bench.decode,
                    "Time tokens of texts, and the prompts before them");
  addFlag(verb, "--batch", bench.batches, counts,
          "Texts that are continued together (default: 1), or several such "
          "numbers, each of which is timed")
      ->needs(decode);
  addFlag(verb, "--context", bench.contexts, counts,
          "Tokens of each text before those that are timed (default: 512, or "
          "as many as fit), or several such numbers")
      ->needs(decode);
  addFlag(
      verb, "--tokens", bench.tokens, io::range::count(1),
      "Tokens to time, one after the other (default: 64, or as many as fit)")
      ->needs(decode);
  addFlag(
      verb, "--trace", bench.trace, io::range::path(),
      "Write a timeline of a prompt and the tokens after it, 8 runs at most, "
      "for Perfetto; rank N of several ranks writes its own, with .rankN in "
      "the name")
      ->type_name("FILE")
      ->needs(decode);
}

void heddle::rt::addDraft(CLI::App &verb, JobOptions &job) {
  addFlag(verb, "--draft-weights", job.draftWeights, io::range::path(),
          "Weights of the draft, of a binary that was compiled with --draft "
          "(default: those that it was compiled with)")
      ->type_name("DIR");
}

void heddle::rt::addWeightCache(CLI::App &verb, JobOptions &job) {
  addFlag(verb, "--weight-cache", job.weightCache,
          ValueRange::choices({"auto", "map", "read", "none"}),
          "Of a binary that serves: how weights come from the file that the "
          "first start keeps. map: as pages that all processes share; read: "
          "into memory of this one; auto: mapped if that is as fast to compute "
          "with; none: no such file")
      ->capture_default_str();
  addFlag(verb, "--weight-cache-dir", job.weightCacheDirectory,
          io::range::path(), "As --weights-cache DIR")
      ->type_name("DIR");
  addFlag(verb, "--weights-cache", job.weightsCache, io::range::path(),
          "Where that file is: a directory; beside: .heddle/weights beside the "
          "weights, for all who use the model; off: nowhere (default: "
          "~/.cache/heddle/weights)")
      ->type_name("DIR|beside|off")
      ->excludes("--weight-cache-dir");
}

void heddle::rt::addDeviceMemory(CLI::App &verb, JobOptions &job) {
  addFlag(verb, "--device-memory", job.device.memoryShare,
          ValueRange::numbers(0.01, 1),
          "On a GPU: the part of its free memory that the binary may take, if "
          "it was compiled with --kv-cache auto")
      ->capture_default_str();
}
