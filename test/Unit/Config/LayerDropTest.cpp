//===- LayerDropTest.cpp - Settings of layer dropping ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/LayerDrop.h"
#include "ConfigFixture.h"
#include "heddle/Import/Parallel.h"

using namespace heddle;
using namespace heddle::config;

namespace {

class LayerDropTest : public ConfigTest {
protected:
  /// The error for a model of 4 layers. Its code is "" if there is none.
  Diagnostic errorWith(const Flags &flags, const std::string &json = "{}") {
    try {
      checkLayerDrop(resolve(json, flags), 4);
    } catch (const UserError &error) {
      return error.diagnostic;
    }
    return {};
  }
  /// The drop rates of the layers.
  static std::vector<double> ratesOf(const Settings &settings, int64_t layers) {
    std::vector<LayerDrop> drops;
    EXPECT_EQ(layerDrops(settings, layers, drops), "");
    std::vector<double> rates;
    for (const LayerDrop &drop : drops)
      rates.push_back(drop.rate);
    return rates;
  }
};

constexpr const char *section =
    R"({"progressive_layer_drop": {"enabled": true, "theta": 0.25,
                                   "gamma": 0.5}})";

} // namespace

TEST_F(LayerDropTest, NothingIsDroppedByDefault) {
  Settings settings = resolve("{}").values;
  EXPECT_FALSE(dropsLayers(settings));
  EXPECT_TRUE(ratesOf(settings, 4).empty());
}

TEST_F(LayerDropTest, ThetaAndGammaByFlag) {
  struct Case {
    const char *text;
    double theta, gamma;
  };
  for (const Case &each :
       {Case{"theta=0.25,gamma=0.5", 0.25, 0.5}, Case{"gamma=0,theta=1", 1, 0},
        Case{"theta=0.25", 0.25, 0.001}, Case{"gamma=0.5", 0.5, 0.5}}) {
    Settings settings = resolve("{}", {{"--layer-drop", each.text}}).values;
    EXPECT_EQ(settings.layerDropTheta, each.theta) << each.text;
    EXPECT_EQ(settings.layerDropGamma, each.gamma) << each.text;
    EXPECT_EQ(dropsLayers(settings), each.theta < 1) << each.text;
  }
  for (const char *bad :
       {"", "0.5", "theta", "theta=", "theta=0", "theta=-0.5", "theta=1.5",
        "theta=nan", "theta=x", "gamma=-1", "gamma=inf", "theta=0.5,theta=0.5",
        "theta=0.5,", "theta=0.5,rate=1", "theta=0.5 gamma=1"}) {
    Diagnostic error = errorOf("{}", {{"--layer-drop", bad}});
    EXPECT_EQ(error.code, "H0114") << bad;
    EXPECT_NE(error.help.find("theta=0.5,gamma=0.001"), std::string::npos);
  }
}

TEST_F(LayerDropTest, SectionOfDsConfig) {
  ResolvedSettings settings = resolve(section);
  EXPECT_EQ(settings.values.layerDropTheta, 0.25);
  EXPECT_EQ(settings.values.layerDropGamma, 0.5);
  for (const char *key : {"enabled", "theta", "gamma"})
    EXPECT_EQ(verdictOn(std::string("progressive_layer_drop.") + key, settings),
              "applied")
        << key;
  settings = resolve(section, {{"--layer-drop", "theta=0.75"}});
  EXPECT_EQ(settings.values.layerDropTheta, 0.75);
  EXPECT_EQ(settings.values.layerDropGamma, 0.001);
  EXPECT_EQ(verdictOn("progressive_layer_drop.theta", settings), "overridden");
}

TEST_F(LayerDropTest, DefaultsOfDsConfigAreDeepSpeeds) {
  ResolvedSettings settings =
      resolve(R"({"progressive_layer_drop": {"enabled": true}})");
  EXPECT_EQ(settings.values.layerDropTheta, 0.5);
  EXPECT_EQ(settings.values.layerDropGamma, 0.001);
  for (const char *off :
       {R"({"progressive_layer_drop": {}})",
        R"({"progressive_layer_drop": {"theta": 0.25}})",
        R"({"progressive_layer_drop": {"enabled": false, "theta": 0.25}})"}) {
    settings = resolve(off);
    EXPECT_FALSE(dropsLayers(settings.values)) << off;
    for (const ExplainRow &row : settings.rows)
      EXPECT_EQ(row.verdict, "no meaning here") << off << row.key;
  }
}

TEST_F(LayerDropTest, BadValuesOfDsConfig) {
  for (const auto &[value, code] :
       std::vector<std::pair<const char *, const char *>>{
           {R"("theta": 0)", "H0110"},
           {R"("theta": 1.5)", "H0110"},
           {R"("theta": "half")", "H0105"},
           {R"("gamma": -0.001)", "H0110"},
           {R"("gamma": Infinity)", "H0105"},
           {R"("gama": 1)", "H0107"}}) {
    Diagnostic error = errorOf(
        std::string(R"({"progressive_layer_drop": {"enabled": true, )") +
        value + "}}");
    EXPECT_EQ(error.code, code) << value;
    EXPECT_GT(error.location.column, 0) << value;
    EXPECT_FALSE(error.help.empty()) << value;
  }
}

TEST_F(LayerDropTest, ProgressiveRates) {
  Settings settings = resolve(section).values;
  std::vector<LayerDrop> drops;
  ASSERT_EQ(layerDrops(settings, 4, drops), "");
  ASSERT_EQ(drops.size(), 4u);
  for (size_t i = 0; i < drops.size(); ++i) {
    EXPECT_EQ(drops[i].rate, double(i + 1) / 4);
    EXPECT_TRUE(drops[i].isProgressive);
    EXPECT_EQ(drops[i].theta, 0.25);
    EXPECT_EQ(drops[i].gamma, 0.5);
  }
}

TEST_F(LayerDropTest, ConstantRates) {
  auto rates = [&](const char *schedule) {
    return ratesOf(resolve("{}", {{"--layer-drop-schedule", schedule}}).values,
                   3);
  };
  EXPECT_EQ(rates("0.5"), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(rates("0.0,0.05,1e-1"), (std::vector<double>{0, 0.05, 0.1}));
  for (const char *bad :
       {"1", "0.5,1.0", "-0.1", "nan", "x", "0.1,", ",0.1", "0.1, 0.2"}) {
    Diagnostic error = errorOf("{}", {{"--layer-drop-schedule", bad}});
    EXPECT_EQ(error.code, "H0110") << bad;
    EXPECT_NE(error.help.find("0.0,0.05,0.1"), std::string::npos) << bad;
    // A text that did not pass the readers, as in an edited dump.
    Settings settings;
    settings.layerDropSchedule = bad;
    std::vector<LayerDrop> drops;
    EXPECT_EQ(layerDrops(settings, 3, drops).substr(0, 7), "H0110: ") << bad;
  }
}

TEST_F(LayerDropTest, NumberOfRatesIsThatOfLayers) {
  EXPECT_EQ(errorWith({{"--layer-drop-schedule", "0.1"}}).code, "");
  EXPECT_EQ(errorWith({{"--layer-drop-schedule", "0.1,0,0,0.2"}}).code, "");
  Diagnostic error = errorWith({{"--layer-drop-schedule", "0.1,0,0"}});
  EXPECT_EQ(error.code, "H0157");
  EXPECT_EQ(error.message, "the model has 4 layers, and --layer-drop-schedule "
                           "gives 3 drop rates");
  EXPECT_EQ(error.help, "give one rate for all layers, or 4");
  // The number of layers is not known.
  EXPECT_NO_THROW(
      checkLayerDrop(resolve("{}", {{"--layer-drop-schedule", "0.1,0,0"}}), 0));
}

TEST_F(LayerDropTest, BothForms) {
  Flags flags = {{"--layer-drop-schedule", "0.1"}};
  Diagnostic error = errorWith(flags, section);
  EXPECT_EQ(error.code, "H0156");
  EXPECT_EQ(error.location.line, 1);
  EXPECT_EQ(error.help, "leave out one of them");
  flags["--layer-drop"] = "theta=0.5";
  EXPECT_EQ(errorWith(flags).code, "H0156");
  // A theta of 1 drops no layer.
  flags["--layer-drop"] = "theta=1";
  EXPECT_EQ(errorWith(flags).code, "");
}

TEST_F(LayerDropTest, WhatDoesNotTrainDropsNothing) {
  for (const char *mode : {"serve", "encode"}) {
    Flags flags = {{"--mode", mode}, {"--layer-drop", "theta=0.5"}};
    ResolvedSettings settings = resolve("{}", flags);
    EXPECT_FALSE(dropsLayers(settings.values));
    EXPECT_EQ(warnOfMode(settings),
              "--layer-drop without effect: the binary does not train");
    flags = {{"--mode", mode}, {"--layer-drop-schedule", "0.5"}};
    EXPECT_EQ(
        warnOfMode(resolve("{}", flags)),
        "--layer-drop-schedule without effect: the binary does not train");
    EXPECT_NE(explainSettings(resolve(section, {{"--mode", mode}}), {200, true})
                  .find("the binary does not train"),
              std::string::npos);
  }
}
