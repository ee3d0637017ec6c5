//===- DsOffloadTest.cpp - Offload in a ds_config.json --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigFixture.h"
#include <set>

using namespace heddle;
using namespace heddle::config;

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
  EXPECT_EQ(gradients(onGpu("optimizer=host"), R"("gradient_clipping": 0)"),
            MemoryKind::Host);
  // Updates that wait for no norm run beside the backward pass.
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
