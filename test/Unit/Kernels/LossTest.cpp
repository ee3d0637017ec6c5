//===- LossTest.cpp - Losses, tables and sums against the reference -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
#include "llvm/ADT/STLExtras.h"
#include <array>
#include <cstring>
#include <gtest/gtest.h>

using namespace heddle::test;

namespace {

const char *const types[] = {"f32", "bf16", "f16"};

void checkVocabularies(const std::string &text, double tolerance) {
  for (auto [number, vocabulary] :
       llvm::enumerate(std::array{"1", "7", "50", "333"}))
    for (const char *type : typesOf(text, number)) {
      KernelCheck check{instantiate(text, {{"X", "tensor<2x3x$Vx$T>"},
                                           {"L", "tensor<2x3xi32>"},
                                           {"S", "tensor<2x3xf32>"},
                                           {"V", vocabulary},
                                           {"T", type}}),
                        tolerance};
      // Negative labels do not count.
      check.least = -1;
      check.limit = std::stoi(vocabulary);
      check.run();
      // No label counts.
      check.least = -100;
      check.limit = -99;
      check.run();
    }
}

TEST(Losses, CrossEntropy) {
  for (const char *attributes : {"", "{smoothing = 0.3 : f64}"})
    checkVocabularies(std::string(R"(
    plan.kernel @k(%x: $X, %l: $L) -> ($S, $S)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
      %loss, %lse = nn.cross_entropy %x, %l )") +
                          attributes + R"( : ($X, $L) -> ($S, $S)
      plan.yield %loss, %lse : $S, $S
    })",
                      2e-6);
}

/// The loss reads one element back of what the first loop over a row stores.
TEST(Losses, CrossEntropyOfASumThatIsKept) {
  checkVocabularies(R"(
    plan.kernel @k(%x: $X, %y: $X, %l: $L) -> ($S, $X)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
      %sum = nn.add %x, %y : $X
      %loss, %lse = nn.cross_entropy %sum, %l : ($X, $L) -> ($S, $S)
      plan.yield %loss, %sum : $S, $X
    })",
                    2e-6);
}

TEST(Losses, CrossEntropyGrad) {
  checkVocabularies(R"(
    plan.kernel @k(%x: $X, %l: $L, %lse: $S, %d: $S) -> $X
        attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
      %g = nn.cross_entropy_grad %x, %l, %lse, %d : ($X, $L, $S, $S) -> $X
      plan.yield %g : $X
    })",
                    2e-6);
}

/// The gradient takes the place of the logits that the losses were read from.
TEST(Losses, CrossEntropyWithItsGradientInPlace) {
  for (std::string attributes : {"", "{smoothing = 0.3 : f64}"})
    checkVocabularies(R"(
    plan.kernel @k(%x: $X, %l: $L, %d: $S) -> ($S, $X)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, 0>} {
      %loss, %lse = nn.cross_entropy %x, %l )" +
                          attributes + R"( : ($X, $L) -> ($S, $S)
      %g = nn.cross_entropy_grad %x, %l, %lse, %d )" +
                          attributes + R"( : ($X, $L, $S, $S) -> $X
      plan.yield %loss, %g : $S, $X
    })",
                      2e-6);
}

/// On a GPU, rows for whose registers a block has more threads, rows that only
/// its memory holds, and rows that are read again.
TEST(Losses, CrossEntropyOfLongRows) {
  for (const char *vocabulary : {"10007", "16391", "41003"})
    for (const char *type : typesOf("", vocabulary[0] == '1')) {
      KernelCheck check{instantiate(R"(
    plan.kernel @k(%x: $X, %l: $L, %d: $S) -> ($S, $X)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, 0>} {
      %loss, %lse = nn.cross_entropy %x, %l : ($X, $L) -> ($S, $S)
      %g = nn.cross_entropy_grad %x, %l, %lse, %d : ($X, $L, $S, $S) -> $X
      plan.yield %loss, %g : $S, $X
    })",
                                    {{"X", "tensor<2x$Vx$T>"},
                                     {"L", "tensor<2xi32>"},
                                     {"S", "tensor<2xf32>"},
                                     {"V", vocabulary},
                                     {"T", type}}),
                        2e-6};
      check.limit = std::stoi(vocabulary);
      check.run();
    }
}

/// Runs on parts of vocabularies: all of one, its last columns, a part that
/// ends beyond them and one that begins there.
void checkParts(const std::string &text) {
  struct Part {
    const char *vocabulary, *width;
    int64_t first;
  };
  const Part parts[] = {{"7", "7", 0},  {"14", "7", 7},  {"8", "7", 7},
                        {"12", "7", 7}, {"14", "7", 14}, {"650", "333", 333}};
  for (auto [number, part] : llvm::enumerate(parts))
    for (const char *type : typesOf(text, number)) {
      KernelCheck check{instantiate(text, {{"X", "tensor<2x3x$Wx$T>"},
                                           {"L", "tensor<2x3xi32>"},
                                           {"S", "tensor<2x3xf32>"},
                                           {"V", part.vocabulary},
                                           {"W", part.width},
                                           {"T", type}})};
      check.least = -1;
      check.limit = std::stoi(part.vocabulary);
      check.scalars = {part.first};
      check.run();
    }
}

TEST(Losses, CrossEntropyPart) {
  for (std::string smoothing : {"", ", smoothing = 0.3 : f64"})
    checkParts(R"(
    plan.kernel @k(%x: $X, %l: $L, %first: index) -> ($S, $S)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
      %lse, %label = nn.cross_entropy_part %x, %l first %first {vocab = $V)" +
               smoothing + R"(} : ($X, $L, index) -> ($S, $S)
      plan.yield %lse, %label : $S, $S
    })");
}

TEST(Losses, CrossEntropyJoin) {
  for (const char *parts : {"2", "4", "10"}) {
    KernelCheck check{instantiate(
        R"(
    plan.kernel @k(%x: tensor<$Px3xf32>, %y: $S, %l: tensor<2x3xi32>) -> ($S, $S)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
      %loss, %lse = nn.cross_entropy_join %x, %y, %l
          : (tensor<$Px3xf32>, $S, tensor<2x3xi32>) -> ($S, $S)
      plan.yield %loss, %lse : $S, $S
    })",
        {{"S", "tensor<2x3xf32>"}, {"P", parts}})};
    check.least = -1;
    check.run();
  }
}

TEST(Losses, CrossEntropyGradOfPart) {
  for (std::string smoothing : {"", ", smoothing = 0.3 : f64"})
    checkParts(R"(
    plan.kernel @k(%x: $X, %l: $L, %lse: $S, %d: $S, %first: index) -> $X
        attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
      %g = nn.cross_entropy_grad %x, %l, %lse, %d first %first
          {vocab = $V)" +
               smoothing +
               R"(} : ($X, $L, $S, $S, index) -> $X
      plan.yield %g : $X
    })");
}

TEST(Tables, EmbeddingGradOfPart) {
  const char *text = R"(
    plan.kernel @k(%g: tensor<2x5x$Cx$T>, %ids: tensor<2x5xi32>, %first: index)
        -> tensor<4x$Cxf32> attributes {generator = #plan.generator<scatter>, ties = array<i64: -1>} {
      %y = nn.embedding_grad %g[%ids] first %first
          : (tensor<2x5x$Cx$T>, tensor<2x5xi32>, index) -> tensor<4x$Cxf32>
      plan.yield %y : tensor<4x$Cxf32>
    })";
  for (const char *type : types)
    for (const char *columns : {"7", "33", "64"})
      for (int64_t first : {0, 4, 8}) {
        KernelCheck check{instantiate(text, {{"C", columns}, {"T", type}})};
        check.limit = 9;
        check.scalars = {first};
        check.run();
      }
}

TEST(Tables, EmbeddingGradWithoutPadding) {
  const char *text = R"(
    plan.kernel @k(%g: tensor<2x5x7x$T>, %ids: tensor<2x5xi32>, %first: index)
        -> tensor<4x7xf32> attributes {generator = #plan.generator<scatter>, ties = array<i64: -1>} {
      %y = nn.embedding_grad %g[%ids] first %first {padding = $P : i64}
          : (tensor<2x5x7x$T>, tensor<2x5xi32>, index) -> tensor<4x7xf32>
      plan.yield %y : tensor<4x7xf32>
    })";
  for (const char *type : types)
    for (const char *padding : {"0", "3", "5"})
      for (int64_t first : {0, 4}) {
        KernelCheck check{instantiate(text, {{"P", padding}, {"T", type}})};
        check.limit = 6;
        check.scalars = {first};
        check.run();
      }
}

TEST(Tables, EmbeddingGrad) {
  const char *const texts[] = {R"(
    plan.kernel @k(%g: tensor<2x5x$Cx$T>, %ids: tensor<2x5xi32>, %i: tensor<9x$Cx$G>)
        -> tensor<9x$Cx$G> attributes {generator = #plan.generator<scatter>, ties = array<i64: $TIE>} {
      %y = nn.embedding_grad %g[%ids] init %i
          : (tensor<2x5x$Cx$T>, tensor<2x5xi32>, tensor<9x$Cx$G>) -> tensor<9x$Cx$G>
      plan.yield %y : tensor<9x$Cx$G>
    })",
                               R"(
    plan.kernel @k(%g: tensor<2x5x$Cx$T>, %ids: tensor<2x5xi32>)
        -> tensor<9x$Cx$G> attributes {generator = #plan.generator<scatter>, ties = array<i64: -1>} {
      %y = nn.embedding_grad %g[%ids]
          : (tensor<2x5x$Cx$T>, tensor<2x5xi32>) -> tensor<9x$Cx$G>
      plan.yield %y : tensor<9x$Cx$G>
    })"};
  for (const std::string text : texts)
    for (auto [number, columns] :
         llvm::enumerate(std::array{"1", "7", "33", "64"}))
      for (const char *tie : {"-1", "2"})
        for (const char *gradient : types)
          for (const char *type : typesOf(text + tie + gradient, number)) {
            KernelCheck check{instantiate(
                text,
                {{"TIE", tie}, {"C", columns}, {"G", gradient}, {"T", type}})};
            check.limit = 9;
            // A kernel of no initial table has no tie.
            if (text.find("$TIE") != text.npos || tie[0] == '-')
              check.run();
          }
}

/// Some ids often, some never, some beyond the table; more positions than a GPU
/// sorts at once, and more columns than one of its blocks has.
TEST(Tables, EmbeddingGradOfManyPositions) {
  const char *text = R"(
    plan.kernel @k(%g: tensor<17x83x$Cx$T>, %ids: tensor<17x83xi32>, %i: tensor<$Rx$Cxf32>)
        -> tensor<$Rx$Cxf32> attributes {generator = #plan.generator<scatter>, ties = array<i64: $TIE>} {
      %y = nn.embedding_grad %g[%ids] init %i {padding = 5 : i64}
          : (tensor<17x83x$Cx$T>, tensor<17x83xi32>, tensor<$Rx$Cxf32>) -> tensor<$Rx$Cxf32>
      plan.yield %y : tensor<$Rx$Cxf32>
    })";
  for (auto [type, columns, rows] : {std::tuple{"f32", "300", "2"},
                                     {"bf16", "5", "1009"},
                                     {"f32", "3", "40009"},
                                     {"bf16", "264", "101"}})
    for (const char *tie : {"-1", "2"}) {
      // Only a long run takes both ties.
      if (!isLong() && (tie[0] == '2') != (std::strlen(columns) == 3))
        continue;
      KernelCheck check{instantiate(
          text, {{"TIE", tie}, {"C", columns}, {"R", rows}, {"T", type}})};
      check.least = -1;
      check.limit = 120;
      check.run();
    }
}

TEST(Sums, Sum) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<$Sxf32>, %i: tensor<f32>) -> tensor<f32>
        attributes {generator = #plan.generator<reduce>, ties = array<i64: 1>} {
      %y = nn.sum %x init %i : (tensor<$Sxf32>, tensor<f32>) -> tensor<f32>
      plan.yield %y : tensor<f32>
    })";
  for (const char *shape : {"1x1", "3x7", "4x129"})
    KernelCheck{instantiate(text, {{"S", shape}})}.run();
}

TEST(Sums, WeightedSum) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<$Sxf32>, %w: tensor<$Sxf32>, %i: tensor<f32>) -> tensor<f32>
        attributes {generator = #plan.generator<reduce>, ties = array<i64: 2>} {
      %y = nn.sum %x weights %w init %i
          : (tensor<$Sxf32>, tensor<$Sxf32>, tensor<f32>) -> tensor<f32>
      plan.yield %y : tensor<f32>
    })";
  for (const char *shape : {"1x1", "3x7", "4x129"})
    KernelCheck{instantiate(text, {{"S", shape}})}.run();
}

/// Runs kernels on labels of which some are negative.
void checkLabels(const char *text) {
  for (auto [shape, least] : {std::pair{"1x1", -1},
                              {"2x3x7", -1},
                              {"4x129", -1},
                              {"5x2003", -1},
                              {"4x129", -100}}) {
    KernelCheck check{instantiate(text, {{"S", shape}})};
    check.least = least;
    check.limit = least == -1 ? 3 : -99;
    check.run();
  }
}

TEST(Sums, CountLabels) {
  checkLabels(R"(
    plan.kernel @k(%l: tensor<$Sxi32>) -> tensor<f32>
        attributes {generator = #plan.generator<reduce>, ties = array<i64: -1>} {
      %y = nn.count_labels %l : (tensor<$Sxi32>) -> tensor<f32>
      plan.yield %y : tensor<f32>
    })");
  checkLabels(R"(
    plan.kernel @k(%l: tensor<$Sxi32>, %w: tensor<$Sxf32>) -> tensor<f32>
        attributes {generator = #plan.generator<reduce>, ties = array<i64: -1>} {
      %y = nn.count_labels %l weights %w : (tensor<$Sxi32>, tensor<$Sxf32>) -> tensor<f32>
      plan.yield %y : tensor<f32>
    })");
}

TEST(Losses, LossScale) {
  for (const char *count : {"", " {test.positive}"})
    KernelCheck{instantiate(R"(
    plan.kernel @k(%c: tensor<f32>$P) -> tensor<f32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.loss_scale %c : (tensor<f32>) -> tensor<f32>
      plan.yield %y : tensor<f32>
    })",
                            {{"P", count}})}
        .run();
}

TEST(Losses, TokenWeights) {
  checkLabels(R"(
    plan.kernel @k(%l: tensor<$Sxi32>, %s: tensor<f32>) -> tensor<$Sxf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.token_weights %l scale %s : (tensor<$Sxi32>, tensor<f32>) -> tensor<$Sxf32>
      plan.yield %y : tensor<$Sxf32>
    })");
  checkLabels(R"(
    plan.kernel @k(%l: tensor<$Sxi32>, %s: tensor<f32>, %w: tensor<$Sxf32>) -> tensor<$Sxf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.token_weights %l scale %s weights %w
          : (tensor<$Sxi32>, tensor<f32>, tensor<$Sxf32>) -> tensor<$Sxf32>
      plan.yield %y : tensor<$Sxf32>
    })");
}

TEST(Sums, GlobalNormAndClip) {
  KernelCheck{R"(
    plan.kernel @k(%a: tensor<1000xf32>, %b: tensor<3x7xf32>) -> tensor<f32>
        attributes {generator = #plan.generator<reduce>, ties = array<i64: -1>} {
      %y = nn.global_norm %a, %b : (tensor<1000xf32>, tensor<3x7xf32>) -> tensor<f32>
      plan.yield %y : tensor<f32>
    })"}
      .run();
  KernelCheck{R"(
    plan.kernel @k(%a: tensor<5xf32> {test.positive}) -> tensor<f32>
        attributes {generator = #plan.generator<reduce>, ties = array<i64: -1>} {
      %y = nn.global_norm %a {summed} : (tensor<5xf32>) -> tensor<f32>
      plan.yield %y : tensor<f32>
    })"}
      .run();
  // Two sums of several blocks of a GPU, of which one has fewer.
  KernelCheck{R"(
    plan.kernel @k(%a: tensor<20011xf32>, %b: tensor<97x101xbf16>) -> tensor<f32>
        attributes {generator = #plan.generator<reduce>, ties = array<i64: -1>} {
      %y = nn.global_norm %a, %b : (tensor<20011xf32>, tensor<97x101xbf16>) -> tensor<f32>
      plan.yield %y : tensor<f32>
    })"}
      .run();
  for (auto [size, blocks] :
       {std::pair{"7", "1"}, {"65536", "1"}, {"131072", "2"}, {"200001", "4"}})
    for (const char *type : types)
      KernelCheck{instantiate(R"(
      plan.kernel @k(%a: tensor<$Nx$T>) -> tensor<$Bxf32>
          attributes {generator = #plan.generator<block_sums>, ties = array<i64: -1>} {
        %y = nn.square_sums %a : (tensor<$Nx$T>) -> tensor<$Bxf32>
        plan.yield %y : tensor<$Bxf32>
      })",
                              {{"N", size}, {"B", blocks}, {"T", type}})}
          .run();
}

} // namespace
