//===- AttentionTest.cpp - Attention of all shapes and options ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTest.h"
#include "AttentionReference.h"
#include "mlir/IR/BuiltinTypes.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace heddle;
using namespace heddle::cpu;
using namespace heddle::test;

namespace {

TEST_P(AttentionTest, SequenceLengths) {
  for (int64_t seq : casesOf({1, 7, 64, 257}, {2, 16, 33, 65, 130, 500}))
    for (bool causal : {false, true})
      if (isLong() || seq > 200 || causal == (seq == 7))
        check({1, seq, 2, 2, 64, causal});
}

TEST_P(AttentionTest, HeadSizes) {
  for (int64_t headDim :
       casesOf({1, 16, 17, 80, 335, 1030}, {3, 8, 40, 48, 128, 200}))
    check({1, 70, 2, 2, headDim, /*causal=*/headDim % 2 == 0});
}

TEST_P(AttentionTest, BatchesAndGroupsOfHeads) {
  check({3, 40, 4, 2, 32, true});
  check({2, 40, 6, 1, 32, false});
  check({2, 75, 4, 2, 24, true, /*packed=*/false});
  check({2, 75, 3, 3, 24, false, /*packed=*/false});
  check({1, 600, 2, 1, 64, true, /*packed=*/false});
}

TEST_P(AttentionTest, NarrowTypes) {
  for (Kind kind : {Kind::BF16, Kind::F16}) {
    for (int64_t headDim : {1, 24, 64, 80})
      for (bool packed : {false, true})
        if (isLong() || packed == (headDim == 24 || headDim == 80))
          check({2, 70, 4, 2, headDim, true, packed, kind});
    for (int64_t seq : {1, 7, 33, 300})
      for (int64_t headDim : {16, 33})
        if (isLong() || (headDim == 33) == (seq == 7 || seq == 33))
          check({1, seq, 2, 2, headDim, seq == 33, true, kind});
    check({1, 40, 1, 1, 500, false, true, kind});
  }
}

TEST_P(AttentionTest, Dropout) {
  for (int64_t seq : casesOf({1, 7, 66, 260}, {30, 64, 132}))
    for (bool causal : {false, true})
      if (isLong() || causal == (seq % 4 == 2))
        check({2, seq, 2, 2, 16, causal, true, Kind::F32, /*p=*/0.1});
  check({2, 100, 4, 2, 64, true, false, Kind::F32, /*p=*/0.5});
  for (int64_t seq : casesOf({7, 130}, {64}))
    check({2, seq, 4, 2, 64, true, true, Kind::BF16, /*p=*/0.25});
}

/// The masks of some heads are those of all heads.
TEST_P(AttentionTest, DropoutOfPartsOfTheHeads) {
  for (int64_t seq : {64, 66}) {
    Case test = {2, seq, 2, 2, 16};
    test.p = 0.25;
    test.parts = 3;
    test.part = 2;
    check(test);
  }
}

TEST_P(AttentionTest, Lengths) {
  auto checkLengths = [&](Case test, std::vector<int32_t> lengths) {
    test.batch = lengths.size();
    test.lengths = std::move(lengths);
    check(test);
  };
  for (int64_t headDim : casesOf({5, 20}, {48}))
    checkLengths({0, 70, 1, 1, headDim, /*causal=*/headDim == 20},
                 {0, 1, 70, 33});
  checkLengths({0, 1, 2, 2, 8, /*causal=*/false}, {0, 1});
  checkLengths(
      {0, 66, 2, 2, 24, /*causal=*/false, false, Kind::BF16, /*p=*/0.25},
      {65, 2});
  for (bool causal : {false, true}) {
    if (isLong() || !causal)
      checkLengths({0, 300, 4, 2, 16, causal, /*packed=*/false},
                   {300, 121, 0, 299});
    checkLengths({0, 65, 4, 1, 33, causal, true, Kind::BF16}, {64, 0, 7, 65});
    if (isLong() || causal)
      checkLengths({0, 130, 2, 2, 16, causal, true, Kind::F32, /*p=*/0.25},
                   {0, 13, 130, 66});
  }
}

/// Windows within a tile, of some blocks, and one key short of all.
TEST_P(AttentionTest, Windows) {
  for (auto [seq, window] : casesOf<std::pair<int64_t, int64_t>>(
           {{7, 1}, {130, 129}, {500, 13}}, {{33, 5}, {257, 40}})) {
    Case test = {1, seq, 2, 1, 24};
    test.window = window;
    check(test);
  }
  for (Kind kind : {Kind::F32, Kind::BF16, Kind::F16}) {
    Case test = {2, 150, 4, 2, 16, true, /*packed=*/false, kind, /*p=*/0.25};
    test.window = 31;
    test.lengths = {149, 60};
    check(test);
  }
}

TEST_P(AttentionTest, SoftCaps) {
  for (Kind kind : {Kind::F32, Kind::BF16, Kind::F16})
    for (int64_t window : {0, 17}) {
      if (!isLong() && (kind == Kind::BF16) != (window > 0))
        continue;
      Case test = {2, 75, 4, 2, 24, true, /*packed=*/false, kind};
      test.p = window ? 0.25 : 0;
      test.scale = 0.9;
      test.softcap = 1.5;
      test.window = window;
      check(test);
    }
  Case test = {1, 40, 2, 2, 16, /*causal=*/false};
  test.scale = -0.7;
  test.softcap = 50;
  check(test);
}

/// Keys outside of all windows are not read: NaN in them changes nothing.
TEST_P(AttentionTest, KeysOutsideOfWindowsAreNotMultiplied) {
  Case test = {1, 400, 1, 1, 16};
  test.window = 20;
  AttentionSpec spec = makeSpec(test);
  PackedTensors inputs(test);
  for (int part = 0; part < 3; ++part)
    for (int64_t i = 0; i < inputs.size(part); ++i) {
      // The first query block sees the NaN, the last does not.
      bool isNan = part > 0 && i / test.headDim < 3;
      auto [tensor, index] = inputs.locate(part, i);
      tensor->set(index, isNan ? NAN : 0.01 * double(i % 7));
    }
  Tensor output(inputs.size(0), Kind::F32);
  Tensor lse(test.seq, Kind::F32);
  std::vector<void *> arguments;
  inputs.appendTo(arguments);
  arguments.insert(arguments.end(), {output.data(), lse.data()});
  AttentionRunner(*context, spec, target, AttentionRunner::Pass::Forward,
                  /*hasLengths=*/false)
      .runAll(arguments, {}, 1);
  EXPECT_TRUE(std::isnan(lse.get(0)));
  for (int64_t query = 200; query < test.seq; ++query)
    EXPECT_FALSE(std::isnan(lse.get(query))) << query;
}

/// Rows that are whole by their lengths have the bits of whole rows.
TEST_P(AttentionTest, WholeLengthsChangeNothing) {
  for (bool causal : {false, true}) {
    Case test = {2, 150, 2, 1, 24, causal};
    AttentionSpec spec = makeSpec(test);
    PackedTensors inputs(test);
    std::mt19937 engine(3);
    std::normal_distribution<float> draw;
    for (int part = 0; part < 3; ++part)
      for (int64_t i = 0; i < inputs.size(part); ++i) {
        auto [tensor, index] = inputs.locate(part, i);
        tensor->set(index, draw(engine));
      }
    std::vector<int32_t> lengths(test.batch, test.seq);
    std::vector<std::vector<char>> results;
    for (bool hasLengths : {false, true}) {
      Tensor output(inputs.size(0), Kind::F32);
      Tensor lse(test.batch * test.heads * test.seq, Kind::F32);
      PackedTensors gradients(test);
      std::vector<void *> arguments;
      inputs.appendTo(arguments);
      arguments.insert(arguments.end(),
                       {output.data(), lse.data(), lengths.data()});
      AttentionRunner(*context, spec, target, AttentionRunner::Pass::Forward,
                      hasLengths)
          .runAll(arguments, {}, 1);
      arguments = {output.data()};
      inputs.appendTo(arguments);
      arguments.insert(arguments.end(), {output.data(), lse.data()});
      gradients.appendTo(arguments);
      arguments.push_back(lengths.data());
      AttentionRunner(*context, spec, target, AttentionRunner::Pass::Gradient,
                      hasLengths)
          .runAll(arguments, {}, 1);
      std::vector<char> bytes = output.bytes;
      bytes.insert(bytes.end(), lse.bytes.begin(), lse.bytes.end());
      for (const Tensor &tensor : gradients.tensors)
        bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
      results.push_back(std::move(bytes));
    }
    EXPECT_TRUE(results[0] == results[1]);
  }
}

/// Threads share out what the lengths leave: the first of two does not come to
/// the end of a long row before short ones.
TEST_P(AttentionTest, ThreadsShareTheKeysThatExist) {
  Case test = {4, 130, 4, 4, 16, /*causal=*/false};
  AttentionSpec spec = makeSpec(test);
  std::vector<int32_t> lengths = {130, 0, 1, 2};
  PackedTensors inputs(test), gradients(test);
  for (Tensor &tensor : inputs.tensors)
    std::fill(tensor.bytes.begin(), tensor.bytes.end(), 0);
  Tensor output(inputs.size(0), Kind::F32);
  Tensor lse(test.batch * test.heads * test.seq, Kind::F32);
  auto runFirst = [&](const AttentionRunner &runner,
                      const std::vector<void *> &arguments) {
    size_t bytes = (runner.scratchBytes() + 63) / 64 * 64;
    std::unique_ptr<void, decltype(&std::free)> scratch(
        std::aligned_alloc(64, bytes), &std::free);
    runner.run(arguments, {}, /*thread=*/0, /*threads=*/2, scratch.get());
  };
  runFirst(
      {*context, spec, target, AttentionRunner::Pass::Forward, true},
      {inputs.tensors[0].data(), output.data(), lse.data(), lengths.data()});
  int64_t ofRow = test.heads * test.seq;
  EXPECT_FALSE(std::isnan(lse.get(ofRow / 2)));
  EXPECT_TRUE(std::isnan(lse.get(ofRow - 1)));
  runFirst({*context, spec, target, AttentionRunner::Pass::Gradient, true},
           {inputs.tensors[0].data(), inputs.tensors[0].data(), output.data(),
            lse.data(), gradients.tensors[0].data(), lengths.data()});
  EXPECT_FALSE(std::isnan(gradients.tensors[0].get(0)));
  EXPECT_TRUE(
      std::isnan(gradients.tensors[0].get(test.heads * test.headDim - 1)));
}

/// Scores of some hundreds have an error of 1e-5, and so have their powers.
TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  Case test = {1, 150, 2, 2, 64};
  test.tolerance = 5e-5;
  test.scale = 4;
  check(test);
  test.scale = -2;
  test.causal = false;
  check(test);
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionTest,
                         testing::Values("native", "x86-64-v4", "x86-64-v3"));

TEST(AttentionReferenceTest, GradientsAreDifferences) {
  ReferenceAttention reference;
  AttentionSpec &spec = reference.spec;
  spec.batch = 2;
  spec.seq = 5;
  spec.heads = 4;
  spec.kvHeads = 2;
  spec.headDim = 3;
  spec.scale = 0.7;
  spec.causal = true;
  spec.p = 0.3;
  std::mt19937 engine(5);
  std::normal_distribution<double> draw;
  int64_t size = spec.batch * spec.seq * spec.headDim;
  auto random = [&](int64_t count) {
    std::vector<double> values(count);
    for (double &value : values)
      value = draw(engine);
    return values;
  };
  reference.q = random(size * spec.heads);
  reference.k = random(size * spec.kvHeads);
  reference.v = random(size * spec.kvHeads);
  auto grad = random(size * spec.heads);
  auto loss = [&] {
    reference.forward();
    double sum = 0;
    for (size_t i = 0; i < grad.size(); ++i)
      sum += grad[i] * reference.output[i];
    return sum;
  };
  auto gradients = reference.backward(grad);
  auto compare = [&](std::vector<double> &values,
                     const std::vector<double> &expected) {
    const double step = 1e-5;
    for (size_t i = 0; i < values.size(); ++i) {
      double middle = values[i];
      values[i] = middle + step;
      double above = loss();
      values[i] = middle - step;
      double below = loss();
      values[i] = middle;
      EXPECT_NEAR((above - below) / (2 * step), expected[i], 1e-8);
    }
  };
  compare(reference.q, gradients.q);
  compare(reference.k, gradients.k);
  compare(reference.v, gradients.v);
}

TEST(AttentionSpecTest, RefusesWhatItCannotEmit) {
  auto context = createCodegenContext();
  OpBuilder builder(context.get());
  AttentionSpec spec;
  spec.batch = spec.seq = spec.headDim = 8;
  spec.heads = 6;
  spec.kvHeads = 4;
  spec.elementType = builder.getF32Type();
  spec.packed = true;
  CpuTarget target;
  Value none;
  auto emit = [&] {
    return emitAttention(builder, builder.getUnknownLoc(), spec, target, none,
                         none, none, {}, {}, none, none, none);
  };
  EXPECT_TRUE(failed(emit())) << "heads are no multiple of kvHeads";
  spec.kvHeads = 3;
  spec.headDim = 0;
  EXPECT_TRUE(failed(emit())) << "heads have no elements";
  spec.headDim = 8;
  spec.p = 0.1;
  EXPECT_TRUE(failed(emit())) << "dropout has no random numbers";
  spec.p = 0;
  spec.packed = false;
  EXPECT_TRUE(failed(emit())) << "one operand where three are needed";
}

} // namespace
