//===- SettingsMerge.cpp - What no source says, and what became of each ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SettingsMerge.h"
#include <algorithm>

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
  if (!isOpen("micro_batch") || isGiven("batch"))
    return;
  give("micro_batch", &Settings::microBatch, int64_t(8), trainerOrigin());
}

void Merger::fillOpen() {
  for (const Link &link : links) {
    const Origin *origin = originOf(link.key);
    bool isTrainers = origin && origin->kind == Origin::Kind::Derived &&
                      origin->text == trainerOrigin().text;
    if (link.isAuto && (!origin || isTrainers))
      result.unfilled.emplace_back(link.path, link.key);
  }
  // Where its default is not Heddle's. Those of the other settings are alike.
  auto fill = [&](const char *key, double Settings::*member, double value) {
    if (isOpen(key))
      give(key, member, value, trainerOrigin());
  };
  fill("lr", &Settings::lr, 5e-5);
  fill("weight_decay", &Settings::weightDecay, 0);
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
    for (const SettingField &field : settingFields())
      if (field.key == key)
        return settingToString(settings.values, field);
    return key;
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
    // A list's elements have one row.
    mark(link.path.substr(0, link.path.find('[')),
         link.isAuto ? "applied" : "overridden", why);
  }
}
