//===- SettingsTest.cpp - Batch triangle, flags and sizes -----------------===//
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

namespace {

/// A given triple (0: not given) and what becomes of it.
struct Triple {
  int64_t batch, micro, accumulate;
  int64_t wantBatch, wantMicro, wantAccumulate; ///< 0: H0109.
};

Flags flagsOf(const Triple &triple) {
  Flags flags;
  if (triple.batch)
    flags["--batch"] = std::to_string(triple.batch);
  if (triple.micro)
    flags["--micro-batch"] = std::to_string(triple.micro);
  if (triple.accumulate)
    flags["--accumulate"] = std::to_string(triple.accumulate);
  return flags;
}

void expectTriple(const ResolvedSettings &settings, const Triple &triple) {
  EXPECT_EQ(settings.values.batch, triple.wantBatch);
  EXPECT_EQ(settings.values.microBatch, triple.wantMicro);
  EXPECT_EQ(settings.values.accumulate, triple.wantAccumulate);
}

} // namespace

TEST_F(ConfigTest, BatchTriangle) {
  const std::vector<Triple> triples = {
      {0, 0, 0, 1, 1, 1},  {32, 0, 0, 32, 32, 1}, {0, 4, 0, 4, 4, 1},
      {0, 0, 8, 8, 1, 8},  {32, 4, 0, 32, 4, 8},  {32, 0, 8, 32, 4, 8},
      {0, 4, 8, 32, 4, 8}, {32, 4, 8, 32, 4, 8},  {33, 4, 8, 0, 0, 0},
      {30, 4, 0, 0, 0, 0}, {30, 0, 8, 0, 0, 0},   {4, 8, 0, 0, 0, 0}};
  for (const Triple &triple : triples) {
    SCOPED_TRACE(std::to_string(triple.batch) + " " +
                 std::to_string(triple.micro) + " " +
                 std::to_string(triple.accumulate));
    Flags flags = flagsOf(triple);
    if (triple.wantBatch == 0)
      EXPECT_EQ(errorOf("{}", flags).code, "H0109");
    else
      expectTriple(resolve("{}", flags), triple);
  }
}

TEST_F(ConfigTest, BatchTriangleOfFileAndFlags) {
  const std::string file =
      R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4,
          "gradient_accumulation_steps": 8})";
  // Of the file's values the flag's weaker neighbour follows.
  const std::vector<Triple> triples = {
      {16, 0, 0, 16, 4, 4}, {0, 8, 0, 32, 8, 4}, {0, 0, 4, 32, 8, 4},
      {8, 2, 0, 8, 2, 4},   {30, 0, 0, 0, 0, 0}, {0, 5, 0, 0, 0, 0}};
  for (const Triple &triple : triples) {
    SCOPED_TRACE(std::to_string(triple.batch) + " " +
                 std::to_string(triple.micro) + " " +
                 std::to_string(triple.accumulate));
    Flags flags = flagsOf(triple);
    if (triple.wantBatch == 0)
      EXPECT_EQ(errorOf(file, flags).code, "H0109");
    else
      expectTriple(resolve(file, flags), triple);
  }
}

TEST_F(ConfigTest, ContradictionsNameAllThreeAndTheProduct) {
  Diagnostic error =
      errorOf(R"({"train_batch_size": 33, "train_micro_batch_size_per_gpu": 4,
                  "gradient_accumulation_steps": 8})");
  EXPECT_EQ(error.code, "H0109");
  EXPECT_NE(error.message.find("33 is not 4 x 8 x 1 = 32"), std::string::npos);
  ASSERT_EQ(error.notes.size(), 4u);
  EXPECT_NE(error.notes[1].find("micro_batch = 4"), std::string::npos);
  EXPECT_EQ(error.location.line, 1);
  EXPECT_EQ(errorOf(R"({"train_batch_size": 0})").code, "H0110");
}

TEST_F(ConfigTest, MeshFlag) {
  auto codeOf = [&](const std::string &mesh) {
    Flags flags;
    flags["--mesh"] = mesh;
    return errorOf("{}", flags).code;
  };
  EXPECT_EQ(codeOf("data=1,tensor=1,pipe=1,seq=1"), "");
  EXPECT_EQ(codeOf("expert=1"), "");
  for (const char *bad : {"", "data", "data=", "data=0", "data=x", "data=-1",
                          "data=1,data=1", "rows=1", "data=1,"})
    EXPECT_EQ(codeOf(bad), "H0114") << bad;
  for (const char *many : {"data=2", "tensor=2", "seq=4,pipe=2"})
    EXPECT_EQ(codeOf(many), "") << many;
  EXPECT_EQ(codeOf("expert=2"), "H0115");
}

TEST_F(ConfigTest, BatchIsOverDataRanks) {
  Flags flags;
  flags["--mesh"] = "data=2,tensor=2";
  flags["--batch"] = "32";
  flags["--accumulate"] = "4";
  expectTriple(resolve("{}", flags), {0, 0, 0, 32, 4, 4});
  flags["--batch"] = "12";
  EXPECT_EQ(errorOf("{}", flags).code, "H0109");
}

TEST_F(ConfigTest, AxesByMegatronsNames) {
  Flags flags;
  flags["--tensor-model-parallel-size"] = "4";
  flags["--pipeline-model-parallel-size"] = "2";
  flags["--use-distributed-optimizer"] = "true";
  Settings values = resolve("{}", flags).values;
  EXPECT_EQ(values.tensor, 4);
  EXPECT_EQ(values.pipe, 2);
  EXPECT_EQ(values.zero, 1);
  flags["--mesh"] = "tensor=4";
  EXPECT_EQ(errorOf("{}", flags).code, "");
  flags["--mesh"] = "tensor=2";
  EXPECT_EQ(errorOf("{}", flags).code, "H0114");
  flags["--mesh"].reset();
  flags["--zero"] = "2";
  EXPECT_EQ(resolve("{}", flags).values.zero, 2);
  flags["--zero"] = "0";
  EXPECT_EQ(errorOf("{}", flags).code, "H0114");
  flags["--zero"].reset();
  flags["--tensor-model-parallel-size"] = "0";
  EXPECT_EQ(errorOf("{}", flags).code, "H0110");
}

TEST_F(ConfigTest, FlagsOfParallelism) {
  Flags flags;
  flags["--virtual-stages"] = "2";
  flags["--pipeline-layout"] = "3,3";
  flags["--sequence-parallel"] = "true";
  flags["--collectives"] = "library";
  flags["--communication-data-type"] = "bf16";
  Settings values = resolve("{}", flags).values;
  EXPECT_EQ(values.virtualStages, 2);
  EXPECT_EQ(values.pipelineLayout, "3,3");
  EXPECT_TRUE(values.sequenceParallel);
  EXPECT_EQ(values.collectives, Collectives::Library);
  EXPECT_EQ(values.communicationType, CommunicationType::BF16);
  flags["--collectives"] = "nccl";
  EXPECT_EQ(errorOf("{}", flags).code, "H0114");
  flags["--collectives"].reset();
  flags["--communication-data-type"] = "fp8";
  EXPECT_EQ(errorOf("{}", flags).code, "H0114");
  flags["--communication-data-type"].reset();
  flags["--context"] = "tree";
  EXPECT_EQ(errorOf("{}", flags).code, "H0114");
}

TEST_F(ConfigTest, PlaceFlag) {
  Flags flags;
  // A flag that is given several times has a line for each.
  flags["--place"] = "optimizer=file,activations=host\nparameters=host\n"
                     "optimizer=pinned";
  Settings values = resolve("{}", flags).values;
  EXPECT_EQ(values.placeOptimizer, MemoryKind::Pinned);
  EXPECT_EQ(values.placeParameters, MemoryKind::Host);
  EXPECT_EQ(values.placeActivations, MemoryKind::Host);
  auto errorOfPlace = [&](const std::string &place) {
    flags["--place"] = place;
    return errorOf("{}", flags);
  };
  for (const char *bad :
       {"", "optimizer", "optimizer=", "optimizer=disk", "rows=file",
        "optimizer=file,optimizer=host", "optimizer=file\noptimizer=disk",
        "rows=nvme"}) {
    Diagnostic error = errorOfPlace(bad);
    EXPECT_EQ(error.code, "H0114") << bad;
    EXPECT_EQ(error.help.substr(0, 15), "give optimizer,") << bad;
  }
  EXPECT_EQ(errorOfPlace("optimizer=nvme").help,
            "did you mean optimizer=file?");
  EXPECT_EQ(errorOfPlace("gradients=device,parameters=cpu").help,
            "did you mean parameters=host?");
  EXPECT_EQ(errorOfPlace("parameters=none").help,
            "did you mean parameters=device?");
}

TEST(Settings, ByteSizes) {
  EXPECT_EQ(parseByteSize("16GiB"), int64_t(16) << 30);
  EXPECT_EQ(parseByteSize("1.5MiB"), 3 << 19);
  EXPECT_EQ(parseByteSize("4096"), 4096);
  EXPECT_EQ(parseByteSize("2T"), int64_t(2) << 40);
  for (const char *bad : {"", "x", "-1GiB", "1GB", "1 GiB", "1e300", "nan"})
    EXPECT_EQ(parseByteSize(bad), std::nullopt) << bad;
}

TEST_F(ConfigTest, StrategyStandsBetweenFlagsAndFile) {
  std::ofstream(path) << R"({"train_batch_size": 32,
                             "bf16": {"enabled": true}})";
  Flags flags;
  flags["--recompute"] = "none";
  ResolvedSettings settings = resolveSettings(
      flags, path, "s.json", R"({"batch": 8, "recompute": "full", "seq": 16})");
  EXPECT_EQ(settings.values.batch, 8);
  EXPECT_EQ(settings.values.seq, 16);
  EXPECT_EQ(settings.values.recompute, Recompute::None);
  EXPECT_EQ(settings.values.precision, Precision::BF16);
  EXPECT_EQ(verdictOn("train_batch_size", settings), "overridden");
}

// What a flag does not name stays as a strategy, and then a file, says it.
TEST_F(ConfigTest, DirectoriesOfAStrategy) {
  auto given = [&](const char *flag) {
    return resolveSettings({{"--swap-dir", flag}}, "", "s.json",
                           R"({"swap_dir": "/a,parameters=/b,gradients=/c"})")
        .values.swapDir;
  };
  EXPECT_EQ(given("parameters=/d"), "/a,parameters=/d,gradients=/c");
  EXPECT_EQ(given("/d"), "/d");
}

TEST_F(ConfigTest, AllErrorsOfAStrategy) {
  std::vector<std::string> found;
  try {
    resolveSettings({}, "", "s.json",
                    R"({"batch": "8", "zerro": 1, "zero": 9,
 "recompute": "some", "precision": "half", "lr": 1, "lr": 2})");
  } catch (const ConfigErrors &errors) {
    for (const Diagnostic &error : errors.all)
      found.push_back(std::to_string(error.location.line) + " " + error.code);
  }
  std::vector<std::string> expected = {"1 H0105", "1 H0107", "1 H0110",
                                       "2 H0114", "2 H0114", "2 H0104"};
  EXPECT_EQ(found, expected);
}

TEST_F(ConfigTest, FlagsThatSayDifferentThings) {
  Flags flags;
  flags["--mesh"] = "pipe=2";
  flags["--pipeline-model-parallel-size"] = "4";
  Diagnostic error = errorOf("{}", flags);
  EXPECT_EQ(error.code, "H0114");
  EXPECT_EQ(error.help, "--mesh gives pipe the value 2: give one of the two");
}

TEST_F(ConfigTest, AutomaticTargetsSayWhenThereIsNoGpu) {
  Flags flags;
  flags["--target"] = "auto";
  ResolvedSettings settings = resolve("{}", flags);
  bool hasGpu = settings.targets.front() != Target::X86_64;
  EXPECT_EQ(warnOfTarget(settings).empty(), hasGpu);
  for (const char *named : {"auto,sm_90", "x86-64"}) {
    flags["--target"] = named;
    EXPECT_EQ(warnOfTarget(resolve("{}", flags)), "") << named;
  }
}

TEST(Settings, RowsAreWhole) {
  std::set<std::string> keys, flags;
  for (const SettingField &field : settingFields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_FALSE(field.firstPhase.empty()) << field.key;
    EXPECT_FALSE(field.lastPhase.empty()) << field.key;
    // Its default is a value that it takes, and that its text gives back.
    Settings values;
    EXPECT_TRUE(field.set(values, field.get(Settings()))) << field.key;
    EXPECT_EQ(findSetting(field.key), &field);
  }
  for (const SettingFlag &flag : settingFlags())
    EXPECT_TRUE(flags.insert(flag.name()).second) << flag.names;
}

TEST_F(ConfigTest, EverySettingIsExplained) {
  std::string table = explainSettings(resolve("{}"), {200, true});
  for (const SettingField &field : settingFields())
    EXPECT_NE(table.find("  " + field.key + " "), std::string::npos)
        << field.key;
}
