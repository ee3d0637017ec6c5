//===- ProfileTest.cpp - Settings of the profile --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigFixture.h"

using namespace heddle;
using namespace heddle::config;

namespace {
class ProfileTest : public ConfigTest {};
} // namespace

TEST_F(ProfileTest, SectionOfDsConfig) {
  ResolvedSettings settings = resolve(
      R"({"flops_profiler": {"enabled": true, "profile_step": 4,
          "module_depth": 2, "top_modules": 3, "output_file": "p.json"}})");
  EXPECT_EQ(settings.values.profileStep, 4);
  EXPECT_EQ(settings.values.profileDepth, 2);
  EXPECT_EQ(settings.values.profileTop, 3);
  EXPECT_EQ(settings.values.profileFile, "p.json");
  for (const char *key : {"enabled", "profile_step", "module_depth",
                          "top_modules", "output_file"})
    EXPECT_EQ(verdictOn(std::string("flops_profiler.") + key, settings),
              "applied")
        << key;
}

TEST_F(ProfileTest, DefaultsAreDeepSpeeds) {
  Settings settings =
      resolve(R"({"flops_profiler": {"enabled": true, "output_file": null}})")
          .values;
  EXPECT_EQ(settings.profileStep, 1);
  EXPECT_EQ(settings.profileDepth, -1);
  EXPECT_EQ(settings.profileTop, 1);
  EXPECT_EQ(settings.profileFile, "");
}

TEST_F(ProfileTest, IsOffUnlessEnabled) {
  for (const char *off :
       {"{}", R"({"flops_profiler": {}})",
        R"({"flops_profiler": {"enabled": false, "profile_step": 4}})",
        R"({"flops_profiler": {"profile_step": 4}})"})
    EXPECT_EQ(resolve(off).values.profileStep, 0) << off;
  ResolvedSettings settings =
      resolve(R"({"flops_profiler": {"enabled": false, "profile_step": 4}})");
  EXPECT_EQ(verdictOn("flops_profiler.profile_step", settings),
            "no meaning here");
}

TEST_F(ProfileTest, RefusesWhatIsOutOfRange) {
  for (const char *bad :
       {R"({"flops_profiler": {"enabled": true, "profile_step": -1}})",
        R"({"flops_profiler": {"enabled": true, "module_depth": -2}})"})
    EXPECT_EQ(errorOf(bad).code, "H0110") << bad;
}

TEST_F(ProfileTest, ReportsOfDsConfig) {
  ResolvedSettings settings = resolve(
      R"({"wall_clock_breakdown": true, "memory_breakdown": true,
          "comms_logger": {"enabled": true, "verbose": false,
                           "prof_all": true, "debug": false}})");
  EXPECT_TRUE(settings.values.wallClockBreakdown);
  EXPECT_TRUE(settings.values.memoryBreakdown);
  EXPECT_TRUE(settings.values.commsLogger);
  for (const char *key :
       {"wall_clock_breakdown", "memory_breakdown", "comms_logger.enabled"})
    EXPECT_EQ(verdictOn(key, settings), "applied") << key;
  EXPECT_EQ(verdictOn("comms_logger.prof_all", settings), "no meaning here");
}

TEST_F(ProfileTest, ReportsAreOffByDefault) {
  for (const char *off :
       {"{}", R"({"wall_clock_breakdown": false, "memory_breakdown": false,
                  "comms_logger": {"enabled": false},
                  "activation_checkpointing": {"profile": false}})"}) {
    Settings settings = resolve(off).values;
    EXPECT_FALSE(settings.wallClockBreakdown) << off;
    EXPECT_FALSE(settings.memoryBreakdown) << off;
    EXPECT_FALSE(settings.commsLogger) << off;
  }
}

TEST_F(ProfileTest, ProfileOfCheckpointsIsTheBreakdown) {
  ResolvedSettings settings =
      resolve(R"({"activation_checkpointing": {"profile": true}})");
  EXPECT_TRUE(settings.values.wallClockBreakdown);
  EXPECT_EQ(verdictOn("activation_checkpointing.profile", settings), "applied");
}

TEST_F(ProfileTest, SuggestsMisspeltKeys) {
  struct {
    const char *text, *meant;
  } cases[] = {{R"({"wall_clock_breakdwn": true})", "wall_clock_breakdown"},
               {R"({"memory_breakdow": true})", "memory_breakdown"},
               {R"({"comms_loger": {"enabled": true}})", "comms_logger"},
               {R"({"comms_logger": {"enable": true}})", "enabled"},
               {R"({"flops_profiler": {"profile_steps": 3}})", "profile_step"}};
  for (const auto &each : cases) {
    Diagnostic error = errorOf(each.text);
    EXPECT_FALSE(error.code.empty()) << each.text;
    EXPECT_NE((error.message + error.help).find(each.meant), std::string::npos)
        << error.message << " | " << error.help;
  }
}

TEST_F(ProfileTest, Monitors) {
  ResolvedSettings settings = resolve(
      R"({"tensorboard": {"enabled": true, "output_path": "a/b"},
          "csv_monitor": {"enabled": true, "job_name": "c"}})");
  EXPECT_EQ(settings.values.logTensorboard, "a/b/DeepSpeedJobName");
  EXPECT_EQ(settings.values.logCsv, "c/log.csv");
  EXPECT_EQ(verdictOn("tensorboard.output_path", settings), "applied");
  for (const char *off :
       {R"({"tensorboard": {"enabled": false, "output_path": "a"}})",
        R"({"tensorboard": {"output_path": "a"}})"})
    EXPECT_EQ(resolve(off).values.logTensorboard, "") << off;
}
