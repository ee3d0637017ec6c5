//===- CheckpointTest.cpp - Tests of checkpoint directories -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Checkpoint.h"
#include "IoTestSupport.h"
#include <csignal>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

static Peers alone;

namespace {

/// A model of two tensors whose values all are the step.
class Model {
public:
  explicit Model(int64_t step, size_t elements = 64)
      : step(step), values(elements, static_cast<float>(step)) {}

  /// Points into this model, which must outlive it.
  CheckpointContents contents() const {
    std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
    auto tensor = [&](const std::string &name) {
      return SharedTensor{
          name, "F32", shape, [this](const SharedTensor::Sink &sink) {
            sink(0, values.data(), values.size() * sizeof(float));
          }};
    };
    CheckpointContents contents;
    contents.config = {{"model_type", "gpt2"}, {"n_embd", 8}};
    contents.model = {tensor("wte.weight"), tensor("h.0.ln_1.bias")};
    contents.optimizer = {tensor("exp_avg.wte.weight"),
                          tensor("exp_avg_sq.wte.weight")};
    contents.state.step = step;
    contents.state.seed = ~uint64_t(0) - step;
    io::DataState data{3 * step, 48 * step, 3, 16, uint64_t(7), {}};
    data.sources.push_back({"a.bin", "12ab", 99, 0.7, 2 * step, 3, 32, 1, 4});
    data.sources.push_back({"b:c", "", 500, 0.3, step, 0, 0, step, 80});
    contents.state.data = data;
    contents.state.best = {0.1, step / 2, 3};
    contents.state.planHash = "abc";
    return contents;
  }
  std::string save(const std::string &path, int64_t keepLast = 0) const {
    return io::saveCheckpoint(path, contents(), alone, keepLast);
  }

private:
  int64_t step;
  std::vector<float> values;
};

/// A run that saves into one directory.
struct SavingRun {
  std::string directory;
  std::vector<SavedStep> saved;

  /// Goes on from the latest checkpoint.
  void resume() { saved = openCheckpoint(directory, alone).state.saved; }
  void save(int64_t step, int64_t keepLast = 0, size_t elements = 64) {
    Model model(step, elements);
    CheckpointContents contents = model.contents();
    contents.state.saved = saved;
    noteSaved(saveCheckpoint(directory, contents, alone, keepLast), saved);
  }
};

} // namespace

/// Opens a checkpoint, checks that all its parts are of one step; the step.
static int64_t stepOf(const std::string &path) {
  Checkpoint checkpoint = openCheckpoint(path, alone);
  EXPECT_EQ(checkpoint.state.seed, ~uint64_t(0) - checkpoint.state.step);
  for (const WeightSet *set : {&checkpoint.model, &checkpoint.optimizer})
    for (const TensorInfo &info : set->tensors()) {
      std::vector<float> values(info.numElements());
      set->read(info, "F32", values.data());
      for (float value : values)
        EXPECT_EQ(value, static_cast<float>(checkpoint.state.step));
    }
  return checkpoint.state.step;
}

static std::vector<std::string> namesIn(const std::string &path) {
  return listDirectory(path, "H0301");
}

TEST(Checkpoint, SavesAndLoads) {
  TestDirectory directory;
  std::string tokenizer = directory.write("model/tokenizer.json", "{}");
  Model model(200);
  CheckpointContents contents = model.contents();
  contents.copies = {tokenizer, directory / "model/absent.json"};
  std::string out = directory / "a/b/out";
  std::string path = saveCheckpoint(out, contents, alone);
  EXPECT_EQ(path, out + "/step-000200");
  EXPECT_EQ(slurp(out + "/latest"), "step-000200\n");
  EXPECT_EQ(namesIn(out), (std::vector<std::string>{"latest", "step-000200"}));
  EXPECT_EQ(namesIn(path),
            (std::vector<std::string>{"config.json", "heddle",
                                      "model.safetensors", "tokenizer.json"}));
  EXPECT_EQ(namesIn(path + "/heddle"),
            (std::vector<std::string>{"manifest.json", "optimizer.safetensors",
                                      "state.json"}));
  EXPECT_EQ(stepOf(path), 200);
  EXPECT_EQ(stepOf(out), 200);
  Checkpoint checkpoint = openCheckpoint(out, alone);
  EXPECT_EQ(checkpoint.state.planHash, "abc");
  ASSERT_TRUE(checkpoint.state.data && checkpoint.state.best);
  const DataState &data = *checkpoint.state.data;
  EXPECT_EQ(std::tuple(data.rows, data.tokens, data.batch, data.seq),
            std::tuple(600, 9600, 3, 16));
  EXPECT_EQ(data.shuffle, uint64_t(7));
  ASSERT_EQ(data.sources.size(), 2u);
  const DataSourceState &source = data.sources.front();
  EXPECT_EQ(std::tuple(source.file, source.digest, source.tokens, source.weight,
                       source.taken, source.pass, source.origin, source.row,
                       source.passRows),
            std::tuple("a.bin", "12ab", 99, 0.7, 400, 3, 32, 1, 4));
  EXPECT_EQ(data.sources.back().row, 200);
  EXPECT_EQ(checkpoint.state.best->loss, 0.1);
  EXPECT_EQ(checkpoint.state.best->step, 100);
  EXPECT_EQ(checkpoint.state.best->worse, 3);
  EXPECT_EQ(openWeights(out).tensors().size(), 2u);
  for (const CheckpointPart &part : verifyCheckpoint(out))
    EXPECT_EQ(part.problem, "");
}

TEST(Checkpoint, MastersTakeThePlacesOfWhatIsRounded) {
  TestDirectory directory;
  Model exact(9), rounded(8);
  CheckpointContents contents = exact.contents();
  contents.model = rounded.contents().model;
  contents.masters = {exact.contents().model.front()};
  std::string path = saveCheckpoint(directory / "out", contents, alone);
  auto first = [](const WeightSet &set, const std::string &name) {
    std::vector<float> values(set.at(name).numElements());
    set.read(set.at(name), "F32", values.data());
    return values.front();
  };
  Checkpoint checkpoint = openCheckpoint(path, alone);
  EXPECT_EQ(first(checkpoint.model, "wte.weight"), 9);
  EXPECT_EQ(first(checkpoint.model, "h.0.ln_1.bias"), 8);
  // Whoever takes the weights alone has the file that others read, too.
  EXPECT_EQ(first(openWeights(path), "wte.weight"), 8);
  EXPECT_EQ(verifyCheckpoint(path).size(), 5u);
  // A reader that does not know of masters refuses the checkpoint.
  EXPECT_NE(slurp(path + "/heddle/manifest.json").find("\"version\": 2"),
            std::string::npos);
  // Conversions begin with the exact values, copies do not.
  convertWeights({path, directory / "f64", "F64", 0});
  EXPECT_EQ(first(openWeights(directory / "f64"), "wte.weight"), 9);
  EXPECT_NE(slurp(directory / "f64/config.json").find("\"float64\""),
            std::string::npos);
  convertWeights({path, directory / "copy", "", 0});
  EXPECT_EQ(slurp(directory / "copy/model.safetensors"),
            slurp(path + "/model.safetensors"));
}

TEST(Checkpoint, SavingTwiceGivesTheSameBytes) {
  TestDirectory directory;
  for (const char *name : {"a", "b"})
    Model(3).save(directory / name);
  for (const char *file :
       {"config.json", "model.safetensors", "heddle/optimizer.safetensors",
        "heddle/state.json", "heddle/manifest.json"})
    EXPECT_EQ(slurp(directory / ("a/step-000003/" + std::string(file))),
              slurp(directory / ("b/step-000003/" + std::string(file))))
        << file;
}

TEST(Checkpoint, ReplacesAStepAndCleansUp) {
  TestDirectory directory;
  Model(5).save(directory.path());
  directory.write(".heddle-tmp-step-000006-1/model.safetensors", "half");
  Model model(5);
  CheckpointContents changed = model.contents();
  changed.state.planHash = "other";
  saveCheckpoint(directory.path(), changed, alone);
  EXPECT_EQ(openCheckpoint(directory.path(), alone).state.planHash, "other");
  EXPECT_EQ(namesIn(directory.path()),
            (std::vector<std::string>{"latest", "step-000005"}));
}

TEST(Checkpoint, KeepsTheLast) {
  TestDirectory directory;
  SavingRun run{directory.path(), {}};
  for (int64_t step : {10, 20, 30})
    run.save(step);
  run.save(40, 2);
  EXPECT_EQ(namesIn(directory.path()),
            (std::vector<std::string>{"latest", "step-000030", "step-000040"}));
  // The one that goes on from it knows what it has written.
  SavingRun next{directory.path(), {}};
  next.resume();
  next.save(50, 2);
  EXPECT_EQ(namesIn(directory.path()),
            (std::vector<std::string>{"latest", "step-000040", "step-000050"}));
}

TEST(Checkpoint, RemovesOnlyItsOwn) {
  TestDirectory directory;
  SavingRun first{directory.path(), {}}, second{directory.path(), {}};
  for (int64_t step : {10, 20, 30})
    first.save(step);
  // Another run replaces one of them.
  for (int64_t step : {1, 2, 20})
    second.save(step, 1);
  EXPECT_EQ(namesIn(directory.path()),
            (std::vector<std::string>{"latest", "step-000010", "step-000020",
                                      "step-000030"}));
  Model other(20);
  CheckpointContents contents = other.contents();
  contents.state.planHash = "of another run";
  saveCheckpoint(directory.path(), contents, alone);
  first.save(40, 1);
  EXPECT_EQ(namesIn(directory.path()),
            (std::vector<std::string>{"latest", "step-000020", "step-000040"}));
  // A name that leads elsewhere is no name of a checkpoint.
  SavingRun hostile{directory / "hostile", {{"../step-000020", ""}}};
  hostile.save(1);
  EXPECT_EQ(codeOf([&] { openCheckpoint(hostile.directory, alone); }), "H0305");
}

TEST(Checkpoint, ReplacesNothingThatIsNoCheckpoint) {
  TestDirectory directory;
  directory.write("step-000002/notes.txt", "mine");
  EXPECT_EQ(codeOf([&] { Model(2).save(directory.path()); }), "H0413");
  directory.write("step-000003", "mine");
  EXPECT_EQ(codeOf([&] { Model(3).save(directory.path()); }), "H0413");
  EXPECT_EQ(slurp(directory / "step-000002/notes.txt"), "mine");
  EXPECT_EQ(slurp(directory / "step-000003"), "mine");
  EXPECT_EQ(namesIn(directory.path()).size(), 2u);
  auto begins = [&](const std::string &resume, bool overwrites, int64_t last) {
    return diagnosticOf([&] {
      requireOwnSaves(directory.path(), {resume, overwrites, last});
    });
  };
  EXPECT_EQ(begins("", false, 1).code, "");
  for (bool overwrites : {false, true}) {
    Diagnostic refused = begins("", overwrites, 2);
    EXPECT_EQ(refused.code, "H0155");
    EXPECT_NE(refused.message.find("step-000002 is no checkpoint"),
              std::string::npos);
  }
  Model(4).save(directory.path());
  EXPECT_EQ(begins(directory.path(), false, 9).code, "");
}

TEST(Checkpoint, BeginsWhereNothingIsLost) {
  TestDirectory directory;
  std::string out = directory / "out", other = directory / "other";
  std::vector<SavedStep> saved;
  for (int64_t step : {2, 4}) {
    Model model(step);
    CheckpointContents contents = model.contents();
    contents.state.saved = saved;
    noteSaved(saveCheckpoint(out, contents, alone), saved);
    Model(step).save(other);
  }
  auto codeOfStart = [&](const std::string &resume, bool overwrites = false) {
    Diagnostic found = diagnosticOf([&] {
      requireOwnSaves(out, {resume, overwrites, 10});
    });
    EXPECT_TRUE(found.code.empty() || found.exitCode() == 2);
    return found.code;
  };
  EXPECT_EQ(codeOfStart(""), "H0155");
  EXPECT_EQ(codeOfStart(out), "");
  EXPECT_EQ(codeOfStart(out + "/step-000004/"), "");
  // Back, and from elsewhere.
  EXPECT_EQ(codeOfStart(out + "/step-000002"), "H0155");
  EXPECT_EQ(codeOfStart(other), "H0155");
  for (const std::string &resume : {std::string(), other, out + "/step-000002"})
    EXPECT_EQ(codeOfStart(resume, true), "");
  // A run was killed after its checkpoint got its name.
  directory.write("out/latest", "step-000002\n");
  EXPECT_EQ(codeOfStart(out), "");
  // What comes later is another run's, and this one may save there.
  Model(9).save(out);
  directory.write("out/latest", "step-000002\n");
  EXPECT_EQ(codeOfStart(out), "H0155");
  Model(11).save(out);
  fs::remove_all(out + "/step-000009");
  directory.write("out/latest", "step-000002\n");
  EXPECT_EQ(codeOfStart(out), "");
  fs::remove_all(out + "/step-000011");
  fs::remove(out + "/latest");
  EXPECT_EQ(resolveCheckpoint(out), out + "/step-000004");
  EXPECT_EQ(codeOfStart(out), "");
  EXPECT_EQ(codeOfStart(""), "H0155");
  // The latest one of another program.
  fs::remove_all(out);
  directory.write("out/latest", "global_step200");
  EXPECT_EQ(codeOfStart(""), "H0155");
  EXPECT_EQ(codeOfStart("", true), "");
}

TEST(Checkpoint, AFailedSaveLeavesTheLastOne) {
  TestDirectory directory;
  Model(1).save(directory.path());
  Model model(2);
  CheckpointContents contents = model.contents();
  contents.optimizer[0].pieces = [](const SharedTensor::Sink &) {
    fail("H0401", "no space left");
  };
  EXPECT_EQ(codeOf([&] { saveCheckpoint(directory.path(), contents, alone); }),
            "H0401");
  EXPECT_EQ(stepOf(directory.path()), 1);
  EXPECT_EQ(namesIn(directory.path()),
            (std::vector<std::string>{"latest", "step-000001"}));
  std::string file = directory.write("file", "");
  EXPECT_EQ(codeOf([&] { Model(1).save(file + "/out"); }), "H0402");
}

TEST(Checkpoint, DamageIsNamed) {
  TestDirectory directory;
  struct {
    const char *file, *code;
    void (*damage)(const std::string &);
  } cases[] = {
      {"model.safetensors", "H0361",
       [](const std::string &path) { fs::remove(path); }},
      {"heddle/optimizer.safetensors", "H0362",
       [](const std::string &path) { fs::resize_file(path, 100); }},
      {"heddle/optimizer.safetensors", "H0363",
       [](const std::string &path) {
         std::fstream file(path, std::ios::in | std::ios::out);
         file.seekp(-1, std::ios::end);
         file.put('\7');
       }},
      {"heddle/state.json", "H0362",
       [](const std::string &path) { std::ofstream(path) << "{}"; }},
      {"heddle/manifest.json", "H0302",
       [](const std::string &path) { std::ofstream(path) << "{"; }},
      {"heddle/manifest.json", "H0364",
       [](const std::string &path) {
         std::ofstream(path) << "{\"version\": 9, \"files\": []}";
       }},
      {"heddle/manifest.json", "H0361",
       [](const std::string &path) {
         std::ofstream(path) << "{\"version\": 1, \"files\": [{\"name\": "
                                "\"../x\", \"bytes\": 1, \"xxh3\": \"\"}]}";
       }},
  };
  for (const auto &test : cases) {
    std::string path = Model(7).save(directory / "out");
    test.damage(path + "/" + test.file);
    Diagnostic diagnostic = diagnosticOf([&] { openCheckpoint(path, alone); });
    EXPECT_EQ(diagnostic.code, test.code) << diagnostic.message;
    EXPECT_EQ(diagnostic.exitCode(), 3);
    EXPECT_EQ(diagnostic.location.file, path + "/" + test.file);
  }
  std::string path = Model(7).save(directory / "out");
  fs::remove(path + "/config.json");
  std::vector<CheckpointPart> parts = verifyCheckpoint(path);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].problem, "config.json is missing from the checkpoint");
  EXPECT_EQ(parts[1].problem, "");
}

TEST(Checkpoint, SaysWhatIsNoCheckpoint) {
  TestDirectory directory;
  EXPECT_EQ(codeOf([&] { openCheckpoint(directory.path(), alone); }), "H0360");
  EXPECT_EQ(codeOf([&] { openCheckpoint(directory / "absent", alone); }),
            "H0360");
  Model(7).save(directory.path());
  directory.write("latest", "step-000008\n");
  Diagnostic diagnostic =
      diagnosticOf([&] { openCheckpoint(directory.path(), alone); });
  EXPECT_EQ(diagnostic.code, "H0365");
  EXPECT_EQ(diagnostic.help,
            "name " + directory.path() + "/step-000007 instead");
}

TEST(Checkpoint, InspectsAndExports) {
  TestDirectory directory;
  std::string path = Model(7).save(directory.path());
  nlohmann::json all =
      nlohmann::json::parse(inspectCheckpoint(directory.path(), true));
  EXPECT_EQ(all["step"], 7);
  EXPECT_EQ(all["elements"], 128);
  EXPECT_EQ(all["tensors"].size(), 2u);
  std::string text = inspectCheckpoint(path, false);
  EXPECT_NE(text.find("tensor wte.weight: F32 [64]"), std::string::npos);
  EXPECT_NE(text.find("2 tensors, 128 elements, 512 bytes"), std::string::npos);
  std::string out = directory / "export";
  exportCheckpoint(path, out);
  EXPECT_EQ(namesIn(out),
            (std::vector<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(slurp(out + "/model.safetensors"),
            slurp(path + "/model.safetensors"));
  EXPECT_EQ(codeOf([&] { exportCheckpoint(path, out); }), "H0181");
  // A plain directory of weights can be inspected too.
  EXPECT_EQ(nlohmann::json::parse(inspectCheckpoint(out, true)).count("step"),
            0u);
}

TEST(Checkpoint, KilledAtAnyMomentTheLatestLoads) {
  TestDirectory directory;
  std::mt19937 random(7);
  int64_t last = 0, killedWhileSaving = 0;
  Model(0).save(directory.path());
  for (int round = 0; round < 40; ++round) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      SavingRun run{directory.path(), {}};
      run.resume();
      for (int64_t step = last + 1;; ++step)
        run.save(step, 1 + round % 2, 1 << 14);
    }
    usleep(random() % 30000);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (const std::string &name : namesIn(directory.path()))
      killedWhileSaving += name.rfind(".heddle-tmp-", 0) == 0;
    int64_t step = stepOf(directory.path());
    EXPECT_GE(step, last);
    last = step;
    // Whatever has a step's name is whole.
    for (const std::string &name : namesIn(directory.path()))
      if (name.rfind("step-", 0) == 0)
        stepOf(directory / name);
  }
  EXPECT_GT(killedWhileSaving, 0);
  SavingRun run{directory.path(), {}};
  run.resume();
  run.save(last + 1, 1);
  EXPECT_EQ(namesIn(directory.path()).size(), 2u);
}

TEST(Checkpoint, OneProcessSavesIntoADirectory) {
  TestDirectory directory;
  std::string out = directory / "out", lock = out + "/.heddle-lock";
  std::unique_ptr<DirectoryLock> mine = claimSaves(out);
  Diagnostic refused = diagnosticOf([&] { claimSaves(out); });
  EXPECT_EQ(refused.code, "H0433");
  EXPECT_EQ(refused.exitCode(), 5);
  char host[256] = {};
  gethostname(host, sizeof host);
  EXPECT_EQ(refused.message, "another run saves into " + out + ": process " +
                                 std::to_string(getpid()) + " on " + host);
  // Whoever has it goes on, and lets the next one in.
  Model(1).save(out);
  mine.reset();
  EXPECT_EQ(namesIn(out), (std::vector<std::string>{"latest", "step-000001"}));
  // What a killed process has left: of this host, and of one that ended.
  for (const char *holder : {" 99999999 1\n", " 1 1\n", ""}) {
    directory.write("out/.heddle-lock",
                    *holder ? host + std::string(holder) : "node7 12 345\n");
    claimSaves(out);
    EXPECT_FALSE(pathExists(lock));
  }
  // What no run has made: it is not written to, and not waited for.
  directory.write("other", "whose?");
  std::filesystem::create_symlink(directory / "other", lock);
  Diagnostic link = diagnosticOf([&] { claimSaves(out); });
  EXPECT_EQ(link.message, lock + " is no regular file");
  EXPECT_EQ(slurp(directory / "other"), "whose?");
  std::filesystem::remove(lock);
  pid_t child = fork();
  if (child == 0) {
    std::unique_ptr<DirectoryLock> its = claimSaves(out);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, SIGKILL);
  EXPECT_TRUE(pathExists(lock));
  claimSaves(out);
}

TEST(Checkpoint, LeavesTemporariesOfOthersAlone) {
  TestDirectory directory;
  Temporary folder(directory / ".heddle-tmp-step-000009-",
                   Temporary::Kind::Directory, "");
  Temporary latest(directory / "latest.tmp-", Temporary::Kind::File, "");
  directory.write("latest.tmp-99999999", "step-0000");
  directory.write(".heddle-tmp-step-000008-99999999/config.json", "{}");
  Model(1).save(directory.path());
  EXPECT_TRUE(pathExists(folder.path()));
  EXPECT_TRUE(pathExists(latest.path()));
  EXPECT_EQ(namesIn(directory.path()).size(), 4u);
  // The next start removes what is left.
  directory.write("latest.tmp-99999999", "step-0000");
  directory.write(".heddle-tmp-step-000008-99999999/config.json", "{}");
  claimSaves(directory.path());
  EXPECT_EQ(namesIn(directory.path()).size(), 4u);
}

TEST(Checkpoint, ExportsAndConvertsWhole) {
  TestDirectory directory;
  std::string path = Model(7).save(directory / "saves");
  std::string out = directory / "out";
  auto damaged = [&](auto write) {
    // What an interrupted one has left is no obstacle; a live one is.
    directory.write("out/.heddle-tmp-new-99999999/config.json", "{}");
    write();
    EXPECT_EQ(namesIn(out),
              (std::vector<std::string>{"config.json", "model.safetensors"}));
    fs::remove_all(out);
    fs::create_directory(out);
    Temporary other(out + "/.heddle-tmp-new-", Temporary::Kind::Directory, "");
    EXPECT_EQ(codeOf(write), "H0181");
  };
  damaged([&] { exportCheckpoint(path, out); });
  fs::remove_all(out);
  damaged([&] { convertWeights({path, out, "BF16", 0}); });
  std::string longName = directory / std::string(300, 'n');
  EXPECT_EQ(codeOf([&] { exportCheckpoint(path, longName); }), "H0184");
  EXPECT_EQ(codeOf([&] { convertWeights({path, longName, "", 0}); }), "H0184");
}

TEST(ConvertWeights, ChangesTypeAndDivision) {
  TestDirectory directory;
  Model(7, 1000).save(directory / "out");
  ConvertOptions options{directory / "out", directory / "bf16", "BF16", 2500};
  convertWeights(options);
  EXPECT_EQ(namesIn(options.output),
            (std::vector<std::string>{"config.json",
                                      "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json"}));
  WeightSet set = openWeights(options.output);
  ASSERT_EQ(set.tensors().size(), 2u);
  EXPECT_EQ(set.at("wte.weight").dtype, "BF16");
  std::vector<float> values(1000);
  set.read(set.at("wte.weight"), "F32", values.data());
  EXPECT_EQ(values, std::vector<float>(1000, 7.0f));
  EXPECT_EQ(codeOf([&] { convertWeights(options); }), "H0181");
  // One file again, of the first type: the bytes of the checkpoint.
  convertWeights({options.output, directory / "f32", "F32", 0});
  EXPECT_EQ(slurp(directory / "f32/model.safetensors"),
            slurp(directory / "out/step-000007/model.safetensors"));
  EXPECT_EQ(codeOf([&] {
              convertWeights({directory / "out", directory / "x", "I8", 0});
            }),
            "H0182");
}
