//===- Flags.cpp - What is wrong with a command line ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Flags.h"

#include <algorithm>

using namespace heddle;

/// The verb that was being read when an error occurred.
static const CLI::App &chosenVerb(const CLI::App &app) {
  const CLI::App *verb = &app;
  while (!verb->get_subcommands().empty())
    verb = verb->get_subcommands().front();
  return *verb;
}

/// The verb with the names of those around it, as `heddle data prepare`.
static std::string nameOf(const CLI::App &verb) {
  return (verb.get_parent() ? nameOf(*verb.get_parent()) + " " : "") +
         verb.get_name();
}

static std::vector<std::string> verbsOf(const CLI::App &verb) {
  std::vector<std::string> names;
  for (const CLI::App *inner :
       verb.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(inner->get_name());
  return names;
}

/// The flag or verb nearest to a word that nothing takes, or "".
static std::string suggestionFor(const CLI::App &verb, std::string word) {
  std::vector<std::string> known = verbsOf(verb);
  for (const CLI::Option *option : verb.get_options())
    for (const std::string &name : option->get_lnames())
      known.push_back("--" + name);
  return closestMatch(word.substr(0, word.find('=')), known);
}

/// The error in our words, where CLI11's speak of types and counts.
static std::string messageOf(const CLI::ParseError &error) {
  std::string text = error.what();
  auto between = [&](const char *before, const char *after) {
    size_t begin = text.find(before) + std::strlen(before);
    return text.substr(begin, text.find(after, begin) - begin);
  };
  if (text.find(": At Most ") != std::string::npos)
    return between("", ": ") + " is given more than once";
  if (dynamic_cast<const CLI::ArgumentMismatch *>(&error))
    return between("", ": ") + " needs a value";
  if (dynamic_cast<const CLI::ConversionError *>(&error))
    return between(": ", " =") + " takes no value";
  return text;
}

Diagnostic io::describeUsage(const CLI::App &app, const CLI::ParseError &error,
                             const std::string &code,
                             const std::string &rangeCode) {
  const CLI::App &verb = chosenVerb(app);
  std::vector<std::string> verbs = verbsOf(verb), unread = app.remaining(true);
  // Between flags and words it is neither.
  unread.erase(std::remove(unread.begin(), unread.end(), "--"), unread.end());
  Diagnostic result;
  result.code = code;
  if (dynamic_cast<const CLI::ValidationError *>(&error)) {
    result.code = rangeCode;
    result.message = error.what();
  } else if (!unread.empty()) {
    // Whatever else is missing: it may be what this word was meant to be.
    const std::string &word = unread.front();
    bool isFlag = word.rfind('-', 0) == 0, isVerb = !isFlag && !verbs.empty();
    result.message = (isFlag   ? "there is no flag "
                      : isVerb ? "there is no verb "
                               : "nothing takes the word ") +
                     word;
    std::string near = suggestionFor(verb, word);
    if (!near.empty())
      result.help = "did you mean " + near + "? ";
  } else if (dynamic_cast<const CLI::RequiredError *>(&error) &&
             !verbs.empty()) {
    result.message = "a verb is missing: " + CLI::detail::join(verbs, ", ");
  } else {
    result.message = messageOf(error);
  }
  result.help += "see " + nameOf(verb) + " --help";
  return result;
}
