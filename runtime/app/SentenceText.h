//===- SentenceText.h - Texts of sentence-transformers ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SENTENCETEXT_H
#define HEDDLE_RUNTIME_APP_SENTENCETEXT_H

#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/serve/TextPreparer.h"

namespace heddle::rt {

/// Whether sentence-transformers saved the model in a directory: there is a
/// modules.json.
bool isSentenceModel(const std::string &directory);
/// What it saved of the Transformer module: sentence_bert_config.json, or the
/// file under one of its former names.
std::optional<io::JsonValue> readSentenceConfig(const std::string &directory);

/// How it makes tokens of a text.
struct SentenceText {
  TextRules rules;
  bool lowersCase = false;
  std::string cutBy; ///< What says where texts are cut, for messages.
};

/// Reads it from sentence_bert_config.json, config_sentence_transformers.json
/// and tokenizer_config.json. A model that another program saved has no rules.
/// `positions`: the model's. Throws H0375 for what cannot be, and H0168 where
/// there is no prompt of the name `prompt`, which takes the place of the
/// default one.
SentenceText readSentenceText(const std::string &directory, int64_t positions,
                              const std::string &prompt);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SENTENCETEXT_H
