//===- FileKind.h - What a file is, by its bytes ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tells texts, records, tokens and other files apart. The content decides: the
// same bytes are read in the same way under every name.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_FILEKIND_H
#define HEDDLE_RUNTIME_IO_FILEKIND_H

#include "heddle/runtime/io/File.h"

namespace heddle::io {

/// What the first bytes say that a file is, when it is neither a text nor
/// tokens, and what to do with it; an empty name for any other file.
struct ForeignKind {
  std::string name; ///< As `a gzip archive`.
  std::string help; ///< As `unpack it first`; "" where there is no more to say.
};
ForeignKind foreignKindOf(const MappedFile &file);

/// Whether the file is a text: it has hardly any control characters, and is
/// UTF-8 or mostly ASCII, or so long that tokens would have had some.
bool isText(const MappedFile &file);

/// Whether the beginning has more control characters than a text in any
/// encoding.
bool hasControlCharacters(const MappedFile &file);

/// Whether each line is a JSON object, by the first two that are not blank.
bool isJsonLines(const MappedFile &file);

/// How the bytes of a file of bare numbers are to be read.
struct NumberWidth {
  int64_t bytes = 2; ///< 2, 4 or 8.
  /// What speaks against each width; "" where nothing speaks against `bytes`.
  std::string doubt;
};
/// Looks at the upper halves of the numbers: every second 16-bit word of 32-bit
/// tokens, and three of four of 64-bit tokens, are at most (vocab - 1) >> 16.
/// `vocab` is 0 when it is not known.
NumberWidth widthOfNumbers(const MappedFile &file, int64_t vocab);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FILEKIND_H
