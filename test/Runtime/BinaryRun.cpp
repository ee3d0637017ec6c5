//===- BinaryRun.cpp - Compiled binaries made and run by tests ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BinaryRun.h"
#include "BigramPlan.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

void BinaryTest::SetUp() {
  std::string pattern = testing::TempDir() + "/heddle-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  directory = pattern;
}

void BinaryTest::TearDown() { std::filesystem::remove_all(directory); }

static void writeFile(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string BinaryTest::makeBinary(plan::Plan plan, const std::string &name) {
  std::vector<char> kernels = readFile(HEDDLE_TEST_KERNELS);
  plan.kernelImageHash = plan::hashBytes(kernels.data(), kernels.size());
  plan.hash = plan::computeHash(plan);
  writeFile(inDirectory("plan.json"), json(plan).dump());
  std::string binary = inDirectory(name);
  RunResult copied = run(
      HEDDLE_TEST_OBJCOPY,
      {"--add-section",
       plan::planSectionName() + "=" + inDirectory("plan.json"),
       "--add-section", plan::kernelSectionName() + "=" + HEDDLE_TEST_KERNELS,
       HEDDLE_TEST_RUNTIME, binary});
  EXPECT_EQ(copied.exitCode, 0) << copied.err;
  return binary;
}

std::string BinaryTest::makeTokens(int64_t count, const std::string &name,
                                   int32_t last) {
  const std::string text = "the quick brown fox jumps over the lazy dog. ";
  std::vector<int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = int32_t(count);
  std::vector<uint16_t> tokens(count);
  for (int64_t i = 0; i < count; ++i)
    tokens[i] = uint16_t(text[i % text.size()]);
  if (last != 0)
    tokens.back() = uint16_t(last);
  std::ofstream file(inDirectory(name), std::ios::binary);
  file.write(reinterpret_cast<char *>(header.data()), 1024);
  file.write(reinterpret_cast<char *>(tokens.data()), 2 * count);
  return inDirectory(name);
}

int BinaryTest::start(const std::string &binary,
                      const std::vector<std::string> &arguments) {
  std::vector<char *> pointers = {const_cast<char *>(binary.c_str())};
  for (const std::string &argument : arguments)
    pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);
  std::string out = inDirectory("stdout"), err = inDirectory("stderr");
  int process = fork();
  if (process != 0)
    return process;
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  execv(binary.c_str(), pointers.data());
  _exit(127);
}

RunResult BinaryTest::wait(int process) {
  int status = 0;
  waitpid(process, &status, 0);
  RunResult result;
  result.exitCode =
      WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  std::vector<char> out = readFile(inDirectory("stdout"));
  std::vector<char> err = readFile(inDirectory("stderr"));
  result.out.assign(out.begin(), out.end());
  result.err.assign(err.begin(), err.end());
  return result;
}

RunResult BinaryTest::run(const std::string &binary,
                          const std::vector<std::string> &arguments) {
  return wait(start(binary, arguments));
}

std::vector<json> BinaryTest::readLog(const std::string &path) {
  std::ifstream file(path);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);)
    if (json event = json::parse(line); event["event"] != "peak")
      lines.push_back(std::move(event));
  return lines;
}

std::vector<double> BinaryTest::lossesOf(const std::string &path) {
  std::vector<double> losses;
  for (const json &line : readLog(path))
    if (line["event"] == "step")
      losses.push_back(line["loss"]);
  return losses;
}
