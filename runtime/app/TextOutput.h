//===- TextOutput.h - Output of generate and chat ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints generated text while it is generated, and stops at stop strings.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TEXTOUTPUT_H
#define HEDDLE_RUNTIME_APP_TEXTOUTPUT_H

#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/StopFilter.h"

namespace heddle::rt {

/// How generated tokens are printed, and which strings end generation.
struct TextSinks {
  bool prints = true; ///< Print on stdout as they are generated.
  bool asIds = false; ///< Print ids separated by blanks.
  /// Stop strings, which are not printed.
  std::vector<std::string> stops;
};

/// Prints tokens as they are generated.
class TextOutput {
public:
  /// Without a tokenizer (null) only ids can be printed.
  TextOutput(TextSinks sinks, const io::Tokenizer *tokenizer)
      : sinks(sinks), stops(std::move(sinks.stops)) {
    if (tokenizer)
      stream.emplace(*tokenizer);
  }
  /// Prints the prompt before the generated tokens.
  void prompt(const std::vector<int32_t> &tokens);
  /// Prints a generated token; returns true at a stop string.
  bool add(int32_t token);
  /// Prints text that was held back because it might have become a stop string,
  /// and ends the line.
  void finish();
  /// The generated text.
  const std::string &text() const { return made; }

private:
  void print(const std::string &part);
  void write(const std::string &part);
  std::string numbers(const std::vector<int32_t> &tokens);

  TextSinks sinks;
  std::optional<io::TextStream> stream;
  StopFilter stops;
  std::string made;
  bool isFirst = true;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TEXTOUTPUT_H
