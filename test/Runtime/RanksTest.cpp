//===- RanksTest.cpp - Tests of verbs on several ranks --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BigramPlan.h"
#include "BinaryRun.h"
#include "Meshes.h"
#include "ShardedPlan.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/comm/World.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

namespace {

/// Runs ranks as threads of this process.
class RanksTest : public BinaryTest {
protected:
  /// Calls `work` once for every rank at the same time; the code of the error
  /// that was thrown on all of them, or "".
  std::string onRanks(int ranks, const std::function<void(Ranks &)> &work);

  /// Trains `steps` steps and saves to `name`.
  std::string train(const std::string &binary, int ranks, int64_t steps,
                    const std::string &name,
                    const std::function<void(TrainOptions &)> &change = {});
  std::vector<char> saved(const std::string &name, int64_t step,
                          const char *file);
};

} // namespace

std::string RanksTest::onRanks(int count,
                               const std::function<void(Ranks &)> &work) {
  std::vector<std::string> codes(count);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Transport>> transports = makeLocalThreads(count);
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      Ranks ranks(
          std::make_unique<World>(rt::Launch(), std::move(transports[i])));
      try {
        work(ranks);
      } catch (const UserError &error) {
        codes[i] = error.diagnostic.code;
        ASSERT_TRUE(ranks.failedTogether()) << error.what();
        ranks.end(error.diagnostic);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(codes, std::vector<std::string>(count, codes[0]));
  return codes[0];
}

std::string
RanksTest::train(const std::string &binary, int ranks, int64_t steps,
                 const std::string &name,
                 const std::function<void(TrainOptions &)> &change) {
  TrainOptions options;
  options.job.binary = binary;
  options.data = {makeTokens(500)};
  options.steps = steps;
  options.save = inDirectory(name);
  options.log = inDirectory(name + ".jsonl");
  options.progress = "none";
  if (change)
    change(options);
  return onRanks(ranks, [&](Ranks &each) { runTrain(options, each); });
}

std::vector<char> RanksTest::saved(const std::string &name, int64_t step,
                                   const char *file) {
  char text[32];
  snprintf(text, sizeof text, "/step-%06d/", int(step));
  return readFile(inDirectory(name) + text + file);
}

static constexpr const char *tensorFiles[] = {"model.safetensors",
                                              "heddle/optimizer.safetensors"};

TEST_F(RanksTest, TrainAsOneRankDoes) {
  std::string one = makeBinary(makeBigramPlan(), "one");
  std::string sharded = makeBinary(makeShardedPlan(), "sharded");
  std::string pipelined = makeBinary(makePipelinedPlan(), "pipelined");
  auto validate = [this](TrainOptions &options) {
    options.val = makeTokens(200, "val.bin");
  };
  EXPECT_EQ(train(one, 1, 8, "a", validate), "");
  EXPECT_EQ(train(sharded, 2, 8, "b", validate), "");
  EXPECT_EQ(train(pipelined, 2, 8, "c", validate), "");
  auto log = readLog(inDirectory("a.jsonl"));
  for (const char *other : {"b.jsonl", "c.jsonl"}) {
    auto same = readLog(inDirectory(other));
    ASSERT_EQ(same.size(), log.size());
    for (size_t i = 1; i + 1 < log.size(); ++i)
      for (const char *key : {"loss", "grad_norm", "perplexity", "tokens"})
        if (log[i].contains(key)) {
          EXPECT_NEAR(same[i][key].get<double>(), log[i][key].get<double>(),
                      1e-4 * std::abs(log[i][key].get<double>()))
              << other << " " << i << " " << key;
        }
  }
}

/// The bigram model with its states split by columns over two tensor ranks, in
/// two segments of odd sizes each: both ranks have padding. It cannot train.
static plan::Plan makeColumnPlan() {
  plan::Plan plan = makeBigramPlan();
  plan.mesh = test::meshOf(1, 1, 1, 2);
  for (plan::State &state : plan.states) {
    state.placement.whole = state.shape;
    state.placement.split = {{}, {"tensor"}};
    state.placement.segments = {101, 155};
    state.shape = {256, 51 + 78};
  }
  return plan;
}

TEST_F(RanksTest, BeginWithTheSameBits) {
  std::string one = makeBinary(makeBigramPlan(), "one");
  std::string sharded = makeBinary(makeShardedPlan(), "sharded");
  std::vector<float> whole;
  std::vector<uint16_t> copy;
  onRanks(1, [&](Ranks &ranks) {
    JobOptions options;
    options.binary = one;
    Job job(options, ranks);
    loadWeights(job, options);
    const auto *table = job.session().load<float>(job.session().state(0));
    whole.assign(table, table + 65536);
    const auto *narrow = job.session().load<uint16_t>(job.session().state(4));
    copy.assign(narrow, narrow + 65536);
  });
  EXPECT_NE(whole[0], 0);
  auto check = [&](Job &job) {
    std::vector<rt::ElementRange> runs = job.session().shard(0).runs();
    for (const rt::ElementRange &run : runs)
      for (int64_t i = 0; i < run.count; ++i) {
        ASSERT_EQ(
            job.session().load<float>(job.session().state(0))[run.local + i],
            whole[run.whole + i]);
        ASSERT_EQ(
            job.session().load<uint16_t>(job.session().state(4))[run.local + i],
            copy[run.whole + i]);
      }
  };
  std::string columns = makeBinary(makeColumnPlan(), "columns");
  onRanks(2, [&](Ranks &ranks) {
    JobOptions options;
    options.binary = columns;
    Job job(options, ranks);
    loadWeights(job, options);
    EXPECT_EQ(job.session().shard(0).runs().size(), 512u);
    check(job);
    // The second rank's first segment is one column short.
    if (ranks.rank() == 1) {
      EXPECT_EQ(job.session().load<float>(job.session().state(0))[50], 0);
    }
  });
  onRanks(2, [&](Ranks &ranks) {
    JobOptions options;
    options.binary = sharded;
    Job job(options, ranks);
    loadWeights(job, options);
    std::vector<rt::ElementRange> runs = job.session().shard(0).runs();
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].count, ranks.rank() == 0 ? 32754 : 32782);
    EXPECT_EQ(runs[0].local, ranks.rank() == 0 ? 64 : 0);
    check(job);
    // Padding stays zero.
    EXPECT_EQ(job.session().load<float>(
                  job.session().state(0))[ranks.rank() == 0 ? 63 : 32782],
              0);
  });
}

TEST_F(RanksTest, SaveWhatOneRankSaves) {
  std::string one = makeBinary(makeBigramPlan(), "one");
  std::string sharded = makeBinary(makeShardedPlan(), "sharded");
  std::string pipelined = makeBinary(makePipelinedPlan(), "pipelined");
  std::string columns = makeBinary(makeColumnPlan(), "columns");
  ASSERT_EQ(train(one, 1, 3, "a"), "");
  // Each resumes the other's, and saves it again unchanged.
  for (const auto &[binary, ranks] :
       {std::pair(sharded, 2), std::pair(pipelined, 2), std::pair(columns, 2),
        std::pair(one, 1)}) {
    onRanks(ranks, [&, &binary = binary](Ranks &each) {
      JobOptions options;
      options.binary = binary;
      Job job(options, each);
      io::CheckpointState state = resumeFrom(job, inDirectory("a"), false);
      EXPECT_EQ(state.step, 3);
      io::saveCheckpoint(inDirectory("b"),
                         describeCheckpoint(job.session(), state), each);
    });
    for (const char *file : tensorFiles) {
      EXPECT_FALSE(saved("a", 3, file).empty());
      EXPECT_TRUE(saved("a", 3, file) == saved("b", 3, file)) << file;
    }
    EXPECT_TRUE(saved("a", 3, "heddle/manifest.json") ==
                saved("b", 3, "heddle/manifest.json"));
  }
}

TEST_F(RanksTest, SaveRoundedWhatOneRankSavesRounded) {
  std::string one = makeBinary(makeBigramPlan(), "one");
  std::string sharded = makeBinary(makeShardedPlan(), "sharded");
  std::string columns = makeBinary(makeColumnPlan(), "columns");
  ASSERT_EQ(train(one, 1, 3, "a"), "");
  ASSERT_EQ(train(one, 1, 3, "rounded",
                  [](TrainOptions &options) { options.saveDtype = "BF16"; }),
            "");
  // Each resumes what is rounded, saves it as it was, and rounded again.
  for (const auto &[binary, ranks] :
       {std::pair(sharded, 2), std::pair(columns, 2), std::pair(one, 1)}) {
    onRanks(ranks, [&, &binary = binary](Ranks &each) {
      JobOptions options;
      options.binary = binary;
      Job job(options, each);
      io::CheckpointState state =
          resumeFrom(job, inDirectory("rounded"), false);
      for (const char *name : {"exact", "again"}) {
        SavedTypes types = SavedTypes::ofCheckpoint(
            io::resolveCheckpoint(inDirectory("rounded")));
        types.useForAll(name[0] == 'e' ? "F32" : "");
        io::saveCheckpoint(inDirectory(name),
                           describeCheckpoint(job.session(), state, types),
                           each);
      }
    });
    for (const char *file : tensorFiles)
      EXPECT_TRUE(saved("a", 3, file) == saved("exact", 3, file)) << file;
    for (const char *file :
         {"model.safetensors", "heddle/masters.safetensors", "config.json"}) {
      EXPECT_FALSE(saved("rounded", 3, file).empty()) << file;
      EXPECT_TRUE(saved("rounded", 3, file) == saved("again", 3, file)) << file;
    }
  }
}

TEST_F(RanksTest, ResumeToTheSameBits) {
  std::string sharded = makeBinary(makeShardedPlan());
  ASSERT_EQ(train(sharded, 2, 6, "whole"), "");
  ASSERT_EQ(train(sharded, 2, 4, "part"), "");
  auto resume = [this](TrainOptions &options) {
    options.resume = inDirectory("part");
  };
  ASSERT_EQ(train(sharded, 2, 6, "part", resume), "");
  EXPECT_EQ(lossesOf(inDirectory("whole.jsonl")),
            lossesOf(inDirectory("part.jsonl")));
  for (const char *file : tensorFiles)
    EXPECT_TRUE(saved("whole", 6, file) == saved("part", 6, file)) << file;
}

TEST_F(RanksTest, DumpAndTrace) {
  std::string sharded = makeBinary(makeShardedPlan());
  std::string dump = inDirectory("dump.safetensors");
  std::string trace = inDirectory("trace.json");
  ASSERT_EQ(train(sharded, 2, 2, "out",
                  [&](TrainOptions &options) {
                    options.dump = dump;
                    options.trace = trace;
                  }),
            "");
  io::WeightSet tensors = io::openSafetensors(dump);
  float loss = 0;
  tensors.read(tensors.at("loss"), "F32", &loss);
  EXPECT_EQ(loss, float(lossesOf(inDirectory("out.jsonl")).back()));
  EXPECT_EQ(tensors.at("grad.table.weight").shape,
            (std::vector<int64_t>{256, 256}));
  for (const char *name : {"trace.json", "trace.rank1.json"}) {
    std::ifstream file(inDirectory(name));
    std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("\"all_reduce data for table\""), std::string::npos);
    EXPECT_NE(text.find("\"wait all_gather data for table\""),
              std::string::npos);
  }
}

TEST_F(RanksTest, GenerateTheSameText) {
  std::string one = makeBinary(makeBigramPlan(), "one");
  std::string sharded = makeBinary(makeShardedPlan(), "sharded");
  std::string pipelined = makeBinary(makePipelinedPlan(), "pipelined");
  ASSERT_EQ(train(one, 1, 10, "a"), "");
  auto generate = [&](const std::string &binary, int ranks) {
    GenerateOptions options;
    options.job.binary = binary;
    options.job.weights = inDirectory("a");
    options.promptIds = "113";
    options.maxNewTokens = 40;
    options.temperature = 1;
    testing::internal::CaptureStdout();
    onRanks(ranks, [&](Ranks &each) { runGenerate(options, each); });
    return testing::internal::GetCapturedStdout();
  };
  std::string text = generate(one, 1);
  EXPECT_GT(text.size(), 80u);
  EXPECT_EQ(generate(sharded, 2), text);
  EXPECT_EQ(generate(pipelined, 2), text);
}

TEST_F(RanksTest, MixTheSameRows) {
  std::string one = makeBinary(makeBigramPlan(), "one");
  std::string sharded = makeBinary(makeShardedPlan(), "sharded");
  auto mix = [this](TrainOptions &options) {
    options.data = {makeTokens(500) + ":0.7", makeTokens(90, "b.bin") + ":0.3"};
    options.shuffle = true;
  };
  auto goOn = [&](TrainOptions &options) {
    mix(options);
    options.resume = inDirectory("part");
  };
  EXPECT_EQ(train(one, 1, 12, "whole", mix), "");
  EXPECT_EQ(train(sharded, 2, 12, "mesh", mix), "");
  EXPECT_EQ(train(sharded, 2, 7, "part", mix), "");
  EXPECT_EQ(train(one, 1, 12, "rest", goOn), "");
  std::vector<double> losses = lossesOf(inDirectory("whole.jsonl"));
  std::vector<double> mesh = lossesOf(inDirectory("mesh.jsonl"));
  std::vector<double> rest = lossesOf(inDirectory("rest.jsonl"));
  ASSERT_EQ(losses.size(), 12u);
  ASSERT_EQ(mesh.size(), 12u);
  ASSERT_EQ(rest.size(), 5u);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(mesh[i], losses[i], 1e-4 * losses[i]);
  for (size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(rest[i], losses[7 + i], 1e-4 * losses[7 + i]);
  // Of one file alone they are others.
  EXPECT_EQ(train(one, 1, 12, "alone"), "");
  EXPECT_NE(lossesOf(inDirectory("alone.jsonl")), losses);
}

TEST_F(RanksTest, LookAtTheSameTokens) {
  std::string one = makeBinary(makeBigramPlan(), "one");
  std::string sharded = makeBinary(makeShardedPlan(), "sharded");
  constexpr int64_t count = 600000; // Several blocks, for both ranks.
  auto read = [&](const std::string &file) {
    return [=](TrainOptions &options) { options.data = {file}; };
  };
  auto goOn = [&](const std::string &file) {
    return [=](TrainOptions &options) {
      options.data = {file};
      options.resume = inDirectory("part");
    };
  };
  std::string data = makeTokens(count, "large.bin");
  EXPECT_EQ(train(sharded, 2, 1, "part", read(data)), "");
  EXPECT_EQ(train(one, 1, 2, "rest", goOn(data)), "");
  // The last token, which none of these steps reads.
  std::string other = makeTokens(count, "other.bin", 'x');
  EXPECT_EQ(train(one, 1, 2, "other", goOn(other)), "H0368");
  EXPECT_EQ(train(sharded, 2, 2, "other", goOn(other)), "H0368");
  std::string bad = makeTokens(count, "bad.bin", 300);
  EXPECT_EQ(train(sharded, 2, 1, "bad", read(bad)), "H0346");
}

TEST_F(RanksTest, FailTogether) {
  std::string sharded = makeBinary(makeShardedPlan());
  auto change = [](auto member, const std::string &value) {
    return [=](TrainOptions &options) { options.*member = {value}; };
  };
  EXPECT_EQ(
      train(sharded, 2, 1, "out", change(&TrainOptions::data, "/no/such/file")),
      "H0340");
  EXPECT_EQ(train(sharded, 2, 1, "out",
                  change(&TrainOptions::resume, "/no/such/directory")),
            "H0360");
  std::ofstream(inDirectory("file")) << "x";
  EXPECT_EQ(train(sharded, 2, 1, "out",
                  change(&TrainOptions::save, inDirectory("file") + "/out")),
            "H0402");
  EXPECT_EQ(train(sharded, 4, 1, "out"), "H0220");
  // The wrong token is one that the second rank alone reads.
  std::string bad = makeTokens(3 * 64 + 1, "bad.bin", 300);
  EXPECT_EQ(train(sharded, 2, 5, "seen", change(&TrainOptions::data, bad)),
            "H0346");
  EXPECT_FALSE(std::filesystem::exists(inDirectory("seen.jsonl")));
  EXPECT_EQ(train(sharded, 2, 5, "bad",
                  [&](TrainOptions &options) {
                    options.data = {bad};
                    options.dataCheck = "batch";
                  }),
            "H0346");
  EXPECT_EQ(readLog(inDirectory("bad.jsonl")).back()["code"], "H0346");
  // All have saved what came before.
  EXPECT_TRUE(std::filesystem::exists(inDirectory("bad/step-000002")));
  plan::Plan plan = makeShardedPlan();
  plan.optimizer.lr = 1e38;
  EXPECT_EQ(train(makeBinary(plan, "hot"), 2, 20, "out"), "H0410");
}

TEST_F(RanksTest, FailTogetherWithoutMemory) {
  auto failingWith = [&](auto error) {
    return onRanks(3, [&](Ranks &ranks) {
      ranks.together([&] {
        if (ranks.rank() == 1)
          throw error;
      });
    });
  };
  EXPECT_EQ(failingWith(std::bad_alloc()), "H0292");
  EXPECT_EQ(failingWith(std::system_error(std::make_error_code(
                std::errc::resource_unavailable_try_again))),
            "H0292");
  EXPECT_EQ(failingWith(std::runtime_error("?")), "H0901");
}

TEST_F(RanksTest, AFailedSaveLeavesTheLastOne) {
  std::string sharded = makeBinary(makeShardedPlan());
  ASSERT_EQ(train(sharded, 2, 1, "out"), "");
  std::string code = onRanks(2, [&](Ranks &ranks) {
    JobOptions options;
    options.binary = sharded;
    Job job(options, ranks);
    io::CheckpointState state = resumeFrom(job, inDirectory("out"), false);
    state.step = 2;
    io::CheckpointContents contents = describeCheckpoint(job.session(), state);
    if (ranks.rank() == 1)
      contents.optimizer.back().pieces = [](const io::SharedTensor::Sink &) {
        fail("H0401", "no space left");
      };
    io::saveCheckpoint(inDirectory("out"), contents, ranks);
  });
  EXPECT_EQ(code, "H0401");
  std::vector<std::string> left;
  for (const auto &entry :
       std::filesystem::directory_iterator(inDirectory("out")))
    left.push_back(entry.path().filename());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"latest", "step-000001"}));
  io::Peers alone;
  EXPECT_EQ(io::openCheckpoint(inDirectory("out"), alone).state.step, 1);
}
