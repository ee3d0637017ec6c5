//===- BpeModel.h - Byte-pair merging ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_BPEMODEL_H
#define HEDDLE_RUNTIME_IO_BPEMODEL_H

#include "heddle/runtime/io/Json.h"
#include <unordered_map>

namespace heddle::io {

/// The `model` of a byte-level BPE tokenizer.json; tokens are kept as the bytes
/// they stand for.
class BpeModel {
public:
  /// Throws H0351 for settings that are not supported, H0352 for a damaged one.
  explicit BpeModel(const JsonValue &model);
  /// Appends the ids of one piece of text.
  void encode(const std::string &piece, std::vector<int32_t> &ids) const;
  /// The bytes of a token, or null.
  const std::string *bytesOf(int32_t id) const;
  int64_t vocabSize() const { return static_cast<int64_t>(bytes.size()); }

private:
  struct Merge {
    int32_t rank;
    int32_t result;
  };
  void readVocab(const JsonValue &vocab);
  void readMerges(const JsonValue &merges);
  void addMerge(const JsonValue &at, const std::string &left,
                const std::string &right, int32_t rank);
  const Merge *findMerge(int32_t left, int32_t right) const;
  void merge(std::vector<int32_t> &symbols) const;

  bool ignoreMerges = false;
  std::unordered_map<std::string, int32_t> ids;
  std::vector<std::string> bytes; ///< By id; "" where there is no token.
  std::unordered_map<uint64_t, Merge> mergeTable;
  int32_t byteIds[256];
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_BPEMODEL_H
