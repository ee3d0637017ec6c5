//===- Affix.h - Prefixes and suffixes of strings ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tests how a string begins and ends. The runtime does not link LLVM, so it
// cannot use llvm::StringRef.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_AFFIX_H
#define HEDDLE_RUNTIME_IO_AFFIX_H

#include <string>

namespace heddle::io {

inline bool startsWith(const std::string &text, const std::string &prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

inline bool endsWith(const std::string &text, const std::string &suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_AFFIX_H
