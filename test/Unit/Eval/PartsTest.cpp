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

#include "OpCases.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::ElementKind;
using eval::Tensor;
using eval::TensorMap;

namespace {

/// Elements [first, first + count) of dimension `dim`; zeros beyond its end.
Tensor cut(const Tensor &whole, int64_t dim, int64_t first, int64_t count) {
  SmallVector<int64_t> shape(whole.shape());
  int64_t size = shape[dim], inner = 1;
  shape[dim] = count;
  for (int64_t d = dim + 1; d < whole.rank(); ++d)
    inner *= shape[d];
  Tensor part(whole.kind(), shape);
  for (int64_t i = 0; i < part.numElements(); ++i) {
    int64_t at = first + i / inner % count;
    int64_t from = (i / inner / count * size + at) * inner + i % inner;
    if (at < size && eval::isFloat(whole.kind()))
      part.mutableFloats()[i] = whole.floats()[from];
    else if (at < size)
      part.mutableInts()[i] = whole.ints()[from];
  }
  return part;
}

/// Part `index` of `parts` of the last dimension, which is made of segments of
/// these sizes.
Tensor cutSegments(const Tensor &whole, ArrayRef<int64_t> segments,
                   int64_t parts, int64_t index) {
  int64_t dim = whole.rank() - 1, total = 0, width = 0;
  for (int64_t segment : segments)
    width += segment / parts;
  SmallVector<int64_t> shape(whole.shape());
  shape.back() = width;
  Tensor result(whole.kind(), shape);
  int64_t to = 0;
  for (int64_t segment : segments) {
    int64_t count = segment / parts;
    Tensor part = cut(whole, dim, total + index * count, count);
    for (int64_t i = 0; i < part.numElements(); ++i)
      result.mutableFloats()[i / count * width + to + i % count] =
          part.floats()[i];
    total += segment;
    to += count;
  }
  return result;
}

void expectEqual(const Tensor &actual, const Tensor &expected,
                 const std::string &what, double tolerance = 0) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  for (int64_t i = 0; i < expected.numElements(); ++i)
    EXPECT_NEAR(actual.floats()[i], expected.floats()[i], tolerance)
        << what << ", element " << i;
}

/// The results of one operation as r0, r1, ... without rounding.
TensorMap run(const std::string &arguments, const std::string &body,
              const TensorMap &inputs) {
  CaseModule module = parseCase({"", arguments, body});
  TensorMap outputs;
  if (!module.operation)
    return outputs;
  auto ports = module.function.getInputsAttr().getAsRange<nn::PortAttr>();
  llvm::DenseMap<Value, std::string> nameOf;
  for (auto [argument, port] : llvm::zip(module.function.getArguments(), ports))
    nameOf[argument] = port.getKey().str();
  SmallVector<Tensor> operands, results;
  for (Value operand : module.operation->getOperands())
    operands.push_back(inputs.at(nameOf[operand]));
  EXPECT_TRUE(succeeded(cast<nn::ReferenceEvalOpInterface>(module.operation)
                            .evaluate(operands, results)));
  for (auto [index, result] : llvm::enumerate(results))
    outputs["r" + std::to_string(index)] = result;
  return outputs;
}

/// Random numbers for the arguments.
TensorMap inputsFor(const std::string &arguments, const std::string &body,
                    int64_t limit) {
  CaseModule module = parseCase({"", arguments, body});
  return module.operation ? inputsOf(module.function, limit) : TensorMap();
}

std::string shapeText(ArrayRef<int64_t> shape, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

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

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Attention or its gradient over some heads, as text.
struct AttentionText {
  int64_t heads, kvHeads;
  bool packed;
  int64_t parts = 1;
  static constexpr int64_t batch = 2, seq = 5, headDim = 3;

  std::string type(int64_t width) const {
    return shapeText({batch, seq, width * headDim}, "f32");
  }
  std::string qkvTypes() const {
    return packed ? type(heads + 2 * kvHeads)
                  : type(heads) + ", " + type(kvHeads) + ", " + type(kvHeads);
  }
  std::string lse() const { return shapeText({batch, heads, seq}, "f32"); }
  std::string qkv() const { return packed ? "%q" : "%q, %k, %v"; }
  std::string arguments(bool gradient) const {
    std::string text = packed
                           ? "%q: " + type(heads + 2 * kvHeads)
                           : "%q: " + type(heads) + ", %k: " + type(kvHeads) +
                                 ", %v: " + type(kvHeads);
    text += ", %rng: tensor<4xi32>, %l: index, %m: index, %part: index";
    if (gradient)
      text +=
          ", %g: " + type(heads) + ", %f: " + type(heads) + ", %s: " + lse();
    return text;
  }
  std::string random() const {
    std::string text = " rng %rng layer %l micro_batch %m", placement;
    if (parts > 1) {
      text += " part %part";
      placement =
          ", placement = #nn.placement<parts = " + std::to_string(parts) + ">";
    }
    return text + " {heads = #nn.heads<" + std::to_string(heads) +
           ", kv = " + std::to_string(kvHeads) +
           ", scale = 0.7>, mask = #nn.mask<causal>, dropout = "
           "#nn.dropout<0.3, site = 5>" +
           placement + "} : (";
  }
  std::string randomTypes() const {
    return std::string(", tensor<4xi32>, index, index") +
           (parts > 1 ? ", index" : "");
  }
  std::string forward() const {
    return "nn.attention " + qkv() + random() + qkvTypes() + randomTypes() +
           ") -> (" + type(heads) + ", " + lse() + ")";
  }
  std::string gradient() const {
    return "nn.attention_grad %g, " + qkv() + " forward %f lse %s" + random() +
           type(heads) + ", " + qkvTypes() + ", " + type(heads) + ", " + lse() +
           randomTypes() + ") -> (" + qkvTypes() + ")";
  }
  SmallVector<int64_t> segments() const {
    return {heads * headDim, kvHeads * headDim, kvHeads * headDim};
  }
};

void checkAttention(int64_t heads, int64_t kvHeads, bool packed,
                    int64_t parts) {
  AttentionText whole = {heads, kvHeads, packed};
  AttentionText part = {heads / parts, kvHeads / parts, packed, parts};
  TensorMap inputs = inputsFor(whole.arguments(true), whole.gradient(), 1000);
  inputs["m"] = Tensor::scalar(2);
  inputs["part"] = Tensor::scalar(0);
  TensorMap forward = run(whole.arguments(false), whole.forward(), inputs);
  inputs["f"] = forward.at("r0");
  inputs["s"] = forward.at("r1");
  TensorMap grads = run(whole.arguments(true), whole.gradient(), inputs);
  auto cutWidth = [&](const Tensor &tensor, int64_t index) {
    return cutSegments(tensor, {tensor.columns()}, parts, index);
  };
  auto cutQkv = [&](const Tensor &tensor, int64_t index) {
    return packed ? cutSegments(tensor, whole.segments(), parts, index)
                  : cutWidth(tensor, index);
  };
  for (int64_t index = 0; index < parts; ++index) {
    TensorMap own = inputs;
    own["part"] = Tensor::scalar(index);
    for (const char *name : {"q", "k", "v"})
      if (inputs.count(name))
        own[name] = cutQkv(inputs[name], index);
    for (const char *name : {"g", "f"})
      own[name] = cutWidth(inputs[name], index);
    own["s"] = cut(inputs["s"], 1, index * part.heads, part.heads);
    std::string what = "part " + std::to_string(index);
    TensorMap results = run(part.arguments(false), part.forward(), own);
    expectEqual(results.at("r0"), own["f"], "output of " + what, 1e-12);
    expectEqual(results.at("r1"), own["s"], "lse of " + what, 1e-12);
    for (auto &[name, value] : run(part.arguments(true), part.gradient(), own))
      expectEqual(value, cutQkv(grads.at(name), index),
                  "gradient " + name + " of " + what, 1e-12);
  }
}

TEST(Parts, AttentionByHeads) {
  checkAttention(4, 4, /*packed=*/true, 2);
  checkAttention(4, 4, /*packed=*/true, 4);
  checkAttention(6, 3, /*packed=*/true, 3);
  checkAttention(4, 2, /*packed=*/false, 2);
}

/// Attention of all keys, or of the part that one rank of a ring has in a turn:
/// arguments and operation.
std::pair<std::string, std::string> turnText(const std::string &mask,
                                             bool hasLengths, int64_t length,
                                             int64_t places, bool gradient) {
  std::string q = shapeText({2, length, 12}, "f32");
  std::string k = shapeText({2, length, 6}, "f32");
  std::string lse = shapeText({2, 4, length}, "f32");
  std::string random = ", tensor<4xi32>, index, index";
  std::string arguments = "%q: " + q + ", %k: " + k + ", %v: " + k +
                          ", %rng: tensor<4xi32>, %l: index, %m: index";
  if (hasLengths) {
    random = ", tensor<2xi32>" + random;
    arguments += ", %n: tensor<2xi32>";
  }
  std::string rest = hasLengths ? " lengths %n" : "";
  rest += " rng %rng layer %l micro_batch %m";
  std::string attributes = "heads = #nn.heads<4, kv = 2, scale = 0.7>, "
                           "dropout = #nn.dropout<0.3, site = 5>, mask = ";
  attributes += "#nn.mask<" + mask + ">";
  if (places > 1) {
    arguments += ", %place: index, %turn: index";
    random += ", index, index";
    rest += " place %place turn %turn";
    attributes +=
        ", placement = #nn.placement<places = " + std::to_string(places) + ">";
  }
  rest += " {" + attributes + "} : (";
  std::string qkv = q + ", " + k + ", " + k;
  if (!gradient)
    return {arguments, "nn.attention %q, %k, %v" + rest + qkv + random +
                           ") -> (" + q + ", " + lse + ")"};
  arguments += ", %g: " + q + ", %f: " + q + ", %s: " + lse;
  return {arguments, "nn.attention_grad %g, %q, %k, %v forward %f lse %s" +
                         rest + q + ", " + qkv + ", " + q + ", " + lse +
                         random + ") -> (" + qkv + ")"};
}

/// The output and lse of two parts of the keys together.
TensorMap join(const TensorMap &left, const TensorMap &right) {
  std::string q = shapeText(left.at("r0").shape(), "f32");
  std::string lse = shapeText(left.at("r1").shape(), "f32");
  TensorMap joined =
      run("%x: " + q + ", %s: " + lse + ", %y: " + q + ", %t: " + lse,
          "nn.attention_join %x, %s, %y, %t : (" + q + ", " + lse + ", " + q +
              ", " + lse + ") -> " + q,
          {{"x", left.at("r0")},
           {"s", left.at("r1")},
           {"y", right.at("r0")},
           {"t", right.at("r1")}});
  TensorMap sums =
      run("%s: " + lse + ", %t: " + lse,
          "nn.log_add_exp %s, %t : (" + lse + ", " + lse + ") -> " + lse,
          {{"s", left.at("r1")}, {"t", right.at("r1")}});
  joined["r1"] = sums.at("r0");
  return joined;
}

/// Keys that go around a ring: outputs are joined, gradients add up.
void checkRing(const std::string &mask, int64_t places,
               ArrayRef<int64_t> lengths = {}) {
  const int64_t seq = 6, local = seq / places;
  bool hasLengths = !lengths.empty();
  auto [arguments, body] = turnText(mask, hasLengths, seq, 1, false);
  auto [gradArguments, gradBody] = turnText(mask, hasLengths, seq, 1, true);
  TensorMap inputs = inputsFor(gradArguments, gradBody, 1000);
  inputs["m"] = Tensor::scalar(2);
  if (hasLengths)
    llvm::copy(lengths, inputs.at("n").mutableInts().begin());
  TensorMap forward = run(arguments, body, inputs);
  inputs["f"] = forward.at("r0");
  inputs["s"] = forward.at("r1");
  TensorMap grads = run(gradArguments, gradBody, inputs);
  auto [partArguments, partBody] =
      turnText(mask, hasLengths, local, places, false);
  auto [partGradArguments, partGradBody] =
      turnText(mask, hasLengths, local, places, true);
  std::vector<TensorMap> sums(places);
  for (int64_t place = 0; place < places; ++place) {
    TensorMap joined;
    for (int64_t turn = 0; turn < places; ++turn) {
      int64_t keys = (place + places - turn) % places;
      TensorMap own = inputs;
      for (const char *name : {"q", "g", "f"})
        own[name] = cut(inputs[name], 1, place * local, local);
      for (const char *name : {"k", "v"})
        own[name] = cut(inputs[name], 1, keys * local, local);
      own["s"] = cut(inputs["s"], 2, place * local, local);
      own["place"] = Tensor::scalar(place);
      own["turn"] = Tensor::scalar(turn);
      TensorMap part = run(partArguments, partBody, own);
      joined = turn == 0 ? part : join(joined, part);
      for (auto &[name, value] : run(partGradArguments, partGradBody, own)) {
        Tensor &sum = sums[name == "r0" ? place : keys][name];
        if (sum.rank() == 0)
          sum = Tensor(value.kind(), value.shape());
        for (auto [total, one] : llvm::zip(sum.mutableFloats(), value.floats()))
          total += one;
      }
    }
    expectEqual(joined.at("r0"), cut(inputs["f"], 1, place * local, local),
                "output " + std::to_string(place), 1e-12);
    expectEqual(joined.at("r1"), cut(inputs["s"], 2, place * local, local),
                "lse " + std::to_string(place), 1e-12);
  }
  for (int64_t place = 0; place < places; ++place)
    for (auto &[name, value] : sums[place])
      expectEqual(value, cut(grads.at(name), 1, place * local, local),
                  "gradient " + name + " of " + std::to_string(place), 1e-12);
}

TEST(Parts, AttentionInTurns) {
  for (const char *mask : {"causal", "full", "causal, window = 1",
                           "causal, window = 3", "causal, window = 5"}) {
    checkRing(mask, 2);
    checkRing(mask, 3);
    checkRing(mask, 6);
    checkRing(mask, 2, {0, 4});
    checkRing(mask, 3, {1, 6});
    checkRing(mask, 6, {3, 5});
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
