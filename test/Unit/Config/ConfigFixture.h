//===- ConfigFixture.h - A ds_config.json for each test ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_CONFIG_CONFIGFIXTURE_H
#define HEDDLE_TEST_UNIT_CONFIG_CONFIGFIXTURE_H

#include "heddle/Import/Settings.h"
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace heddle::config {

/// Writes a file with a name of its own, and removes it in the end.
class ConfigTest : public ::testing::Test {
protected:
  ConfigTest()
      : path(::testing::TempDir() + "heddle_config_" +
             std::to_string(getpid()) + ".json") {}
  ~ConfigTest() override { std::remove(path.c_str()); }

  ResolvedSettings resolve(const std::string &json, const Flags &flags = {}) {
    std::ofstream(path) << json;
    return resolveSettings(flags, path);
  }
  /// The error that the text gives; its code is "" when there is none.
  Diagnostic errorOf(const std::string &json, const Flags &flags = {}) {
    try {
      resolve(json, flags);
    } catch (const UserError &error) {
      return error.diagnostic;
    }
    return {};
  }
  /// The verdict on a key.
  std::string verdictOn(const std::string &key,
                        const ResolvedSettings &settings) {
    for (const ExplainRow &row : settings.rows)
      if (row.key == key)
        return row.verdict;
    return "";
  }
  std::string path;
};

} // namespace heddle::config

#endif // HEDDLE_TEST_UNIT_CONFIG_CONFIGFIXTURE_H
