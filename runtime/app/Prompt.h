//===- Prompt.h - Check prompts ---------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses and checks prompts given as token ids or text.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_PROMPT_H
#define HEDDLE_RUNTIME_APP_PROMPT_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt {

/// Parses token ids `1,2,3` of the flag `flag`; throws H0195 if malformed.
std::vector<int32_t> parseIds(const std::string &text,
                              const std::string &flag = "--prompt-ids");

/// Throws H0195 when a prompt is empty (`fuller` says how to fix that) or has a
/// token outside the vocabulary.
void checkPrompt(const std::vector<int32_t> &tokens, int64_t vocab,
                 const std::string &fuller);

/// Throws H0132 unless at least one token can follow the prompt within
/// `maxContext` tokens.
void checkRoom(const std::vector<int32_t> &prompt, int64_t maxContext);

/// Throws H0132 if a sequence is longer than `maxContext` tokens. Called for
/// sequences that are embedded or scored; they need no room for new tokens.
/// `shorter` tells the user what to do.
void checkPromptLength(const std::vector<int32_t> &tokens, int64_t maxContext,
                       const std::string &shorter = "give a shorter prompt");

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_PROMPT_H
