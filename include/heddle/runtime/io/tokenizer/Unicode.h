//===- Unicode.h - Characters of a text -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_UNICODE_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_UNICODE_H

#include <cstdint>
#include <string>

namespace heddle::io::unicode {

/// A character as it stands in a text.
struct Character {
  uint32_t code;
  uint32_t length; ///< In bytes.
  bool isValid;    ///< False for a byte that is no UTF-8: `code` is U+FFFD.
};

/// The character that begins at the byte `offset`, which is inside of `text`.
Character characterAt(const std::string &text, size_t offset);

/// Appends a character as UTF-8.
void append(std::string &text, uint32_t code);

/// Calls `visit(character, offset)` for each character in turn.
template <typename Visitor>
void forEach(const std::string &text, Visitor visit) {
  for (size_t offset = 0; offset < text.size();) {
    Character character = characterAt(text, offset);
    visit(character, offset);
    offset += character.length;
  }
}

/// Whether a text is UTF-8 throughout.
bool isValid(const std::string &text);
/// A text in which U+FFFD stands for each part that is no UTF-8: for the bytes
/// that a character could begin with, or for one byte. Decoders of the WHATWG
/// and Python's errors="replace" do so.
std::string replaceInvalid(const std::string &text);

/// The characters of a text, as Python's len() counts them; each part that is
/// no UTF-8 counts as the U+FFFD that stands for it.
int64_t countCharacters(const std::string &text);

/// White_Space.
bool isSpace(uint32_t code);
/// General categories P, and what ASCII has of symbols.
bool isPunctuation(uint32_t code);
/// General categories N.
bool isNumber(uint32_t code);
/// General categories M.
bool isMark(uint32_t code);
/// General category Mn.
bool isNonspacingMark(uint32_t code);
/// General categories Cc, Cf and Co.
bool isControl(uint32_t code);
/// What the regular expression \w means: letters, marks, digits, connectors.
bool isWord(uint32_t code);

/// General category Nd.
bool isDecimal(uint32_t code);
/// Decimals, and digits in circles, above or below the line.
bool isDigit(uint32_t code);
/// All but controls, separators and what is not assigned.
bool isGraphic(uint32_t code);
/// General categories Lu, Ll, and these with Lt.
bool isUpper(uint32_t code);
bool isLower(uint32_t code);
bool isCased(uint32_t code);
/// General categories L.
bool isLetter(uint32_t code);
/// The upper-case form of a character, where that is one character.
uint32_t upper(uint32_t code);
/// The title-case form of a character, where that is one character.
uint32_t title(uint32_t code);
/// A text for comparing without case.
std::string foldCase(const std::string &text);
/// The lower-case form of a character, one or two characters.
void appendLower(std::string &text, uint32_t code);

enum class Form { C, D, KC, KD };
/// A Unicode normalization form; bytes that are no UTF-8 stay.
std::string normalize(const std::string &text, Form form);

/// The end of the grapheme cluster that begins at the byte `offset`.
size_t endOfGrapheme(const std::string &text, size_t offset);

} // namespace heddle::io::unicode

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_UNICODE_H
