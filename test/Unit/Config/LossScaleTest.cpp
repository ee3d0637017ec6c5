//===- LossScaleTest.cpp - Settings of the loss scale -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/LossScale.h"
#include "ConfigFixture.h"

using namespace heddle;
using namespace heddle::config;

namespace {

class LossScaleTest : public ConfigTest {
protected:
  std::optional<LossScale> scaleOf(const Flags &flags) {
    return lossScaleOf(resolve("{}", flags).values);
  }
};

} // namespace

TEST_F(LossScaleTest, NoneByDefault) {
  EXPECT_FALSE(scaleOf({}));
  EXPECT_FALSE(scaleOf({{"--loss-scale", "none"}}));
  EXPECT_FALSE(scaleOf({{"--loss-scale", "dynamic"}, {"--mode", "serve"}}));
}

TEST_F(LossScaleTest, Dynamic) {
  std::optional<LossScale> scale = scaleOf({{"--loss-scale", "dynamic"}});
  ASSERT_TRUE(scale && scale->isDynamic());
  EXPECT_EQ(scale->initial, 65536);
  EXPECT_EQ(scale->window, 1000);
  EXPECT_EQ(scale->hysteresis, 2);
  EXPECT_EQ(scale->least, 1);
  EXPECT_FALSE(scale->isConsecutive);
  scale = scaleOf({{"--loss-scale", "dynamic"},
                   {"--loss-scale-initial", "256"},
                   {"--loss-scale-window", "7"},
                   {"--loss-scale-hysteresis", "3"},
                   {"--loss-scale-min", "0.5"}});
  EXPECT_EQ(scale->initial, 256);
  EXPECT_EQ(scale->window, 7);
  EXPECT_EQ(scale->hysteresis, 3);
  EXPECT_EQ(scale->least, 0.5);
}

// It is its own least scale, and may overflow ten times in a row.
TEST_F(LossScaleTest, Static) {
  std::optional<LossScale> scale = scaleOf({{"--loss-scale", "1e3"}});
  ASSERT_TRUE(scale && !scale->isDynamic());
  EXPECT_EQ(scale->initial, 1000);
  EXPECT_EQ(scale->least, 1000);
  EXPECT_EQ(scale->hysteresis, 11);
  EXPECT_TRUE(scale->isConsecutive);
}

TEST_F(LossScaleTest, BadValues) {
  for (const char *bad : {"0", "-1", "nan", "inf", "1e39", "x", "8x"})
    EXPECT_NE(errorOf("{}", {{"--loss-scale", bad}}).code, "") << bad;
  Diagnostic error = errorOf("{}", {{"--loss-scale", "dynamic"},
                                    {"--loss-scale-initial", "2"},
                                    {"--loss-scale-min", "4"}});
  EXPECT_EQ(error.code, "H0169");
  EXPECT_EQ(error.message, "the least loss scale 4 is above the first one, 2");
  EXPECT_NE(error.help.find("--loss-scale-min at most 2"), std::string::npos);
  // Only a dynamic scale has them.
  EXPECT_EQ(
      errorOf("{}", {{"--loss-scale", "8"}, {"--loss-scale-min", "1e6"}}).code,
      "");
}

TEST_F(LossScaleTest, NoteOfScalesThatRound) {
  auto note = [&](const char *scale) {
    return noteOfLossScale(resolve("{}", {{"--loss-scale", scale}}).values);
  };
  for (const char *exact : {"none", "1", "1024", "0.125", "dynamic"})
    EXPECT_EQ(note(exact), "") << exact;
  EXPECT_EQ(note("1000"),
            "the loss scale 1000 is no power of two, so gradients are rounded "
            "when they are scaled; 512 is the next smaller one");
}

// fp16 has a dynamic scale unless the user wants another one, or none.
TEST_F(LossScaleTest, Fp16) {
  std::optional<LossScale> scale = scaleOf({{"--precision", "fp16"}});
  ASSERT_TRUE(scale && scale->isDynamic());
  EXPECT_EQ(scale->initial, 65536);
  EXPECT_FALSE(scaleOf({{"--precision", "fp16"}, {"--loss-scale", "none"}}));
  EXPECT_FALSE(scaleOf({{"--precision", "fp16"}, {"--mode", "serve"}}));
  EXPECT_EQ(scaleOf({{"--precision", "fp16"}, {"--loss-scale", "8"}})->initial,
            8);
}

TEST_F(LossScaleTest, SectionOfDsConfig) {
  ResolvedSettings settings = resolve(R"({"bf16": {"enabled": false},
      "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 8,
               "loss_scale_window": 7, "hysteresis": 3, "auto_cast": true,
               "consecutive_hysteresis": true, "min_loss_scale": 2}})");
  EXPECT_EQ(settings.values.precision, Precision::FP16);
  std::optional<LossScale> scale = lossScaleOf(settings.values);
  ASSERT_TRUE(scale && scale->isDynamic());
  EXPECT_EQ(scale->initial, 256);
  EXPECT_EQ(scale->window, 7);
  EXPECT_EQ(scale->hysteresis, 3);
  EXPECT_EQ(scale->least, 2);
  EXPECT_TRUE(scale->isConsecutive);
  for (const char *key :
       {"enabled", "loss_scale", "initial_scale_power", "loss_scale_window",
        "hysteresis", "consecutive_hysteresis", "min_loss_scale"})
    EXPECT_EQ(verdictOn(std::string("fp16.") + key, settings), "applied")
        << key;
  EXPECT_EQ(verdictOn("fp16.auto_cast", settings), "no meaning here");
  scale = lossScaleOf(
      resolve(R"({"fp16": {"enabled": true, "loss_scale": 128}})").values);
  ASSERT_TRUE(scale && !scale->isDynamic());
  EXPECT_EQ(scale->initial, 128);
  // DeepSpeed's defaults, also where "auto" is the Trainer's choice.
  for (const char *enabled : {"true", "\"auto\""}) {
    scale = lossScaleOf(
        resolve(std::string(R"({"fp16": {"enabled": )") + enabled + "}}",
                {{"--precision", "fp16"}})
            .values);
    ASSERT_TRUE(scale && scale->isDynamic());
    EXPECT_EQ(scale->initial, 65536);
    EXPECT_EQ(scale->window, 1000);
  }
}

TEST_F(LossScaleTest, FlagsWinOverTheSection) {
  const char *section = R"({"fp16": {"enabled": true, "loss_scale": 128,
                                     "loss_scale_window": 7}})";
  ResolvedSettings settings = resolve(section, {{"--loss-scale", "dynamic"}});
  EXPECT_EQ(settings.values.lossScale, "dynamic");
  EXPECT_EQ(verdictOn("fp16.loss_scale", settings), "overridden");
  EXPECT_EQ(settings.values.lossScaleWindow, 7);
  settings = resolve(section, {{"--precision", "bf16"}});
  EXPECT_EQ(settings.values.precision, Precision::BF16);
  EXPECT_FALSE(lossScaleOf(settings.values));
  EXPECT_EQ(verdictOn("fp16.enabled", settings), "overridden");
}

TEST_F(LossScaleTest, BadValuesOfDsConfig) {
  for (const auto &[value, code] :
       std::vector<std::pair<const char *, const char *>>{
           {R"("loss_scale": -1)", "H0110"},
           {R"("loss_scale": "high")", "H0105"},
           {R"("initial_scale_power": 2000)", "H0110"},
           {R"("loss_scale_window": 0)", "H0110"},
           {R"("hysteresis": 0)", "H0110"},
           {R"("min_loss_scale": 0)", "H0110"},
           {R"("min_loss_scale": 131072)", "H0169"},
           {R"("fp16_master_weights_and_grads": true)", "H0108"},
           {R"("loss_scale_widow": 1000)", "H0107"}}) {
    Diagnostic error =
        errorOf(std::string(R"({"fp16": {"enabled": true, )") + value + "}}");
    EXPECT_EQ(error.code, code) << value;
    EXPECT_GT(error.location.column, 0) << value;
    EXPECT_FALSE(error.help.empty()) << value;
  }
}

// Without fp16 the section has no effect.
TEST_F(LossScaleTest, SectionThatIsOff) {
  for (const char *off :
       {R"({"fp16": {}})", R"({"fp16": {"enabled": false, "loss_scale": 8}})",
        R"({"fp16": {"loss_scale_window": 3}, "bf16": {"enabled": true}})",
        R"({"fp16": {"enabled": "auto", "hysteresis": 3}})"}) {
    ResolvedSettings settings = resolve(off);
    EXPECT_FALSE(lossScaleOf(settings.values)) << off;
    for (const char *key : {"loss_scale", "loss_scale_window", "hysteresis"})
      if (std::string verdict = verdictOn(std::string("fp16.") + key, settings);
          !verdict.empty())
        EXPECT_EQ(verdict, "no meaning here") << off << key;
  }
  EXPECT_EQ(errorOf(R"({"fp16": {"enabled": false, "loss_scales": 8}})").code,
            "H0107");
}

TEST_F(LossScaleTest, BothPrecisions) {
  Diagnostic error =
      errorOf(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})");
  EXPECT_EQ(error.code, "H0171");
  EXPECT_EQ(error.message, "\"fp16\" and \"bf16\" are both enabled");
  EXPECT_EQ(
      errorOf(R"({"bf16": {"enabled": true}, "fp16": {"enabled": false}})")
          .code,
      "");
}
