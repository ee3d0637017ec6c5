//===- RunLogTest.cpp - Tests of the log and what a person sees -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/app/Progress.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

TEST(JsonLine, KeepsOrderAndBits) {
  float loss = 5.5452823638916016f;
  std::string text =
      JsonLine("step").add("step", int64_t(1)).add("loss", double(loss)).text();
  EXPECT_EQ(text, R"({"event":"step","step":1,"loss":5.54528236})");
  EXPECT_EQ(float(nlohmann::json::parse(text)["loss"].get<double>()), loss);
}

TEST(JsonLine, EveryFloatReadsBack) {
  for (float value : {1e-38f, 1.17549435e-38f, 0.1f, 16777217.0f, 3.4e38f})
    EXPECT_EQ(float(nlohmann::json::parse(
                        JsonLine("x").add("v", double(value)).text())["v"]
                        .get<double>()),
              value);
}

TEST(JsonLine, IsAlwaysJson) {
  std::string text = JsonLine("error")
                         .add("message", "a \"b\"\n\xff")
                         .add("mfu", std::nan(""))
                         .text();
  nlohmann::json parsed = nlohmann::json::parse(text);
  EXPECT_TRUE(parsed["mfu"].is_null());
}

TEST(RunLog, RefusesWhatItCannotWrite) {
  RunLog log;
  EXPECT_THROW(log.open("/no/such/directory/log", false), UserError);
  log.open("/dev/full", false);
  try {
    log.write(JsonLine("start"));
    FAIL();
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0411");
  }
}

namespace {

/// Lets the files of this process have at most so many bytes, as a disk does
/// that is full.
class FileLimit {
public:
  explicit FileLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit limit = before;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before); }

private:
  rlimit before = {};
};

} // namespace

static std::string contentsOf(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RunLog, GoesOnWhereTheDiskIsFull) {
  std::string path =
      testing::TempDir() + "/full-log-" + std::to_string(getpid());
  std::string expected;
  // What is captured of stderr is in a file too, which stays below the limits.
  std::string rest(4000, 'x');
  auto record = [&](int number) {
    return std::to_string(number) + rest + "\n";
  };
  testing::internal::CaptureStderr();
  std::optional<FileLimit> limit;
  {
    LogFile log;
    log.open(path, false, "--log");
    auto put = [&](int number) {
      log.put(record(number));
      return record(number);
    };
    expected += put(1);
    // Room for a part of the next one.
    limit.emplace(expected.size() + 4);
    std::string whole = expected;
    for (int number = 2; number < 5; ++number) {
      expected += put(number);
      EXPECT_EQ(contentsOf(path), whole);
    }
    limit.reset();
    expected += put(5);
    EXPECT_EQ(contentsOf(path), expected);
    limit.emplace(expected.size() + 4);
    put(6);
    put(7);
  }
  limit.reset();
  EXPECT_EQ(contentsOf(path), expected);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: cannot write " + path +
                ": File too large; the run goes on, and writes there again "
                "when it can\nwarning: 2 records are missing in " +
                path + "\n");
  std::remove(path.c_str());
}

TEST(RunLog, KeepsTheNewestOfWhatWaits) {
  std::string path =
      testing::TempDir() + "/long-log-" + std::to_string(getpid());
  testing::internal::CaptureStderr();
  {
    LogFile log;
    log.open(path, false, "--log");
    log.put("first\n");
    {
      FileLimit limit(6);
      std::string large(LogFile::mostWaiting / 2, 'x');
      for (const char *end : {"a\n", "b\n", "c\n"})
        log.put(large + end);
    }
    log.put("last\n");
  }
  std::string text = contentsOf(path);
  EXPECT_EQ(text.size(), 6 + LogFile::mostWaiting / 2 + 2 + 5u);
  EXPECT_EQ(text.substr(text.size() - 7), "c\nlast\n");
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "warning: 2 records are missing"),
            std::string::npos);
  std::remove(path.c_str());
}

TEST(RunLog, EndsWithTheFirstError) {
  std::string path =
      testing::TempDir() + "/run-log-" + std::to_string(getpid()) + ".jsonl";
  Diagnostic stopped, died;
  stopped.code = "H0422";
  died.code = "H0421";
  // Two ranks that miss each other.
  RunLog first, second;
  first.open(path, false);
  first.write(JsonLine("start"));
  second.open(path, true);
  second.writeError(stopped);
  first.writeError(died);
  for (RunLog *log : {&first, &second})
    log->write(JsonLine("step"));
  EXPECT_EQ(contentsOf(path),
            "{\"event\":\"start\"}\n{\"event\":\"error\",\"code\":"
            "\"H0422\",\"message\":\"\"}\n");
  std::remove(path.c_str());
}

TEST(Progress, Formats) {
  EXPECT_EQ(formatBytes(512), "512 B");
  EXPECT_EQ(formatBytes(3 << 20), "3.00 MiB");
  EXPECT_EQ(formatDuration(14.4), "14s");
  EXPECT_EQ(formatDuration(200), "3m20s");
  EXPECT_EQ(formatDuration(3725), "1h02m");
}
