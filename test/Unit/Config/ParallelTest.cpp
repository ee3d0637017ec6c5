//===- ParallelTest.cpp - Meshes of models and clusters -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Parallel.h"
#include "ConfigFixture.h"
#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

namespace {

/// A model of 4 layers.
class ParallelTest : public ConfigTest {
protected:
  ParallelTest() {
    spec.layers = 4;
    flags["--seq"] = "64";
  }
  ResolvedSettings settle(const std::string &json = "{}") {
    ResolvedSettings settings = resolve(json, flags);
    settleParallel(settings, spec);
    return settings;
  }
  Diagnostic failure() {
    try {
      settle();
    } catch (const UserError &error) {
      return error.diagnostic;
    }
    return {};
  }
  std::string codeOf(const std::string &mesh) {
    flags["--mesh"] = mesh;
    return failure().code;
  }
  std::string codeOnCluster(const std::string &mesh, const std::string &json) {
    flags["--mesh"] = mesh;
    Settings values = resolve("{}", flags).values;
    std::ofstream(path) << json;
    try {
      warning = checkCluster(values, readCluster(path));
    } catch (const UserError &error) {
      message = error.diagnostic.message;
      return error.diagnostic.code;
    }
    return "";
  }
  ModelSpec spec;
  Flags flags;
  std::string message, warning;
};

} // namespace

TEST_F(ParallelTest, StagesAndLayers) {
  EXPECT_EQ(codeOf("pipe=4"), "");
  EXPECT_EQ(codeOf("pipe=5"), "H0119");
  EXPECT_EQ(failure().help, "at most 4 are possible");
  flags["--virtual-stages"] = "2";
  flags["--accumulate"] = "8";
  EXPECT_EQ(codeOf("pipe=2"), "");
  EXPECT_EQ(codeOf("pipe=4"), "H0119");
}

TEST_F(ParallelTest, VirtualStagesMeanInterleaved) {
  flags["--mesh"] = "pipe=2";
  flags["--virtual-stages"] = "2";
  flags["--accumulate"] = "2";
  ResolvedSettings settings = settle();
  EXPECT_EQ(settings.values.schedule, PipelineSchedule::Interleaved);
  EXPECT_EQ(settings.origins.at("schedule").describe(), "from virtual_stages");
  flags["--accumulate"] = "3";
  EXPECT_EQ(failure().code, "H0111");
  flags["--accumulate"] = "2";
  flags["--schedule"] = "zb-h1";
  EXPECT_EQ(failure().code, "H0111");
  flags["--virtual-stages"].reset();
  EXPECT_EQ(failure().code, "");
  flags["--schedule"] = "interleaved";
  EXPECT_EQ(failure().code, "H0111");
}

TEST_F(ParallelTest, OneStageHasNoSchedule) {
  flags["--schedule"] = "interleaved";
  flags["--virtual-stages"] = "2";
  flags["--pipeline-layout"] = "4";
  ResolvedSettings settings = settle();
  EXPECT_EQ(settings.values.schedule, PipelineSchedule::OneFOneB);
  EXPECT_EQ(settings.values.virtualStages, 1);
  EXPECT_EQ(settings.values.pipelineLayout, "");
  for (const char *key : {"schedule", "virtual_stages", "pipeline_layout"})
    EXPECT_EQ(verdictOn(key, settings), "no meaning here") << key;
}

TEST_F(ParallelTest, TokensOfARank) {
  EXPECT_EQ(codeOf("seq=2"), "");
  EXPECT_EQ(codeOf("seq=3"), "H0115");
  EXPECT_NE(failure().help.find("seq=1, 2, 4, 8 or 16"), std::string::npos);
  flags["--sequence-parallel"] = "true";
  EXPECT_EQ(codeOf("tensor=2,seq=32"), "");
  EXPECT_EQ(codeOf("tensor=4,seq=32"), "H0115");
}

TEST_F(ParallelTest, Clusters) {
  const std::string file =
      R"({"name": "two", "nodes": 2, "ranks_per_node": 8,
          "intra_node": {"bandwidth": "100GiB", "latency_us": 2},
          "inter_node": {"bandwidth": "10GiB", "latency_us": 5.5}})";
  EXPECT_EQ(codeOnCluster("tensor=8,data=2", file), "");
  EXPECT_EQ(codeOnCluster("tensor=16", file), "H0227");
  EXPECT_EQ(message, "tensor=16 does not fit a node of 8 ranks");
  EXPECT_EQ(codeOnCluster("data=32", file), "H0227");
  EXPECT_EQ(codeOnCluster("tensor=3,data=5", file), "H0227");
  // Groups of seq ranks, which tensor ranks lie in.
  EXPECT_EQ(codeOnCluster("seq=2,tensor=4,data=2", file), "");
  EXPECT_EQ(warning, "");
  EXPECT_EQ(codeOnCluster("seq=4,tensor=4", file), "");
  EXPECT_NE(warning.find("seq=4 with tensor=4 are groups of 16 ranks on nodes "
                         "of 8"),
            std::string::npos)
      << warning;
  EXPECT_NE(warning.find("between nodes at 10.00 GiB/s, not inside of one at "
                         "100.00 GiB/s; seq=2 with more of data or pipe"),
            std::string::npos)
      << warning;
  // All of it is on one node.
  EXPECT_EQ(codeOnCluster("tensor=3,data=2", file), "");
}

TEST_F(ParallelTest, BadClusterFiles) {
  for (const auto &[json, code] :
       std::vector<std::pair<const char *, const char *>>{
           {R"([])", "H0105"},
           {R"({"nodes": 2})", "H0106"},
           {R"({"nodes": 0, "ranks_per_node": 8})", "H0110"},
           {R"({"nodes": 1, "ranks_per_node": 8, "node": 1})", "H0107"},
           {R"({"nodes": 1, "ranks_per_node": 1,
                "intra_node": {"bandwidth": "fast", "latency_us": 1}})",
            "H0110"},
           {R"({"nodes": 1, "ranks_per_node": 1,
                "intra_node": {"bandwidth": "1GiB", "latency_us": -1}})",
            "H0110"},
           {R"({"nodes": 1, "ranks_per_node": 1, "flops": 0})", "H0110"},
           {R"({"nodes": 1, "ranks_per_node": 1, "device_memory": "0B"})",
            "H0110"},
           {R"({"nodes": 1, "ranks_per_node": 1, "host_memory": 64})", "H0105"},
           {R"({"nodes": 1, "ranks_per_node": 1,
                "host_memory_bandwidth": "0B"})",
            "H0110"},
           {R"({"nodes": 1, "ranks_per_node": 1, "nvme": {"read": "1GiB"}})",
            "H0106"},
           {R"({"nodes": 1, "ranks_per_node": 1,
                "nvme": {"read": "1GiB", "write": "1GiB", "byte": "1GiB"}})",
            "H0107"}})
    EXPECT_EQ(codeOnCluster("data=1", json), code) << json;
}

TEST_F(ParallelTest, MemoryOfACluster) {
  Cluster cluster = parseCluster(R"({"nodes": 2, "ranks_per_node": 4,
      "device_memory": "80GiB", "host_memory": "1TiB",
      "host_memory_bandwidth": "200GiB",
      "pcie": {"bandwidth": "32GiB", "latency_us": 10},
      "nvme": {"bytes": "2TiB", "read": "4GiB", "write": "3GiB"}})",
                                 "cluster.json");
  EXPECT_EQ(cluster.deviceMemory, int64_t(80) << 30);
  EXPECT_EQ(cluster.hostMemory, int64_t(1) << 40);
  EXPECT_EQ(cluster.hostMemoryPerSecond, double(int64_t(200) << 30));
  EXPECT_EQ(cluster.pcie->bytesPerSecond, double(int64_t(32) << 30));
  EXPECT_EQ(cluster.files->bytes, int64_t(2) << 40);
  EXPECT_EQ(cluster.files->readPerSecond, double(int64_t(4) << 30));
  EXPECT_EQ(cluster.files->writePerSecond, double(int64_t(3) << 30));
}

TEST_F(ParallelTest, AllErrorsOfAClusterFile) {
  std::ofstream(path) << R"({"node": 1, "nodes": 0,
 "intra_node": {"bandwidth": "fast", "latency_us": -1, "hops": 2},
 "flops": 0, "nodes": 2})";
  std::vector<std::string> found;
  try {
    readCluster(path);
  } catch (const ConfigErrors &errors) {
    for (const Diagnostic &error : errors.all)
      found.push_back(std::to_string(error.location.line) + " " + error.code);
  }
  std::vector<std::string> expected = {"1 H0107", "1 H0110", "1 H0106",
                                       "2 H0110", "2 H0110", "2 H0107",
                                       "3 H0110", "3 H0104"};
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
}

//===----------------------------------------------------------------------===//
// What nobody chose
//===----------------------------------------------------------------------===//

TEST_F(ParallelTest, LoadedWeightsHaveTheTrainersRate) {
  auto rateOf = [&](const std::string &json = "{}") {
    ResolvedSettings settings = resolve(json, flags);
    settleRate(settings, spec);
    return settings.values;
  };
  EXPECT_EQ(rateOf().lr, 5e-5);
  // DeepSpeed's, where a file says the optimizer.
  EXPECT_EQ(rateOf(R"({"optimizer": {"type": "Adam"}})").lr, 1e-3);
  flags["--warmup-steps"] = "3";
  nlohmann::json schedule = nlohmann::json::parse(rateOf().schedulerParams);
  EXPECT_EQ(schedule["warmup_max_lr"], 5e-5);
  flags["--lr"] = "0.002";
  EXPECT_EQ(rateOf().lr, 0.002);
  flags.erase("--lr");
  spec.random = true;
  EXPECT_EQ(rateOf().lr, 1e-3);
  schedule = nlohmann::json::parse(rateOf().schedulerParams);
  EXPECT_EQ(schedule["warmup_max_lr"], 1e-3);
}

TEST_F(ParallelTest, RowsHaveAtMost4096TokensUnlessFlagsSayMore) {
  auto noteOf = [&](int64_t seq) {
    ResolvedSettings settings = resolve("{}", flags);
    settleServing(settings, spec);
    settleRate(settings, spec);
    EXPECT_EQ(settings.values.seq, seq);
    return noteOfDefaults(settings, spec);
  };
  flags.erase("--seq");
  spec.maxPositions = 131072;
  EXPECT_EQ(noteOf(4096),
            "defaults: --lr 5e-05 without warm-up or decay, --seq 4096 of the "
            "model's 131072 positions, --batch 1, --weight-decay 0.01, "
            "--precision fp32");
  spec.random = true;
  EXPECT_NE(noteOf(4096).find("--lr 0.001"), std::string::npos);
  flags["--seq"] = "8192";
  EXPECT_EQ(noteOf(8192), "");
  spec.random = false;
  flags["--lr"] = "1e-4";
  flags["--micro-batch"] = "2";
  EXPECT_EQ(noteOf(8192), "");
  flags.erase("--seq");
  spec.maxPositions = 512;
  EXPECT_EQ(noteOf(512),
            "defaults: --seq 512, --weight-decay 0.01, --precision fp32");
}
