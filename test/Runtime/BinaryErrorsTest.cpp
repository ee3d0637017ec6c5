//===- BinaryErrorsTest.cpp - Tests of a compiled binary's errors ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BigramPlan.h"
#include "BinaryRun.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

static void expectError(const RunResult &result, int exitCode,
                        const std::string &code) {
  EXPECT_EQ(result.exitCode, exitCode);
  EXPECT_EQ(result.err.rfind("error[" + code + "]", 0), 0u) << result.err;
  EXPECT_NE(result.err.find("help:"), std::string::npos) << result.err;
}

TEST_F(BinaryTest, RefusesWrongUse) {
  std::string model = makeBinary(makeBigramPlan());
  expectError(run(model, {"train", "--dta", "x"}), 2, "H0190");
  expectError(run(model, {"train", "--steps", "3"}), 2, "H0124");
  expectError(run(model, {}), 2, "H0190");
  std::string data = makeTokens(500);
  expectError(
      run(model, {"train", "--data", data, "--steps", "1", "--min-lr", "0"}), 2,
      "H0123");
  expectError(
      run(model, {"train", "--data", data, "--steps", "1", "--clip", "1"}), 2,
      "H0178");
  expectError(run(model, {"generate", "--prompt", ""}), 2, "H0190");
  expectError(run(model, {"generate", "--prompt-ids", "1,x"}), 2, "H0195");
  expectError(run(model, {"generate", "--prompt-ids", "256"}), 2, "H0195");
}

TEST_F(BinaryTest, RefusesVerbsThatItDoesNotHold) {
  plan::Plan plan = makeBigramPlan();
  plan.programs.resize(1);
  expectError(run(makeBinary(plan), {"generate", "--prompt", "a"}), 2, "H0191");
}

TEST_F(BinaryTest, RefusesCpusThatLackFeatures) {
  plan::Plan plan = makeBigramPlan();
  plan.features = {"xop", "amx-complex"}; // No CPU has both.
  std::string model = makeBinary(plan);
  expectError(run(model, {"train", "--data", "x", "--steps", "1"}), 4, "H0291");
  EXPECT_EQ(run(model, {"info"}).exitCode, 0);
}

TEST_F(BinaryTest, RefusesMemoryThatIsNotThere) {
  plan::Plan plan = makeBigramPlan();
  plan.memory.arenaBytes[plan::MemoryKind::Device] = int64_t(1) << 50;
  plan.memory.owners = {{"states", 1}, {"activations", 9}, {"optimizer", 5}};
  plan.seq = 16;
  RunResult result = run(makeBinary(plan), {"eval", "--data", makeTokens(500)});
  expectError(result, 4, "H0292");
  EXPECT_NE(result.err.find("the most have: activations 9 B, optimizer 5 B"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("help: compile with a --seq below 16"),
            std::string::npos)
      << result.err;
}

TEST_F(BinaryTest, RefusesBadTokens) {
  std::string model = makeBinary(makeBigramPlan());
  std::string log = inDirectory("log.jsonl"), out = inDirectory("out");
  // The wrong token stands in the last batch.
  std::string bad = makeTokens(3 * 64 + 1, "bad.bin", 300);
  std::string good = makeTokens(3 * 64 + 1);
  std::vector<std::string> train = {"train", "--steps", "5",    "--log",
                                    log,     "--save",  out,    "--progress",
                                    "none",  "--data",  "file", "--val"};
  for (auto [data, val] : {std::pair(bad, good), std::pair(good, bad)}) {
    std::vector<std::string> arguments = train;
    arguments[10] = data;
    arguments.push_back(val);
    RunResult foreign = run(model, arguments);
    expectError(foreign, 3, "H0346");
    EXPECT_NE(foreign.err.find("token 192 is 300, but the vocabulary has 256 "
                               "tokens; it is at byte 1408 of the file\n"
                               "  --> " +
                               bad),
              std::string::npos)
        << foreign.err;
    EXPECT_FALSE(std::filesystem::exists(log)); // Before the first step.
  }
  // A validation that stops before it does not see it.
  train[10] = good;
  train.insert(train.end(), {bad, "--val-steps", "2"});
  EXPECT_EQ(run(model, train).exitCode, 0);
  expectError(run(model, {"train", "--data", makeTokens(64), "--steps", "1"}),
              3, "H0347");
  EXPECT_EQ(
      run(model, {"train", "--data", "/no/such", "--steps", "1"}).exitCode, 3);
}

/// Writes a NaN over the element `index` of a tensor of F32.
static void spoil(const std::string &file, const std::string &tensor,
                  int64_t index) {
  io::WeightSet weights = io::openSafetensors(file);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(weights.at(tensor).offset + 4 * index);
  float bad = std::nanf("");
  stream.write(reinterpret_cast<const char *>(&bad), sizeof bad);
}

/// Makes the manifest right for a file that was changed.
static void renewManifest(const std::string &folder, const std::string &name) {
  std::string path = folder + "/heddle/manifest.json";
  std::vector<char> bytes = readFile(folder + "/" + name);
  json manifest = json::parse(readFile(path));
  for (json &file : manifest["files"])
    if (file["name"] == name)
      file["xxh3"] = io::hexDigest(io::hashBytes(bytes.data(), bytes.size()));
  std::ofstream(path) << manifest;
}

TEST_F(BinaryTest, NamesTheTensorThatIsNotFinite) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500), saved = inDirectory("out/step-000002");
  ASSERT_EQ(run(model, {"train", "--data", data, "--steps", "2", "--save",
                        inDirectory("out")})
                .exitCode,
            0);
  std::vector<std::string> resume = {"train", "--data",   data, "--steps",
                                     "3",     "--resume", saved};
  spoil(saved + "/heddle/optimizer.safetensors", "exp_avg_sq.table.weight",
        256 * 255 + 3);
  renewManifest(saved, "heddle/optimizer.safetensors");
  RunResult result = run(model, resume);
  expectError(result, 3, "H0307");
  EXPECT_NE(result.err.find("exp_avg_sq.table.weight"), std::string::npos);
  EXPECT_NE(result.err.find("[255, 3]"), std::string::npos) << result.err;
  spoil(saved + "/model.safetensors", "table.weight", 256 * 2 + 1);
  expectError(run(model, {"eval", "--data", data, "--weights", saved}), 3,
              "H0363");
  renewManifest(saved, "model.safetensors");
  for (std::vector<std::string> verb :
       {std::vector<std::string>{"train", "--data", data, "--steps", "1"},
        {"eval", "--data", data},
        {"generate", "--prompt", "a"},
        {"bench", "--steps", "1"}}) {
    verb.insert(verb.end(), {"--weights", saved});
    result = run(model, verb);
    expectError(result, 3, "H0307");
    EXPECT_NE(result.err.find("\"table.weight\" is not finite: its element "
                              "[2, 1]"),
              std::string::npos)
        << result.err;
  }
}

TEST_F(BinaryTest, RefusesStatesThatAreOdd) {
  std::string model = makeBinary(makeBigramPlan()), data = makeTokens(500);
  std::string saved = inDirectory("out/step-000002");
  ASSERT_EQ(run(model, {"train", "--data", data, "--steps", "2", "--val", data,
                        "--save", inDirectory("out")})
                .exitCode,
            0);
  std::string path = saved + "/heddle/state.json";
  json state = json::parse(readFile(path));
  auto resume = [&](const std::string &pointer, const json &value) {
    json changed = state;
    changed[json::json_pointer(pointer)] = value;
    std::ofstream(path) << changed.dump();
    json manifest = json::parse(readFile(saved + "/heddle/manifest.json"));
    for (json &file : manifest["files"])
      if (file["name"] == "heddle/state.json")
        file["bytes"] = changed.dump().size();
    std::ofstream(saved + "/heddle/manifest.json") << manifest;
    renewManifest(saved, "heddle/state.json");
    return run(model, {"train", "--data", data, "--steps", "3", "--progress",
                       "none", "--resume", saved});
  };
  for (const char *pointer :
       {"/step", "/seed", "/plan", "/data", "/data/rows", "/data/batch",
        "/data/shuffle", "/data/sources", "/data/sources/0",
        "/data/sources/0/file", "/data/sources/0/row", "/best_validation",
        "/best_validation/loss"})
    for (const json &value : {json(true), json(json::array({json::array()}))})
      expectError(resume(pointer, value), 3, "H0305");
  for (const json &value : {json(-1), json(1e300), json(~uint64_t(0))})
    for (const char *pointer : {"/step", "/data/seq", "/data/sources/0/pass",
                                "/data/sources/0/origin"})
      EXPECT_EQ(resume(pointer, value).exitCode, 3) << pointer << value;
  EXPECT_EQ(resume("/an_unknown_key", 1).exitCode, 0);
}

TEST_F(BinaryTest, SavesWhatIsGoodBeforeAnError) {
  std::string model = makeBinary(makeBigramPlan());
  std::string log = inDirectory("log.jsonl"), out = inDirectory("out");
  std::vector<std::string> train = {"train",
                                    "--data",
                                    makeTokens(3 * 64 + 1, "bad.bin", 300),
                                    "--data-check",
                                    "batch",
                                    "--steps",
                                    "5",
                                    "--progress",
                                    "none",
                                    "--save",
                                    out,
                                    "--log",
                                    log};
  expectError(run(model, train), 3, "H0346");
  EXPECT_EQ(lossesOf(log).size(), 2u);
  std::vector<json> lines = readLog(log);
  EXPECT_EQ(lines.back()["event"], "error");
  EXPECT_EQ(lines.back()["code"], "H0346");
  EXPECT_EQ(lines[lines.size() - 2]["event"], "save");
  EXPECT_EQ(lines[lines.size() - 2]["step"], 2);
  // It goes on with the batch that failed.
  train.insert(train.end(), {"--resume", out});
  expectError(run(model, train), 3, "H0346");
  train[2] = makeTokens(3 * 64 + 1);
  EXPECT_EQ(run(model, train).exitCode, 0);
  EXPECT_EQ(readLog(log).back()["steps"], 5);
  // A log that cannot be written.
  std::string full = inDirectory("full");
  expectError(run(model, {"train", "--data", train[2], "--steps", "5", "--save",
                          full, "--log", "/dev/full", "--progress", "none"}),
              5, "H0411");
}

TEST_F(BinaryTest, TrainsOnWhereLogsCannotBeWritten) {
  std::string model = makeBinary(makeBigramPlan());
  std::string log = inDirectory("log.jsonl"), csv = inDirectory("log.csv");
  std::string events = inDirectory("events");
  // Files of at most a kilobyte or two, by what the shell counts in.
  RunResult result =
      run("/bin/sh",
          {"-c", "ulimit -f 2; exec \"$@\"", "sh", model, "train", "--data",
           makeTokens(500), "--steps", "60", "--log", log, "--log-csv", csv,
           "--log-tensorboard", events, "--progress", "none"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  auto count = [&](const std::string &text) {
    size_t found = 0;
    for (size_t at = result.err.find(text); at != std::string::npos;
         at = result.err.find(text, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("warning: cannot write "), 3u) << result.err;
  EXPECT_EQ(count(" records are missing in "), 3u) << result.err;
  EXPECT_EQ(readLog(log).front()["event"], "start");
  EXPECT_EQ(readFile(log).back(), '\n');
  EXPECT_EQ(readFile(csv).back(), '\n');
}

TEST_F(BinaryTest, BadInputLeavesFilesAlone) {
  std::string model = makeBinary(makeBigramPlan());
  std::string log = inDirectory("log.jsonl");
  std::ofstream(log) << "kept";
  run(model, {"train", "--data", makeTokens(10), "--steps", "1", "--log", log,
              "--save", inDirectory("out")});
  EXPECT_EQ(readFile(log).size(), 4u);
  EXPECT_FALSE(std::filesystem::exists(inDirectory("out")));
}

TEST_F(BinaryTest, RefusesDamagedBinaries) {
  std::string model = makeBinary(makeBigramPlan());
  std::vector<char> good = readFile(model);
  std::string text(good.begin(), good.end());
  auto damaged = [&](const std::string &where) {
    std::string copy = text;
    size_t place = copy.rfind(where);
    EXPECT_NE(place, std::string::npos);
    copy[place + where.size() - 1] ^= 1;
    std::string path = inDirectory("damaged");
    std::ofstream(path, std::ios::binary) << copy;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  };
  std::vector<char> kernels = readFile(HEDDLE_TEST_KERNELS);
  std::string middle(kernels.begin() + 4096, kernels.begin() + 4160);
  expectError(run(damaged("\"seq\":1"), {"info"}), 3, "H0382");
  expectError(run(damaged(middle), {"bench"}), 3, "H0382");
  expectError(run(HEDDLE_TEST_RUNTIME, {"info"}), 3, "H0381");
}

TEST_F(BinaryTest, SaysThatItIsCutOff) {
  std::string model = makeBinary(makeBigramPlan());
  auto whole = std::filesystem::file_size(model);
  std::filesystem::resize_file(model, whole - 10);
  RunResult cut = run(model, {"info"});
  expectError(cut, 3, "H0382");
  EXPECT_NE(cut.err.find("/model is cut off: it has " +
                         std::to_string(whole - 10) + " of " +
                         std::to_string(whole) + " bytes"),
            std::string::npos)
      << cut.err;
}

TEST_F(BinaryTest, RefusesForeignWeights) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500), weights = inDirectory("w.safetensors");
  std::vector<float> values(512, 0);
  io::TensorToWrite tensor;
  tensor.name = "table.weight";
  tensor.dtype = "F32";
  tensor.shape = {2, 256};
  tensor.data = values.data();
  io::writeSafetensors(weights, {tensor});
  expectError(run(model, {"eval", "--data", data, "--weights", weights}), 3,
              "H0387");
  tensor.name = "tabel.weight";
  io::writeSafetensors(weights, {tensor});
  expectError(run(model, {"eval", "--data", data, "--weights", weights}), 3,
              "H0335");
}

TEST_F(BinaryTest, RefusesWeightsThatChanged) {
  std::string weights = inDirectory("w.safetensors");
  std::vector<float> values(65536, 0);
  io::TensorToWrite tensor;
  tensor.name = "table.weight";
  tensor.dtype = "F32";
  tensor.shape = {256, 256};
  tensor.data = values.data();
  io::writeSafetensors(weights, {tensor});
  plan::Plan plan = makeBigramPlan();
  plan.weights.random = false;
  plan.weights.directory = weights;
  plan.weights.headerHash = io::openWeights(weights).headerHash();
  std::string model = makeBinary(plan), data = makeTokens(500);
  EXPECT_EQ(run(model, {"eval", "--data", data}).exitCode, 0);
  io::writeSafetensors(weights, {tensor}, {{"format", "np"}});
  expectError(run(model, {"eval", "--data", data}), 3, "H0386");
  EXPECT_EQ(run(model, {"eval", "--data", data, "--weights", weights}).exitCode,
            0);
}

TEST_F(BinaryTest, StopsAtALossThatIsNotFinite) {
  plan::Plan plan = makeBigramPlan();
  plan.optimizer.lr = 1e38;
  std::string log = inDirectory("log.jsonl");
  RunResult result =
      run(makeBinary(plan),
          {"train", "--data", makeTokens(500), "--steps", "20", "--log", log,
           "--save", inDirectory("out"), "--progress", "none"});
  expectError(result, 5, "H0410");
  EXPECT_EQ(readLog(log).back()["code"], "H0410");
  EXPECT_FALSE(std::filesystem::exists(inDirectory("out/latest")));
}

TEST_F(BinaryTest, SaysWhenAnEvaluationIsNotFinite) {
  std::string weights = inDirectory("w.safetensors");
  std::vector<float> values(65536);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 2 ? 3e38F : -3e38F;
  io::TensorToWrite tensor;
  tensor.name = "table.weight";
  tensor.dtype = "F32";
  tensor.shape = {256, 256};
  tensor.data = values.data();
  io::writeSafetensors(weights, {tensor});
  RunResult result =
      run(makeBinary(makeBigramPlan()),
          {"eval", "--data", makeTokens(500), "--weights", weights});
  expectError(result, 5, "H0410");
  EXPECT_EQ(result.out, "");
}

TEST_F(BinaryTest, RefusesOutputThatCannotBeWritten) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500);
  std::ofstream(inDirectory("file")) << "x";
  RunResult result = run(model, {"train", "--data", data, "--steps", "1",
                                 "--save", inDirectory("file") + "/out"});
  expectError(result, 5, "H0402");
  result = run(model, {"train", "--data", data, "--steps", "1", "--log",
                       "/no/such/log"});
  expectError(result, 5, "H0411");
}

TEST_F(BinaryTest, SaysWhenDataBecomesShorter) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(100000), log = inDirectory("log.jsonl");
  int process =
      start(model, {"train", "--data", data, "--steps", "1000000", "--log", log,
                    "--progress", "none", "--save", inDirectory("out")});
  while (!std::filesystem::exists(log) || readFile(log).size() < 1000)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::filesystem::resize_file(data, 1024);
  RunResult result = wait(process);
  expectError(result, 5, "H0432");
  EXPECT_NE(result.err.find("data.bin became shorter"), std::string::npos);
  EXPECT_EQ(readLog(log).back()["code"], "H0432");
  EXPECT_TRUE(std::filesystem::exists(inDirectory("out/latest")));
}

TEST_F(BinaryTest, RefusesPipesAsInput) {
  std::string model = makeBinary(makeBigramPlan());
  std::string pipe = inDirectory("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expectError(run(model, {"train", "--data", pipe, "--steps", "1"}), 3,
              "H0340");
  expectError(
      run(model, {"eval", "--data", makeTokens(500), "--weights", pipe}), 3,
      "H0310");
}

TEST_F(BinaryTest, SaysWhenResultsAreLost) {
  if (access("/dev/full", W_OK) != 0)
    GTEST_SKIP() << "no /dev/full";
  std::string model = makeBinary(makeBigramPlan()), data = makeTokens(500);
  const std::vector<std::string> verbs[] = {
      {"info"},
      {"info", "--json"},
      {"train", "--help"},
      {"bench", "--steps", "1", "--warmup", "0"},
      {"eval", "--data", data},
      {"generate", "--prompt", "q", "--max-new-tokens", "100000000"}};
  for (const std::vector<std::string> &verb : verbs) {
    std::vector<std::string> command = {"-c", "exec \"$@\" >/dev/full", "sh",
                                        model};
    command.insert(command.end(), verb.begin(), verb.end());
    RunResult full = run("/bin/sh", command);
    EXPECT_EQ(full.exitCode, 5) << verb.front();
    // Of what is longer than a buffer the reason may be lost with the first
    // part.
    EXPECT_NE(full.err.find("error[H0431]: cannot write to stdout: "),
              std::string::npos)
        << full.err;
    command[1] = "exec \"$@\" >&-";
    EXPECT_EQ(run("/bin/sh", command).exitCode, 5) << verb.front();
  }
}

TEST_F(BinaryTest, NeedsNoStderr) {
  std::string model = makeBinary(makeBigramPlan()), data = makeTokens(500);
  // Were it to get the number of stderr, messages would be in the file.
  for (const char *closing : {"exec \"$@\" 2>&-", "exec \"$@\" <&- 2>&-",
                              "exec \"$@\" 2>/dev/full"}) {
    std::string log = inDirectory("log.jsonl"), out = inDirectory("out");
    RunResult result = run("/bin/sh", {"-c", closing, "sh", model, "train",
                                       "--data", data, "--steps", "3", "--log",
                                       log, "--save", out, "--overwrite"});
    EXPECT_EQ(result.exitCode, 0) << closing;
    EXPECT_EQ(lossesOf(log).size(), 3u);
    RunResult eval = run("/bin/sh", {"-c", closing, "sh", model, "eval",
                                     "--data", data, "--weights", out});
    EXPECT_EQ(eval.exitCode, 0) << closing;
    EXPECT_EQ(eval.out.rfind("loss ", 0), 0u) << eval.out;
  }
}

TEST_F(BinaryTest, RefusesADirectoryOfAnotherRun) {
  std::string model = makeBinary(makeBigramPlan()), data = makeTokens(500);
  std::string out = inDirectory("out"), log = inDirectory("log.jsonl");
  std::vector<std::string> train = {"train",   "--data", data,
                                    "--steps", "3",      "--progress",
                                    "none",    "--save", out};
  std::vector<std::string> longer = train;
  longer[4] = "100000000";
  longer.insert(longer.end(), {"--log", log, "--save-every", "1000"});
  int process = start(model, longer);
  while (!std::filesystem::exists(log) || readFile(log).size() < 1000)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  RunResult second = run(model, train);
  expectError(second, 5, "H0433");
  EXPECT_NE(second.err.find(": process " + std::to_string(process) + " on "),
            std::string::npos)
      << second.err;
  // It was killed with no time to clean up: the next run takes over.
  kill(process, SIGKILL);
  wait(process);
  EXPECT_TRUE(std::filesystem::exists(out + "/.heddle-lock"));
  train.push_back("--overwrite"); // Of what it may have saved.
  RunResult third = run(model, train);
  EXPECT_EQ(third.exitCode, 0) << third.err;
  EXPECT_FALSE(std::filesystem::exists(out + "/.heddle-lock"));
}

TEST_F(BinaryTest, LosesNoCheckpointOfAnotherRun) {
  std::string model = makeBinary(makeBigramPlan());
  std::string data = makeTokens(500), out = inDirectory("out");
  auto train = [&](const char *steps, const char *every,
                   const std::vector<std::string> &more) {
    std::vector<std::string> arguments = {
        "train", "--data",       data,  "--steps",    steps, "--save",
        out,     "--save-every", every, "--progress", "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(model, arguments);
  };
  auto names = [&] {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator(out))
      found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  };
  ASSERT_EQ(train("40", "20", {}).exitCode, 0);
  // --resume was forgotten.
  std::string log = inDirectory("log.jsonl");
  std::ofstream(log) << "kept\n";
  RunResult forgotten = train("4", "2", {"--keep-last", "2", "--log", log});
  expectError(forgotten, 2, "H0155");
  EXPECT_NE(forgotten.err.find(out + " has checkpoints up to step-000040"),
            std::string::npos)
      << forgotten.err;
  for (const char *edit : {"--resume ", "another directory", "--overwrite"})
    EXPECT_NE(forgotten.err.find(edit), std::string::npos) << edit;
  EXPECT_EQ(readFile(log).size(), 5u);
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(), (Names{"latest", "step-000020", "step-000040"}));
  // With --overwrite it keeps its last two, and what it did not write.
  EXPECT_EQ(train("6", "2", {"--keep-last", "2", "--overwrite"}).exitCode, 0);
  EXPECT_EQ(names(), (Names{"latest", "step-000004", "step-000006",
                            "step-000020", "step-000040"}));
  // The run that goes on knows what it continues.
  EXPECT_EQ(train("10", "2", {"--keep-last", "2", "--resume", out}).exitCode,
            0);
  EXPECT_EQ(names(), (Names{"latest", "step-000008", "step-000010",
                            "step-000020", "step-000040"}));
  std::filesystem::create_directory(out + "/step-000012");
  expectError(train("12", "0", {"--resume", out}), 2, "H0155");
  expectError(train("12", "0", {"--resume", out, "--overwrite"}), 2, "H0155");
}
