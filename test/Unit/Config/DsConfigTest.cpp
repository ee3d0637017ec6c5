//===- DsConfigTest.cpp - Values of a ds_config.json ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigFixture.h"
#include <nlohmann/json.hpp>

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
  EXPECT_EQ(values.optimizer, "AdamW");
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
  EXPECT_EQ(resolve(R"({"bf16": {"enabled": true}})").values.precision, "bf16");
  EXPECT_EQ(resolve(R"({"bfloat16": {"enabled": true}})").values.precision,
            "bf16");
  EXPECT_EQ(resolve(R"({"bf16": {"enabled": "auto"}})").values.precision,
            "fp32");
  EXPECT_EQ(errorOf(R"({"bf16": {"enabled": true},
                        "bfloat16": {"enabled": true}})")
                .code,
            "H0104");
  Flags flags;
  flags.precision = "fp16";
  EXPECT_EQ(errorOf("{}", flags).code, "H0108");
}

TEST_F(ConfigTest, SchedulesCarryAllTheirParameters) {
  Settings values = resolve(R"({"scheduler": {"type": "WarmupDecayLR", "params":
      {"total_num_steps": 100, "warmup_num_steps": 10,
       "warmup_max_lr": "auto"}}})")
                        .values;
  EXPECT_EQ(values.scheduler, "WarmupDecayLR");
  EXPECT_EQ(json::parse(values.schedulerParams),
            json::parse(R"({"total_num_steps": 100, "warmup_num_steps": 10,
                "warmup_min_lr": 0.0, "warmup_max_lr": 0.001,
                "warmup_type": "log"})"));
  // The peak of WarmupLR left out is the optimizer's rate.
  values = resolve(R"({"scheduler": {"type": "WarmupLR"}})").values;
  EXPECT_FALSE(json::parse(values.schedulerParams).contains("warmup_max_lr"));
  EXPECT_EQ(resolve(R"({"scheduler": {"type": null}})").values.scheduler, "");
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
  EXPECT_EQ(errorOf(R"({"zero_optimization": {"cpu_offload": true}})").code,
            "H0108");
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
  flags.mesh = "tensor=2";
  ResolvedSettings settings =
      resolve(R"({"tensor_parallel": {"autotp_size": 4}})", flags);
  EXPECT_EQ(settings.values.tensor, 2);
  EXPECT_EQ(verdictOn("tensor_parallel.autotp_size", settings), "overridden");
}

TEST_F(ConfigTest, TypesOfCommunication) {
  EXPECT_EQ(resolve("{}").values.communicationType, "");
  EXPECT_EQ(resolve(R"({"communication_data_type": "FP16"})")
                .values.communicationType,
            "fp16");
  EXPECT_EQ(resolve(R"({"communication_data_type": "bfp16"})")
                .values.communicationType,
            "bf16");
  EXPECT_EQ(errorOf(R"({"communication_data_type": "fp8"})").code, "H0114");
  // With sequence parallelism the type has a key of its own, and fp32 is its
  // default.
  ResolvedSettings settings = resolve(
      R"({"sequence_parallel_size": 2, "communication_data_type": "bf16"})");
  EXPECT_EQ(settings.values.communicationType, "fp32");
  EXPECT_EQ(verdictOn("communication_data_type", settings), "overridden");
  EXPECT_EQ(verdictOn("sequence_parallel_size", settings), "applied");
  EXPECT_EQ(resolve(R"({"sequence_parallel_size": 2,
                        "seq_parallel_communication_data_type": "bf16"})")
                .values.communicationType,
            "bf16");
  settings = resolve(R"({"seq_parallel_communication_data_type": "bf16"})");
  EXPECT_EQ(settings.values.communicationType, "");
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
  flags.precision = "fp32";
  ResolvedSettings settings = resolve(R"({"bf16": {"enabled": true}})", flags);
  EXPECT_EQ(settings.values.precision, "fp32");
  EXPECT_EQ(verdictOn("bf16.enabled", settings), "overridden");
  EXPECT_EQ(settings.origins.at("precision").describe(), "flag --precision");
}

TEST_F(ConfigTest, DocumentsThatAreNoObject) {
  EXPECT_EQ(errorOf("[]").code, "H0105");
  EXPECT_EQ(errorOf("").code, "H0102");
  EXPECT_EQ(errorOf("{} {}").code, "H0102");
}
