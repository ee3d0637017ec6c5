//===- FileKind.h - Recognize files by their bytes --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tells texts, JSON lines, tokens and other files apart by their bytes, never
// by their names, so that an error about unreadable training data can say what
// to do with the file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_FILEKIND_H
#define HEDDLE_RUNTIME_IO_FILEKIND_H

#include "heddle/runtime/io/File.h"

namespace heddle::io {

/// A kind of file that is neither text nor tokens, recognized by its first
/// bytes. The name is empty for any other file.
struct ForeignKind {
  std::string name; ///< For example `a gzip archive`.
  /// Advice for the user, for example `unpack it first`; "" if there is none.
  std::string help;
};
ForeignKind foreignKindOf(const MappedFile &file);

/// Whether the file is a text and not binary token ids. A text has almost no
/// control characters. A long file of token ids would have some, and every file
/// of token ids has an even size. Therefore only short files of even size must
/// also be UTF-8 or mostly ASCII.
bool isText(const MappedFile &file);

/// Whether the beginning of the file has more control characters than a text of
/// any encoding.
bool hasControlCharacters(const MappedFile &file);

/// Whether each line is a JSON object, judged by the first two that are not
/// blank.
bool isJsonLines(const MappedFile &file);

/// The width of the token ids in a file of binary token ids without header.
struct NumberWidth {
  int64_t bytes = 2; ///< The bytes of a token id: 2, 4 or 8.
  /// Why the width of the token ids is uncertain; "" if it is certain.
  std::string doubt;
};
/// Guesses the width from the upper halves of the token ids: every second
/// 16-bit word of 32-bit tokens, and three of four words of 64-bit tokens, are
/// at most (vocab - 1) >> 16. `vocab` is 0 if unknown.
NumberWidth widthOfNumbers(const MappedFile &file, int64_t vocab);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FILEKIND_H
