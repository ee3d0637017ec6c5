//===- Regex.cpp - Regular expressions of tokenizers ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Regex.h"
#include "RubyPattern.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdexcept>

using namespace heddle;
using namespace heddle::io;

struct Regex::Code {
  pcre2_code *compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

namespace {
/// The buffers with which one thread runs compiled patterns. The stack of
/// compiled code grows with the length of a match, which may be as long as the
/// text. So the stack starts small and can grow.
struct Matcher {
  static constexpr size_t firstStack = 64 << 10, largestStack = 64 << 20;
  pcre2_match_data *data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context *context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack *stack =
      pcre2_jit_stack_create(firstStack, largestStack, nullptr);
  Matcher() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~Matcher() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};
} // namespace

static constexpr uint32_t utf = PCRE2_UTF | PCRE2_NO_UTF_CHECK;

/// Compiles a pattern. If it is invalid, returns null, and sets `message` to
/// PCRE2's error message.
static pcre2_code *compile(const std::string &pattern, uint32_t options,
                           std::string &message) {
  int error = 0;
  size_t offset = 0;
  pcre2_code *compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                    pattern.size(), utf | options, &error, &offset, nullptr);
  if (compiled)
    return compiled;
  PCRE2_UCHAR text[256] = "";
  pcre2_get_error_message(error, text, sizeof text);
  message = reinterpret_cast<const char *>(text);
  return nullptr;
}

static bool isScript(const std::string &name) {
  std::string ignored;
  pcre2_code *compiled = compile("\\p{sc:" + name + "}", 0, ignored);
  pcre2_code_free(compiled);
  return compiled;
}

Regex::Regex(const std::string &pattern, const JsonValue &at) {
  auto made = std::make_shared<Code>();
  std::string message;
  try {
    made->compiled =
        compile(fromRuby(pattern, isScript),
                PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, message);
  } catch (const std::runtime_error &error) {
    message = error.what();
  }
  if (!made->compiled)
    at.fail("H0351", "the pattern cannot be read: " + message,
            "use `bytes`, or a tokenizer whose pattern is a regular "
            "expression of PCRE2");
  // If the system allows no executable memory, the pattern is interpreted.
  pcre2_jit_compile(made->compiled, PCRE2_JIT_COMPLETE);
  code = std::move(made);
}

Regex Regex::literal(const std::string &text) {
  auto made = std::make_shared<Code>();
  std::string ignored;
  made->compiled = compile(text, PCRE2_LITERAL, ignored);
  pcre2_jit_compile(made->compiled, PCRE2_JIT_COMPLETE);
  return Regex(std::move(made));
}

/// Replaces each byte that is invalid UTF-8 by `^`, because PCRE2 only accepts
/// valid UTF-8.
static const std::string &asUtf8(const std::string &text, std::string &copy) {
  unicode::forEach(text, [&](unicode::Character character, size_t offset) {
    if (character.isValid)
      return;
    if (copy.empty())
      copy = text;
    copy[offset] = '^';
  });
  return copy.empty() ? text : copy;
}

std::vector<Span> Regex::spans(const std::string &text) const {
  thread_local Matcher matcher;
  std::string copy;
  const std::string &subject = asUtf8(text, copy);
  std::vector<Span> found;
  size_t done = 0, from = 0;
  while (from <= subject.size()) {
    int count = pcre2_match(code->compiled,
                            reinterpret_cast<PCRE2_SPTR>(subject.data()),
                            subject.size(), from, PCRE2_NO_UTF_CHECK,
                            matcher.data, matcher.context);
    if (count == PCRE2_ERROR_NOMATCH)
      break;
    if (count < 0)
      fail("H0353",
           "a pattern of the tokenizer needs more than it may have for a text "
           "of " +
               std::to_string(text.size()) + " bytes",
           "give shorter texts");
    const size_t *match = pcre2_get_ovector_pointer(matcher.data);
    bool isEmpty = match[0] == match[1];
    // An empty match directly after another match does not count, as in
    // Oniguruma.
    bool isNone = isEmpty && !found.empty() && done == match[0];
    if (done < match[0])
      found.push_back({done, match[0], false});
    if (!isNone)
      found.push_back({match[0], match[1], true});
    done = from = match[1];
    if (isEmpty)
      from += done < subject.size() ? unicode::characterAt(subject, done).length
                                    : 1;
  }
  if (done < text.size())
    found.push_back({done, text.size(), false});
  return found;
}

std::string Regex::replace(const std::string &text,
                           const std::string &content) const {
  std::string result;
  for (const Span &span : spans(text))
    result +=
        span.isMatch ? content : text.substr(span.begin, span.end - span.begin);
  return result;
}
