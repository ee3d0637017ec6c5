//===- RowErrorsTest.cpp - Errors of row kernels beside those of x86 ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/OptimizerTexts.h"
#include "Errors.h"
#include "dialects/NN/Scalars.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

using namespace heddle::test;

namespace {

class GpuRowErrors : public testing::TestWithParam<const char *> {
protected:
  /// A kernel whose body makes %0, %1 and so on of the types `results`.
  /// $X is 37 rows of $C numbers, $W such a row and $S a number for each row.
  void compare(const std::string &generator, const std::string &arguments,
               const std::vector<std::string> &results, const std::string &body,
               const char *columns = "523", int64_t limit = 4) {
    compareErrors(kernel(generator, arguments, results, body, columns, limit),
                  /*units=*/1);
  }

  KernelCheck kernel(const std::string &generator, const std::string &arguments,
                     const std::vector<std::string> &results,
                     const std::string &body, const char *columns,
                     int64_t limit = 4) {
    std::vector<std::string> ties(results.size(), "-1"), values;
    for (size_t i = 0; i < results.size(); ++i)
      values.push_back("%" + std::to_string(i));
    std::string types = llvm::join(results, ", ");
    KernelCheck check{instantiate(
        "plan.kernel @k(" + arguments + ") -> (" + types +
            ") attributes {generator = #plan.generator<" + generator +
            ">, ties = array<i64: " + llvm::join(ties, ", ") + ">} {\n" + body +
            "\nplan.yield " + llvm::join(values, ", ") + " : " + types + "\n}",
        {{"X", "tensor<1x37x$Cx$T>"},
         {"W", "tensor<$Cx$T>"},
         {"S", "tensor<1x37xf32>"},
         {"F", "tensor<$Cxf32>"},
         {"I", "tensor<1x37xi32>"},
         {"C", columns},
         {"T", GetParam()}})};
    check.scalars = {2, 1};
    check.limit = limit;
    return check;
  }

  /// Operations of the tensors %x and %z, each with one result.
  void compareEach(const std::vector<std::string> &functions) {
    std::string body;
    for (auto [i, function] : llvm::enumerate(functions))
      body += "%" + std::to_string(i) + " = " + function + "\n";
    compare("rows", "%x: $X, %z: $X",
            std::vector<std::string>(functions.size(), "$X"), body);
  }
};

TEST_P(GpuRowErrors, Functions) {
  llvm::SmallVector<llvm::StringRef> names;
  std::string list = heddle::nn::functionNames();
  llvm::StringRef(list).split(names, ", ");
  ASSERT_GE(names.size(), 4u);
  std::vector<std::string> each, gradients;
  for (llvm::StringRef name : names) {
    each.push_back("nn.map " + name.str() + "(%x) : $X");
    gradients.push_back("nn.map " + name.str() + "_grad(%x, %z) : $X");
  }
  compareEach(each);
  compareEach(gradients);
  std::vector<std::string> scalars;
  for (const char *body :
       {"%u = math.exp %b : f64 %v = arith.divf %a, %u : f64",
        "%v = math.exp %a : f64",
        "%u = math.exp %a : f64 %v = math.log %u : f64",
        "%u = math.exp %a : f64 %v = math.sqrt %u : f64",
        "%u = math.exp %a : f64 %v = math.rsqrt %u : f64",
        "%v = math.tanh %a : f64", "%v = math.erf %a : f64",
        "%v = nn.logistic %a : f64"})
    scalars.push_back("nn.map (%a = %x, %b = %z) : ($X, $X) -> $X {" +
                      std::string(body) + " nn.return %v : f64 }");
  compareEach(scalars);
}

TEST_P(GpuRowErrors, Norms) {
  for (const char *columns : {"523", "768"}) {
    compare("rows", "%x: $X, %o: $X, %w: $W, %b: $W", {"$X", "$X", "$S", "$S"},
            R"(%0 = nn.add %x, %o : $X
               %1, %2, %3 = nn.layer_norm %0, %w, %b {eps = 1.0e-5}
                   : ($X, $W, $W) -> ($X, $S, $S))",
            columns);
    compare("rows", "%x: $X, %w: $W", {"$X", "$S"},
            R"(%0, %1 = nn.rms_norm %x, %w {eps = 1.0e-5}
                   : ($X, $W) -> ($X, $S))",
            columns);
    compare("rows",
            "%g: $X, %x: $X, %w: $W, %m: $S, %r: $S {test.positive}, %o: $X",
            {"$X"},
            R"(%d = nn.layer_norm_grad_input %g, %x, %w, %m, %r
                   : ($X, $X, $W, $S, $S) -> $X
               %0 = nn.add %d, %o : $X)",
            columns);
    compare("rows", "%g: $X, %x: $X, %w: $W, %r: $S {test.positive}", {"$X"},
            R"(%0 = nn.rms_norm_grad_input %g, %x, %w, %r
                   : ($X, $X, $W, $S) -> $X)",
            columns);
  }
  compare("columns", "%g: $X, %x: $X, %m: $S, %r: $S {test.positive}",
          {"$F", "$F"},
          R"(%0, %1 = nn.layer_norm_grad_weight %g, %x, %m, %r
                 : ($X, $X, $S, $S) -> ($F, $F))");
  compare("columns", "%g: $X, %x: $X, %r: $S {test.positive}, %i: $F", {"$F"},
          R"(%0 = nn.rms_norm_grad_weight %g, %x, %r init %i
                 : ($X, $X, $S, $F) -> $F)");
}

/// On a GPU, the kernel that makes the input's gradient sums the weights', in
/// parts of four rows.
TEST_P(GpuRowErrors, NormSums) {
  for (const char *columns : {"523", "768"}) {
    std::string arguments =
        "%g: $X, %x: $X, %w: $W, %m: $S, %r: $S {test.positive}";
    std::string sums = R"(%0, %1 = nn.layer_norm_grad_weight %g, %x, %m, %r
                              : ($X, $X, $S, $S) -> ($F, $F))";
    KernelCheck forCpu =
        kernel("columns", arguments, {"$F", "$F"}, sums, columns);
    compareErrors(kernel("rows", arguments, {"$F", "$F", "$X"},
                         "%2 = nn.layer_norm_grad_input %g, %x, %w, %m, %r : "
                         "($X, $X, $W, $S, $S) -> $X\n" +
                             sums,
                         columns),
                  /*units=*/1, &forCpu);
  }
}

TEST_P(GpuRowErrors, CrossEntropy) {
  for (const char *attributes : {"", "{smoothing = 0.3 : f64}"})
    compare("rows", "%x: $X, %l: $I, %d: $S", {"$S", "$S", "$X"},
            std::string("%0, %1 = nn.cross_entropy %x, %l ") + attributes +
                ": ($X, $I) -> ($S, $S)\n"
                "%2 = nn.cross_entropy_grad %x, %l, %1, %d " +
                attributes + ": ($X, $I, $S, $S) -> $X",
            "5003", 5003);
}

TEST_P(GpuRowErrors, Sums) {
  compare("columns", "%x: tensor<1031x67x$T>", {"tensor<67xf32>"},
          "%0 = nn.sum_rows %x : (tensor<1031x67x$T>) -> tensor<67xf32>");
  compare("reduce", "%a: tensor<20011xf32>, %b: tensor<97x101x$T>",
          {"tensor<f32>"},
          R"(%0 = nn.global_norm %a, %b
                 : (tensor<20011xf32>, tensor<97x101x$T>) -> tensor<f32>)");
  compare("block_sums", "%a: tensor<200001x$T>", {"tensor<4xf32>"},
          "%0 = nn.square_sums %a : (tensor<200001x$T>) -> tensor<4xf32>");
  compare("reduce", "%x: tensor<37x131xf32>, %w: tensor<37x131xf32>",
          {"tensor<f32>"},
          R"(%0 = nn.sum %x weights %w : (tensor<37x131xf32>,
                 tensor<37x131xf32>) -> tensor<f32>)");
}

TEST_P(GpuRowErrors, Embeddings) {
  compare("rows", "%w: tensor<50x$Cx$T>, %p: tensor<9x$Cx$T>, %l: $I", {"$X"},
          R"(%a = nn.embedding %w[%l] : (tensor<50x$Cx$T>, $I) -> $X
             %b = nn.embedding %p[%l] : (tensor<9x$Cx$T>, $I) -> $X
             %0 = nn.add %a, %b : $X)",
          "523", 9);
  compare("scatter", "%g: $X, %l: $I, %i: tensor<5x$Cxf32>",
          {"tensor<5x$Cxf32>"},
          R"(%0 = nn.embedding_grad %g[%l] init %i
                 : ($X, $I, tensor<5x$Cxf32>) -> tensor<5x$Cxf32>)");
  compare("rows", "%x: $X, %p: $I", {"$X"},
          R"(%0 = nn.rotary %x at %p {heads = 2, dims = 32, theta = 10000.0}
                 : ($X, $I) -> $X)",
          "64", 2000);
}

TEST_P(GpuRowErrors, DropoutAndActivation) {
  compare("rows",
          "%x: $X, %o: $X, %rng: tensor<4xi32>, %layer: index, %micro: index",
          {"$X", "$X"},
          R"(%d = nn.dropout %x rng %rng layer %layer micro_batch %micro
                 {p = 0.1, site = 5 : i32}
                 : ($X, tensor<4xi32>, index, index) -> $X
             %0 = nn.add %d, %o : $X
             %g = nn.map silu(%x) : $X
             %1 = nn.mul %g, %o : $X)");
}

TEST_P(GpuRowErrors, Optimizers) {
  std::string positive = " {test.positive}";
  for (const UpdateText &text : {adamText(5003, GetParam(), positive),
                                 lionText(5003, GetParam(), positive),
                                 lambText(5003, GetParam(), positive)})
    compare("rows", text.arguments, text.results, text.body);
}

/// What LAMB moves parameters by, and by how much more in each segment.
TEST_P(GpuRowErrors, LambSegments) {
  const char *run = "tensor<66048xf32>", *parts = "tensor<3xf32>";
  std::string segments = "{segments = array<i64: 128, 65792, 128>} : ";
  compare("rows",
          std::string("%m: ") + run + ", %v: " + run +
              " {test.positive}, %p: " + run,
          {run},
          std::string("%0 = nn.map (%a = %m, %b = %v, %c = %p) : (") + run +
              ", " + run + ", " + run + ") -> " + run + R"( {
                %root = math.sqrt %b : f64
                %eps = arith.constant 1.0e-6 : f64
                %sum = arith.addf %root, %eps : f64
                %u = arith.divf %a, %sum : f64
                %decay = arith.constant 0.01 : f64
                %decayed = arith.mulf %decay, %c : f64
                %d = arith.addf %u, %decayed : f64
                nn.return %d : f64 })");
  compare("segments", std::string("%x: ") + run, {parts},
          "%0 = nn.segment_sums %x " + segments + "(" + run + ") -> " + parts);
  compare("segments", std::string("%x: ") + run + ", %f: " + parts, {run},
          "%0 = nn.scale_segments %x by %f " + segments + "(" + run + ", " +
              parts + ") -> " + run);
}

TEST_P(GpuRowErrors, PartsOfLosses) {
  for (const char *attributes : {"", ", smoothing = 0.3 : f64"})
    compare("rows", "%x: $X, %l: $I, %first: index", {"$S", "$S"},
            std::string("%0, %1 = nn.cross_entropy_part %x, %l first %first "
                        "{vocab = 1040") +
                attributes + "} : ($X, $I, index) -> ($S, $S)",
            "523", 525);
  compare("rows", "%x: tensor<4x37xf32>, %y: $S, %l: $I", {"$S", "$S"},
          R"(%0, %1 = nn.cross_entropy_join %x, %y, %l
                 : (tensor<4x37xf32>, $S, $I) -> ($S, $S))");
  compare("rows",
          "%l: tensor<37xi32>, %s: tensor<f32> {test.positive}, "
          "%w: tensor<37xf32>",
          {"tensor<37xf32>"},
          R"(%0 = nn.token_weights %l scale %s weights %w
                 : (tensor<37xi32>, tensor<f32>, tensor<37xf32>)
                 -> tensor<37xf32>)");
  compare("rows", "%c: tensor<f32> {test.positive}", {"tensor<f32>"},
          "%0 = nn.loss_scale %c : (tensor<f32>) -> tensor<f32>");
}

/// What ranks of a ring have of an attention, put together.
TEST_P(GpuRowErrors, AttentionJoin) {
  compare("rows",
          "%x: tensor<2x37x36x$T>, %s: tensor<2x4x37xf32>, "
          "%y: tensor<2x37x36x$T>, %t: tensor<2x4x37xf32>",
          {"tensor<2x37x36x$T>"},
          R"(%0 = nn.attention_join %x, %s, %y, %t
                 : (tensor<2x37x36x$T>, tensor<2x4x37xf32>, tensor<2x37x36x$T>,
                    tensor<2x4x37xf32>) -> tensor<2x37x36x$T>)");
  compare("rows", "%s: tensor<2x4x37xf32>, %t: tensor<2x4x37xf32>",
          {"tensor<2x4x37xf32>"},
          R"(%0 = nn.log_add_exp %s, %t : (tensor<2x4x37xf32>,
                 tensor<2x4x37xf32>) -> tensor<2x4x37xf32>)");
}

/// Nothing is computed, or little: sums with a row, and what is only moved.
TEST_P(GpuRowErrors, Copies) {
  compare("rows", "%x: $X, %b: $W", {"$X"},
          "%0 = nn.add_bias %x, %b : ($X, $W) -> $X");
  compare("rows", "%x: tensor<1x37x$Cxf32>, %y: tensor<1x37x$Cxbf16>",
          {"tensor<1x37x$Cxbf16>", "tensor<1x37x$Cxf32>"},
          R"(%0 = nn.cast %x
                 : (tensor<1x37x$Cxf32>) -> tensor<1x37x$Cxbf16>
             %1 = nn.cast %y
                 : (tensor<1x37x$Cxbf16>) -> tensor<1x37x$Cxf32>)");
  compare("rows",
          "%x: tensor<2x3x1x$T>, %y: tensor<2x3x20x$T>, %z: "
          "tensor<2x3x$Cx$T>",
          {"tensor<2x3x544x$T>"},
          R"(%0 = nn.concat %x, %y, %z dim 2
                 : (tensor<2x3x1x$T>, tensor<2x3x20x$T>, tensor<2x3x$Cx$T>)
                 -> tensor<2x3x544x$T>)");
  compare("rows", "%x: tensor<2x9x$Cx$T>", {"tensor<2x4x$Cx$T>"},
          R"(%0 = nn.slice %x dim 1 {offset = 2}
                 : (tensor<2x9x$Cx$T>) -> tensor<2x4x$Cx$T>)");
  compare("rows", "%x: tensor<2x6x$Cx$T>, %at: tensor<i32>",
          {"tensor<2x1x$Cx$T>"},
          R"(%0 = nn.take_row %x[%at]
                 : (tensor<2x6x$Cx$T>, tensor<i32>) -> tensor<2x1x$Cx$T>)");
}

INSTANTIATE_TEST_SUITE_P(Types, GpuRowErrors,
                         testing::Values("f32", "bf16", "f16"));

} // namespace
