//===- Unicode.h - Characters of a text -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// UTF-8 and properties of characters, for tokenizers and chat templates. Tables
// come from utf8proc.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_UNICODE_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_UNICODE_H

#include <cstdint>
#include <string>

namespace heddle::io::unicode {

/// A character of a text.
struct Character {
  uint32_t code;
  uint32_t length; ///< Bytes.
  bool isValid; ///< False for a byte that is invalid UTF-8: `code` is U+FFFD.
};

/// Returns the character at the byte `offset`, which must be inside of `text`.
Character characterAt(const std::string &text, size_t offset);

/// Appends a character as UTF-8.
void append(std::string &text, uint32_t code);

/// Calls `visit(character, offset)` for each character in order.
template <typename Visitor>
void forEach(const std::string &text, Visitor visit) {
  for (size_t offset = 0; offset < text.size();) {
    Character character = characterAt(text, offset);
    visit(character, offset);
    offset += character.length;
  }
}

/// Whether a text is valid UTF-8.
bool isValid(const std::string &text);
/// Replaces invalid UTF-8 by U+FFFD: one for each sequence of bytes that could
/// begin a character, and one for any other byte. Decoders of the WHATWG and
/// Python's errors="replace" do the same.
std::string replaceInvalid(const std::string &text);

/// Counts characters as Python's len() does. Invalid UTF-8 counts as the U+FFFD
/// characters by which `replaceInvalid` replaces it.
int64_t countCharacters(const std::string &text);

/// The property White_Space.
bool isSpace(uint32_t code);
/// General categories P, and all symbols of ASCII.
bool isPunctuation(uint32_t code);
/// General categories N.
bool isNumber(uint32_t code);
/// General categories M.
bool isMark(uint32_t code);
/// General category Mn.
bool isNonspacingMark(uint32_t code);
/// General categories Cc, Cf and Co.
bool isControl(uint32_t code);
/// The class \w of regular expressions: letters, marks, digits, connectors.
bool isWord(uint32_t code);

/// General category Nd.
bool isDecimal(uint32_t code);
/// Decimal digits, and circled, superscript and subscript digits.
bool isDigit(uint32_t code);
/// All except controls, separators and unassigned code points.
bool isGraphic(uint32_t code);
/// General category Lu for `isUpper`, Ll for `isLower`, and Lu, Ll or Lt for
/// `isCased`.
bool isUpper(uint32_t code);
bool isLower(uint32_t code);
bool isCased(uint32_t code);
/// General categories L.
bool isLetter(uint32_t code);
/// Returns the upper-case form of a character if that form is a single
/// character, else the character itself.
uint32_t upper(uint32_t code);
/// Returns the title-case form of a character if that form is a single
/// character, else the character itself.
uint32_t title(uint32_t code);
/// Returns a text for comparisons that ignore case.
std::string foldCase(const std::string &text);
/// Appends the lower-case form of a character: one or two characters.
void appendLower(std::string &text, uint32_t code);

enum class Form { C, D, KC, KD };
/// Converts a text to a Unicode normalization form; invalid UTF-8 stays.
std::string normalize(const std::string &text, Form form);

/// Returns the end of the grapheme cluster that begins at the byte `offset`.
size_t endOfGrapheme(const std::string &text, size_t offset);

} // namespace heddle::io::unicode

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_UNICODE_H
