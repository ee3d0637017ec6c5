//===- SentenceText.h - Texts of sentence models ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads how texts for a model of sentence-transformers must be prepared: which
// prompt precedes them, whether they are converted to lower case, and to which
// length they are truncated.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SENTENCETEXT_H
#define HEDDLE_RUNTIME_APP_SENTENCETEXT_H

#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/serve/TextPreparer.h"

namespace heddle::rt {

/// Whether the model in a directory was saved by sentence-transformers, which
/// writes modules.json.
bool isSentenceModel(const std::string &directory);
/// Reads the configuration of the Transformer module:
/// sentence_bert_config.json, or the file under one of its former names.
std::optional<io::JsonValue> readSentenceConfig(const std::string &directory);

/// How a model of sentence-transformers turns texts into tokens.
struct SentenceText {
  TextRules rules;
  bool lowersCase = false;
  std::string cutBy; ///< What limits the length of texts, for messages.
};

/// Reads from sentence_bert_config.json, config_sentence_transformers.json and
/// tokenizer_config.json how to prepare texts. Returns the defaults for a model
/// that another program saved. `positions` is the largest number of tokens that
/// the model takes. `prompt` names the prompt to use instead of the default
/// one. Throws H0375 for impossible values, and H0168 if there is no prompt
/// with this name.
SentenceText readSentenceText(const std::string &directory, int64_t positions,
                              const std::string &prompt);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SENTENCETEXT_H
