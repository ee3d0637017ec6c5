//===- Masking.cpp - Masked language modeling -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Masking.h"
#include "heddle/runtime/app/InputFile.h"
#include "heddle/runtime/core/Philox.h"
#include "heddle/runtime/io/Diagnostic.h"

using namespace heddle;
using namespace heddle::rt;

/// The probability with which a token is chosen if no flag sets it. Hugging
/// Face's data collator has the same default.
static constexpr double usualProbability = 0.15;

/// Returns the first masking flag that was given, or "".
static std::string givenFlag(const MaskOptions &options) {
  return options.probability ? "--mask-probability"
         : options.token     ? "--mask-token"
                             : "";
}

std::optional<Masking> Masking::of(const plan::Plan &plan,
                                   const MaskOptions &options) {
  if (plan.objective != plan::Objective::MaskedToken) {
    if (std::string flag = givenFlag(options); !flag.empty())
      fail("H0161",
           flag + ": this model predicts the next token, none is masked",
           "leave out " + flag + ", or compile with --objective mlm");
    return std::nullopt;
  }
  if (options.probability == 0.0)
    fail("H0165", "--mask-probability 0 masks no token: nothing has a label",
         "give more than 0, or leave it out for 0.15");
  int64_t mask = options.token.value_or(plan.maskToken);
  std::string most = std::to_string(plan.vocabSize - 1);
  if (mask < 0)
    fail("H0162",
         "nothing says which token is the mask: the model had neither "
         "mask_token_id in config.json nor a tokenizer when it was compiled",
         "give it: --mask-token N, a number from 0 to " + most);
  if (mask >= plan.vocabSize)
    fail("H0163",
         "--mask-token " + std::to_string(mask) +
             " is not in the vocabulary of " + std::to_string(plan.vocabSize),
         "give a number from 0 to " + most);
  Masking masking;
  masking.probability = options.probability.value_or(usualProbability);
  masking.vocab = plan.vocabSize;
  masking.mask = int32_t(mask);
  std::vector<int64_t> special = plan.specialTokens;
  special.push_back(mask);
  masking.isSpecial.resize(plan.vocabSize);
  for (int64_t token : special)
    if (token >= 0 && token < plan.vocabSize)
      masking.isSpecial[token] = true;
  return masking;
}

/// Returns true with the probability `share` if `word` is uniformly random.
static bool isBelow(uint32_t word, double share) {
  return double(word) < share * 4294967296.0;
}

static PhiloxWords wordsAt(const MaskPosition &place) {
  return philox(place.seed, place.index, place.step, place.site);
}

bool Masking::chooses(const MaskPosition &place, int32_t token) const {
  return !isSpecial[token] && isBelow(wordsAt(place)[0], probability);
}

int32_t Masking::at(const MaskPosition &place, int32_t token,
                    DataFeed::What what) const {
  PhiloxWords words = wordsAt(place);
  bool chosen = chooses(place, token);
  if (what == DataFeed::What::Labels)
    return chosen ? token : noLabel;
  if (!chosen || !isBelow(words[1], 0.9))
    return token;
  if (isBelow(words[1], 0.8))
    return mask;
  return int32_t(uint64_t(words[2]) * uint64_t(vocab) >> 32);
}
