//===- TokenNames.h - Special tokens by what they are for -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENNAMES_H
#define HEDDLE_RUNTIME_IO_TOKENNAMES_H

#include "heddle/runtime/io/Json.h"

#include <map>

namespace heddle::io {

/// The texts of a model's special tokens, by Hugging Face's names for them:
/// `bos_token`, `eos_token`, `unk_token`, `sep_token`, `pad_token`,
/// `cls_token`, `mask_token`.
using TokenNames = std::map<std::string, std::string>;

/// What the files in `directory` say of special tokens, as transformers reads
/// them. tokenizer_config.json names them. special_tokens_map.json wins, but
/// counts only if tokenizer_config.json does not list the added tokens, as
/// newer versions do. For a token that no file mentions there is what the
/// tokenizer's class presumes, if tokenizer.json has such an added token.
/// `tokenizer` is tokenizer.json, where it has been read already.
TokenNames readTokenNames(const std::string &directory,
                          const JsonValue *tokenizer = nullptr);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENNAMES_H
