//===- Flags.h - Flags with their ranges ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the driver and compiled binaries declare and read flags with CLI11. A
// flag with a value has a range; what is out of it is a CLI::ValidationError,
// as `--threads: "0" is not a whole number from 1 to 1024`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_FLAGS_H
#define HEDDLE_RUNTIME_IO_FLAGS_H

#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/ValueRange.h"
#include <CLI/CLI.hpp>
#include <functional>
#include <optional>

namespace heddle::io {

/// Adds a flag, or a positional argument, whose values are those of `range`.
template <typename T>
CLI::Option *addFlag(CLI::App &verb, const std::string &names, T &value,
                     const ValueRange &range, const std::string &help) {
  auto check = [range](std::string &text) {
    std::string given = text;
    return range.take(text) ? std::string()
                            : '"' + given + "\" is not " + range.describe();
  };
  return verb.add_option(names, value, help)
      ->transform(CLI::Validator(check, "", ""));
}

/// The words of a command line in CLI11's order, the last one first. CLI11
/// gives `--flag=` the word after it as its value; here it gets none. Words
/// from number `end` on are left as they are.
inline std::vector<std::string>
wordsForParser(const std::vector<std::string> &words, size_t end) {
  std::vector<std::string> result;
  for (size_t i = words.size(); i-- > 0;) {
    const std::string &word = words[i];
    bool isEmpty = i < end && word.rfind("--", 0) == 0 && word.size() > 3 &&
                   word.find('=') == word.size() - 1;
    if (isEmpty)
      result.push_back("");
    result.push_back(isEmpty ? word.substr(0, word.size() - 1) : word);
  }
  return result;
}

/// What was meant by a word that a verb does not take.
struct Advice {
  std::string message; ///< Empty: what is said of any such word.
  std::string help;
};
/// Knows what is said elsewhere, as `heddle compile` knows flags of binaries.
/// `value` follows a flag, or is empty.
using Adviser = std::function<std::optional<Advice>(
    const CLI::App &verb, const std::string &word, const std::string &value)>;

/// As a shell takes it for one word.
std::string shellWord(const std::string &text);
/// The verb with the names of those around it, as `heddle data prepare`.
std::string nameOf(const CLI::App &verb);

/// What is wrong with a command line: `rangeCode` for a value that is out of
/// its flag's range, else `code`, with the name that an unknown word is nearest
/// to, or with what `adviser` knows of it.
Diagnostic describeUsage(const CLI::App &app, const CLI::ParseError &error,
                         const std::string &code, const std::string &rangeCode,
                         const Adviser &adviser = nullptr);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FLAGS_H
