//===- BinaryTest.cpp - Tests of a compiled binary's verbs ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BigramPlan.h"
#include "BinaryRun.h"
#include "heddle/runtime/io/Safetensors.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace heddle;
using namespace heddle::test;
using namespace heddle::plan;
using nlohmann::json;

TEST_F(BinaryTest, TrainsAndLogs) {
  std::string model = makeBinary(makeBigramPlan());
  std::string log = inDirectory("log.jsonl");
  RunResult result = run(model, {"train", "--data", makeTokens(500), "--val",
                                 makeTokens(200, "val.bin"), "--val-every",
                                 "10", "--steps", "20", "--log", log});
  ASSERT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.out, "");
  std::vector<json> lines = readLog(log);
  ASSERT_EQ(lines.size(), 24u);
  EXPECT_EQ(lines[0]["event"], "start");
  EXPECT_EQ(lines[0]["parameters"], 65536);
  EXPECT_EQ(lines[0]["plan"].get<std::string>().size(), 32u);
  const json &first = lines[1];
  EXPECT_EQ(first["event"], "step");
  EXPECT_EQ(first["step"], 1);
  EXPECT_NEAR(first["loss"].get<double>(), std::log(256.0), 0.05);
  EXPECT_FLOAT_EQ(first["lr"].get<float>(), 0.05f);
  EXPECT_EQ(first["tokens"], 64);
  for (const char *key : {"grad_norm", "time_s", "tokens_per_s", "mfu"})
    EXPECT_GT(first[key].get<double>(), 0) << key;
  EXPECT_EQ(lines[11]["event"], "eval");
  EXPECT_EQ(lines[11]["step"], 10);
  EXPECT_NEAR(lines[11]["perplexity"].get<double>(),
              std::exp(lines[11]["loss"].get<double>()), 1e-3);
  EXPECT_LT(lossesOf(log).back(), 4.5);
  const json &end = lines.back();
  EXPECT_EQ(end["event"], "end");
  EXPECT_EQ(end["steps"], 20);
  EXPECT_EQ(end["peak_bytes"]["planned"], end["peak_bytes"]["mapped"]);
}

TEST_F(BinaryTest, RunsOnOtherThreadsThanItWasCompiledFor) {
  std::string model = makeBinary(makeBigramPlan()), data = makeTokens(500);
  std::vector<json> ends;
  std::vector<std::vector<double>> losses;
  for (const char *threads : {"1", "2", "5"}) {
    std::string log = inDirectory(std::string("log") + threads);
    RunResult result = run(model, {"train", "--data", data, "--steps", "3",
                                   "--threads", threads, "--log", log});
    ASSERT_EQ(result.exitCode, 0) << result.err;
    ends.push_back(readLog(log).back()["peak_bytes"]);
    losses.push_back(lossesOf(log));
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  // Scratch of five threads is on one more page.
  EXPECT_EQ(ends[0]["planned"], ends[1]["planned"]);
  EXPECT_EQ(ends[2]["planned"].get<int>(),
            ends[1]["planned"].get<int>() + 4096);
  EXPECT_EQ(ends[2]["planned"], ends[2]["mapped"]);
}

TEST_F(BinaryTest, TakesHyperparametersFromFlags) {
  std::string model = makeBinary(makeBigramPlan()), data = makeTokens(500);
  std::string log = inDirectory("log"), save = inDirectory("save");
  auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"train", "--data", data, "--log",
                                      log,     "--save", save};
    words.insert(words.end(), more.begin(), more.end());
    RunResult result = run(model, words);
    EXPECT_EQ(result.exitCode, 0) << result.err;
    return result.err;
  };
  std::string said = train({"--steps", "4", "--lr", "0.01", "--warmup-steps",
                            "2", "--train-steps", "10"});
  EXPECT_NE(said.find("lr 0.01"), std::string::npos) << said;
  std::vector<json> lines = readLog(log);
  EXPECT_EQ(lines[0]["hyperparameters"]["lr"], 0.01);
  EXPECT_EQ(lines[0]["hyperparameters"]["schedule"], "WarmupDecayLR");
  EXPECT_FLOAT_EQ(lines[3]["lr"].get<float>(), 0.005f);
  EXPECT_FLOAT_EQ(lines[4]["lr"].get<float>(), 0.01f);
  // It goes on with what it was told, and says what is told anew.
  said = train({"--steps", "5", "--resume", save});
  EXPECT_NE(said.find("lr 0.01"), std::string::npos) << said;
  EXPECT_EQ(said.find("before:"), std::string::npos) << said;
  lines = readLog(log);
  EXPECT_FLOAT_EQ(lines[lines.size() - 3]["lr"].get<float>(), 0.00875f);
  said = train({"--steps", "6", "--resume", save, "--lr", "0.02"});
  EXPECT_NE(said.find("lr 0.02 (before: 0.01)"), std::string::npos) << said;
  lines = readLog(log);
  EXPECT_FLOAT_EQ(lines[lines.size() - 3]["lr"].get<float>(), 0.015f);
}

TEST_F(BinaryTest, TakesRowsInTheOrderThatIsPromised) {
  // The batches of step s and s + floor((n-1)/(GB*T)) are the same, so with a
  // learning rate of zero their losses are.
  plan::Plan plan = makeBigramPlan();
  plan.optimizer.lr = 0;
  std::string log = inDirectory("log.jsonl");
  RunResult result =
      run(makeBinary(plan), {"train", "--data", makeTokens(3 * 64 + 1),
                             "--steps", "7", "--log", log});
  ASSERT_EQ(result.exitCode, 0) << result.err;
  std::vector<double> losses = lossesOf(log);
  EXPECT_EQ(losses[0], losses[3]);
  EXPECT_EQ(losses[1], losses[4]);
  EXPECT_EQ(losses[0], losses[6]);
  EXPECT_NE(losses[0], losses[1]);
}

TEST_F(BinaryTest, ResumesToTheSameBits) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500);
  auto train = [&](const char *steps, const char *save, const char *log,
                   std::vector<std::string> more) {
    std::vector<std::string> arguments = {"train",
                                          "--data",
                                          data,
                                          "--steps",
                                          steps,
                                          "--save",
                                          inDirectory(save),
                                          "--shuffle",
                                          "--seed",
                                          "18446744073709551615",
                                          "--log",
                                          inDirectory(log)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    RunResult result = run(model, arguments);
    EXPECT_EQ(result.exitCode, 0) << result.err;
  };
  train("12", "whole", "whole.jsonl", {});
  train("5", "part", "part.jsonl", {});
  train("12", "part", "part.jsonl", {"--resume", inDirectory("part")});
  EXPECT_EQ(lossesOf(inDirectory("whole.jsonl")),
            lossesOf(inDirectory("part.jsonl")));
  for (const char *file :
       {"model.safetensors", "heddle/optimizer.safetensors"}) {
    std::vector<char> whole =
        readFile(inDirectory("whole/step-000012/") + file);
    EXPECT_FALSE(whole.empty());
    EXPECT_TRUE(whole == readFile(inDirectory("part/step-000012/") + file))
        << file;
  }
}

TEST_F(BinaryTest, SavesTheTypeThatTheModelCameIn) {
  std::vector<uint16_t> values(65536);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = io::floatToBF16(0.02f * float(std::sin(double(i))));
  io::TensorToWrite tensor;
  tensor.name = "table.weight";
  tensor.dtype = "BF16";
  tensor.shape = {256, 256};
  tensor.data = values.data();
  std::filesystem::create_directory(inDirectory("came"));
  io::writeSafetensors(inDirectory("came/model.safetensors"), {tensor});
  Plan plan = makeBigramPlan();
  plan.modelConfig["torch_dtype"] = "bfloat16";
  plan.weights.random = false;
  plan.weights.directory = inDirectory("came");
  std::string model = makeBinary(plan), data = makeTokens(500);
  auto train = [&](const char *steps, const std::string &save,
                   std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "train", "--data", data, "--steps", steps, "--save", inDirectory(save)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    RunResult result = run(model, arguments);
    EXPECT_EQ(result.exitCode, 0) << result.err;
    return inDirectory(save) + "/step-0000" + (steps[1] ? "" : "0") + steps;
  };
  auto typeIn = [](const std::string &folder, const std::string &file) {
    return io::openSafetensors(folder + "/" + file).tensors().front().dtype;
  };
  auto check = [&](const std::string &folder, const std::string &dtype,
                   const char *name) {
    EXPECT_EQ(typeIn(folder, "model.safetensors"), dtype);
    json config = json::parse(readFile(folder + "/config.json"));
    EXPECT_EQ(config["dtype"], name);
    EXPECT_EQ(config["torch_dtype"], name);
    std::string masters = folder + "/heddle/masters.safetensors";
    EXPECT_EQ(std::filesystem::exists(masters), dtype != "F32");
    if (dtype != "F32") {
      EXPECT_EQ(typeIn(folder, "heddle/masters.safetensors"), "F32");
    }
  };
  std::string whole = train("12", "whole", {});
  check(whole, "BF16", "bfloat16");
  check(train("5", "part", {}), "BF16", "bfloat16");
  std::string resumed = train("12", "part", {"--resume", inDirectory("part")});
  check(train("5", "half", {"--save-dtype", "F16"}), "F16", "float16");
  // A resumed run goes on with the type, and with the bits.
  std::string half = train("12", "half", {"--resume", inDirectory("half")});
  check(half, "F16", "float16");
  std::string exact = train(
      "12", "exact",
      {"--resume", inDirectory("half/step-000005"), "--save-dtype", "F32"});
  check(exact, "F32", "float32");
  for (const char *file : {"model.safetensors", "heddle/masters.safetensors",
                           "heddle/optimizer.safetensors"})
    EXPECT_TRUE(readFile(whole + "/" + file) == readFile(resumed + "/" + file))
        << file;
  EXPECT_TRUE(readFile(whole + "/heddle/masters.safetensors") ==
              readFile(exact + "/model.safetensors"));
  // What is rounded is rounded to nearest.
  io::WeightSet saved = io::openWeights(whole), all = io::openWeights(exact);
  std::vector<uint16_t> rounded(65536), nearest(65536);
  saved.read(saved.at("table.weight"), "BF16", rounded.data());
  all.read(all.at("table.weight"), "BF16", nearest.data());
  EXPECT_EQ(rounded, nearest);
  EXPECT_NE(rounded, values);
}

TEST_F(BinaryTest, LimitsWhatATypeCannotHold) {
  Plan plan = makeBigramPlan();
  plan.optimizer.lr = 1e-3;
  plan.states[0].init = {Init::Kind::Constant, -1e5};
  RunResult result = run(makeBinary(plan),
                         {"train", "--data", makeTokens(500), "--steps", "1",
                          "--save", inDirectory("out"), "--save-dtype", "F16"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_NE(result.err.find("warning[H0417]: 65536 values"), std::string::npos)
      << result.err;
  io::WeightSet saved = io::openWeights(inDirectory("out"));
  std::vector<float> values(65536);
  saved.read(saved.at("table.weight"), "F32", values.data());
  EXPECT_EQ(values, std::vector<float>(65536, -65504.0f));
}

// Checkpoints of older versions do not hold the powers of the betas.
TEST_F(BinaryTest, ResumesWithoutPowers) {
  Plan plan = makeBigramPlan(), older = plan;
  for (State &state : older.states)
    if (state.init.kind == Init::Kind::Power)
      state.checkpointed = false;
  std::string data = makeTokens(500), saved = inDirectory("saved");
  auto train = [&](const Plan &plan, const char *steps, const char *log,
                   std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "train", "--data", data, "--steps", steps, "--log", inDirectory(log)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    RunResult result = run(makeBinary(plan), arguments);
    EXPECT_EQ(result.exitCode, 0) << result.err;
    return lossesOf(inDirectory(log));
  };
  std::vector<double> whole = train(plan, "9", "whole.jsonl", {});
  train(older, "4", "part.jsonl", {"--save", saved});
  std::vector<double> rest =
      train(plan, "9", "rest.jsonl", {"--resume", saved});
  EXPECT_EQ(rest, std::vector<double>(whole.begin() + 4, whole.end()));
  EXPECT_NE(
      train(plan, "9", "reset.jsonl", {"--resume", saved, "--reset-optimizer"}),
      rest);
}

TEST_F(BinaryTest, TwoRunsAreTheSameBits) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500);
  for (const char *name : {"a", "b"})
    ASSERT_EQ(
        run(model, {"train", "--data", data, "--steps", "6", "--save",
                    inDirectory(name), "--log", inDirectory(name) + ".jsonl"})
            .exitCode,
        0);
  EXPECT_EQ(lossesOf(inDirectory("a.jsonl")), lossesOf(inDirectory("b.jsonl")));
  EXPECT_TRUE(readFile(inDirectory("a/step-000006/model.safetensors")) ==
              readFile(inDirectory("b/step-000006/model.safetensors")));
}

TEST_F(BinaryTest, KeepsTheNewestCheckpoints) {
  std::string model = makeBinary(makeBigramPlan());
  RunResult result =
      run(model, {"train", "--data", makeTokens(500), "--steps", "7", "--save",
                  inDirectory("out"), "--save-every", "2", "--keep-last", "2"});
  ASSERT_EQ(result.exitCode, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(inDirectory("out/step-000004")));
  EXPECT_TRUE(std::filesystem::exists(inDirectory("out/step-000006")));
  EXPECT_TRUE(std::filesystem::exists(inDirectory("out/step-000007")));
}

TEST_F(BinaryTest, StopsCleanlyOnSignals) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::string out = inDirectory("out" + std::to_string(signal));
    std::string log = out + ".jsonl";
    int process =
        start(model, {"train", "--data", data, "--steps", "100000000", "--save",
                      out, "--log", log, "--progress", "none"});
    while (!std::filesystem::exists(log) || readFile(log).size() < 1000)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(process, signal);
    RunResult result = wait(process);
    EXPECT_EQ(result.exitCode, 128 + signal);
    std::vector<json> lines = readLog(log);
    EXPECT_EQ(lines.back()["event"], "end");
    EXPECT_EQ(lines.back()["signal"], signal);
    EXPECT_EQ(lines[lines.size() - 2]["event"], "save");
    EXPECT_EQ(lines[lines.size() - 2]["step"], lines.back()["steps"]);
    EXPECT_TRUE(std::filesystem::exists(out + "/latest"));
  }
}

TEST_F(BinaryTest, SavesHoweverOftenOneRequestArrives) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::string out = inDirectory("out" + std::to_string(signal));
    std::string log = out + ".jsonl";
    int process =
        start(model, {"train", "--data", data, "--steps", "100000000", "--save",
                      out, "--log", log, "--progress", "none"});
    while (!std::filesystem::exists(log) || readFile(log).size() < 1000)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // As a supervisor and a launcher together do.
    for (int times = 0; times < 100; ++times) {
      kill(process, signal);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(wait(process).exitCode, 128 + signal);
    EXPECT_TRUE(std::filesystem::exists(out + "/latest"));
  }
}

TEST_F(BinaryTest, DumpsTheLastStep) {
  std::string model = makeBinary(makeBigramPlan());
  std::string dump = inDirectory("dump.safetensors");
  std::string log = inDirectory("log.jsonl");
  // The validation after the last step must not write over its values.
  RunResult result = run(model, {"train", "--data", makeTokens(500), "--val",
                                 makeTokens(200, "val.bin"), "--steps", "3",
                                 "--dump", dump, "--log", log});
  ASSERT_EQ(result.exitCode, 0) << result.err;
  io::WeightSet tensors = io::openSafetensors(dump);
  float loss = 0;
  tensors.read(tensors.at("loss"), "F32", &loss);
  EXPECT_EQ(loss, float(lossesOf(log).back()));
  const io::TensorInfo &gradient = tensors.at("grad.table.weight");
  EXPECT_EQ(gradient.shape, (std::vector<int64_t>{256, 256}));
}

TEST_F(BinaryTest, EvaluatesWeightsOfACheckpoint) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500);
  ASSERT_EQ(run(model, {"train", "--data", data, "--steps", "30", "--save",
                        inDirectory("out")})
                .exitCode,
            0);
  RunResult fresh = run(model, {"eval", "--data", data, "--json"});
  ASSERT_EQ(fresh.exitCode, 0) << fresh.err;
  EXPECT_NEAR(json::parse(fresh.out)["loss"].get<double>(), std::log(256.0),
              0.05);
  RunResult trained = run(model, {"eval", "--data", data, "--json", "--weights",
                                  inDirectory("out/step-000030")});
  ASSERT_EQ(trained.exitCode, 0) << trained.err;
  EXPECT_LT(json::parse(trained.out)["loss"].get<double>(), 3);
}

TEST_F(BinaryTest, GeneratesWhatItLearned) {
  std::string model = makeBinary(makeBigramPlan());
  ASSERT_EQ(run(model, {"train", "--data", makeTokens(500), "--steps", "100",
                        "--save", inDirectory("out")})
                .exitCode,
            0);
  std::vector<std::string> arguments = {
      "generate", "--weights", inDirectory("out"), "--max-new-tokens", "30"};
  auto generate = [&](std::vector<std::string> more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    RunResult result = run(model, all);
    EXPECT_EQ(result.exitCode, 0) << result.err;
    return result.out;
  };
  // `q` is always followed by `u`; the text grows longer than the window.
  std::string text = generate({"--prompt", "q"});
  EXPECT_EQ(text.substr(0, 2), "qu");
  EXPECT_EQ(text.size(), 32u);
  EXPECT_EQ(generate({"--prompt", "q"}), text);
  EXPECT_EQ(generate({"--prompt-ids", "113"}).substr(0, 7), "113 117");
  std::string sampled = generate({"--prompt", "q", "--temperature", "1"});
  EXPECT_EQ(generate({"--prompt", "q", "--temperature", "1"}), sampled);
  EXPECT_NE(generate({"--prompt", "q", "--temperature", "1", "--seed", "5"}),
            sampled);
}

TEST_F(BinaryTest, TracesLaunches) {
  std::string trace = inDirectory("trace.json");
  RunResult result =
      run(makeBinary(makeBigramPlan()), {"train", "--data", makeTokens(500),
                                         "--steps", "2", "--trace", trace});
  ASSERT_EQ(result.exitCode, 0) << result.err;
  std::ifstream file(trace);
  json events = json::parse(file)["traceEvents"];
  ASSERT_EQ(events.size(), 12u); // Two fills, two micro-batches, powers, Adam.
  EXPECT_EQ(events[0]["name"], "fill");
  EXPECT_EQ(events[5]["name"], "bigram_adam");
  EXPECT_EQ(events[5]["args"]["path"], "table");
}

TEST_F(BinaryTest, TellsAboutItself) {
  std::string model = makeBinary(makeBigramPlan());
  RunResult text = run(model, {"info"});
  EXPECT_EQ(text.exitCode, 0);
  EXPECT_NE(text.out.find("train, eval, generate"), std::string::npos);
  json info = json::parse(run(model, {"info", "--json"}).out);
  EXPECT_EQ(info["memory"]["arena"], 8192);
  EXPECT_EQ(info["memory"]["peak"], 8192 + 1183744);
  EXPECT_EQ(info["parameters"], 65536);
}

TEST_F(BinaryTest, TimesItself) {
  std::string model = makeBinary(makeBigramPlan());
  RunResult result =
      run(model, {"bench", "--steps", "3", "--warmup", "1", "--kernels"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_NE(result.out.find("bigram_adam"), std::string::npos);
  json line = json::parse(run(model, {"bench", "--steps", "3", "--json"}).out);
  EXPECT_GT(line["median_s"].get<double>(), 0);
}

TEST_F(BinaryTest, KilledAnywhereItResumesToTheSameBits) {
  std::string model = makeBinary(makeBigramPlan());
  std::vector<std::string> arguments = {"train",
                                        "--data",
                                        makeTokens(500),
                                        "--steps",
                                        "30",
                                        "--save",
                                        inDirectory("whole"),
                                        "--save-every",
                                        "1",
                                        "--keep-last",
                                        "2",
                                        "--progress",
                                        "none"};
  ASSERT_EQ(run(model, arguments).exitCode, 0);
  arguments[6] = inDirectory("killed");
  int kills = 0;
  for (int attempt = 0; attempt < 200; ++attempt) {
    std::vector<std::string> now = arguments;
    // It may have been killed before `latest` named the first one.
    if (std::filesystem::exists(inDirectory("killed/step-000001")) ||
        std::filesystem::exists(inDirectory("killed/latest")))
      now.insert(now.end(), {"--resume", inDirectory("killed")});
    int process = start(model, now);
    // Later and later, so that every part of a run is hit and the last ends.
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + 7 * attempt));
    kill(process, SIGKILL);
    RunResult result = wait(process);
    if (result.exitCode == 0)
      break;
    ASSERT_EQ(result.exitCode, 1000 + SIGKILL) << result.err;
    ++kills;
  }
  EXPECT_GT(kills, 1);
  for (const char *file : {"model.safetensors", "heddle/optimizer.safetensors"})
    EXPECT_TRUE(readFile(inDirectory("whole/step-000030/") + file) ==
                readFile(inDirectory("killed/step-000030/") + file));
}

TEST_F(BinaryTest, NeedsNoNewerGlibcThan234) {
  std::vector<char> bytes = readFile(HEDDLE_TEST_RUNTIME);
  std::string text(bytes.begin(), bytes.end());
  const std::string prefix = "GLIBC_2.";
  size_t found = 0;
  for (size_t at = text.find(prefix); at != std::string::npos;
       at = text.find(prefix, at + 1), ++found)
    EXPECT_LE(atoi(text.c_str() + at + prefix.size()), 34);
  EXPECT_GT(found, 0u);
}

TEST_F(BinaryTest, HelpsWithoutData) {
  RunResult bare = run(HEDDLE_TEST_RUNTIME, {"--help"});
  EXPECT_EQ(bare.exitCode, 0);
  RunResult train = run(HEDDLE_TEST_RUNTIME, {"train", "--help"});
  EXPECT_EQ(train.exitCode, 0);
  for (const char *flag : {"--data", "--resume", "--keep-last", "--shuffle"})
    EXPECT_NE(train.out.find(flag), std::string::npos);
}
