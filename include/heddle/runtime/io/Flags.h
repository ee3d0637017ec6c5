//===- Flags.h - Command-line flags with ranges -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares and reads command-line flags with CLI11, for the driver and for
// compiled binaries. A flag with a value has a range. A value outside of this
// range is a CLI::ValidationError, such as `--threads: "0" is not a whole
// number from 1 to 1024`.
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

/// Adds a flag, or a positional argument, that accepts values of `range`.
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

/// Returns the words of a command line in the order that CLI11 takes, last word
/// first. A word `--flag=` before index `end` becomes two words, `--flag` and
/// an empty value, because CLI11 would take the next word as the flag's value.
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

/// Advice about a word that a verb (a subcommand) does not know.
struct Advice {
  /// The error message; empty: the usual one for unknown words.
  std::string message;
  std::string help;
};
/// A function that finds advice about a word that a verb does not know. For
/// example, `heddle compile` advises on flags that belong to compiled binaries.
/// If the word is a flag, `value` is the word after it, or empty.
using Adviser = std::function<std::optional<Advice>(
    const CLI::App &verb, const std::string &word, const std::string &value)>;

/// Quotes a text so that a shell reads it as one word.
std::string shellWord(const std::string &text);
/// Returns the verb with its parents, such as `heddle data prepare`.
std::string nameOf(const CLI::App &verb);

/// Describes an error in a command line. Its code is `rangeCode` if a flag's
/// value is outside of the flag's range, else `code`. For an unknown word, the
/// help is the advice of `adviser`, or else the closest known name.
Diagnostic describeUsage(const CLI::App &app, const CLI::ParseError &error,
                         const std::string &code, const std::string &rangeCode,
                         const Adviser &adviser = nullptr);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FLAGS_H
