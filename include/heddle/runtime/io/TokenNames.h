//===- TokenNames.h - Special tokens by their roles -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds a model's special tokens by their roles, such as `eos_token`, in the
// files beside its tokenizer.json.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENNAMES_H
#define HEDDLE_RUNTIME_IO_TOKENNAMES_H

#include "heddle/runtime/io/Json.h"

#include <map>

namespace heddle::io {

/// Texts of a model's special tokens, by Hugging Face's names of their roles:
/// `bos_token`, `eos_token`, `unk_token`, `sep_token`, `pad_token`,
/// `cls_token`, `mask_token`.
using TokenNames = std::map<std::string, std::string>;

/// Reads the special tokens of a model directory, as transformers does.
/// tokenizer_config.json names them. special_tokens_map.json overrides these
/// names, unless tokenizer_config.json lists the added tokens, as it does when
/// a newer version of transformers has written it. For a role that no file
/// mentions, the default of the tokenizer's class is used if it is among the
/// added tokens of tokenizer.json. `tokenizer` is the parsed tokenizer.json, if
/// the caller has it.
TokenNames readTokenNames(const std::string &directory,
                          const JsonValue *tokenizer = nullptr);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENNAMES_H
