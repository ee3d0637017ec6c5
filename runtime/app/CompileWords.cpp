//===- CompileWords.cpp - Advice on misplaced words -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

/// The flags of `heddle compile`. A compiled binary knows them from this list,
/// since it does not contain the compiler. If a user gives the binary such a
/// flag, the error says to compile again. test/Driver/words.test compares the
/// list with the help of `heddle compile`.
static constexpr const char *compileFlags[] = {
    "--accumulate",
    "--all",
    "--attention-layout",
    "--attention-layout-causal",
    "--batch",
    "--betas",
    "--budget",
    "--cache",
    "--chunk-tokens",
    "--cluster",
    "--collectives",
    "--communication-data-type",
    "--compress-at-least",
    "--config",
    "--context",
    "--context-parallel-size",
    "--delayed-update",
    "--draft",
    "--draft-tokens",
    "--dry-run",
    "--dump-phases",
    "--eps",
    "--explain-config",
    "--extend-positions",
    "--freeze-step",
    "--fusion",
    "--gemm",
    "--global-batch-size",
    "--group",
    "--host-updates",
    "--init",
    "--keep",
    "--keep-16bit",
    "--kv-cache",
    "--kv-type",
    "--label-smoothing",
    "--layer-drop",
    "--layer-drop-schedule",
    "--loss-scale",
    "--loss-scale-hysteresis",
    "--loss-scale-initial",
    "--loss-scale-min",
    "--loss-scale-window",
    "--march",
    "--matmul",
    "--max-batch",
    "--max-context",
    "--memory-budget",
    "--mesh",
    "--micro-batch",
    "--micro-batch-size",
    "--mode",
    "--moq",
    "--moq-change-ratio",
    "--moq-groups",
    "--moq-in-forward",
    "--moq-offset",
    "--moq-type",
    "--no-decay",
    "--num-virtual-stages-per-pipeline-rank",
    "--objective",
    "--optimize",
    "--optimizer",
    "--partition-activations",
    "--pipeline-layout",
    "--pipeline-model-parallel-layout",
    "--pipeline-model-parallel-size",
    "--place",
    "--precision",
    "--print-sharding-reasons",
    "--quantize",
    "--quantize-activations",
    "--quantize-group",
    "--quantize-zeros",
    "--recompute",
    "--report",
    "--schedule",
    "--seq",
    "--seq-length",
    "--sequence-parallel",
    "--start-from",
    "--stop-after",
    "--strategy",
    "--strict-config",
    "--sub-group-size",
    "--swap-block-size",
    "--swap-queue-depth",
    "--target",
    "--tensor-model-parallel-size",
    "--tile",
    "--timing",
    "--use-distributed-optimizer",
    "--var-freeze-step",
    "--verbose",
    "--virtual-stages",
    "--zero",
};

/// Verbs of `heddle` that no compiled binary has.
static constexpr const char *driverVerbs[] = {
    "compile", "fit",      "explain", "report",    "data",
    "run",     "quantize", "emulate", "checkpoint"};

namespace {
/// The most important flag of a verb. If the user gives a word without a flag,
/// the advice is to write this flag before the word.
struct MainFlag {
  const char *verb;
  const char *flag;
};
} // namespace

static constexpr MainFlag mainFlags[] = {
    {"train", "--data"},  {"eval", "--data"},     {"generate", "--prompt"},
    {"chat", "--system"}, {"serve", "--weights"}, {"logits", "--prompt-ids"},
    {"encode", "--text"}};

std::optional<io::Advice> rt::adviseOnBinary(const CLI::App &verb,
                                             const std::string &word,
                                             const std::string &value) {
  auto isIn = [&](const auto &words) {
    return std::find(std::begin(words), std::end(words), word) !=
           std::end(words);
  };
  if (isIn(compileFlags))
    return io::Advice{
        word + " is a flag of heddle compile, and fixed in the binary",
        "leave it out, or compile again: heddle compile MODEL " + word +
            (value.empty() ? "" : " " + io::shellWord(value)) + " -o BINARY"};
  bool isOuter = !verb.get_parent();
  if (isOuter && isIn(driverVerbs)) {
    bool takesBinary = word == "explain" || word == "run";
    return io::Advice{
        word + " is a verb of heddle, not of a binary",
        "write heddle " + word +
            (takesBinary ? " " + io::nameOf(verb) : std::string())};
  }
  // The value of these flags is optional, so they take a value only in the form
  // --access-log=FILE. A separate word after the flag is unknown.
  for (const char *flag : {"--access-log", "--profile"})
    if (const CLI::Option *given = verb.get_option_no_throw(flag);
        given && given->count() > 0)
      return io::Advice{"", "write " + std::string(flag) + "=" +
                                io::shellWord(word)};
  for (const MainFlag &main : mainFlags)
    if (verb.get_name() == main.verb && word.rfind('-', 0) != 0)
      return io::Advice{"", "write " + std::string(main.flag) + " " +
                                io::shellWord(word)};
  return std::nullopt;
}
