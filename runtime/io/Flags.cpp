//===- Flags.cpp - Errors in command lines ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes errors of CLI11 in Heddle's words, with suggestions for unknown
// words.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Flags.h"
#include "ForeignFlags.h"

#include <algorithm>
#include <sstream>

using namespace heddle;

/// Returns the verb (the subcommand) that was being parsed when an error
/// occurred.
static const CLI::App &chosenVerb(const CLI::App &app) {
  const CLI::App *verb = &app;
  while (!verb->get_subcommands().empty())
    verb = verb->get_subcommands().front();
  return *verb;
}

std::string io::shellWord(const std::string &text) {
  bool isPlain =
      !text.empty() &&
      text.find_first_of(" \t\n\"'\\$`*?[]{}()<>|&;#~!") == std::string::npos;
  if (isPlain)
    return text;
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string io::nameOf(const CLI::App &verb) {
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

//===----------------------------------------------------------------------===//
// Unknown words
//===----------------------------------------------------------------------===//

namespace {

/// A word of a command line that the verb (the subcommand) does not accept, and
/// advice about the word.
struct UnreadWord {
  const CLI::App &app;
  const CLI::App &verb;
  /// The word and the value after it: `--steps` and `3` for both `--steps 3`
  /// and `--steps=3`.
  std::string word, value;
  const io::Adviser &adviser;

  std::optional<io::Advice> adviceForFlag() const;
  std::optional<io::Advice> adviceForWord() const {
    return adviser ? adviser(verb, word, value) : std::nullopt;
  }

private:
  std::optional<io::Advice> adviceForPlace() const;
  std::optional<io::Advice> adviceForOtherTool() const;
  std::optional<io::Advice> adviceForOtherVerb() const;
  bool has(const CLI::App &verb, const std::string &flag) const {
    return flag.size() > 1 && verb.get_option_no_throw(flag);
  }
  /// Returns `flag`, and after it the argument `value` if there is one, as a
  /// user writes them on a command line.
  std::string withValue(const std::string &flag) const {
    return value.empty() ? flag : flag + " " + io::shellWord(value);
  }
};

} // namespace

/// Advises on a word that is a known flag, but comes before the verb (the
/// subcommand) or has a wrong number of dashes.
std::optional<io::Advice> UnreadWord::adviceForPlace() const {
  if (has(verb, word))
    return io::Advice{word + " is a flag of the verb " + verb.get_name() +
                          ", and comes before it",
                      "write it after the verb: " + io::nameOf(verb) + " " +
                          withValue(word)};
  std::string dashed = word;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  for (const std::string &right : {dashed, "-" + word, "-" + dashed})
    if (right != word && right.rfind("--", 0) == 0 && has(verb, right))
      return io::Advice{"", "write " + withValue(right) + " in its place"};
  return std::nullopt;
}

/// Advises on flags of transformers, vLLM and other tools.
std::optional<io::Advice> UnreadWord::adviceForOtherTool() const {
  std::vector<std::string> names =
      io::namesFor(word, value.empty() ? "" : io::shellWord(value));
  for (const std::string &name : names)
    if (has(verb, name.substr(0, name.find(' '))))
      return io::Advice{"", "write " + name + " in its place"};
  for (const std::string &name : names) {
    size_t blank = name.find(' ');
    std::string own = blank == std::string::npos ? "" : name.substr(blank + 1);
    auto advice =
        adviser ? adviser(verb, name.substr(0, blank), own) : std::nullopt;
    if (!advice)
      continue;
    advice->message =
        "there is no flag " + word + ": " +
        (advice->message.empty() ? "it is " + name : advice->message);
    return advice;
  }
  if (std::string text = io::adviceFor(word); !text.empty())
    return io::Advice{"", text};
  return std::nullopt;
}

std::optional<io::Advice> UnreadWord::adviceForOtherVerb() const {
  for (const CLI::App *other : app.get_subcommands([&](const CLI::App *other) {
         return other != &verb && has(*other, word);
       })) {
    std::string name = io::nameOf(*other) + " " + withValue(word);
    if (&app == &verb)
      return io::Advice{word + " is a flag of the verb " + other->get_name() +
                            ", and there is no verb",
                        "write " + name};
    return io::Advice{word + " is a flag of the verb " + other->get_name() +
                          ", not of " + verb.get_name(),
                      "leave it out, or write " + name};
  }
  return std::nullopt;
}

std::optional<io::Advice> UnreadWord::adviceForFlag() const {
  if (auto advice = adviceForPlace())
    return advice;
  if (adviser)
    if (auto advice = adviser(verb, word, value))
      return advice;
  if (auto advice = adviceForOtherTool())
    return advice;
  return adviceForOtherVerb();
}

/// Returns the known flag or verb (subcommand) closest to an unknown word, or
/// "".
static std::string suggestionFor(const CLI::App &verb, std::string word) {
  std::vector<std::string> known = verbsOf(verb);
  for (const CLI::Option *option : verb.get_options())
    for (const std::string &name : option->get_lnames())
      known.push_back("--" + name);
  return closestMatch(word, known);
}

/// Returns the choice that was probably meant in an error like `--kind: "Adam"
/// is not one of adam, sgd`, or "".
static std::string nearestChoice(const std::string &message) {
  const std::string middle = "\" is not one of ";
  size_t begin = message.find('"'), end = message.find(middle);
  if (begin == message.npos || end == message.npos)
    return "";
  auto lower = [](std::string text) { return CLI::detail::to_lower(text); };
  std::string given = message.substr(begin + 1, end - begin - 1);
  std::vector<std::string> choices;
  std::istringstream rest(message.substr(end + middle.size()));
  for (std::string choice; std::getline(rest >> std::ws, choice, ',');) {
    if (lower(choice) == lower(given))
      return choice;
    choices.push_back(choice);
  }
  return closestMatch(given, choices);
}

/// Returns the error message in Heddle's words, because CLI11's messages speak
/// of types and counts.
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
                             const std::string &rangeCode,
                             const Adviser &adviser) {
  const CLI::App &verb = chosenVerb(app);
  std::vector<std::string> verbs = verbsOf(verb), unread = app.remaining(true);
  // `--` separates flags from words, and is not an unknown word itself.
  unread.erase(std::remove(unread.begin(), unread.end(), "--"), unread.end());
  Diagnostic result;
  result.code = code;
  if (dynamic_cast<const CLI::ValidationError *>(&error)) {
    result.code = rangeCode;
    result.message = error.what();
    if (std::string near = nearestChoice(result.message); !near.empty())
      result.help = "did you mean " + near + "? ";
  } else if (!unread.empty()) {
    // If a word is unknown and another one is missing, report the unknown word:
    // it may be the missing one, misspelled.
    std::string word = unread.front(), value;
    bool isFlag = word.rfind('-', 0) == 0, isVerb = !isFlag && !verbs.empty();
    if (size_t equals = word.find('='); isFlag && equals != word.npos) {
      value = word.substr(equals + 1);
      word.resize(equals);
    } else if (unread.size() > 1 && unread[1].rfind("--", 0) != 0) {
      value = unread[1];
    }
    result.message = (isFlag   ? "there is no flag "
                      : isVerb ? "there is no verb "
                               : "nothing takes the word ") +
                     word;
    UnreadWord one{app, verb, word, value, adviser};
    auto advice = isFlag ? one.adviceForFlag() : one.adviceForWord();
    if (advice && !advice->message.empty())
      result.message = advice->message;
    if (advice)
      result.help = advice->help + "; ";
    else if (std::string near = suggestionFor(verb, word); !near.empty())
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
