//===- DsConfigTest.cpp - Values of a ds_config.json ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigFixture.h"
#include "heddle/Settings/LearningRate.h"
#include <nlohmann/json.hpp>
#include <sstream>

using namespace heddle;
using namespace heddle::config;
using nlohmann::json;

TEST_F(ConfigTest, AdamIsDecoupledUnlessItsModeSaysNo) {
  EXPECT_TRUE(resolve(R"({"optimizer": {"type": "Adam"}})").values.decoupled);
  EXPECT_FALSE(
      resolve(
          R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}})")
          .values.decoupled);
  // AdamW always decouples, whatever the key says.
  EXPECT_TRUE(
      resolve(
          R"({"optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}}})")
          .values.decoupled);
}

TEST_F(ConfigTest, OptimizerParameters) {
  Settings values =
      resolve(R"({"optimizer": {"type": "adamw", "params": {"lr": 3e-4,
                "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1}}})")
          .values;
  EXPECT_EQ(values.optimizer, Optimizer::AdamW);
  EXPECT_DOUBLE_EQ(values.lr, 3e-4);
  EXPECT_DOUBLE_EQ(values.beta1, 0.8);
  EXPECT_DOUBLE_EQ(values.beta2, 0.95);
  EXPECT_DOUBLE_EQ(values.eps, 1e-6);
  EXPECT_DOUBLE_EQ(values.weightDecay, 0.1);
}

TEST_F(ConfigTest, WeightDecayLeftOut) {
  // DeepSpeed's own Adam has 0, torch.optim.AdamW 0.01, and no section at all
  // means torch.optim.AdamW.
  EXPECT_EQ(resolve(R"({"optimizer": {"type": "AdamW"}})").values.weightDecay,
            0);
  EXPECT_EQ(
      resolve(
          R"({"optimizer": {"type": "AdamW", "params": {"torch_adam": true}}})")
          .values.weightDecay,
      0.01);
  EXPECT_EQ(resolve("{}").values.weightDecay, 0.01);
}

TEST_F(ConfigTest, ClippingLeftOutIsOne) {
  EXPECT_EQ(resolve("{}").values.gradientClipping, 1.0);
  EXPECT_EQ(resolve(R"({"gradient_clipping": 0})").values.gradientClipping, 0);
  EXPECT_EQ(resolve(R"({"gradient_clipping": "auto"})").values.gradientClipping,
            1.0);
  EXPECT_EQ(errorOf(R"({"gradient_clipping": -1})").code, "H0110");
}

TEST_F(ConfigTest, Precision) {
  EXPECT_EQ(resolve(R"({"bf16": {"enabled": true}})").values.precision,
            Precision::BF16);
  EXPECT_EQ(resolve(R"({"bfloat16": {"enabled": true}})").values.precision,
            Precision::BF16);
  EXPECT_EQ(resolve(R"({"bf16": {"enabled": "auto"}})").values.precision,
            Precision::FP32);
  const std::string both = R"({"bf16": {"enabled": true}, "bfloat16": )";
  EXPECT_EQ(errorOf(both + R"({"enabled": true}})").code, "");
  EXPECT_EQ(errorOf(both + R"({"enabled": false}})").code, "H0104");
  EXPECT_EQ(errorOf(R"({"zero_optimization": {"stage3_max_reuse_distance": 1,
                        "max_reuse_distance": 2}})")
                .code,
            "H0104");
  Flags flags;
  flags["--precision"] = "fp16";
  EXPECT_EQ(resolve("{}", flags).values.precision, Precision::FP16);
}

namespace {

/// Every key that the Trainer's arguments fill is open.
constexpr const char *openConfig = R"({
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto",
    "eps": "auto", "weight_decay": "auto", "torch_adam": true}},
  "scheduler": {"type": "WarmupDecayLR", "params": {
    "total_num_steps": "auto", "warmup_min_lr": "auto",
    "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
  "bf16": {"enabled": "auto"}})";

} // namespace

TEST_F(ConfigTest, FlagsFillWhatIsAuto) {
  Flags flags;
  flags["--lr"] = "3e-4";
  flags["--betas"] = "0.8,0.95";
  flags["--eps"] = "1e-6";
  flags["--weight-decay"] = "0.1";
  flags["--warmup-steps"] = "10";
  flags["--train-steps"] = "100";
  flags["--batch"] = "8";
  ResolvedSettings settings = resolve(openConfig, flags);
  EXPECT_EQ(settings.values.lr, 3e-4);
  EXPECT_EQ(settings.values.beta1, 0.8);
  EXPECT_EQ(settings.values.beta2, 0.95);
  EXPECT_EQ(settings.values.eps, 1e-6);
  EXPECT_EQ(settings.values.weightDecay, 0.1);
  EXPECT_EQ(settings.values.microBatch, 8);
  EXPECT_EQ(json::parse(settings.values.schedulerParams),
            json::parse(R"({"total_num_steps": 100, "warmup_num_steps": 10,
                "warmup_min_lr": 0.0, "warmup_max_lr": 0.0003,
                "warmup_type": "log"})"));
  EXPECT_EQ(warnOfAuto(settings),
            "no flag fills \"auto\": scheduler.params.warmup_min_lr = 0.0, "
            "gradient_accumulation_steps = 1, bf16.enabled = fp32, "
            "gradient_clipping = 1.0 (the defaults of Hugging Face's Trainer)");
}

TEST_F(ConfigTest, WhatNothingFillsIsTheTrainers) {
  Flags flags;
  flags["--train-steps"] = "100";
  ResolvedSettings settings = resolve(openConfig, flags);
  EXPECT_EQ(settings.values.lr, 5e-5);
  EXPECT_EQ(settings.values.weightDecay, 0);
  EXPECT_EQ(settings.values.beta2, 0.999);
  EXPECT_EQ(settings.values.batch, 8);
  EXPECT_EQ(settings.values.gradientClipping, 1.0);
  json params = json::parse(settings.values.schedulerParams);
  EXPECT_EQ(params["warmup_num_steps"], 0);
  EXPECT_EQ(params["warmup_max_lr"], 5e-5);
  std::string warning = warnOfAuto(settings);
  EXPECT_EQ(warning.find('\n'), std::string::npos);
  for (const char *part :
       {"optimizer.params.lr = 5e-05", "optimizer.params.betas = 0.9,0.999",
        "optimizer.params.eps = 1e-08", "optimizer.params.weight_decay = 0.0",
        "scheduler.params.warmup_num_steps = 0",
        "train_micro_batch_size_per_gpu = 8"})
    EXPECT_NE(warning.find(part), std::string::npos) << part << "\n" << warning;
  EXPECT_EQ(errorOf(openConfig).code, "H0112");
  EXPECT_EQ(warnOfAuto(resolve("{}")), "");
}

TEST_F(ConfigTest, FlagsOverrideOptimizerAndSchedule) {
  Flags flags;
  flags["--lr"] = "1e-2";
  flags["--weight-decay"] = "0.5";
  flags["--warmup-steps"] = "7";
  const std::string given =
      R"({"optimizer": {"type": "AdamW", "params": {"lr": 1, "weight_decay": 1}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1,
                        "warmup_num_steps": 3}}})";
  ResolvedSettings settings = resolve(given, flags);
  EXPECT_EQ(settings.values.lr, 1e-2);
  EXPECT_EQ(settings.values.weightDecay, 0.5);
  json params = json::parse(settings.values.schedulerParams);
  EXPECT_EQ(params["warmup_max_lr"], 1e-2);
  EXPECT_EQ(params["warmup_num_steps"], 7);
  EXPECT_EQ(verdictOn("optimizer.params.lr", settings), "overridden");
  EXPECT_EQ(verdictOn("scheduler.params.warmup_num_steps", settings),
            "overridden");
  flags["--train-steps"] = "9";
  EXPECT_EQ(errorOf(given, flags).code, "H0123");
  // Without a schedule they make the Trainer's.
  settings = resolve("{}", flags);
  EXPECT_EQ(settings.values.scheduler, Scheduler::WarmupDecayLR);
  EXPECT_EQ(json::parse(settings.values.schedulerParams),
            json::parse(R"({"total_num_steps": 9, "warmup_num_steps": 7,
                "warmup_min_lr": 0.0, "warmup_max_lr": 0.01,
                "warmup_type": "linear"})"));
}

TEST_F(ConfigTest, AllErrorsAtOnce) {
  const std::string text = R"({
  "train_batch_size": "4",
  "gradient_clipp1ng": 1.0,
  "amp": {"enabled": true},
  "zero_optimization": {"stage": 7, "stage": 2, "overlap": true},
  "optimizer": {"type": "AdamW", "params": {"lr": -1, "beta": 1}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": -1,
                "warmup_type": "cubic"}}
})";
  std::vector<std::string> found;
  try {
    resolve(text);
  } catch (const ConfigErrors &errors) {
    for (const Diagnostic &error : errors.all)
      found.push_back(std::to_string(error.location.line) + " " + error.code);
  }
  std::vector<std::string> expected = {
      "2 H0105", "3 H0107", "4 H0108", "5 H0110", "5 H0104",
      "5 H0107", "6 H0110", "6 H0107", "7 H0110", "8 H0110"};
  EXPECT_EQ(found, expected);
}

TEST_F(ConfigTest, ASpoiltBatchSizeIsNotAlsoAContradiction) {
  auto count = [&](const std::string &text) {
    try {
      resolve(text);
    } catch (const ConfigErrors &errors) {
      return errors.all.size();
    }
    return size_t(0);
  };
  const std::string rest =
      R"(, "train_micro_batch_size_per_gpu": 3, "train_batch_size": 32})";
  EXPECT_EQ(count(R"({"gradient_accumulation_steps": "8")" + rest), 1u);
  EXPECT_EQ(count(R"({"gradient_accumulation_step": 8)" + rest), 1u);
  EXPECT_EQ(count(R"({"gradient_accumulation_steps": 8)" + rest), 1u);
  EXPECT_EQ(count(R"({"gradient_clip": 8)" + rest), 2u);
}

TEST_F(ConfigTest, Base64InPlaceOfAFile) {
  EXPECT_EQ(
      resolveSettings({}, "eyJ0cmFpbl9iYXRjaF9zaXplIjogNH0=").values.batch, 4);
  try {
    // {"~~\x7F?": 1}, with both letters of the urlsafe alphabet.
    resolveSettings({}, "eyJ-fn8_IjogMX0");
    ADD_FAILURE();
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0107");
    EXPECT_EQ(error.diagnostic.location.file, "base64 of --config");
    EXPECT_EQ(error.diagnostic.location.column, 2);
  }
  try {
    resolveSettings({}, "no-such-file");
    ADD_FAILURE();
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0101");
  }
}

TEST_F(ConfigTest, TablesFitTheLine) {
  ResolvedSettings settings = resolve(
      R"({"zero_optimization": {"stage": 3,
          "stage3_param_persistence_threshold": 100000,
          "stage3_gather_16bit_weights_on_model_save": true},
          "optimizer": {"type": "AdamW", "params": {"amsgrad": false}},
          "scheduler": {"type": "WarmupDecayLR",
                        "params": {"total_num_steps": 100}}})");
  for (size_t width : {40, 60, 80, 200})
    for (bool all : {false, true}) {
      std::istringstream lines(explainSettings(settings, {width, all}));
      for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), width) << line;
    }
  EXPECT_EQ(explainSettings(settings, {80, false}).find("amsgrad"),
            std::string::npos);
  EXPECT_NE(explainSettings(settings, {200, true})
                .find("amsgrad is off: nothing to do"),
            std::string::npos);
}

TEST_F(ConfigTest, SchedulesCarryAllTheirParameters) {
  Settings values = resolve(R"({"scheduler": {"type": "WarmupDecayLR", "params":
      {"total_num_steps": 100, "warmup_num_steps": 10,
       "warmup_max_lr": "auto"}}})")
                        .values;
  EXPECT_EQ(values.scheduler, Scheduler::WarmupDecayLR);
  EXPECT_EQ(json::parse(values.schedulerParams),
            json::parse(R"({"total_num_steps": 100, "warmup_num_steps": 10,
                "warmup_min_lr": 0.0, "warmup_max_lr": 5e-5,
                "warmup_type": "log"})"));
  std::string wrong;
  std::optional<plan::Scheduler> read = readScheduler(values, wrong);
  ASSERT_TRUE(read) << wrong;
  EXPECT_EQ(read->type, plan::RateSchedule::WarmupDecayLR);
  using P = plan::RateParameter;
  EXPECT_EQ(read->parameters, (std::map<P, double>{{P::TotalNumSteps, 100},
                                                   {P::WarmupMaxLr, 5e-5},
                                                   {P::WarmupMinLr, 0},
                                                   {P::WarmupNumSteps, 10},
                                                   {P::WarmupType, 0}}));
  for (const char *params : {R"({"warmup_num_steps": "five"})", "{}",
                             R"({"total_num_steps": 9, "first": 1})"}) {
    values.schedulerParams = params;
    EXPECT_FALSE(readScheduler(values, wrong)) << params;
  }
  // The peak of WarmupLR left out is the optimizer's rate.
  values = resolve(R"({"scheduler": {"type": "WarmupLR"}})").values;
  EXPECT_FALSE(json::parse(values.schedulerParams).contains("warmup_max_lr"));
  EXPECT_EQ(resolve(R"({"scheduler": {"type": null}})").values.scheduler,
            Scheduler::None);
}

TEST_F(ConfigTest, SchedulesThatAreRefused) {
  EXPECT_EQ(errorOf(R"({"scheduler": {"type": "WarmupCosinLR"}})").help,
            "did you mean \"WarmupCosineLR\"?");
  EXPECT_EQ(errorOf(R"({"scheduler": {"type": "WarmupCosineLR"}})").code,
            "H0106");
  EXPECT_EQ(errorOf(R"({"scheduler": {"type": "WarmupLR", "params":
                {"total_num_steps": 3}}})")
                .code,
            "H0107");
  EXPECT_EQ(errorOf(R"({"scheduler": {"type": "WarmupLR", "params":
                {"warmup_type": "cubic"}}})")
                .code,
            "H0110");
  EXPECT_EQ(errorOf(R"({"scheduler": {"type": "WarmupLR", "params":
                {"last_batch_iteration": 7}}})")
                .code,
            "H0108");
  const std::string cycle =
      R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-4,
          "cycle_max_lr": 1e-3)";
  EXPECT_EQ(errorOf(cycle + "}}}").code, "H0108");
  EXPECT_EQ(errorOf(cycle + R"(, "cycle_momentum": false}}})").code, "");
}

TEST_F(ConfigTest, ZeroStages) {
  EXPECT_EQ(resolve(R"({"zero_optimization": {"stage": 3}})").values.zero, 3);
  EXPECT_EQ(resolve(R"({"zero_optimization": true})").values.zero, 1);
  EXPECT_EQ(errorOf(R"({"zero_optimization": {"stage": 4}})").code, "H0110");
  EXPECT_EQ(resolve(R"({"zero_optimization":
                        {"stage": 3, "offload_param": {"device": "nvme"}}})")
                .values.placeParameters,
            MemoryKind::File);
}

TEST_F(ConfigTest, SizesOfTheMesh) {
  Settings values = resolve(R"({"tensor_parallel": {"autotp_size": 4},
                                "pipeline": {"stages": 2},
                                "sequence_parallel_size": 2})")
                        .values;
  EXPECT_EQ(values.tensor, 4);
  EXPECT_EQ(values.pipe, 2);
  EXPECT_EQ(values.sequence, 2);
  values = resolve(R"({"tensor_parallel": {"autotp_size": 0},
                       "pipeline": {"stages": "auto"},
                       "sequence_parallel_size": 1})")
               .values;
  EXPECT_EQ(values.tensor * values.pipe * values.sequence, 1);
  EXPECT_EQ(
      resolve(R"({"tensor_parallel": {"tp": {"tp_size": 2}}})").values.tensor,
      2);
  EXPECT_EQ(
      errorOf(R"({"tensor_parallel": {"tp_size": 2, "autotp_size": 4}})").code,
      "H0104");
  EXPECT_EQ(errorOf(R"({"pipeline": {"stages": 0}})").code, "H0110");
  Flags flags;
  flags["--mesh"] = "tensor=2";
  ResolvedSettings settings =
      resolve(R"({"tensor_parallel": {"autotp_size": 4}})", flags);
  EXPECT_EQ(settings.values.tensor, 2);
  EXPECT_EQ(verdictOn("tensor_parallel.autotp_size", settings), "overridden");
}

TEST_F(ConfigTest, TypesOfCommunication) {
  EXPECT_EQ(resolve("{}").values.communicationType, CommunicationType::None);
  EXPECT_EQ(resolve(R"({"communication_data_type": "FP16"})")
                .values.communicationType,
            CommunicationType::FP16);
  EXPECT_EQ(resolve(R"({"communication_data_type": "bfp16"})")
                .values.communicationType,
            CommunicationType::BF16);
  EXPECT_EQ(errorOf(R"({"communication_data_type": "fp8"})").code, "H0114");
  // With sequence parallelism the type has a key of its own, and fp32 is its
  // default.
  ResolvedSettings settings = resolve(
      R"({"sequence_parallel_size": 2, "communication_data_type": "bf16"})");
  EXPECT_EQ(settings.values.communicationType, CommunicationType::FP32);
  EXPECT_EQ(verdictOn("communication_data_type", settings), "overridden");
  EXPECT_EQ(verdictOn("sequence_parallel_size", settings), "applied");
  EXPECT_EQ(resolve(R"({"sequence_parallel_size": 2,
                        "seq_parallel_communication_data_type": "bf16"})")
                .values.communicationType,
            CommunicationType::BF16);
  settings = resolve(R"({"seq_parallel_communication_data_type": "bf16"})");
  EXPECT_EQ(settings.values.communicationType, CommunicationType::None);
  EXPECT_EQ(verdictOn("seq_parallel_communication_data_type", settings),
            "no meaning here");
}

TEST_F(ConfigTest, IntegersMayBeWrittenAsFloats) {
  EXPECT_EQ(resolve(R"({"train_batch_size": 8.0})").values.batch, 8);
  EXPECT_EQ(errorOf(R"({"train_batch_size": 8.5})").code, "H0105");
  EXPECT_EQ(errorOf(R"({"train_batch_size": true})").code, "H0105");
  EXPECT_EQ(errorOf(R"({"train_batch_size": null})").code, "H0105");
}

TEST_F(ConfigTest, FlagsOverrideTheFile) {
  Flags flags;
  flags["--precision"] = "fp32";
  ResolvedSettings settings = resolve(R"({"bf16": {"enabled": true}})", flags);
  EXPECT_EQ(settings.values.precision, Precision::FP32);
  EXPECT_EQ(verdictOn("bf16.enabled", settings), "overridden");
  EXPECT_EQ(settings.origins.at("precision").describe(), "flag --precision");
}

TEST_F(ConfigTest, DocumentsThatAreNoObject) {
  EXPECT_EQ(errorOf("[]").code, "H0105");
  EXPECT_EQ(errorOf("").code, "H0102");
  EXPECT_EQ(errorOf("{} {}").code, "H0102");
}

TEST_F(ConfigTest, InfinityIsNoLimit) {
  ResolvedSettings settings = resolve(R"({
    "gradient_clipping": Infinity,
    "zero_optimization": {"stage": 3, "stage3_max_live_parameters": Infinity,
      "stage3_param_persistence_threshold": 1e5,
      "reduce_bucket_size": Infinity}})");
  EXPECT_EQ(settings.values.gradientClipping, 0.0);
  EXPECT_EQ(settings.values.maxLiveParameters, Settings::noLimit);
  for (const ExplainRow &row : settings.rows)
    if (row.key == "gradient_clipping") {
      EXPECT_EQ(row.value, "Infinity");
    }
  for (const char *text :
       {R"({"train_batch_size": Infinity})",
        R"({"gradient_clipping": -Infinity})",
        R"({"optimizer": {"type": "AdamW", "params": {"lr": Infinity}}})",
        R"({"scheduler": {"type": "WarmupLR",
            "params": {"warmup_max_lr": Infinity}}})"}) {
    Diagnostic error = errorOf(text);
    EXPECT_TRUE(error.code == "H0105" || error.code == "H0110") << error.code;
    EXPECT_GT(error.location.column, 1) << text;
  }
  // A word is a number in its place alone.
  EXPECT_EQ(errorOf(R"({"Infinity": 1})").code, "H0107");
  for (const char *word : {"Infinite", "NaN"})
    EXPECT_EQ(
        errorOf(std::string("{\"gradient_clipping\": ") + word + "}").code,
        "H0102");
}

TEST_F(ConfigTest, ThePrecisionOfTheCommandLineWins) {
  for (const char *section : {"amp", "torch_autocast"}) {
    std::string text =
        std::string("{\"") + section + "\": {\"enabled\": true}}";
    Diagnostic error = errorOf(text);
    EXPECT_EQ(error.code, "H0108") << section;
    EXPECT_NE(error.help.find("--precision"), std::string::npos) << error.help;
    ResolvedSettings settings = resolve(text, {{"--precision", "bf16"}});
    EXPECT_EQ(settings.values.precision, Precision::BF16);
    EXPECT_EQ(verdictOn(section, settings), "overridden");
  }
}

/// The errors of a file, by code.
static std::vector<std::string> codesOf(const ResolvedSettings &settings) {
  std::vector<std::string> codes;
  for (const Diagnostic &problem : settings.problems)
    codes.push_back(problem.code);
  return codes;
}

TEST_F(ConfigTest, AForeignOptimizerIsOneError) {
  std::ofstream(path) << R"({
    "optimizer": {"type": "SGD",
      "params": {"lr": 0.1, "momentum": 0.9, "nesterov": true, "betas": 1}},
    "scheduler": {"type": "Cosine", "params": {"steps": 1, "floor": 2}}})";
  ResolvedSettings settings = mergeSettings({}, readDsConfig(path), {});
  EXPECT_EQ(codesOf(settings), (std::vector<std::string>{"H0111", "H0111"}));
  EXPECT_EQ(verdictOn("optimizer.params.momentum", settings),
            "no meaning here");
  EXPECT_EQ(verdictOn("optimizer.params.lr", settings), "no meaning here");
  std::ofstream(path) << R"({
    "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}})";
  settings = mergeSettings({{"--optimizer", "Lion"}}, readDsConfig(path), {});
  EXPECT_EQ(codesOf(settings), std::vector<std::string>());
  EXPECT_EQ(settings.values.optimizer, Optimizer::Lion);
  EXPECT_EQ(verdictOn("optimizer.type", settings), "overridden");
}

/// What is refused is not called applied above.
TEST_F(ConfigTest, WhatIsRefusedIsNotApplied) {
  std::ofstream(path) << R"({"gradient_clipping": -1,
    "train_batch_size": 8, "train_micro_batch_size_per_gpu": 3,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 2], "eps": -1}},
    "zero_optimization": {"stage": 7, "sub_group_size": 1000,
      "stage3_max_live_parameters": 5, "max_live_parameters": 6}})";
  ResolvedSettings settings = mergeSettings({}, readDsConfig(path), {});
  for (const char *key :
       {"gradient_clipping", "train_batch_size",
        "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
        "optimizer.params.betas", "optimizer.params.eps",
        "zero_optimization.stage", "zero_optimization.max_live_parameters"})
    EXPECT_EQ(verdictOn(key, settings), "refused") << key;
  EXPECT_EQ(verdictOn("zero_optimization.sub_group_size", settings), "applied");
}

TEST_F(ConfigTest, AliasesOfOffload) {
  ResolvedSettings settings = resolve(
      R"({"zero_optimization": {"stage": 3, "cpu_offload_param": true}})",
      {{"--target", "sm_80"}});
  EXPECT_EQ(settings.values.placeParameters, MemoryKind::Host);
  settings = resolve(R"({"zero_optimization": {"cpu_offload_param": false}})");
  EXPECT_EQ(verdictOn("zero_optimization.cpu_offload_param", settings),
            "no meaning here");
}

TEST_F(ConfigTest, GroupsOfCodesHaveAFlag) {
  Flags flags = {{"--mode", "serve"}, {"--quantize", "int4"}};
  for (const char *flag : {"--quantize-group", "--group"}) {
    Flags asked = flags;
    asked[flag] = "32";
    EXPECT_EQ(resolve("{}", asked).values.quantizeGroup, 32) << flag;
  }
  flags["--group"] = "32";
  flags["--quantize-group"] = "64";
  EXPECT_EQ(errorOf("{}", flags).code, "H0114");
}
