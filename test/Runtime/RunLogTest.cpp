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
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
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
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "{\"event\":\"start\"}\n{\"event\":\"error\",\"code\":"
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
