//===- Vocabulary.cpp - Tokens and their ids ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Vocabulary.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <array>
#include <cstdio>

using namespace heddle;
using namespace heddle::io;

static constexpr const char *again = "download the tokenizer again";

void Vocabulary::add(const JsonValue &at, const std::string &token,
                     int64_t id) {
  if (id < 0 || id >= maxVocabulary)
    at.fail("H0352",
            "the token id " + std::to_string(id) + " is not in [0, 16777216)",
            again);
  if (!ids.emplace(token, static_cast<int32_t>(id)).second)
    at.fail("H0352", "the token \"" + token + "\" is given twice", again);
  if (id >= size())
    tokens.resize(id + 1);
  if (!tokens[id].empty())
    at.fail("H0352", "the id " + std::to_string(id) + " is given twice", again);
  tokens[id] = token;
}

void Vocabulary::read(const JsonValue &object) {
  for (const JsonMember &member : object.members())
    add(member.value, member.key, member.value.asInteger());
}

std::string io::byteToken(uint8_t byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", byte);
  return text;
}

int io::byteOfToken(const std::string &token) {
  unsigned byte = 0;
  if (token.size() != 6 || std::sscanf(token.c_str(), "<0x%2X>", &byte) != 1 ||
      byteToken(static_cast<uint8_t>(byte)) != token)
    return -1;
  return static_cast<int>(byte);
}

/// Returns, for each byte, the code point of the character that represents it
/// in byte-level tokenizers.
static const std::array<uint16_t, 256> &codes() {
  static const std::array<uint16_t, 256> table = [] {
    std::array<uint16_t, 256> made{};
    uint16_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      bool isPrintable = (byte >= 33 && byte <= 126) ||
                         (byte >= 161 && byte <= 172) || byte >= 174;
      made[byte] = isPrintable ? static_cast<uint16_t>(byte) : next++;
    }
    return made;
  }();
  return table;
}

void alphabet::append(std::string &text, const std::string &bytes) {
  static const std::vector<std::string> characters = [] {
    std::vector<std::string> made(256);
    for (int byte = 0; byte < 256; ++byte)
      unicode::append(made[byte], codes()[byte]);
    return made;
  }();
  for (char c : bytes)
    text += characters[static_cast<uint8_t>(c)];
}

std::optional<std::string> alphabet::toBytes(const std::string &characters) {
  static const std::vector<int> bytes = [] {
    std::vector<int> made(512, -1);
    for (int byte = 0; byte < 256; ++byte)
      made[codes()[byte]] = byte;
    return made;
  }();
  std::string result;
  bool isWhole = true;
  unicode::forEach(characters, [&](unicode::Character character, size_t) {
    int byte = character.isValid && character.code < bytes.size()
                   ? bytes[character.code]
                   : -1;
    isWhole &= byte >= 0;
    result += static_cast<char>(byte);
  });
  return isWhole ? std::optional<std::string>(std::move(result)) : std::nullopt;
}
