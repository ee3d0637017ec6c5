//===- Prompt.h - The tokens that a user gives ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_PROMPT_H
#define HEDDLE_RUNTIME_APP_PROMPT_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt {

/// The tokens of `1,2,3`, which `flag` gave; throws H0195 for what is none.
std::vector<int32_t> parseIds(const std::string &text,
                              const std::string &flag = "--prompt-ids");

/// Throws H0195 when a prompt is empty, which `fuller` says how to change, or
/// has a token that is none.
void checkPrompt(const std::vector<int32_t> &tokens, int64_t vocab,
                 const std::string &fuller);

/// Throws H0132 unless a token can follow a prompt: with what follows it has
/// `maxContext` tokens at most.
void checkRoom(const std::vector<int32_t> &prompt, int64_t maxContext);

/// Throws H0132 when a text that is read alone is longer than it may be;
/// `shorter` says what to do about it.
void checkPromptLength(const std::vector<int32_t> &tokens, int64_t maxContext,
                       const std::string &shorter = "give a shorter prompt");

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_PROMPT_H
