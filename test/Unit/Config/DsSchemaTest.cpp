//===- DsSchemaTest.cpp - Verdicts on keys of ds_config.json --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigFixture.h"
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

using namespace heddle;
using namespace heddle::config;
using nlohmann::json;

namespace {

/// A document whose only leaf stands at `path`; a `*` becomes a name.
std::string documentWith(const std::string &path, const json &leaf) {
  json document = leaf;
  size_t end = path.size();
  while (end != std::string::npos && end > 0) {
    size_t dot = path.rfind('.', end - 1);
    size_t begin = dot == std::string::npos ? 0 : dot + 1;
    std::string name = path.substr(begin, end - begin);
    json outer;
    outer[name == "*" ? "anything" : name] = document;
    document = outer;
    end = dot;
  }
  // An optimizer and a schedule must have a type.
  if (document.contains("optimizer") && document["optimizer"].is_object() &&
      !document["optimizer"].contains("type"))
    document["optimizer"]["type"] = "AdamW";
  if (document.contains("scheduler") && document["scheduler"].is_object() &&
      !document["scheduler"].contains("type"))
    document["scheduler"]["type"] = nullptr;
  return document.dump();
}

/// A value of one of the types, which is not one of `neutral`.
json valueOf(const DsKey &key) {
  json neutral = json::parse(key.neutral);
  for (const auto &[type, value] :
       std::vector<std::pair<unsigned, json>>{{DsBool, true},
                                              {DsBool, false},
                                              {DsNumber, 0.75},
                                              {DsInt, 3},
                                              {DsString, "cpu"},
                                              {DsList, {1}},
                                              {DsObject, {{"a", 1}}}})
    if (key.types & type &&
        std::find(neutral.begin(), neutral.end(), value) == neutral.end())
      return value;
  return nullptr;
}

} // namespace

TEST(DsSchema, PathsAreUniqueAndRooted) {
  std::set<std::string> paths;
  for (const DsKey &key : dsKeys())
    EXPECT_TRUE(paths.insert(key.path).second) << key.path << " is twice";
  for (const std::string &path : paths) {
    size_t dot = path.rfind('.');
    if (dot != std::string::npos) {
      EXPECT_TRUE(paths.count(path.substr(0, dot)))
          << path << " stands in a section that is not there";
    }
  }
}

TEST(DsSchema, EveryVerdictSaysWhy) {
  for (const DsKey &key : dsKeys())
    if (key.rule == DsRule::Ignored || key.rule == DsRule::Neutral ||
        key.rule == DsRule::Gated) {
      EXPECT_FALSE(std::string(key.why).empty()) << key.path;
    }
}

TEST_F(ConfigTest, IgnoredKeysAreAccepted) {
  for (const DsKey &key : dsKeys()) {
    if (key.rule != DsRule::Ignored || key.types & DsObject)
      continue;
    json value = valueOf(key);
    // A switch of a section that is refused when on.
    bool isSwitch = key.path.size() > 8 &&
                    key.path.compare(key.path.size() - 8, 8, ".enabled") == 0;
    if (isSwitch)
      value = false;
    Diagnostic error = errorOf(documentWith(key.path, value));
    EXPECT_EQ(error.code, "") << key.path << ": " << error.message;
  }
}

TEST_F(ConfigTest, RefusedKeysAreRefusedUnlessNeutral) {
  for (const DsKey &key : dsKeys()) {
    if (key.rule != DsRule::Neutral)
      continue;
    json neutral = json::parse(key.neutral);
    if (!valueOf(key).is_null()) {
      Diagnostic error = errorOf(documentWith(key.path, valueOf(key)));
      EXPECT_EQ(error.code, "H0108") << key.path << ": " << error.message;
      EXPECT_GT(error.location.line, 0) << key.path;
      EXPECT_FALSE(error.help.empty()) << key.path;
    }
    if (key.types & DsObject) {
      std::string off = documentWith(key.path + ".enabled", false);
      EXPECT_EQ(errorOf(off).code, "") << key.path;
    }
    for (const json &value : neutral) {
      bool hasType = (value.is_boolean() && key.types & DsBool) ||
                     (value.is_null() && key.types & DsNull) ||
                     (value.is_number() && key.types & (DsInt | DsNumber)) ||
                     (value.is_string() && key.types & (DsString | DsAuto));
      if (!hasType)
        continue;
      Diagnostic error = errorOf(documentWith(key.path, value));
      EXPECT_EQ(error.code, "") << key.path << ": " << error.message;
    }
  }
}

TEST_F(ConfigTest, GatedSectionsAreRefusedWhenOn) {
  for (const DsKey &key : dsKeys()) {
    if (key.rule != DsRule::Gated)
      continue;
    std::string on = documentWith(key.path + ".enabled", true);
    std::string off = documentWith(key.path + ".enabled", false);
    EXPECT_EQ(errorOf(on).code, "H0108") << key.path;
    EXPECT_EQ(errorOf(off).code, "") << key.path;
  }
}

TEST_F(ConfigTest, WrongTypesAreRefusedWithTheirPlace) {
  for (const DsKey &key : dsKeys()) {
    if (key.types & DsList || key.path.find('*') != std::string::npos)
      continue;
    Diagnostic error = errorOf(documentWith(key.path, json::array({1})));
    EXPECT_EQ(error.code, "H0105") << key.path << ": " << error.message;
    EXPECT_GT(error.location.column, 0) << key.path;
  }
}

TEST_F(ConfigTest, MisspeltKeysAreRefusedWithTheNearest) {
  for (const DsKey &key : dsKeys()) {
    size_t dot = key.path.rfind('.');
    std::string name =
        dot == std::string::npos ? key.path : key.path.substr(dot + 1);
    if (name.size() < 8 || key.path.find('*') != std::string::npos)
      continue;
    std::string misspelt = key.path;
    std::swap(misspelt[misspelt.size() - 2], misspelt[misspelt.size() - 3]);
    if (misspelt == key.path)
      misspelt += "x";
    Diagnostic error = errorOf(documentWith(misspelt, 1));
    // Sections with free names take any key.
    if (key.path.rfind("expert_parallel.", 0) == 0)
      continue;
    EXPECT_EQ(error.code, "H0107") << misspelt << ": " << error.message;
    EXPECT_NE(error.help.find("did you mean"), std::string::npos) << misspelt;
  }
}

/// scripts/deepspeed_keys.py lists what two versions of DeepSpeed read; each
/// key has an answer here, also those that the newer one has retired.
TEST_F(ConfigTest, EveryKeyOfDeepSpeedIsKnown) {
  std::ifstream lines(HEDDLE_TEST_INPUTS "/deepspeed-keys.txt");
  json document = json::object();
  int keys = 0;
  for (std::string line; std::getline(lines, line); ++keys) {
    json *at = &document;
    std::istringstream path(line.substr(0, line.find(' ')));
    for (std::string name; std::getline(path, name, '.');)
      at = &(*at)[name];
  }
  EXPECT_GT(keys, 400);
  document["optimizer"]["type"] = "AdamW";
  std::ofstream(this->path) << document.dump(1);
  ResolvedSettings settings = mergeSettings({}, readDsConfig(this->path), {});
  for (const Diagnostic &problem : settings.problems)
    EXPECT_NE(problem.code, "H0107") << problem.message;
}
