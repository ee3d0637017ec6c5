//===- AttentionPartsTest.cpp - Parts of attention against the whole ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// As in PartsTest.cpp: heads, and keys that go around a ring.

#include "Parts.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::Tensor;
using eval::TensorMap;

namespace {

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
    rest += " sequence_shard %place ring_step %turn";
    attributes += ", placement = #nn.placement<sequence_shards = " +
                  std::to_string(places) + ">";
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

} // namespace
