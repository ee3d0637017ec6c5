//===- Prompt.cpp - Check prompts -----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prompt.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <charconv>

using namespace heddle;
using namespace heddle::rt;

std::vector<int32_t> heddle::rt::parseIds(const std::string &text,
                                          const std::string &flag) {
  std::vector<int32_t> ids;
  const char *next = text.data(), *end = next + text.size();
  while (next < end) {
    int32_t id = 0;
    auto [stop, error] = std::from_chars(next, end, id);
    if (error != std::errc() || (stop != end && *stop != ','))
      fail("H0195", flag + " '" + text + "' is not a list of numbers",
           "write it as " + flag + " 1,2,3");
    ids.push_back(id);
    next = stop + 1;
  }
  return ids;
}

void heddle::rt::checkPrompt(const std::vector<int32_t> &tokens, int64_t vocab,
                             const std::string &fuller) {
  if (tokens.empty())
    fail("H0195", "the prompt is empty", fuller);
  for (int32_t token : tokens)
    if (token < 0 || token >= vocab)
      fail("H0195",
           "token " + std::to_string(token) +
               " of the prompt is not in the vocabulary of " +
               std::to_string(vocab),
           "use tokens from 0 to " + std::to_string(vocab - 1));
}

/// Throws H0132 with a context length that would be enough for the prompt.
[[noreturn]] static void refuseLength(const std::string &message,
                                      const std::string &shorter,
                                      size_t context) {
  fail("H0132", message,
       shorter + ", or compile with --max-context " + std::to_string(context) +
           " or more, if the model has as many positions");
}

void heddle::rt::checkRoom(const std::vector<int32_t> &prompt,
                           int64_t maxContext) {
  if (int64_t(prompt.size()) >= maxContext)
    refuseLength("the prompt has " + std::to_string(prompt.size()) +
                     " tokens; it and the text can have " +
                     std::to_string(maxContext) + " together",
                 "give a shorter prompt", prompt.size() + 1);
}

void heddle::rt::checkPromptLength(const std::vector<int32_t> &tokens,
                                   int64_t maxContext,
                                   const std::string &shorter) {
  if (int64_t(tokens.size()) > maxContext)
    refuseLength("the prompt has " + std::to_string(tokens.size()) +
                     " tokens, and a text may have " +
                     std::to_string(maxContext),
                 shorter, tokens.size());
}
