//===- DsConfigTest.cpp - Values of a ds_config.json ----------------------===//
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
  EXPECT_EQ(errorOf("{}", flags).code, "H0108");
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
  "fp16": {"enabled": true},
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

/// Flags of a GPU's plan.
static Flags onGpu(const char *place = nullptr) {
  Flags flags;
  flags["--target"] = "sm_80";
  if (place)
    flags["--place"] = place;
  return flags;
}

TEST_F(ConfigTest, GradientsWaitWithTheOptimizer) {
  auto gradients = [&](const Flags &flags, const std::string &more = "") {
    return resolve("{" + more + "}", flags).values.placeGradients;
  };
  EXPECT_EQ(gradients(onGpu()), MemoryKind::Device);
  EXPECT_EQ(gradients(onGpu("optimizer=host")), MemoryKind::Host);
  EXPECT_EQ(gradients(onGpu("optimizer=pinned")), MemoryKind::Pinned);
  EXPECT_EQ(gradients(onGpu("optimizer=file")), MemoryKind::Device);
  const std::string offload =
      R"("zero_optimization": {"offload_optimizer": {"device": "cpu"}})";
  EXPECT_EQ(gradients(onGpu(), offload), MemoryKind::Host);
  // What is said counts.
  EXPECT_EQ(gradients(onGpu("optimizer=host,gradients=device")),
            MemoryKind::Device);
  EXPECT_EQ(gradients(onGpu("optimizer=host,gradients=file")),
            MemoryKind::File);
  // One memory.
  EXPECT_EQ(gradients({{"--place", "optimizer=host"}}), MemoryKind::Device);
  // Updates that wait for no norm run beside the backward pass.
  EXPECT_EQ(gradients(onGpu("optimizer=host"), R"("gradient_clipping": 0)"),
            MemoryKind::Device);
  Flags delayed = onGpu("optimizer=host");
  delayed["--delayed-update"] = "";
  EXPECT_EQ(gradients(delayed), MemoryKind::Device);
  // Replicas that sum all gradients at the end.
  Flags replicas = onGpu("optimizer=host");
  replicas["--mesh"] = "data=2";
  EXPECT_EQ(gradients(replicas), MemoryKind::Device);
  replicas["--zero"] = "2";
  EXPECT_EQ(gradients(replicas), MemoryKind::Host);
  ResolvedSettings settings = resolve("{}", onGpu("optimizer=host"));
  EXPECT_EQ(settings.origins["place_gradients"].describe(),
            "from the optimizer's memory");
}

TEST_F(ConfigTest, PinnedMemory) {
  auto config = [](const char *device, const char *pin) {
    std::string section = std::string(R"({"device": ")") + device +
                          R"(", "pin_memory": )" + pin + "}";
    return R"({"zero_optimization": {"stage": 3, "offload_optimizer": )" +
           section + R"(, "offload_param": )" + section + "}}";
  };
  const std::string keys[] = {"zero_optimization.offload_optimizer.pin_memory",
                              "zero_optimization.offload_param.pin_memory"};
  auto expect = [&](const std::string &json, const Flags &flags,
                    MemoryKind kind, const char *verdict) {
    ResolvedSettings settings = resolve(json, flags);
    EXPECT_EQ(settings.values.placeOptimizer, kind) << json;
    EXPECT_EQ(settings.values.placeParameters, kind) << json;
    for (const std::string &key : keys)
      EXPECT_EQ(verdictOn(key, settings), verdict) << json;
  };
  expect(config("cpu", "true"), onGpu(), MemoryKind::Pinned, "applied");
  expect(config("cpu", "false"), onGpu(), MemoryKind::Host, "applied");
  expect(config("nvme", "true"), onGpu(), MemoryKind::File, "no meaning here");
  expect(config("none", "true"), onGpu(), MemoryKind::Device,
         "no meaning here");
  expect(config("cpu", "true"), {}, MemoryKind::Device, "no meaning here");
  // All of it is the host's to update, as without the key.
  EXPECT_EQ(resolve(config("cpu", "true"), onGpu()).values.hostUpdates, 1);
  EXPECT_EQ(resolve(R"({"zero_optimization": {"cpu_offload": true,
                        "cpu_offload_use_pin_memory": true}})",
                    onGpu())
                .values.placeOptimizer,
            MemoryKind::Pinned);
  // A flag's place is not the file's to pin.
  EXPECT_EQ(resolve(config("cpu", "true"), onGpu("optimizer=host"))
                .values.placeOptimizer,
            MemoryKind::Host);
}

// A path alone is for all files; so is the optimizer's beside the parameters'.
// Flags go before both.
TEST_F(ConfigTest, DirectoriesOfSwapFiles) {
  auto config = [](const std::string &optimizer, const std::string &param) {
    auto section = [](const std::string &path) {
      return R"({"device": "nvme", "nvme_path": )" + path + "}";
    };
    return R"({"zero_optimization": {"stage": 3, "offload_optimizer": )" +
           section(optimizer) + R"(, "offload_param": )" + section(param) +
           "}}";
  };
  auto given = [&](const std::string &optimizer, const std::string &param,
                   const char *flag = nullptr) {
    Flags flags;
    if (flag)
      flags["--swap-dir"] = flag;
    return resolve(config(optimizer, param), flags).values.swapDir;
  };
  EXPECT_EQ(given(R"("/a")", R"("/b")"), "/a,parameters=/b");
  EXPECT_EQ(given(R"("/a")", R"("/a")"), "/a");
  EXPECT_EQ(given(R"("/a")", "null"), "/a");
  EXPECT_EQ(given("null", R"("/b")"), "/b");
  EXPECT_EQ(given("null", "null"), "");
  EXPECT_EQ(given(R"("/a")", R"("/b")", "/c"), "/c");
  EXPECT_EQ(given(R"("/a")", R"("/b")", "parameters=/c"), "/a,parameters=/c");
  EXPECT_EQ(given(R"("/a")", R"("/b")", "gradients=/c"),
            "/a,parameters=/b,gradients=/c");
  EXPECT_EQ(given(R"("/a")", "null", "/c,optimizer=/d"), "/c,optimizer=/d");
  const char *ofOptimizer = "zero_optimization.offload_optimizer.nvme_path";
  const char *ofParameters = "zero_optimization.offload_param.nvme_path";
  auto expect = [&](const Flags &flags, const char *first, const char *second) {
    ResolvedSettings settings = resolve(config(R"("/a")", R"("/b")"), flags);
    EXPECT_EQ(verdictOn(ofOptimizer, settings), first);
    EXPECT_EQ(verdictOn(ofParameters, settings), second);
  };
  expect({}, "applied", "applied");
  expect({{"--swap-dir", "/c"}}, "overridden", "overridden");
  expect({{"--swap-dir", "parameters=/c"}}, "applied", "overridden");
  // One that stands alone is not said to be of its section's role.
  auto whyOf = [&](const ResolvedSettings &settings, const char *key) {
    for (const ExplainRow &row : settings.rows)
      if (row.key == key)
        return row.why;
    return std::string();
  };
  EXPECT_EQ(whyOf(resolve(config("null", R"("/b")")), ofParameters),
            "--swap-dir");
  EXPECT_EQ(whyOf(resolve(config(R"("/a")", R"("/b")")), ofParameters),
            "--swap-dir parameters=");
}

// One that no text of directories by role can have is an error where files
// would be there, and only there.
TEST_F(ConfigTest, DirectoriesThatCannotBeGiven) {
  auto config = [](const char *device, const std::string &path,
                   const char *other, const std::string &otherPath) {
    auto section = [](const char *device, const std::string &path) {
      return std::string(R"({"device": ")") + device + R"(", "nvme_path": )" +
             path + "}";
    };
    return R"({"zero_optimization": {"stage": 3, "offload_optimizer": )" +
           section(device, path) + R"(, "offload_param": )" +
           section(other, otherPath) + "}}";
  };
  const char *ofOptimizer = "zero_optimization.offload_optimizer.nvme_path";
  const char *ofParameters = "zero_optimization.offload_param.nvme_path";
  for (const char *path : {R"("/a,b")", R"("/a,parameters=/b")",
                           R"("optimizer=/a")", R"("x=y")"}) {
    SCOPED_TRACE(path);
    for (const std::string &refused : {config("nvme", path, "nvme", "null"),
                                       config("nvme", "null", "nvme", path),
                                       config("nvme", path, "cpu", R"("/b")"),
                                       config("cpu", R"("/b")", "nvme", path),
                                       config("cpu", path, "nvme", "null")})
      EXPECT_EQ(errorOf(refused).code, "H0105") << refused;
    Flags flags = {{"--swap-dir", "parameters=/c"}};
    EXPECT_EQ(errorOf(config("nvme", path, "nvme", "null"), flags).code,
              "H0105");
    auto expect = [&](const std::string &file, const Flags &flags,
                      const char *directories, const char *key,
                      const char *verdict) {
      ResolvedSettings settings = resolve(file, flags);
      EXPECT_EQ(settings.values.swapDir, directories) << file;
      EXPECT_EQ(verdictOn(key, settings), verdict) << file;
    };
    expect(config("cpu", path, "cpu", "null"), {}, "", ofOptimizer,
           "no meaning here");
    expect(config("nvme", R"("/a")", "cpu", path), {}, "/a", ofParameters,
           "no meaning here");
    expect(config("cpu", path, "nvme", R"("/b")"), {}, "parameters=/b",
           ofOptimizer, "no meaning here");
    expect(config("nvme", path, "nvme", path), {{"--swap-dir", "/c"}}, "/c",
           ofOptimizer, "overridden");
    expect(config("nvme", R"("/a")", "nvme", path), flags, "/a,parameters=/c",
           ofParameters, "overridden");
  }
}

TEST_F(ConfigTest, RequestsToFiles) {
  ResolvedSettings settings = resolve(
      R"({"aio": {"block_size": 262144, "queue_depth": 8, "thread_count": 2,
                  "single_submit": true, "overlap_events": false},
          "zero_optimization": {"offload_optimizer": {"device": "nvme"}}})");
  EXPECT_EQ(settings.values.swapBlockSize, 262144);
  EXPECT_EQ(settings.values.swapQueueDepth, 8);
  EXPECT_EQ(verdictOn("aio.block_size", settings), "applied");
  EXPECT_EQ(verdictOn("aio.thread_count", settings), "no meaning here");
  Flags flags;
  flags["--swap-block-size"] = "2MiB";
  flags["--swap-queue-depth"] = "3";
  EXPECT_EQ(resolve("{}", flags).values.swapBlockSize, 2 << 20);
  EXPECT_EQ(resolve("{}", flags).values.swapQueueDepth, 3);
  EXPECT_EQ(errorOf(R"({"aio": {"block_size": 512}})").code, "H0110");
  EXPECT_EQ(errorOf(R"({"aio": {"queue_depth": 0}})").code, "H0110");
}

// Each key has a reason of its own.
TEST_F(ConfigTest, KeysOfOffloadAreAnswered) {
  ResolvedSettings settings = resolve(
      R"({"zero_optimization": {"offload_param":
             {"buffer_count": 5, "buffer_size": 1e8, "max_in_cpu": 1e9},
          "offload_optimizer":
             {"pipeline_read": true, "pipeline_write": true, "fast_init": true,
              "super_offload": true, "cpuadam_cores_perc": 0.8}},
          "aio": {"thread_count": 1, "intra_op_parallelism": 1,
                  "single_submit": true, "overlap_events": true,
                  "use_gds": true}})");
  std::set<std::string> answers;
  size_t keys = 0;
  for (const ExplainRow &row : settings.rows) {
    EXPECT_EQ(row.verdict, "no meaning here") << row.key;
    EXPECT_FALSE(row.why.empty()) << row.key;
    answers.insert(row.why);
    ++keys;
  }
  EXPECT_EQ(keys, 13u);
  EXPECT_EQ(answers.size(), keys);
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
