//===- Draft.cpp - Draft models for speculative decoding ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings of a draft model, and the check that it has its target's vocabulary.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Draft.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Tokenizer.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::config;

void config::requireDraftable(const Settings &values) {
  if (values.mode != Mode::Serve)
    fail("H0136",
         std::string("--draft guesses tokens of texts, and --mode ") +
             wordOf(values.mode) + " is not for these",
         "use --mode serve, or leave out --draft");
}

ResolvedSettings config::draftSettings(const ResolvedSettings &asked,
                                       const Settings &settled) {
  ResolvedSettings settings = asked;
  settings.isDraft = true;
  // The draft model's cache gets as many pages as the target's cache, so it
  // needs no memory budget of its own.
  settings.values.cacheBytes = 0;
  // Layouts are those of the target's heads and layers.
  settings.values.attentionLayout.clear();
  settings.values.attentionLayoutCausal = false;
  settings.sparseAttention.reset();
  settings.values.maxContext = settled.maxContext;
  settings.setOrigin("max_context", {Origin::Kind::Derived, "--draft", {}});
  return settings;
}

/// Returns the tokenizer in the directory of the weights; null if there is
/// none.
static std::unique_ptr<io::Tokenizer> tokenizerOf(const ModelSpec &spec) {
  if (spec.directory.empty() ||
      !io::pathExists(spec.directory + "/tokenizer.json"))
    return nullptr;
  return io::openTokenizer(spec.directory);
}

void config::requireSameTokens(const ModelSpec &target,
                               const ModelSpec &draft) {
  const char *help =
      "a draft and its target have the same tokenizer, as models "
      "of several sizes of one family do";
  if (target.vocabSize != draft.vocabSize)
    fail("H0135",
         "the draft has a vocabulary of " + std::to_string(draft.vocabSize) +
             " tokens, and the model that it guesses for one of " +
             std::to_string(target.vocabSize),
         help);
  std::unique_ptr<io::Tokenizer> own = tokenizerOf(target),
                                 other = tokenizerOf(draft);
  if (!own || !other)
    return;
  int64_t tokens = std::max(own->vocabSize(), other->vocabSize());
  tokens = std::min(tokens, target.vocabSize);
  for (int32_t id = 0; id < tokens; ++id)
    if (std::string is = own->decode({id}), guessed = other->decode({id});
        is != guessed)
      fail("H0135",
           "token " + std::to_string(id) + " is \"" + is +
               "\" to the model, and \"" + guessed + "\" to its draft",
           help);
}
