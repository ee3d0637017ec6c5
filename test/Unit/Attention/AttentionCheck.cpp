//===- AttentionCheck.cpp - Attention against a reference in double -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionReference.h"
#include "AttentionTest.h"
#include "mlir/IR/BuiltinTypes.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace heddle;
using namespace heddle::cpu;
using namespace heddle::test;

static constexpr const char *kindNames[] = {" f32", " bf16", " f16"};

static std::string describe(const Case &test) {
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

/// Compares with the reference, relative to its largest element, or to 1, the
/// size of inputs: some gradients are zero in theory.
template <typename Get>
static void expectClose(const char *name, const std::vector<double> &expected,
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
