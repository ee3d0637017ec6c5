//===- DsSparseAttention.cpp - Section of ds_config: sparse attention -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the section `sparse_attention` of a ds_config.json into the options of
// an attention layout. Keys, modes and defaults are those of the table of
// options (LayoutOptions.h).
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"
#include "SettingReaders.h"

using namespace heddle;
using namespace heddle::config;
using layouts::LayoutOption;
using layouts::LayoutOptions;

static constexpr const char *sectionKey = "sparse_attention";

/// The JSON types of an option's value.
static unsigned typesOf(const LayoutOption &option) {
  using Member = LayoutOption::Member;
  struct Types {
    unsigned operator()(int64_t LayoutOptions::*) const { return DsInt; }
    unsigned operator()(bool LayoutOptions::*) const { return DsBool; }
    unsigned operator()(layouts::Direction LayoutOptions::*) const {
      return DsString;
    }
    unsigned operator()(std::vector<int64_t> LayoutOptions::*) const {
      return DsList;
    }
    unsigned
    operator()(std::optional<std::vector<int64_t>> LayoutOptions::*) const {
      return DsList | DsNull;
    }
  };
  return std::visit(Types(), Member(option.member));
}

std::vector<DsKey> config::sparseAttentionKeys() {
  const std::string section = sectionKey;
  std::vector<DsKey> keys = {
      {section, DsObject | DsBool | DsNull, DsRule::Section},
      {section + ".mode", DsString, DsRule::Applied}};
  for (const LayoutOption &option : layouts::layoutOptions())
    keys.push_back(
        {section + "." + option.key, typesOf(option), DsRule::Applied});
  return keys;
}

/// Returns a value as the text that the option's table row reads.
static std::string textOf(const LayoutOption &option,
                          const io::JsonValue &value) {
  if (option.isSwitch())
    return value.asBool() ? "true" : "false";
  if (value.isString())
    return value.asString();
  if (!option.isList())
    return std::to_string(value.asInteger());
  std::string text;
  for (const io::JsonValue &element : value.elements())
    text += (text.empty() ? "" : ",") + std::to_string(element.asInteger());
  return text.empty() ? "none" : text;
}

static void readOption(const io::JsonMember &member, LayoutOptions &options,
                       Merger &merger) {
  const LayoutOption *option = layouts::findOption(member.key);
  if (!option)
    return;
  // The type is checked in each mode.
  const std::string text =
      member.value.isNull() ? "" : textOf(*option, member.value);
  if (!option->isOf(options.mode))
    return merger.mark(member.value.path(), "no meaning here",
                       "an option of " + option->modeList());
  options.source.places[option->key] = member.value.location();
  if (member.value.isNull())
    return;
  if (!option->accepts(text))
    member.value.fail("H0110",
                      "\"" + member.value.path() + "\" is " +
                          member.value.describe(),
                      "give it " + option->range.describe());
  option->set(options, text);
}

/// Returns the mode that the section names. DeepSpeed's default is `fixed`.
static layouts::Mode readMode(const io::JsonValue &section) {
  const io::JsonValue *mode = section.findNonNull("mode");
  if (!mode)
    return layouts::Mode::Fixed;
  if (auto known = layouts::parseMode(mode->asString()))
    return *known;
  const auto &words = layouts::modeWords;
  std::string near =
      closestMatch(mode->asString(), {words.begin(), words.end()});
  std::string help;
  for (const char *word : words)
    help += (help.empty() ? "use one of " : ", ") + std::string(word);
  mode->fail("H0108", "\"" + mode->path() + "\" is " + mode->describe(),
             near.empty() ? help : "did you mean \"" + near + "\"?");
}

void config::mergeSparseAttention(const io::JsonValue &root, Merger &merger) {
  const io::JsonValue *section = root.findNonNull(sectionKey);
  if (!section)
    return;
  if (section->isBool() && section->asBool())
    section->failType("an object");
  if (!section->isObject())
    return merger.mark(section->path(), "no meaning here", "off");
  LayoutOptions options = layouts::sectionDefaultsOf(readMode(*section));
  options.source.isFile = true;
  options.source.location = section->location();
  bool isRead = true;
  for (const io::JsonMember &member : section->members()) {
    // An unknown key has been reported.
    isRead &= member.key == "mode" || layouts::findOption(member.key);
    if (merger.problems.attempt([&] { readOption(member, options, merger); }))
      isRead = false;
  }
  if (!isRead)
    return;
  layouts::checkOptions(options);
  merger.result.sparseAttention = std::move(options);
}
