//===- PartsTest.cpp - Parts of operations against the whole ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Inputs are split by hand as ranks hold them, each part is run, and the parts
// of the results are compared with the results of the whole operation.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::ElementKind;
using eval::Tensor;
using eval::TensorMap;

namespace {

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

void checkDropout(ArrayRef<int64_t> shape, int64_t dim, int64_t parts) {
  auto text = [](ArrayRef<int64_t> shape, const std::string &part,
                 const std::string &sizes) {
    std::string type = shapeText(shape, "f32");
    return std::pair<std::string, std::string>{
        "%x: " + type + ", %rng: tensor<4xi32>, %l: index, %m: index" +
            (part.empty() ? "" : ", %part: index"),
        "nn.dropout %x rng %rng layer %l micro_batch %m " + part +
            " {p = 0.4 : f64, site = 77 : i32" + sizes + "} : (" + type +
            ", tensor<4xi32>, index, index" + (part.empty() ? "" : ", index") +
            ") -> " + type};
  };
  auto [arguments, body] = text(shape, "", "");
  TensorMap inputs = inputsFor(arguments, body, 1000);
  inputs["m"] = Tensor::scalar(3);
  Tensor whole = run(arguments, body, inputs).at("r0");
  SmallVector<int64_t> local(shape);
  local[dim] /= parts;
  int64_t inner = 1;
  for (int64_t size : ArrayRef(local).drop_front(dim))
    inner *= size;
  auto [partArguments, partBody] =
      text(local, "part %part",
           ", parts = array<i64: " + std::to_string(parts) +
               ">, inner = array<i64: " + std::to_string(inner) + ">");
  for (int64_t part = 0; part < parts; ++part) {
    TensorMap own = inputs;
    own["x"] = cut(inputs["x"], dim, part * local[dim], local[dim]);
    own["part"] = Tensor::scalar(part);
    expectEqual(run(partArguments, partBody, own).at("r0"),
                cut(whole, dim, part * local[dim], local[dim]),
                "dimension " + std::to_string(dim) + ", part " +
                    std::to_string(part));
  }
}

TEST(Parts, DropoutDrawsWhatTheWholeDraws) {
  checkDropout({2, 6, 8}, 1, 2);
  checkDropout({2, 6, 8}, 1, 3);
  checkDropout({2, 6, 8}, 2, 2);
  checkDropout({2, 3, 14}, 2, 7);
  checkDropout({3, 1, 9}, 2, 3);
  checkDropout({4, 5}, 0, 2);
}

TEST(Parts, DropoutOfSeveralDimensions) {
  auto text = [](ArrayRef<int64_t> shape, const std::string &sizes) {
    std::string type = shapeText(shape, "f32");
    bool isPart = !sizes.empty();
    return std::pair<std::string, std::string>{
        "%x: " + type + ", %rng: tensor<4xi32>, %l: index, %m: index" +
            (isPart ? ", %a: index, %b: index" : ""),
        std::string("nn.dropout %x rng %rng layer %l micro_batch %m ") +
            (isPart ? "part %a, %b" : "") + " {p = 0.4 : f64, site = 77 : i32" +
            sizes + "} : (" + type + ", tensor<4xi32>, index, index" +
            (isPart ? ", index, index" : "") + ") -> " + type};
  };
  auto [arguments, body] = text({2, 6, 8}, "");
  TensorMap inputs = inputsFor(arguments, body, 1000);
  inputs["m"] = Tensor::scalar(3);
  Tensor whole = run(arguments, body, inputs).at("r0");
  auto [partArguments, partBody] =
      text({2, 2, 4}, ", parts = array<i64: 3, 2>, inner = array<i64: 8, 4>");
  auto part = [](const Tensor &tensor, int64_t a, int64_t b) {
    return cut(cut(tensor, 1, a * 2, 2), 2, b * 4, 4);
  };
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 2; ++b) {
      TensorMap own = inputs;
      own["x"] = part(inputs["x"], a, b);
      own["a"] = Tensor::scalar(a);
      own["b"] = Tensor::scalar(b);
      expectEqual(run(partArguments, partBody, own).at("r0"), part(whole, a, b),
                  "part " + std::to_string(a) + ", " + std::to_string(b));
    }
}

/// Rows are split by counting micro-batches of a part each.
TEST(Parts, RowsOfDropoutAreMicroBatches) {
  auto text = [](const std::string &type) {
    return std::pair<std::string, std::string>{
        "%x: " + type + ", %rng: tensor<4xi32>, %l: index, %m: index",
        "nn.dropout %x rng %rng layer %l micro_batch %m {p = 0.4 : f64, site "
        "= 77 : i32} : (" +
            type + ", tensor<4xi32>, index, index) -> " + type};
  };
  auto [arguments, body] = text("tensor<4x7xf32>");
  TensorMap inputs = inputsFor(arguments, body, 1000);
  inputs["m"] = Tensor::scalar(3);
  Tensor whole = run(arguments, body, inputs).at("r0");
  auto [partArguments, partBody] = text("tensor<2x7xf32>");
  for (int64_t part = 0; part < 2; ++part) {
    TensorMap own = inputs;
    own["x"] = cut(inputs["x"], 0, part * 2, 2);
    own["m"] = Tensor::scalar(3 * 2 + part);
    expectEqual(run(partArguments, partBody, own).at("r0"),
                cut(whole, 0, part * 2, 2), "part " + std::to_string(part));
  }
}

TEST(Parts, ReshapeByHeads) {
  auto check = [](const std::string &whole, const std::string &part,
                  const std::string &wholeOut, const std::string &partOut,
                  int64_t size) {
    auto body = [](const std::string &in, const std::string &out) {
      return "nn.reshape %x : (" + in + ") -> " + out;
    };
    TensorMap inputs = inputsFor("%x: " + whole, body(whole, wholeOut), 50);
    Tensor all = run("%x: " + whole, body(whole, wholeOut), inputs).at("r0");
    int64_t outSize = all.shape()[2] / 3;
    for (int64_t rank = 0; rank < 3; ++rank)
      expectEqual(run("%x: " + part, body(part, partOut),
                      {{"x", cut(inputs["x"], 2, rank * size, size)}})
                      .at("r0"),
                  cut(all, 2, rank * outSize, outSize),
                  "part " + std::to_string(rank));
  };
  check("tensor<2x3x24xf32>", "tensor<2x3x8xf32>", "tensor<2x3x6x4xf32>",
        "tensor<2x3x2x4xf32>", 8);
  check("tensor<2x3x6x4xf32>", "tensor<2x3x2x4xf32>", "tensor<2x3x24xf32>",
        "tensor<2x3x8xf32>", 2);
}

TEST(Parts, RotaryByHeads) {
  auto text = [](int64_t heads) {
    std::string type = shapeText({2, 3, heads * 4}, "f32");
    return std::pair<std::string, std::string>{
        "%x: " + type + ", %ids: tensor<2x3xi32>",
        "nn.rotary %x at %ids {heads = " + std::to_string(heads) +
            ", dims = 4, theta = 100.0 : f64} : (" + type +
            ", tensor<2x3xi32>) -> " + type};
  };
  auto [arguments, body] = text(6);
  auto [partArguments, partBody] = text(2);
  TensorMap inputs = inputsFor(arguments, body, 50);
  Tensor whole = run(arguments, body, inputs).at("r0");
  for (int64_t part = 0; part < 3; ++part) {
    TensorMap own = inputs;
    own["x"] = cut(inputs["x"], 2, part * 8, 8);
    expectEqual(run(partArguments, partBody, own).at("r0"),
                cut(whole, 2, part * 8, 8), "part " + std::to_string(part));
  }
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

TEST(Parts, EmbeddingAddsUpToTheWhole) {
  TensorMap inputs = inputsFor(
      "%w: tensor<5x4xf32>, %g: tensor<2x3x4xf32>, %ids: tensor<2x3xi32>",
      "nn.embedding %w[%ids] : (tensor<5x4xf32>, tensor<2x3xi32>) -> "
      "tensor<2x3x4xf32>",
      5);
  std::string ids = ", %ids: tensor<2x3xi32>";
  Tensor whole = run("%w: tensor<5x4xf32>" + ids,
                     "nn.embedding %w[%ids] : (tensor<5x4xf32>, "
                     "tensor<2x3xi32>) -> tensor<2x3x4xf32>",
                     inputs)
                     .at("r0");
  Tensor grad = run("%g: tensor<2x3x4xf32>" + ids,
                    "nn.embedding_grad %g[%ids] : (tensor<2x3x4xf32>, "
                    "tensor<2x3xi32>) -> tensor<5x4xf32>",
                    inputs)
                    .at("r0");
  Tensor sum(ElementKind::F32, whole.shape());
  for (int64_t part = 0; part < 2; ++part) {
    TensorMap own = inputs;
    own["w"] = cut(inputs["w"], 0, part * 3, 3);
    own["first"] = Tensor::scalar(part * 3);
    Tensor rows = run("%w: tensor<3x4xf32>" + ids + ", %first: index",
                      "nn.embedding %w[%ids] first %first : (tensor<3x4xf32>, "
                      "tensor<2x3xi32>, index) -> tensor<2x3x4xf32>",
                      own)
                      .at("r0");
    for (auto [total, value] : llvm::zip(sum.mutableFloats(), rows.floats()))
      total += value;
    expectEqual(run("%g: tensor<2x3x4xf32>" + ids + ", %first: index",
                    "nn.embedding_grad %g[%ids] first %first : "
                    "(tensor<2x3x4xf32>, tensor<2x3xi32>, index) -> "
                    "tensor<3x4xf32>",
                    own)
                    .at("r0"),
                cut(grad, 0, part * 3, 3), "part " + std::to_string(part));
  }
  expectEqual(sum, whole, "sum");
}

/// Cross-entropy over `vocab` columns in parts of `width`, the last ones padded
/// with numbers that must not matter.
void checkCrossEntropy(int64_t vocab, int64_t parts,
                       const std::string &smoothing = "0.0") {
  SCOPED_TRACE(std::to_string(vocab) + " columns in " + std::to_string(parts));
  std::string share = "smoothing = " + smoothing + " : f64";
  int64_t width = (vocab + parts - 1) / parts;
  std::string rows = "tensor<2x3xf32>", ids = "tensor<2x3xi32>";
  std::string logits = shapeText({2, 3, vocab}, "f32");
  std::string own = shapeText({2, 3, width}, "f32");
  std::string arguments = "%x: " + logits + ", %ids: " + ids;
  std::string body = "nn.cross_entropy %x, %ids {" + share + "} : (" + logits +
                     ", " + ids + ") -> (" + rows + ", " + rows + ")";
  TensorMap inputs = inputsFor(arguments, body, vocab);
  inputs["ids"].mutableInts()[4] = -100;
  TensorMap whole = run(arguments, body, inputs);
  inputs["s"] = whole.at("r1");
  inputs["d"] = whole.at("r0"); // Any numbers of the same shape.
  Tensor grad = run(arguments + ", %s: " + rows + ", %d: " + rows,
                    "nn.cross_entropy_grad %x, %ids, %s, %d {" + share +
                        "} : (" + logits + ", " + ids + ", " + rows + ", " +
                        rows + ") -> " + logits,
                    inputs)
                    .at("r0");

  Tensor lses(ElementKind::F32, {parts * 2, 3});
  Tensor labelLogit(ElementKind::F32, {2, 3});
  std::string vocabText = "vocab = " + std::to_string(vocab) + ", " + share;
  for (int64_t part = 0; part < parts; ++part) {
    TensorMap mine = inputs;
    int64_t first = part * width;
    mine["first"] = Tensor::scalar(first);
    mine["x"] = cut(inputs["x"], 2, first, width);
    auto values = mine["x"].mutableFloats();
    for (int64_t i = 0; i < mine["x"].numElements(); ++i)
      if (first + i % width >= vocab)
        values[i] = 1e30;
    std::string partArguments = "%x: " + own + ", %ids: " + ids;
    TensorMap results = run(partArguments + ", %first: index",
                            "nn.cross_entropy_part %x, %ids first %first {" +
                                vocabText + "} : (" + own + ", " + ids +
                                ", index) -> (" + rows + ", " + rows + ")",
                            mine);
    for (int64_t row = 0; row < 6; ++row) {
      lses.mutableFloats()[part * 6 + row] = results.at("r0").floats()[row];
      labelLogit.mutableFloats()[row] += results.at("r1").floats()[row];
    }
    Tensor gradients =
        run(partArguments + ", %s: " + rows + ", %d: " + rows +
                ", %first: index",
            "nn.cross_entropy_grad %x, %ids, %s, %d first %first {" +
                vocabText + "} : (" + own + ", " + ids + ", " + rows + ", " +
                rows + ", index) -> " + own,
            mine)
            .at("r0");
    expectEqual(gradients, cut(grad, 2, first, width),
                "gradient of part " + std::to_string(part), 1e-12);
  }
  std::string parted = shapeText(lses.shape(), "f32");
  TensorMap joined =
      run("%x: " + parted + ", %y: " + rows + ", %ids: " + ids,
          "nn.cross_entropy_join %x, %y, %ids : (" + parted + ", " + rows +
              ", " + ids + ") -> (" + rows + ", " + rows + ")",
          {{"x", lses}, {"y", labelLogit}, {"ids", inputs["ids"]}});
  expectEqual(joined.at("r0"), whole.at("r0"), "losses", 1e-12);
  expectEqual(joined.at("r1"), whole.at("r1"), "lse", 1e-12);
}

TEST(Parts, CrossEntropyByColumns) {
  checkCrossEntropy(8, 1);
  checkCrossEntropy(8, 4);
  checkCrossEntropy(7, 3);
  // The last part has no column.
  checkCrossEntropy(5, 4);
  checkCrossEntropy(6, 4);
  checkCrossEntropy(7, 3, "0.25");
}

TEST(Parts, PositionsBeginWhereThePartBegins) {
  Tensor positions = run("%first: index",
                         "nn.positions first %first {offset = 2} : (index) -> "
                         "tensor<2x3xi32>",
                         {{"first", Tensor::scalar(6)}})
                         .at("r0");
  EXPECT_EQ(positions.ints(), ArrayRef<int64_t>({8, 9, 10, 8, 9, 10}));
}

} // namespace
