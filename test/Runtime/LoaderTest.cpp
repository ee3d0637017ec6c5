//===- LoaderTest.cpp - Tests of reading a plan ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Loader.h"
#include "BigramPlan.h"
#include "Meshes.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::json;

static std::string codeOf(const std::string &text) {
  try {
    parsePlan(text, "test");
  } catch (const UserError &error) {
    return error.diagnostic.code;
  }
  return "";
}

static json goodPlan() {
  plan::Plan plan = test::makeBigramPlan();
  plan.hash = plan::computeHash(plan);
  return plan;
}

TEST(Loader, ReadsAPlan) { EXPECT_EQ(codeOf(goodPlan().dump()), ""); }

TEST(Loader, FindsDamage) {
  json changed = goodPlan();
  changed["seq"] = 17;
  EXPECT_EQ(codeOf(changed.dump()), "H0382");
  std::string text = goodPlan().dump();
  EXPECT_EQ(codeOf(text.substr(0, text.size() / 2)), "H0382");
}

TEST(Loader, RefusesAnotherFormat) {
  for (int64_t format : {int64_t(1), plan::formatVersion + 1}) {
    json other = goodPlan();
    other["format"] = format;
    if (format == 1)
      other.erase("format"); // As plans were before they had one.
    try {
      parsePlan(other.dump(), "old");
      FAIL();
    } catch (const UserError &error) {
      EXPECT_EQ(error.diagnostic.code, "H0383");
      EXPECT_EQ(error.diagnostic.message,
                "the plan in old has format " + std::to_string(format) +
                    "; this program reads format " +
                    std::to_string(plan::formatVersion));
    }
  }
}

TEST(Loader, FindsAnotherVersion) {
  json missing = goodPlan();
  missing["stages"][0].erase("memory");
  EXPECT_EQ(codeOf(missing.dump()), "H0383");
  json unknown = goodPlan();
  unknown["stages"][0]["states"][0]["type"] = "F8";
  EXPECT_EQ(codeOf(unknown.dump()), "H0383");
  json stages = goodPlan();
  stages["mesh"] = test::meshOf(2, 1);
  EXPECT_EQ(codeOf(stages.dump()), "H0383");
  json factor = goodPlan();
  plan::Mesh mesh = test::meshOf(1, 3);
  mesh.axes.push_back({"expert", 2, plan::AxisRole::Data, "data"});
  factor["mesh"] = mesh;
  EXPECT_EQ(codeOf(factor.dump()), "H0383");
}

TEST(Loader, RefusesFilesWithoutAPlan) {
  for (const char *path : {"/proc/self/exe", "/dev/null", "/no/such/file"}) {
    try {
      readBinary(path);
      FAIL() << path;
    } catch (const UserError &error) {
      EXPECT_EQ(error.diagnostic.code, "H0381");
    }
  }
}
