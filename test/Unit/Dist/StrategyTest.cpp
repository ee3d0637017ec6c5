//===- StrategyTest.cpp - The strategy attribute --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/DistDialect.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace heddle;
using namespace heddle::dist;
using config::Setting;
using config::SettingValue;

namespace {

class StrategyTest : public ::testing::Test {
protected:
  StrategyTest() { context.loadDialect<DistDialect>(); }

  MLIRContext context;

  StrategyAttr parse(const std::string &text) {
    return dyn_cast_or_null<StrategyAttr>(parseAttribute(text, &context));
  }
  static std::string print(Attribute attribute) {
    std::string text;
    llvm::raw_string_ostream(text) << attribute;
    return text;
  }
  /// The errors of a text.
  std::vector<std::string> errorsOf(const std::string &text) {
    std::vector<std::string> errors;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      errors.push_back(diagnostic.str());
      return success();
    });
    EXPECT_FALSE(parse(text)) << text;
    return errors;
  }
};

/// A value in range that is not the default.
SettingValue otherThan(const Setting &setting) {
  SettingValue value = setting.get(Strategy());
  if (auto *integer = std::get_if<int64_t>(&value))
    *integer = setting.range.holds(*integer - 1) ? *integer - 1 : *integer + 1;
  else if (auto *number = std::get_if<double>(&value))
    *number = *number / 2 + 0.0625;
  else if (auto *truth = std::get_if<bool>(&value))
    *truth = !*truth;
  else if (auto *items = std::get_if<std::vector<std::string>>(&value))
    *items = {"logits", "h.0", "odd, \"name\""};
  else if (std::string words = setting.range.describe();
           words.rfind("one of ", 0) == 0) {
    // "one of A, B, C"
    size_t begin = std::string("one of ").size();
    SettingValue first = words.substr(begin, words.find(',') - begin);
    size_t second = words.find(", ") + 2;
    value = first == value
                ? words.substr(second, words.find(',', second) - second)
                : first;
  } else {
    static constexpr const char *texts[] = {"{}  ", "0.5", "8192"};
    const auto *found = llvm::find_if(texts, [&](const char *text) {
      return setting.range.holds(std::string(text));
    });
    EXPECT_NE(found, std::end(texts)) << setting.path;
    value = std::string(*found);
  }
  return value;
}

} // namespace

TEST_F(StrategyTest, EmptyMeansDefaults) {
  StrategyAttr empty = parse("#dist.strategy<{}>");
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty.getValue() == Strategy());
  EXPECT_EQ(empty.getWritten(), 0u);
  EXPECT_EQ(print(empty), "#dist.strategy<{}>");
}

TEST_F(StrategyTest, EverySettingIsWrittenAndRead) {
  for (auto [i, setting] : llvm::enumerate(config::allSettings())) {
    SCOPED_TRACE(setting.path);
    Strategy strategy;
    ASSERT_TRUE(setting.set(strategy, otherThan(setting)));
    EXPECT_TRUE(setting.holds(strategy));
    EXPECT_FALSE(strategy == Strategy());
    EXPECT_NE(config::hash_value(strategy), config::hash_value(Strategy()));
    // A batch is a product.
    strategy.batch = strategy.microBatch * strategy.accumulate * strategy.data;
    auto attribute = StrategyAttr::get(&context, strategy);
    EXPECT_TRUE(attribute.isWritten(i));
    EXPECT_EQ(parse(print(attribute)), attribute) << print(attribute);
  }
}

TEST_F(StrategyTest, OnlyWhatIsWrittenIsPrinted) {
  const std::string text =
      "#dist.strategy<{precision = fp32, mesh = {tensor = 2, pipe = 1}, "
      "pipeline = {schedule = \"1f1b\"}}>";
  StrategyAttr strategy = parse(text);
  ASSERT_TRUE(strategy);
  EXPECT_EQ(strategy.getValue().tensor, 2);
  EXPECT_EQ(print(strategy), text);
  // Sections may be written in parts.
  EXPECT_EQ(parse("#dist.strategy<{mesh = {pipe = 1}, mesh = {tensor = 2}, "
                  "pipeline = {schedule = \"1f1b\"}, precision = \"fp32\"}>"),
            strategy);
}

TEST_F(StrategyTest, AllThatIsWrongIsSaid) {
  EXPECT_EQ(errorsOf("#dist.strategy<{precision = fp8, threads = 0, "
                     "zero = {stage = 4}, zero = {stage = 1}, seq = 3}>"),
            (std::vector<std::string>{
                "strategy: precision \"fp8\" is not one of fp32, bf16, fp16",
                "strategy: threads is not a whole number from 1 to 1024",
                "strategy: zero.stage is not a whole number from 0 to 3",
                "strategy: zero.stage is given twice",
                "strategy: there is no setting seq; did you mean mesh.seq?"}));
  EXPECT_EQ(errorsOf("#dist.strategy<{mesh = {tensr = 2}}>"),
            (std::vector<std::string>{"strategy: there is no setting "
                                      "mesh.tensr; did you mean "
                                      "mesh.tensor?"}));
}

TEST_F(StrategyTest, BatchIsAProduct) {
  Strategy strategy;
  strategy.batch = 12, strategy.microBatch = 2;
  strategy.accumulate = 3, strategy.data = 2;
  EXPECT_EQ(verifyStrategy(strategy), "");
  strategy.data = 1;
  EXPECT_EQ(verifyStrategy(strategy),
            "strategy: batch.micro 2 * batch.accumulate 3 * mesh.data 1 is not "
            "batch.global 12");
}
