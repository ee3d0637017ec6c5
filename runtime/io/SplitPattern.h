//===- SplitPattern.h - Splitting a text before merging ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_SPLITPATTERN_H
#define HEDDLE_RUNTIME_IO_SPLITPATTERN_H

#include <string>
#include <vector>

namespace heddle::io {

/// GPT-2's pattern, as tokenizer files spell it.
extern const char *const gpt2SplitPattern;

/// The pieces that GPT-2's pattern cuts the text into; together they are the
/// whole text. Bytes that are no UTF-8 count as punctuation.
std::vector<std::string> splitGpt2(const std::string &text);

/// Bytes of the character at `offset`; 1 for a byte that is no UTF-8.
size_t characterLength(const std::string &text, size_t offset);

/// Whether the character at `offset` is white space.
bool isSpaceAt(const std::string &text, size_t offset);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_SPLITPATTERN_H
