//===- StrategyTest.cpp - Tests of the strategy dictionary ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Strategy.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace heddle::dist;
using namespace mlir;

namespace {

struct StrategyTest : testing::Test {
  MLIRContext context;
  Builder builder{&context};

  DictionaryAttr dictionary(StringRef key, Attribute value) {
    return builder.getDictionaryAttr(builder.getNamedAttr(key, value));
  }
  /// The defaults with one value changed.
  std::string verifyWith(StringRef key, Attribute value) {
    NamedAttrList list(Strategy().toDictionary(&context));
    list.set(key, value);
    return Strategy::verify(list.getDictionary(&context));
  }
  std::string verifyWith(StringRef key, int64_t value) {
    return verifyWith(key, builder.getI64IntegerAttr(value));
  }
};

} // namespace

TEST_F(StrategyTest, EmptyMeansDefaults) {
  DictionaryAttr empty = builder.getDictionaryAttr({});
  EXPECT_EQ(Strategy::verify(empty), "");
  EXPECT_EQ(Strategy::fromDictionary(empty).toDictionary(&context),
            Strategy().toDictionary(&context));
}

TEST_F(StrategyTest, RoundTripKeepsEveryField) {
  Strategy strategy;
  strategy.batch = 24, strategy.microBatch = 2, strategy.accumulate = 3;
  strategy.data = 4, strategy.tensor = 5, strategy.pipe = 6;
  strategy.sequence = 7, strategy.seq = 8, strategy.threads = 9;
  strategy.zero = 3, strategy.memoryBudget = int64_t(1) << 40;
  strategy.precision = "bf16", strategy.march = "x86-64-v4";
  strategy.target = "sm_80", strategy.recompute = "selective";
  strategy.schedule = "gpipe", strategy.optimizer = "Adam";
  strategy.lr = 0.1, strategy.beta1 = 0.2, strategy.beta2 = 0.3;
  strategy.eps = 0.4, strategy.weightDecay = 0.5, strategy.decoupled = false;
  strategy.gradientClipping = 0.6, strategy.noDecay = "bias$";
  strategy.scheduler = "WarmupLR", strategy.schedulerParams = "{\"a\": 1}";
  strategy.keep = {"logits", "h.0"};
  strategy.virtualStages = 2, strategy.pipelineLayout = "3,4";
  strategy.sequenceParallel = true, strategy.context = "ring";
  strategy.collectives = "library", strategy.communicationType = "fp16";
  strategy.paramPersistenceThreshold = 10;
  strategy.modelPersistenceThreshold = 11, strategy.prefetchBucketSize = 12;
  strategy.maxLiveParameters = 13, strategy.maxReuseDistance = 14;
  DictionaryAttr written = strategy.toDictionary(&context);
  EXPECT_EQ(Strategy::verify(written), "");
  EXPECT_EQ(Strategy::fromDictionary(written).toDictionary(&context), written);
  // No field was left at its default, so each was written and read.
  DictionaryAttr defaults = Strategy().toDictionary(&context);
  for (NamedAttribute entry : written)
    EXPECT_NE(entry.getValue(), defaults.get(entry.getName()))
        << entry.getName().str();
}

TEST_F(StrategyTest, WrongTypesAndKeys) {
  EXPECT_EQ(verifyWith("seq", builder.getI32IntegerAttr(4)),
            "strategy: \"seq\" must be an i64 integer");
  EXPECT_EQ(verifyWith("lr", builder.getI64IntegerAttr(1)),
            "strategy: \"lr\" must be a float");
  EXPECT_EQ(verifyWith("decoupled", builder.getI64IntegerAttr(1)),
            "strategy: \"decoupled\" must be true or false");
  EXPECT_EQ(verifyWith("march", builder.getUnitAttr()),
            "strategy: \"march\" must be a string");
  EXPECT_EQ(verifyWith("keep", builder.getStringAttr("logits")),
            "strategy: \"keep\" must be a list of strings");
  EXPECT_EQ(Strategy::verify(dictionary("seqs", builder.getUnitAttr())),
            "strategy: unknown key \"seqs\"");
}

TEST_F(StrategyTest, WrongValues) {
  for (const char *key : {"batch", "micro_batch", "accumulate", "seq",
                          "threads", "data", "tensor", "pipe", "sequence"}) {
    EXPECT_EQ(verifyWith(key, 0),
              "strategy: \"" + std::string(key) + "\" is 0; at least 1");
    EXPECT_NE(verifyWith(key, INT64_MIN), "");
  }
  EXPECT_EQ(verifyWith("memory_budget", -1),
            "strategy: \"memory_budget\" is negative");
  EXPECT_EQ(verifyWith("precision", builder.getStringAttr("fp16")),
            "strategy: precision \"fp16\" is not one of fp32, bf16");
}

TEST_F(StrategyTest, BatchIsAProduct) {
  Strategy strategy;
  strategy.batch = 12, strategy.microBatch = 2;
  strategy.accumulate = 3, strategy.data = 2;
  EXPECT_EQ(Strategy::verify(strategy.toDictionary(&context)), "");
  strategy.data = 1;
  EXPECT_EQ(Strategy::verify(strategy.toDictionary(&context)),
            "strategy: micro_batch 2 * accumulate 3 * data 1 is not batch 12");
  // A product that overflows is no batch, whatever its low bits are.
  strategy.microBatch = int64_t(1) << 32, strategy.accumulate = int64_t(1)
                                                                << 32;
  EXPECT_NE(Strategy::verify(strategy.toDictionary(&context)), "");
}
