//===- ElementwiseTest.cpp - Element-wise kernels against the reference ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
#include "dialects/NN/Scalars.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <gtest/gtest.h>

using namespace heddle::test;

namespace {

/// Shapes with whole vectors, tails only, and both.
const char *const shapes[] = {"1x1x1", "2x3x7", "1x5x33", "3x2x96"};
const char *const types[] = {"f32", "bf16", "f16"};

void checkAll(const std::string &text, double tolerance = 2e-6) {
  for (auto [number, shape] : llvm::enumerate(shapes))
    for (const char *type : typesOf(text, number))
      KernelCheck{instantiate(text, {{"S", shape}, {"T", type}}), tolerance}
          .run();
}

std::string unary(const std::string &op) {
  return "plan.kernel @k(%x: tensor<$Sx$T>) -> tensor<$Sx$T> attributes {"
         "generator = #plan.generator<rows>, ties = array<i64: -1>} {\n  %y = "
         "nn." +
         op + " : tensor<$Sx$T>\n  plan.yield %y : tensor<$Sx$T>\n}\n";
}

std::string binary(const std::string &op, const std::string &tie) {
  return "plan.kernel @k(%x: tensor<$Sx$T>, %z: tensor<$Sx$T>) -> "
         "tensor<$Sx$T> attributes {generator = #plan.generator<rows>, ties = "
         "array<i64: " +
         tie + ">} {\n  %y = nn." + op +
         " : tensor<$Sx$T>\n  plan.yield %y : tensor<$Sx$T>\n}\n";
}

/// All that `nn.map NAME(%x)` may name.
std::vector<std::string> functionNames() {
  llvm::SmallVector<llvm::StringRef> names;
  std::string list = heddle::nn::functionNames();
  llvm::StringRef(list).split(names, ", ");
  return {names.begin(), names.end()};
}

TEST(Elementwise, Unary) {
  for (const std::string &name : functionNames())
    checkAll(unary("map " + name + "(%x)"));
}

TEST(Elementwise, Binary) {
  for (const char *op : {"add %x, %z", "mul %x, %z"})
    checkAll(binary(op, "-1"));
  for (const std::string &name : functionNames())
    checkAll(binary("map " + name + "_grad(%x, %z)", "-1"));
}

/// Every scalar operation, of two tensors and a scalar.
TEST(Elementwise, ScalarOperations) {
  const std::pair<const char *, const char *> bodies[] = {
      {"arith.addf", "%0 = arith.addf %a, %b : f64"},
      {"arith.subf", "%0 = arith.subf %a, %b : f64"},
      {"arith.mulf", "%0 = arith.mulf %a, %b : f64"},
      {"arith.divf", "%1 = math.exp %b : f64 %0 = arith.divf %a, %1 : f64"},
      {"arith.negf", "%0 = arith.negf %a : f64"},
      {"arith.maximumf", "%0 = arith.maximumf %a, %b : f64"},
      {"arith.minimumf", "%0 = arith.minimumf %a, %s : f64"},
      {"arith.select", "%1 = arith.cmpf ogt, %a, %b : f64 "
                       "%0 = arith.select %1, %s, %a : f64"},
      {"math.absf", "%0 = math.absf %a : f64"},
      {"math.exp", "%0 = math.exp %a : f64"},
      {"math.log", "%1 = math.exp %a : f64 %0 = math.log %1 : f64"},
      {"math.sqrt", "%1 = math.exp %a : f64 %0 = math.sqrt %1 : f64"},
      {"math.rsqrt", "%1 = math.exp %a : f64 %0 = math.rsqrt %1 : f64"},
      {"math.tanh", "%0 = math.tanh %a : f64"},
      {"math.erf", "%0 = math.erf %a : f64"},
      {"nn.logistic", "%0 = nn.logistic %a : f64"}};
  for (auto [name, body] : bodies) {
    SCOPED_TRACE(name);
    checkAll(
        std::string("plan.kernel @k(%x: tensor<$Sx$T>, %z: tensor<$Sx$T>, "
                    "%c: tensor<f32>) -> tensor<$Sx$T> attributes {generator = "
                    "#plan.generator<rows>, ties = array<i64: -1>} {\n%y = "
                    "nn.map (%a = %x, "
                    "%b = %z, %s = %c) : (tensor<$Sx$T>, tensor<$Sx$T>, "
                    "tensor<f32>) -> tensor<$Sx$T> {") +
        body + " nn.return %0 : f64 }\nplan.yield %y : tensor<$Sx$T>\n}\n");
  }
}

TEST(Elementwise, InPlace) {
  checkAll(binary("add %x, %z", "0"));
  checkAll(binary("map gelu_tanh_grad(%x, %z)", "1"));
}

TEST(Elementwise, Casts) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<$Sx$A>) -> tensor<$Sx$B>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.cast %x : (tensor<$Sx$A>) -> tensor<$Sx$B>
      plan.yield %y : tensor<$Sx$B>
    })";
  for (const char *shape : shapes) {
    KernelCheck{instantiate(text, {{"S", shape}, {"A", "f32"}, {"B", "bf16"}}),
                0}
        .run();
    KernelCheck{instantiate(text, {{"S", shape}, {"A", "bf16"}, {"B", "f32"}}),
                0}
        .run();
  }
}

TEST(Elementwise, Dropout) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<$Sx$T>, %r: tensor<$Sx$T>, %rng: tensor<4xi32>,
                   %layer: index, %micro: index)
        -> (tensor<$Sx$T>, tensor<$Sx$T>)
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
      %y = nn.dropout %x rng %rng layer %layer micro_batch %micro
          {p = 0.25, site = 77 : i32}
          : (tensor<$Sx$T>, tensor<4xi32>, index, index) -> tensor<$Sx$T>
      %z = nn.add %y, %r : tensor<$Sx$T>
      plan.yield %z, %y : tensor<$Sx$T>, tensor<$Sx$T>
    })";
  for (const char *shape : shapes)
    for (const char *type : types) {
      KernelCheck check{instantiate(text, {{"S", shape}, {"T", type}})};
      check.scalars = {11, 3};
      check.least = -2000000000;
      check.limit = 2000000000;
      check.run();
    }
}

/// Pieces of whole and of partial vectors, and of whole and partial blocks of
/// four random words.
TEST(Elementwise, DropoutOfPart) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<$Sx$T>, %rng: tensor<4xi32>, %layer: index,
                   %micro: index, %part: index) -> tensor<$Sx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.dropout %x rng %rng layer %layer micro_batch %micro part %part
          {p = 0.25, site = 77 : i32, parts = array<i64: 3>, inner = array<i64: $I>}
          : (tensor<$Sx$T>, tensor<4xi32>, index, index, index) -> tensor<$Sx$T>
      plan.yield %y : tensor<$Sx$T>
    })";
  for (auto [shape, inner] : {std::pair{"2x3x7", "7"},
                              {"2x3x7", "21"},
                              {"3x2x96", "96"},
                              {"3x2x96", "192"},
                              {"1x5x33", "165"}})
    for (const char *type : types) {
      KernelCheck check{
          instantiate(text, {{"S", shape}, {"T", type}, {"I", inner}})};
      check.scalars = {11, 3, 2};
      check.least = -2000000000;
      check.limit = 2000000000;
      check.run();
    }
}

TEST(Elementwise, DropoutOfPartOfTwoDimensions) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<$Sx$T>, %rng: tensor<4xi32>, %layer: index,
                   %micro: index, %a: index, %b: index) -> tensor<$Sx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.dropout %x rng %rng layer %layer micro_batch %micro part %a, %b
          {p = 0.25, site = 77 : i32, parts = array<i64: 3, 4>, inner = array<i64: $I>}
          : (tensor<$Sx$T>, tensor<4xi32>, index, index, index, index) -> tensor<$Sx$T>
      plan.yield %y : tensor<$Sx$T>
    })";
  for (auto [shape, inner] : {std::pair{"2x3x7", "21, 7"},
                              {"3x2x96", "192, 96"},
                              {"2x1x33", "33, 33"}}) {
    KernelCheck check{
        instantiate(text, {{"S", shape}, {"T", "f32"}, {"I", inner}})};
    check.scalars = {11, 3, 2, 1};
    check.least = -2000000000;
    check.limit = 2000000000;
    check.run();
  }
}

/// The last part reaches over the end.
TEST(Elementwise, Slices) {
  const char *moved = R"(
    plan.kernel @k(%x: tensor<2x7x$Cx$T>, %first: index) -> tensor<2x3x$Cx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.slice %x dim 1 first %first {offset = 1}
          : (tensor<2x7x$Cx$T>, index) -> tensor<2x3x$Cx$T>
      plan.yield %y : tensor<2x3x$Cx$T>
    })";
  const char *fixed = R"(
    plan.kernel @k(%x: tensor<2x7x$Cx$T>) -> tensor<2x4x$Cx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.slice %x dim 1 {offset = 2}
          : (tensor<2x7x$Cx$T>) -> tensor<2x4x$Cx$T>
      plan.yield %y : tensor<2x4x$Cx$T>
    })";
  for (const char *type : types)
    for (const char *columns : {"1", "33", "64"}) {
      for (int64_t first : {0, 3, 4}) {
        KernelCheck check{instantiate(moved, {{"C", columns}, {"T", type}})};
        check.scalars = {first};
        check.run();
      }
      KernelCheck{instantiate(fixed, {{"C", columns}, {"T", type}})}.run();
    }
}

/// The heads of a row apart, and side by side again.
TEST(Elementwise, Reshapes) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<$Ax$T>) -> tensor<$Bx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.reshape %x : (tensor<$Ax$T>) -> tensor<$Bx$T>
      plan.yield %y : tensor<$Bx$T>
    })";
  for (const char *type : types)
    for (auto [joined, split] : {std::pair{"2x3x15", "2x3x5x3"},
                                 {"2x3x80", "2x3x5x16"},
                                 {"2x3x33", "2x3x1x33"}}) {
      KernelCheck{instantiate(text, {{"A", joined}, {"B", split}, {"T", type}})}
          .run();
      KernelCheck{instantiate(text, {{"A", split}, {"B", joined}, {"T", type}})}
          .run();
    }
}

/// A norm of each head shares the kernel with what takes the heads apart.
TEST(Elementwise, ReshapesBeforeNorms) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<2x3x35x$T>, %w: tensor<7x$T>)
        -> (tensor<2x3x5x7x$T>, tensor<2x3x5x7x$T>, tensor<2x3x5xf32>)
        attributes {generator = #plan.generator<rows>,
                    ties = array<i64: -1, -1, -1>} {
      %h = nn.reshape %x : (tensor<2x3x35x$T>) -> tensor<2x3x5x7x$T>
      %y, %r = nn.rms_norm %h, %w {eps = 1.0e-5 : f64}
          : (tensor<2x3x5x7x$T>, tensor<7x$T>)
          -> (tensor<2x3x5x7x$T>, tensor<2x3x5xf32>)
      plan.yield %h, %y, %r : tensor<2x3x5x7x$T>, tensor<2x3x5x7x$T>,
                              tensor<2x3x5xf32>
    })";
  for (const char *type : types)
    KernelCheck{instantiate(text, {{"T", type}})}.run();
}

TEST(Elementwise, Concat) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<2x3x16x$T>, %y: tensor<2x3x$Cx$T>,
                   %z: tensor<2x3x5x$T>) -> tensor<2x3x$Sx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %c = nn.concat %x, %y, %z dim 2
          : (tensor<2x3x16x$T>, tensor<2x3x$Cx$T>, tensor<2x3x5x$T>)
          -> tensor<2x3x$Sx$T>
      plan.yield %c : tensor<2x3x$Sx$T>
    })";
  for (const char *type : types)
    for (auto [columns, sum] : {std::pair{"1", "22"}, {"32", "53"}})
      KernelCheck{instantiate(text, {{"C", columns}, {"S", sum}, {"T", type}})}
          .run();
}

TEST(Elementwise, AttentionJoin) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<2x3x$Cx$T>, %s: tensor<2x4x3xf32>,
                   %y: tensor<2x3x$Cx$T>, %t: tensor<2x4x3xf32>)
        -> tensor<2x3x$Cx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %o = nn.attention_join %x, %s, %y, %t
          : (tensor<2x3x$Cx$T>, tensor<2x4x3xf32>, tensor<2x3x$Cx$T>,
             tensor<2x4x3xf32>) -> tensor<2x3x$Cx$T>
      plan.yield %o : tensor<2x3x$Cx$T>
    })";
  for (const char *type : types)
    for (const char *columns : {"4", "36", "64"})
      KernelCheck{instantiate(text, {{"C", columns}, {"T", type}})}.run();
}

TEST(Elementwise, LogAddExp) {
  KernelCheck{R"(
    plan.kernel @k(%s: tensor<2x4x37xf32>, %t: tensor<2x4x37xf32>)
        -> tensor<2x4x37xf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
      %lse = nn.log_add_exp %s, %t
          : (tensor<2x4x37xf32>, tensor<2x4x37xf32>) -> tensor<2x4x37xf32>
      plan.yield %lse : tensor<2x4x37xf32>
    })"}
      .run();
}

TEST(Elementwise, AddBias) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<2x3x$Cx$T>, %b: tensor<$Cx$T>) -> tensor<2x3x$Cx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.add_bias %x, %b
          : (tensor<2x3x$Cx$T>, tensor<$Cx$T>) -> tensor<2x3x$Cx$T>
      plan.yield %y : tensor<2x3x$Cx$T>
    })";
  for (const char *type : types)
    for (const char *columns : {"1", "7", "33", "64"})
      KernelCheck{instantiate(text, {{"C", columns}, {"T", type}})}.run();
}

TEST(Elementwise, Rotary) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<2x3x$Cx$T>, %p: tensor<2x3xi32>)
        -> tensor<2x3x$Cx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.rotary %x at %p {heads = 2, dims = $D, theta = 10000.0 $I}
          : (tensor<2x3x$Cx$T>, tensor<2x3xi32>) -> tensor<2x3x$Cx$T>
      plan.yield %y : tensor<2x3x$Cx$T>
    })";
  for (const char *type : types)
    for (const char *inverse :
         {"", ", inverse",
          ", scaling = #nn.rotary_scaling<all, factor = 4.0 : f64, low = 0.0 : "
          "f64, high = 0.0 : f64, magnitude = 1.0 : f64>",
          ", inverse, scaling = #nn.rotary_scaling<pairs, factor = 4.0 : f64, "
          "low = 0.5 : f64, high = 2.0 : f64, magnitude = 1.2 : f64>",
          ", scaling = #nn.rotary_scaling<rates, factor = 8.0 : f64, low = "
          "0.001 : f64, high = 0.2 : f64, magnitude = 1.0 : f64>"})
      for (auto [columns, dims] : {std::pair{"64", "32"}, {"20", "6"}}) {
        KernelCheck check{
            instantiate(
                text,
                {{"C", columns}, {"D", dims}, {"T", type}, {"I", inverse}}),
            2e-5};
        check.limit = 200;
        check.run();
      }
}

TEST(Elementwise, Embedding) {
  const char *text = R"(
    plan.kernel @k(%w: tensor<50x$Cx$T>, %p: tensor<9x$Cx$T>, %ids: tensor<2x3xi32>)
        -> tensor<2x3x$Cx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %a = nn.embedding %w[%ids]
          : (tensor<50x$Cx$T>, tensor<2x3xi32>) -> tensor<2x3x$Cx$T>
      %at = nn.positions {offset = 2} : () -> tensor<2x3xi32>
      %b = nn.embedding %p[%at]
          : (tensor<9x$Cx$T>, tensor<2x3xi32>) -> tensor<2x3x$Cx$T>
      %y = nn.add %a, %b : tensor<2x3x$Cx$T>
      plan.yield %y : tensor<2x3x$Cx$T>
    })";
  for (const char *type : types)
    for (const char *columns : {"1", "7", "33", "64"}) {
      KernelCheck check{instantiate(text, {{"C", columns}, {"T", type}})};
      check.limit = 50;
      check.run();
    }
}

TEST(Elementwise, PartsOfEmbeddings) {
  const char *text = R"(
    plan.kernel @k(%w: tensor<20x$Cx$T>, %p: tensor<9x$Cx$T>, %ids: tensor<2x3xi32>,
                   %row: index, %first: index) -> tensor<2x3x$Cx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %a = nn.embedding %w[%ids] first %row
          : (tensor<20x$Cx$T>, tensor<2x3xi32>, index) -> tensor<2x3x$Cx$T>
      %at = nn.positions first %first : (index) -> tensor<2x3xi32>
      %b = nn.embedding %p[%at]
          : (tensor<9x$Cx$T>, tensor<2x3xi32>) -> tensor<2x3x$Cx$T>
      %y = nn.add %a, %b : tensor<2x3x$Cx$T>
      plan.yield %y : tensor<2x3x$Cx$T>
    })";
  for (const char *type : types)
    for (const char *columns : {"7", "33", "64"})
      for (int64_t row : {0, 20, 40}) {
        KernelCheck check{instantiate(text, {{"C", columns}, {"T", type}})};
        check.limit = 50;
        check.scalars = {row, 6};
        check.run();
      }
}

TEST(Elementwise, Reorder) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<2x3x$Cx$T>, %order: tensor<37xi32>)
        -> tensor<2x3x37x$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.reorder %x by %order
          : (tensor<2x3x$Cx$T>, tensor<37xi32>) -> tensor<2x3x37x$T>
      plan.yield %y : tensor<2x3x37x$T>
    })";
  for (const char *type : types)
    for (const char *columns : {"5", "37", "64"}) {
      KernelCheck check{instantiate(text, {{"C", columns}, {"T", type}})};
      check.limit = 5;
      check.run();
    }
}

TEST(Elementwise, TakeRow) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<2x6x$Cx$T>, %at: tensor<i32>) -> tensor<2x1x$Cx$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.take_row %x[%at]
          : (tensor<2x6x$Cx$T>, tensor<i32>) -> tensor<2x1x$Cx$T>
      plan.yield %y : tensor<2x1x$Cx$T>
    })";
  for (const char *type : types)
    for (const char *columns : {"1", "33", "64"}) {
      KernelCheck check{instantiate(text, {{"C", columns}, {"T", type}})};
      check.limit = 6;
      check.run();
    }
}

// Segments of which the run has none, parts and all; and what is behind them.
TEST(Elementwise, Segments) {
  const char *sums = R"(
    plan.kernel @k(%x: tensor<448xf32>, %i: index) -> tensor<4xf32>
        attributes {generator = #plan.generator<segments>, ties = array<i64: -1>} {
      %y = nn.segment_sums %x first %i {segments = array<i64: 64, 128, 64, 256>}
          : (tensor<448xf32>, index) -> tensor<4xf32>
      plan.yield %y : tensor<4xf32>
    })";
  const char *scaled = R"(
    plan.kernel @k(%x: tensor<448xf32>, %f: tensor<4xf32>, %i: index)
        -> tensor<448xf32>
        attributes {generator = #plan.generator<segments>, ties = array<i64: 0>} {
      %y = nn.scale_segments %x by %f first %i {segments = array<i64: 64, 128, 64, 256>}
          : (tensor<448xf32>, tensor<4xf32>, index) -> tensor<448xf32>
      plan.yield %y : tensor<448xf32>
    })";
  for (const char *text : {sums, scaled})
    for (int64_t first : {0, 64, 128, 320, 4096}) {
      KernelCheck check{text};
      check.scalars = {first};
      check.run();
    }
}

// Segments of which a range has none, parts and all; and elements after the end
// of a tensor, which do not count.
TEST(Elementwise, Maxima) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<$Nxf32>, %i: index) -> tensor<$Rx4xf32>
        attributes {generator = #plan.generator<segments>, ties = array<i64: -1>} {
      %y = nn.segment_maxima %x first %i {counts = array<i64: 50, $L, 64, 3>}
          : (tensor<$Nxf32>, index) -> tensor<$Rx4xf32>
      plan.yield %y : tensor<$Rx4xf32>
    })";
  for (auto [elements, rows, longest] : {std::tuple{"448", "1", "128"},
                                         {"384", "3", "130"},
                                         {"131328", "2", "131100"}})
    for (int64_t first : {0, 64, 128}) {
      KernelCheck check{
          instantiate(text, {{"N", elements}, {"R", rows}, {"L", longest}})};
      check.scalars = {first};
      check.run();
    }
}

// Weights of one group and of several, [inputs, outputs] and [rows, width], of
// which a range has none, parts and all; groups that end within a row. The last
// two are parts of larger tensors, of which the second part has padding.
TEST(Elementwise, Groups) {
  const char *tensors =
      "array<i64: 6, 20, 1, 1, 6, 20, 0, 6, 20, 5, 1, 6, 20, 0, 5, 32, 4, 0, "
      "5, 32, 0, 9, 7, 7, 1, 18, 7, 1, 12, 7, 8, 1, 12, 12, 2>";
  const char *maxima = R"(
    plan.kernel @k(%x: tensor<$Nxf32>, %i: index, %j: index) -> tensor<$Rx50xf32>
        attributes {generator = #plan.generator<segments>, ties = array<i64: -1>} {
      %y = nn.group_maxima %x first %i part %j {tensors = $T}
          : (tensor<$Nxf32>, index, index) -> tensor<$Rx50xf32>
      plan.yield %y : tensor<$Rx50xf32>
    })";
  const char *sums = R"(
    plan.kernel @k(%x: tensor<$Nxf32>, %t: tensor<25xf32>, %i: index, %j: index)
        -> (tensor<25xf32>, tensor<25xf32>)
        attributes {generator = #plan.generator<segments>, ties = array<i64: -1, -1>} {
      %y, %c = nn.group_sums %x above %t first %i part %j {tensors = $T}
          : (tensor<$Nxf32>, tensor<25xf32>, index, index) -> (tensor<25xf32>, tensor<25xf32>)
      plan.yield %y, %c : tensor<25xf32>, tensor<25xf32>
    })";
  const char *quantized = R"(
    plan.kernel @k(%x: tensor<$Nxf32>, %m: tensor<50xf32>, %b: tensor<f32> {test.integral},
                   %r: tensor<f32>, %a: tensor<25xf32>, %l: tensor<25xf32>, %i: index,
                   %j: index)
        -> tensor<$Nx$E>
        attributes {generator = #plan.generator<segments>, ties = array<i64: -1>} {
      %y = nn.fake_quantize %x by %m bits %b ratio %r $O first %i part %j {$A tensors = $T}
          : (tensor<$Nxf32>, tensor<50xf32>, tensor<f32>, tensor<f32>, $Y index, index)
          -> tensor<$Nx$E>
      plan.yield %y : tensor<$Nx$E>
    })";
  const char *few = "means %a levels %l";
  const char *types = "tensor<25xf32>, tensor<25xf32>,";
  for (auto [elements, rows] : {std::pair{"896", "1"}, {"384", "2"}})
    for (int64_t first : {0, 64, 320, 832}) {
      for (const char *text : {maxima, sums}) {
        KernelCheck check{
            instantiate(text, {{"N", elements}, {"R", rows}, {"T", tensors}})};
        check.scalars = {first, first / 64 % 2};
        check.run();
      }
      for (bool isFew : {false, true}) {
        KernelCheck check{
            instantiate(quantized, {{"N", elements},
                                    {"T", tensors},
                                    {"E", isFew ? "bf16" : "f32"},
                                    {"A", isFew ? "" : "asymmetric,"},
                                    {"O", isFew ? few : ""},
                                    {"Y", isFew ? types : ""}})};
        check.scalars = {first, first / 64 % 2};
        check.run();
      }
    }
}

TEST(Elementwise, Numbers) {
  for (const char *text : {R"(
    plan.kernel @k(%x: tensor<2304xf32>) -> tensor<35xf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.read_numbers %x : (tensor<2304xf32>) -> tensor<35xf32>
      plan.yield %y : tensor<35xf32>
    })",
                           R"(
    plan.kernel @k(%n: tensor<35xf32>, %x: tensor<2304xf32>, %c: tensor<f32>)
        -> tensor<2304xf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: 1>} {
      %y = nn.write_numbers %n to %x if %c
          : (tensor<35xf32>, tensor<2304xf32>, tensor<f32>) -> tensor<2304xf32>
      plan.yield %y : tensor<2304xf32>
    })",
                           R"(
    plan.kernel @k(%x: tensor<5x35xf32>) -> tensor<35xf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.max_rows %x : (tensor<5x35xf32>) -> tensor<35xf32>
      plan.yield %y : tensor<35xf32>
    })"}) {
    KernelCheck check{text};
    check.run();
  }
}

// A segment that a GPU sums in three pieces, of which the run begins or ends in
// one; many small ones; places beyond 32 bits.
TEST(Elementwise, LongSegments) {
  const char *sums = R"(
    plan.kernel @k(%x: tensor<66048xf32>, %i: index) -> tensor<7xf32>
        attributes {generator = #plan.generator<segments>, ties = array<i64: -1>} {
      %y = nn.segment_sums %x first %i
          {segments = array<i64: 64, $L, 131200, 64, 192, 64, 128>}
          : (tensor<66048xf32>, index) -> tensor<7xf32>
      plan.yield %y : tensor<7xf32>
    })";
  const char *scaled = R"(
    plan.kernel @k(%x: tensor<66048xf32>, %f: tensor<7xf32>, %i: index)
        -> tensor<66048xf32>
        attributes {generator = #plan.generator<segments>, ties = array<i64: -1>} {
      %y = nn.scale_segments %x by %f first %i
          {segments = array<i64: 64, $L, 131200, 64, 192, 64, 128>}
          : (tensor<66048xf32>, tensor<7xf32>, index) -> tensor<66048xf32>
      plan.yield %y : tensor<66048xf32>
    })";
  for (const char *text : {sums, scaled})
    for (auto [longest, first] : {std::pair{"64", int64_t(64)},
                                  {"128", 65664},
                                  {"4294967296", 4294967360}}) {
      if (!isLong() && text == scaled && first < 4294967296)
        continue;
      KernelCheck check{instantiate(text, {{"L", longest}})};
      check.scalars = {first};
      check.run();
    }
}

TEST(Elementwise, Fill) {
  const char *text = R"(
    plan.kernel @k() -> tensor<5x9x$T>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.fill 0.5 : () -> tensor<5x9x$T>
      plan.yield %y : tensor<5x9x$T>
    })";
  for (const char *type : types)
    KernelCheck{instantiate(text, {{"T", type}})}.run();
}

} // namespace
