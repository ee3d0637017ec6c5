//===- BinaryRun.h - Compiled binaries made and run by tests ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_BINARYRUN_H
#define HEDDLE_TEST_RUNTIME_BINARYRUN_H

#include "heddle/PlanFormat/Plan.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace heddle::test {

/// What a process left.
struct RunResult {
  int exitCode = -1;
  std::string out;
  std::string err;
};

/// A test with a directory of its own, in which it makes binaries and data.
class BinaryTest : public testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;

  /// The runtime with the plan (its hash made right) and the bigram kernels.
  std::string makeBinary(plan::Plan plan, const std::string &name = "model");
  /// A token file in llm.c's format of a text that a bigram model can learn.
  std::string makeTokens(int64_t count, const std::string &name = "data.bin",
                         int32_t last = 0);
  std::string inDirectory(const std::string &name) const {
    return directory + "/" + name;
  }

  RunResult run(const std::string &binary,
                const std::vector<std::string> &arguments);
  /// Starts a process; `wait` ends with it.
  int start(const std::string &binary,
            const std::vector<std::string> &arguments);
  RunResult wait(int process);

  /// The events of a log, without those of the peak FLOP rate: when these are
  /// written depends on the machine.
  static std::vector<nlohmann::json> readLog(const std::string &path);
  /// The losses of the steps in a log.
  static std::vector<double> lossesOf(const std::string &path);

private:
  std::string directory;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_BINARYRUN_H
