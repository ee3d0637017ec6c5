//===- VerifiedFilesTest.cpp - Tests of damage that is found ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/VerifiedFiles.h"
#include "IoTestSupport.h"
#include "heddle/runtime/io/Checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

static Peers alone;

namespace {

/// Has a checkpoint, and a cache directory of its own.
class VerifiedFiles : public ::testing::Test {
protected:
  void SetUp() override {
    if (const char *value = std::getenv("XDG_CACHE_HOME"))
      before = value;
    setenv("XDG_CACHE_HOME", (directory / "cache").c_str(), 1);
    CheckpointContents contents;
    contents.config = {{"model_type", "gpt2"}};
    auto pieces = [this](const SharedTensor::Sink &sink) {
      sink(0, values.data(), values.size() * sizeof(float));
    };
    contents.model = {{"wte.weight", "F32", {int64_t(values.size())}, pieces}};
    contents.optimizer = {
        {"exp_avg.wte.weight", "F32", {int64_t(values.size())}, pieces}};
    contents.state.step = 1;
    path = saveCheckpoint(directory / "out", contents, alone);
    file = path + "/model.safetensors";
  }
  void TearDown() override {
    if (before)
      setenv("XDG_CACHE_HOME", before->c_str(), 1);
    else
      unsetenv("XDG_CACHE_HOME");
  }

  /// Changes the last byte of a file in place.
  static void damage(const std::string &file) {
    std::fstream stream(file, std::ios::in | std::ios::out);
    stream.seekg(-1, std::ios::end);
    char last = char(stream.get());
    stream.seekp(-1, std::ios::end);
    stream.put(char(last ^ 1));
  }
  static std::string codeFor(const std::string &path) {
    return codeOf([&] { requireWholeModel(path, alone); });
  }
  static void waitUntilOld() { usleep(150000); }

  TestDirectory directory;
  std::string path, file;

private:
  std::optional<std::string> before;
  std::vector<float> values = std::vector<float>(64, 1.5f);
};

} // namespace

TEST_F(VerifiedFiles, DamageIsFoundByWhoeverReadsTheModel) {
  for (const std::string &name : {path, directory / "out", file})
    EXPECT_EQ(codeFor(name), "");
  damage(file);
  for (const std::string &name : {path, directory / "out", file}) {
    Diagnostic found = diagnosticOf([&] { requireWholeModel(name, alone); });
    EXPECT_EQ(found.code, "H0363");
    EXPECT_EQ(found.exitCode(), 3);
    EXPECT_EQ(found.location.file, file);
    EXPECT_NE(found.help.find(path + "/heddle/manifest.json"),
              std::string::npos);
  }
  fs::resize_file(file, 100);
  EXPECT_EQ(codeFor(path), "H0362");
  fs::remove(file);
  EXPECT_EQ(codeFor(path), "H0361");
  // The edit that the message names.
  fs::remove(path + "/heddle/manifest.json");
  EXPECT_EQ(codeFor(path), "");
}

TEST_F(VerifiedFiles, OtherFilesMayBeEdited) {
  damage(path + "/config.json");
  damage(path + "/heddle/optimizer.safetensors");
  EXPECT_EQ(codeFor(path), "");
  for (const char *none : {"", "/no/such", "/"})
    EXPECT_EQ(codeFor(none), "");
}

TEST_F(VerifiedFiles, OneVersionOfAFileIsReadOnce) {
  std::string list = directory / "cache/heddle/verified";
  waitUntilOld();
  EXPECT_EQ(codeFor(path), "");
  std::string once = slurp(list);
  EXPECT_EQ(once.size(), 17u);
  EXPECT_EQ(codeFor(path), "");
  EXPECT_EQ(slurp(list), once);
  // Reading updates the time of access alone; here nobody reads.
  struct stat status = {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  timespec times[2] = {{status.st_atim.tv_sec - 100000, 0}, status.st_mtim};
  utimensat(AT_FDCWD, file.c_str(), times, 0);
  waitUntilOld();
  EXPECT_EQ(codeFor(path), ""); // Its ctime is new: it is read again.
  EXPECT_EQ(slurp(list).size(), 34u);
  // The size and the time of the last write are as before.
  damage(file);
  timespec same[2] = {status.st_atim, status.st_mtim};
  utimensat(AT_FDCWD, file.c_str(), same, 0);
  EXPECT_EQ(codeFor(path), "H0363");
}

TEST_F(VerifiedFiles, AFileThatWasJustWrittenIsReadAgain) {
  // On a busy machine a moment may have passed.
  bool isRemembered = true;
  for (int i = 0; i < 50 && isRemembered; ++i) {
    fs::remove(directory / "cache/heddle/verified");
    damage(file); // Its times are of now.
    damage(file);
    EXPECT_EQ(codeFor(path), "");
    isRemembered = pathExists(directory / "cache/heddle/verified");
  }
  EXPECT_FALSE(isRemembered);
}

TEST_F(VerifiedFiles, RememberChecksums) {
  waitUntilOld();
  FileVersion version(file);
  EXPECT_FALSE(version.isVerified("12ab"));
  version.remember("12ab");
  EXPECT_TRUE(version.isVerified("12ab"));
  EXPECT_TRUE(FileVersion(file).isVerified("12ab"));
  EXPECT_FALSE(version.isVerified("12ac"));
  EXPECT_FALSE(FileVersion(path + "/config.json").isVerified("12ab"));
  damage(file);
  EXPECT_FALSE(FileVersion(file).isVerified("12ab"));
  version.remember("12ac"); // It is no longer the version that was read.
  EXPECT_FALSE(version.isVerified("12ac"));
}

TEST_F(VerifiedFiles, TheListHasALimit) {
  waitUntilOld();
  std::string list = directory / "cache/heddle/verified";
  std::string lines;
  for (int i = 0; i < 5000; ++i)
    lines += "0123456789abcdef\n";
  directory.write("cache/heddle/verified", lines);
  EXPECT_EQ(codeFor(path), "");
  EXPECT_LT(slurp(list).size(), lines.size() * 2 / 3);
  EXPECT_EQ(slurp(list).size() % 17, 0u);
  // Where none can be kept, files are read each time.
  fs::remove(list);
  fs::create_directory(list);
  EXPECT_EQ(codeFor(path), "");
  damage(file);
  EXPECT_EQ(codeFor(path), "H0363");
}
