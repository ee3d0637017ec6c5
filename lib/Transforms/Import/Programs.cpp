//===- Programs.cpp - The programs that a strategy asks for ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"
#include "heddle/Settings/Groups.h"
#include "llvm/Support/MathExtras.h"

using namespace heddle;
using Kind = nn::ProgramKind;

static DerivedProgram cached(Kind kind, int64_t rows, int64_t tokens) {
  std::string name =
      stringifyProgramKind(kind).str() + "." + std::to_string(rows * tokens);
  return {kind, rows, tokens, false, false, name};
}

/// Returns the number of rows of the smallest decode program with more than
/// `rows` rows. Decode programs have 1 to 6, then 8, 12, 16, ... rows. The
/// runtime uses the smallest program that is large enough, so it spends little
/// time on unused rows. Each number up to 6 has a program. A matrix product
/// with so few rows unpacks a quantized weight only once, because the vector
/// registers hold the sums of all rows.
static int64_t rowsAfter(int64_t rows) {
  if (rows < 6)
    return rows + 1;
  return llvm::isPowerOf2_64(rows) ? rows / 2 * 3 : rows / 3 * 4;
}

/// Adds the decode programs. Each row of a decode program's input computes one
/// token. A sequence uses one row, and one further row for each of the
/// `guesses` drafted tokens that are verified.
static void addDecoding(const dist::Strategy &strategy, int64_t guesses,
                        std::vector<DerivedProgram> &programs) {
  int64_t most = config::textsOfGroup(strategy) * (1 + guesses);
  for (int64_t rows = 1; rows < most; rows = rowsAfter(rows))
    programs.push_back(cached(Kind::Decode, rows, 1));
  programs.push_back(cached(Kind::Decode, most, 1));
}

static std::vector<DerivedProgram>
trainingPrograms(const dist::Strategy &strategy, bool drops, bool generates) {
  int64_t rows = strategy.microBatch * strategy.data;
  std::vector<DerivedProgram> programs = {
      {Kind::Train, rows, strategy.seq, drops, true, "forward"},
      {Kind::Eval, rows, strategy.seq, false, false, "evaluate"}};
  if (!generates)
    return programs;
  if (strategy.maxContext == 1) {
    programs.push_back(
        {Kind::Generate, 1, strategy.seq, false, false, "generate"});
    return programs;
  }
  // The only length of prefill programs for sampling during training. Longer
  // prompts are computed in chunks of this length. Programs of further lengths
  // would be faster, but would take longer to compile.
  constexpr int64_t chunk = 32;
  programs.push_back(
      cached(Kind::Prefill, 1, std::min(strategy.maxContext, chunk)));
  addDecoding(strategy, /*guesses=*/0, programs);
  return programs;
}

static std::vector<DerivedProgram>
servingPrograms(const dist::Strategy &strategy, int64_t guesses) {
  constexpr int64_t longest = 512, scored = 64;
  std::vector<DerivedProgram> programs;
  for (int64_t tokens : {16, 32, 64, 128, 256})
    if (tokens < strategy.maxContext)
      programs.push_back(cached(Kind::Prefill, 1, tokens));
  programs.push_back(
      cached(Kind::Prefill, 1, std::min(strategy.maxContext, longest)));
  programs.push_back(
      cached(Kind::Score, 1, std::min(strategy.maxContext, scored)));
  addDecoding(strategy, guesses, programs);
  return programs;
}

/// Makes encode programs of several lengths, for one sequence and for several
/// sequences at a time. Only programs for one sequence return logits, because
/// the logits of several sequences would be the largest buffer.
static std::vector<DerivedProgram>
encodingPrograms(const dist::Strategy &strategy) {
  std::vector<DerivedProgram> programs;
  int64_t tokens = 16;
  for (bool isLast = false; !isLast; tokens *= 2) {
    isLast = tokens >= strategy.maxContext;
    int64_t length = std::min(tokens, strategy.maxContext);
    auto add = [&](int64_t rows, bool logits) {
      std::string name =
          "encode." + std::to_string(rows) + "x" + std::to_string(length);
      programs.push_back({Kind::Encode, rows, length, false, false,
                          name + (logits ? ".logits" : ""), logits});
    };
    add(1, true);
    add(1, false);
    if (int64_t texts = config::textsOfGroup(strategy); texts > 1)
      add(texts, false);
  }
  return programs;
}

std::vector<DerivedProgram> heddle::programsOf(const dist::Strategy &strategy,
                                               bool drops, bool generates,
                                               int64_t guesses) {
  switch (strategy.mode) {
  case config::Mode::Train:
    return trainingPrograms(strategy, drops, generates);
  case config::Mode::Serve:
    return servingPrograms(strategy, guesses);
  case config::Mode::Encode:
    return encodingPrograms(strategy);
  }
  llvm_unreachable("all modes handled");
}
