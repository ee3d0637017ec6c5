//===- AttentionTest.cpp - Attention against a reference in double ------ ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Support/AttentionRunner.h"
#include "../Support/GemmRunner.h"
#include "../Support/IsLong.h"
#include "AttentionReference.h"
#include "heddle/runtime/io/Float.h"
#include "mlir/IR/BuiltinTypes.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <random>

using namespace mlir;
using namespace heddle;
using namespace heddle::cpu;
using namespace heddle::test;

namespace {

enum class Kind { F32, BF16, F16 };
constexpr const char *kindNames[] = {" f32", " bf16", " f16"};
int64_t bytesOf(Kind kind) { return kind == Kind::F32 ? 4 : 2; }

struct Case {
  int64_t batch, seq, heads, kvHeads, headDim;
  bool causal = true;
  bool packed = true;
  Kind kind = Kind::F32;
  double p = 0;
  double scale = 0; ///< 0: 1 / sqrt(headDim).
  double tolerance = 3e-6;
  int64_t parts = 1, part = 0;       ///< Of the heads.
  std::vector<int32_t> lengths = {}; ///< Of the rows; empty: all are whole.
  int64_t window = 0;
  double softcap = 0;
  int64_t block = 0;   ///< Of a drawn layout; 0: none.
  int64_t layouts = 1; ///< 1, or one for each head of all parts.
  double density = 0.4;

  /// Whether a key or value of the reference exists.
  bool exists(int64_t index) const {
    int64_t row = index / (kvHeads * headDim);
    return lengths.empty() || row % seq < lengths[row / seq];
  }
};

std::string describe(const Case &test) {
  std::string text =
      "B" + std::to_string(test.batch) + " T" + std::to_string(test.seq) +
      " H" + std::to_string(test.heads) + "/" + std::to_string(test.kvHeads) +
      " D" + std::to_string(test.headDim);
  return text + (test.causal ? " causal" : "") +
         (test.packed ? " packed" : "") + kindNames[int(test.kind)] +
         (test.p > 0 ? " p=" + std::to_string(test.p) : "") +
         (test.lengths.empty() ? "" : " lengths") +
         (test.window ? " window=" + std::to_string(test.window) : "") +
         (test.softcap > 0 ? " softcap=" + std::to_string(test.softcap) : "") +
         (test.block ? " block=" + std::to_string(test.block) : "");
}

/// A tensor that begins as NaN everywhere.
struct Tensor {
  Tensor(int64_t size, Kind kind)
      : kind(kind), bytes(size * bytesOf(kind), '\xff') {}

  double get(int64_t index) const {
    if (kind == Kind::F32) {
      float value;
      std::memcpy(&value, &bytes[index * 4], 4);
      return value;
    }
    uint16_t half;
    std::memcpy(&half, &bytes[index * 2], 2);
    return kind == Kind::F16 ? io::f16ToFloat(half) : io::bf16ToFloat(half);
  }
  void set(int64_t index, float value) {
    if (kind == Kind::F32) {
      std::memcpy(&bytes[index * 4], &value, 4);
      return;
    }
    uint16_t half =
        kind == Kind::F16 ? io::floatToF16(value) : io::floatToBF16(value);
    std::memcpy(&bytes[index * 2], &half, 2);
  }
  void *data() { return bytes.data(); }

  Kind kind;
  std::vector<char> bytes;
};

/// q, k and v, or their gradients, as the kernel takes them.
struct PackedTensors {
  PackedTensors(const Case &test) : test(test) {
    int64_t rows = test.batch * test.seq;
    int64_t q = test.heads * test.headDim, kv = test.kvHeads * test.headDim;
    widths = {q, kv, kv};
    if (test.packed)
      tensors.emplace_back(rows * (q + 2 * kv), test.kind);
    else
      for (int64_t width : widths)
        tensors.emplace_back(rows * width, test.kind);
  }

  /// Element `index` of q, k or v (`part`) as the reference counts it.
  std::pair<Tensor *, int64_t> locate(int part, int64_t index) {
    if (!test.packed)
      return {&tensors[part], index};
    int64_t row = index / widths[part], column = index % widths[part];
    for (int i = 0; i < part; ++i)
      column += widths[i];
    int64_t total = widths[0] + widths[1] + widths[2];
    return {&tensors[0], row * total + column};
  }
  int64_t size(int part) const { return test.batch * test.seq * widths[part]; }
  void appendTo(std::vector<void *> &arguments) {
    for (Tensor &tensor : tensors)
      arguments.push_back(tensor.data());
  }
  bool operator==(const PackedTensors &other) const {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].bytes != other.tensors[i].bytes)
        return false;
    return true;
  }

  const Case &test;
  std::array<int64_t, 3> widths;
  std::vector<Tensor> tensors;
};

/// Compares with the reference, relative to its largest element, or to 1, the
/// size of inputs: some gradients are zero in theory.
template <typename Get>
void expectClose(const char *name, const std::vector<double> &expected,
                 double tolerance, Get get) {
  double largest = 1;
  for (double value : expected)
    largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    double error = std::abs(get(i) - expected[i]);
    // The negation also catches NaN.
    ASSERT_FALSE(!(error <= tolerance * largest))
        << name << " at " << i << ": " << get(i) << " for " << expected[i]
        << ", largest " << largest;
  }
}

class AttentionTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    context = createCodegenContext();
    std::optional<CpuTarget> host = CpuTarget::parse("native");
    std::optional<CpuTarget> wanted = CpuTarget::parse(GetParam());
    if (!host || !wanted || (wanted->hasAvx512 && !host->hasAvx512))
      GTEST_SKIP() << "this machine cannot run " << GetParam();
    target = *wanted;
  }

  AttentionSpec makeSpec(const Case &test);
  void check(const Case &test);

  std::unique_ptr<MLIRContext> context;
  CpuTarget target;
};

AttentionSpec AttentionTest::makeSpec(const Case &test) {
  AttentionSpec spec;
  spec.batch = test.batch;
  spec.seq = test.seq;
  spec.heads = test.heads;
  spec.kvHeads = test.kvHeads;
  spec.headDim = test.headDim;
  spec.scale = test.scale ? test.scale : 1 / std::sqrt(test.headDim);
  spec.softcap = test.softcap;
  spec.causal = test.causal;
  spec.window = test.window;
  spec.block = test.block;
  if (test.block) {
    spec.layouts = test.layouts;
    spec.layoutBlocks = (test.seq + test.block - 1) / test.block;
  }
  spec.p = test.p;
  spec.site = -12345;
  spec.parts = test.parts;
  Builder builder(context.get());
  spec.elementType = test.kind == Kind::F32    ? Type(builder.getF32Type())
                     : test.kind == Kind::BF16 ? Type(builder.getBF16Type())
                                               : builder.getF16Type();
  spec.packed = test.packed;
  return spec;
}

void AttentionTest::check(const Case &test) {
  // x86-64-v4 differs from a larger native target by lacking products of bf16.
  // Long runs take attention of other types too, which LLVM may schedule
  // differently.
  if (!isLong() && test.kind != Kind::BF16 &&
      StringRef(GetParam()) == "x86-64-v4")
    return;
  SCOPED_TRACE(describe(test));
  ReferenceAttention reference;
  reference.spec = makeSpec(test);
  reference.lengths = test.lengths;
  bool hasLengths = !test.lengths.empty();
  ReferenceRandom &random = reference.random;
  random.part = test.part;
  std::mt19937 engine(11);
  std::normal_distribution<float> draw;

  // Draw a layout. A causal mask hides the blocks above the diagonal, too. The
  // last block of queries sees none.
  if (test.block) {
    const AttentionSpec &spec = reference.spec;
    reference.layout.resize(spec.layouts * spec.layoutBlocks *
                            spec.layoutWords());
    std::bernoulli_distribution isSeen(test.density);
    for (int64_t row = 0; row < spec.layouts * spec.layoutBlocks; ++row)
      for (int64_t column = 0; column < spec.layoutBlocks; ++column)
        if (isSeen(engine) &&
            (test.density == 1 || (row + 1) % spec.layoutBlocks != 0))
          reference.layout[row * spec.layoutWords() + column / 32] |=
              1u << column % 32;
  }

  PackedTensors inputs(test);
  std::vector<double> *parts[3] = {&reference.q, &reference.k, &reference.v};
  for (int part = 0; part < 3; ++part)
    for (int64_t i = 0; i < inputs.size(part); ++i) {
      auto [tensor, index] = inputs.locate(part, i);
      // What does not exist may hold anything.
      if (part == 0 || test.exists(i))
        tensor->set(index, draw(engine));
      parts[part]->push_back(tensor->get(index));
    }
  Tensor grad(inputs.size(0), test.kind);
  std::vector<double> gradValues;
  for (int64_t i = 0; i < inputs.size(0); ++i) {
    grad.set(i, draw(engine));
    gradValues.push_back(grad.get(i));
  }
  reference.forward();
  auto expected = reference.backward(gradValues);

  AttentionRunner forward(*context, reference.spec, target,
                          AttentionRunner::Pass::Forward, hasLengths);
  AttentionRunner backward(*context, reference.spec, target,
                           AttentionRunner::Pass::Gradient, hasLengths);
  std::array<int64_t, 3> scalars = {random.layer, random.microBatch,
                                    random.part};
  auto appendRest = [&](std::vector<void *> &arguments) {
    if (test.p > 0)
      arguments.push_back(random.rng);
    if (hasLengths)
      arguments.push_back(reference.lengths.data());
    arguments.push_back(reference.layout.data());
  };
  std::optional<Tensor> firstOutput, firstLse;
  std::optional<PackedTensors> firstGradients;
  for (int64_t threads : {1, 2, 3}) {
    Tensor output(inputs.size(0), test.kind);
    Tensor lse(reference.lse.size(), Kind::F32);
    std::vector<void *> arguments;
    inputs.appendTo(arguments);
    arguments.insert(arguments.end(), {output.data(), lse.data()});
    appendRest(arguments);
    forward.runAll(arguments, scalars, threads);

    PackedTensors gradients(test);
    arguments = {grad.data()};
    inputs.appendTo(arguments);
    arguments.insert(arguments.end(), {output.data(), lse.data()});
    gradients.appendTo(arguments);
    appendRest(arguments);
    backward.runAll(arguments, scalars, threads);

    if (threads == 1) {
      firstOutput = output;
      firstLse = lse;
      firstGradients.emplace(gradients);
    }
    EXPECT_TRUE(firstOutput->bytes == output.bytes &&
                firstLse->bytes == lse.bytes && *firstGradients == gradients)
        << "depends on the number of threads";
  }

  double tolerance = test.kind == Kind::BF16  ? 1e-2
                     : test.kind == Kind::F16 ? 2e-3
                                              : test.tolerance;
  expectClose("output", reference.output, tolerance,
              [&](int64_t i) { return firstOutput->get(i); });
  // A row of no keys has the lowest number, exactly.
  double lowest = std::numeric_limits<float>::lowest();
  std::vector<double> lses = reference.lse;
  std::replace(lses.begin(), lses.end(), lowest, 0.0);
  expectClose("lse", lses, 1e-6, [&](int64_t i) {
    bool isBlind = reference.lse[i] == lowest;
    return firstLse->get(i) - (isBlind ? lowest : 0);
  });
  const std::vector<double> *results[3] = {&expected.q, &expected.k,
                                           &expected.v};
  static constexpr const char *names[3] = {"dq", "dk", "dv"};
  for (int part = 0; part < 3; ++part)
    expectClose(names[part], *results[part], tolerance, [&](int64_t i) {
      auto [tensor, index] = firstGradients->locate(part, i);
      double value = tensor->get(index);
      EXPECT_TRUE(part == 0 || test.exists(i) || value == 0)
          << names[part] << " of a key that does not exist";
      return value;
    });
}

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

TEST_P(AttentionTest, Layouts) {
  auto checkLayout = [&](Case test, int64_t block, int64_t layouts = 1) {
    test.block = block;
    test.layouts = layouts;
    check(test);
  };
  for (int64_t block : {16, 32, 64, 128})
    for (Kind kind : {Kind::F32, Kind::BF16, Kind::F16})
      for (bool causal : {false, true})
        if (isLong() || causal == ((block + int(kind)) % 2 == 0))
          checkLayout({1, 5 * block, 2, 2, 24, causal, true, kind}, block, 2);
  // More than 32 blocks, the last of which is not whole.
  checkLayout({2, 1047, 2, 1, 40, false}, 16);
  checkLayout({1, 150, 4, 2, 64, true, /*packed=*/false}, 64, 4);
  // Sequences that are shorter than a block.
  checkLayout({2, 37, 1, 1, 8, false}, 128);
  for (Kind kind : {Kind::F32, Kind::BF16}) {
    Case test = {3, 150, 4, 2, 16, kind == Kind::F32, false, kind, /*p=*/0.25};
    test.scale = 0.9;
    test.softcap = 1.5;
    test.lengths = {149, 60, 0};
    checkLayout(test, 16, 4);
  }
  Case test = {1, 128, 2, 2, 16, true, true, Kind::F32, /*p=*/0.1};
  test.parts = 3;
  test.part = 2;
  checkLayout(test, 32, 6);
  test.density = 1;
  checkLayout(test, 32);
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
