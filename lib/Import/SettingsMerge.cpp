//===- SettingsMerge.cpp - Precedence of settings, "auto" and rows --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the Merger: takes each setting from the strongest source that
// gives it, and replaces "auto". For each value in a file, it notes in the
// table of --explain-config whether the value was used.
//
//===----------------------------------------------------------------------===//

#include "SettingReaders.h"
#include "heddle/runtime/io/OffloadDirectories.h"
#include <algorithm>
#include <tuple>

using namespace heddle;
using namespace heddle::config;

void Problems::add(const Diagnostic &problem) {
  const SourceLocation &place = problem.location;
  bool isKnown =
      std::any_of(all.begin(), all.end(), [&](const Diagnostic &other) {
        return place.line > 0 && other.location.line == place.line &&
               other.location.column == place.column;
      });
  if (!isKnown)
    all.push_back(problem);
}

void config::sortProblems(std::vector<Diagnostic> &problems) {
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Diagnostic &a, const Diagnostic &b) {
                     const SourceLocation &x = a.location, &y = b.location;
                     return std::tie(x.file, x.line, x.column) <
                            std::tie(y.file, y.line, y.column);
                   });
}

void config::throwProblems(std::vector<Diagnostic> problems) {
  sortProblems(problems);
  if (!problems.empty())
    throw ConfigErrors(std::move(problems));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void Merger::give(const std::string &key, const SettingValue &value,
                  Origin origin) {
  if (origin.kind == Origin::Kind::File)
    links.push_back({origin.text, key, false});
  if (isGiven(key))
    return fill(key, value);
  const auto *word = std::get_if<std::string>(&value);
  const SettingField &field = settingOf(key);
  if (field.set(result.values, value))
    return result.setOrigin(key, std::move(origin));
  problems.add({"H0114",
                key + " \"" + *word + "\" is not " + field.range.describe(),
                origin.location,
                {},
                "choose one of these"});
}

void Merger::fill(const std::string &key, const SettingValue &weaker) {
  const SettingField &field = settingOf(key);
  if (field.combine)
    field.set(result.values, field.combine(field.get(result.values), weaker));
}

SettingValue config::combineDirectories(const SettingValue &stronger,
                                        const SettingValue &weaker) {
  auto given = io::OffloadDirectories::parse(std::get<std::string>(stronger));
  auto filled = io::OffloadDirectories::parse(std::get<std::string>(weaker));
  if (!given || !filled)
    return stronger; // The sources of the values report the error.
  filled->take(*given);
  return filled->text();
}

std::optional<std::string> Merger::flag(const std::string &name) const {
  auto found = flags.find(name);
  return found == flags.end() ? std::nullopt : found->second;
}

//===----------------------------------------------------------------------===//
// "auto"
//===----------------------------------------------------------------------===//

bool Merger::isOpen(const std::string &key) const {
  return !isGiven(key) &&
         std::any_of(links.begin(), links.end(), [&](const Link &link) {
           return link.isAuto && link.key == key;
         });
}

static Origin trainerOrigin() {
  return {Origin::Kind::Derived, "the Trainer's default", {}};
}

void Merger::fillMicroBatch() {
  if (!isGiven("batch"))
    fillWithTrainers(settingOf("micro_batch"));
}

void Merger::fillWithTrainers(const SettingField &field) {
  if (field.trainerDefault && isOpen(field.key))
    give(field.key, *field.trainerDefault, trainerOrigin());
}

void Merger::fillOpen() {
  for (const Link &link : links) {
    const Origin *origin = originOf(link.key);
    bool isTrainers = origin && origin->kind == Origin::Kind::Derived &&
                      origin->text == trainerOrigin().text;
    if (link.isAuto && (!origin || isTrainers))
      result.unfilled.emplace_back(link.path, link.key);
  }
  for (const SettingField &field : settingFields())
    fillWithTrainers(field);
}

void Merger::mark(const std::string &path, const std::string &verdict,
                  const std::string &why) {
  for (ExplainRow &row : result.rows)
    if (row.key == path) {
      row.verdict = verdict;
      row.why = why;
    }
}

std::string config::warnOfAuto(const ResolvedSettings &settings) {
  auto valueOf = [&](const std::string &key) {
    const SettingField *field = findSetting(key);
    return field ? settingToString(settings.values, *field) : key;
  };
  std::string text;
  for (const auto &[path, key] : settings.unfilled)
    text += (text.empty() ? "" : ", ") + path + " = " + valueOf(key) +
            (key == "beta1" ? "," + valueOf("beta2") : "");
  return text.empty() ? ""
                      : "no flag fills \"auto\": " + text +
                            " (the defaults of Hugging Face's Trainer)";
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void Merger::notePlaces(const io::JsonMember &member) {
  const std::string &path = member.value.path();
  places.emplace_back(member.keyLocation(), path);
  places.emplace_back(member.value.location(), path);
  // The table of --explain-config has one row for a whole list, so an error in
  // an element is shown in the list's row.
  if (member.value.isArray())
    for (const io::JsonValue &element : member.value.elements())
      places.emplace_back(element.location(), path);
}

void Merger::markRefused() {
  for (const Diagnostic &problem : result.problems)
    for (const auto &[place, path] : places)
      if (place.line > 0 && place.line == problem.location.line &&
          place.column == problem.location.column &&
          place.file == problem.location.file)
        mark(path, "refused", problem.message);
}

void Merger::finishRows() {
  for (const Link &link : links) {
    const Origin *origin = originOf(link.key);
    bool isFrom = origin && origin->kind == Origin::Kind::File &&
                  origin->text == link.path;
    if (isFrom)
      continue;
    std::string source = origin ? origin->describe() : "default";
    bool isDerived = origin && origin->kind == Origin::Kind::Derived;
    std::string why = link.isAuto ? "auto: " + source
                      : isDerived ? "computed " + source
                                  : source + " wins";
    // A list has one row in the table of --explain-config. Cut the index of an
    // element off the path, so that this row is found.
    mark(link.path.substr(0, link.path.find('[')),
         link.isAuto ? "applied" : "overridden", why);
  }
}
