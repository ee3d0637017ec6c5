//===- DiagnosticTest.cpp - Tests of diagnostics ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IoTestSupport.h"

using namespace heddle;
using namespace heddle::io;

TEST(Diagnostic, ShowsTheLineAndACaret) {
  TestDirectory directory;
  std::string file = directory.write("ds.json", "{\n\t\"lr\": \"é\", x\n}\n");
  Diagnostic diagnostic{
      "H0107", "unknown key", {file, 2, 14}, {"1 != 2"}, "remove it"};
  EXPECT_EQ(diagnostic.format(), "error[H0107]: unknown key\n"
                                 "  --> " +
                                     file +
                                     ":2:14\n"
                                     "   |  \"lr\": \"é\", x\n"
                                     "   |             ^\n"
                                     "  note: 1 != 2\n"
                                     "  help: remove it\n");
}

TEST(Diagnostic, CutsLongLinesAroundTheColumn) {
  TestDirectory directory;
  std::string file = directory.write("long.json", std::string(5000, 'a') + "X" +
                                                      std::string(5000, 'b'));
  std::string text = Diagnostic{"H0102", "m", {file, 1, 5001}, {}, ""}.format();
  EXPECT_LT(text.size(), 500u);
  size_t line = text.find("|  "), caret = text.find("|  ", line + 1);
  ASSERT_NE(caret, std::string::npos);
  EXPECT_EQ(text.find('X', line) - line, text.find('^', caret) - caret);
}

TEST(Diagnostic, NeedsNeitherAFileNorALine) {
  EXPECT_EQ((Diagnostic{"H0401", "full", {}, {}, ""}.format()),
            "error[H0401]: full\n");
  EXPECT_EQ((Diagnostic{"H0316", "short", {"/nowhere", 0, 0}, {}, ""}.format()),
            "error[H0316]: short\n  --> /nowhere\n");
  EXPECT_EQ((Diagnostic{"H0302", "bad", {"/nowhere", 3, 4}, {}, ""}.format()),
            "error[H0302]: bad\n  --> /nowhere:3:4\n");
}

TEST(Diagnostic, TheClassDecidesTheExitStatus) {
  auto status = [](const char *code) {
    return Diagnostic{code, "", {}, {}, ""}.exitCode();
  };
  EXPECT_EQ(status("H0107"), 2);
  EXPECT_EQ(status("H0227"), 4);
  EXPECT_EQ(status("H0302"), 3);
  EXPECT_EQ(status("H0401"), 5);
  EXPECT_EQ(status("H0901"), 1);
  EXPECT_EQ(status(""), 1);
}

TEST(Diagnostic, FindsTheClosestMatch) {
  std::vector<std::string> keys = {"gradient_clipping", "train_batch_size",
                                   "fp16", "bf16"};
  EXPECT_EQ(closestMatch("gradient_clipp1ng", keys), "gradient_clipping");
  EXPECT_EQ(closestMatch("train_bacth_size", keys), "train_batch_size");
  EXPECT_EQ(closestMatch("bf61", keys), "bf16");
  EXPECT_EQ(closestMatch("zero_optimization", keys), "");
  EXPECT_EQ(closestMatch("x", {"y"}), "");
}
