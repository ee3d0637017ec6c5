//===- AttentionKernelTest.cpp - The gradient of attention as a kernel ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The numbers themselves are tested at length in test/Unit/Attention.

#include "KernelReference.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace {

struct Texts {
  const char *forward, *gradient;
};

const Texts packed = {
    R"(plan.kernel @k(%x: tensor<2x5x24xf32>) -> (tensor<2x5x8xf32>, tensor<2x2x5xf32>)
        attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
      %y, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>}
          : (tensor<2x5x24xf32>) -> (tensor<2x5x8xf32>, tensor<2x2x5xf32>)
      plan.yield %y, %lse : tensor<2x5x8xf32>, tensor<2x2x5xf32>
    })",
    R"(plan.kernel @k(%g: tensor<2x5x8xf32>, %y: tensor<2x5x8xf32>,
                      %lse: tensor<2x2x5xf32>, %x: tensor<2x5x24xf32>) -> tensor<2x5x24xf32>
        attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
      %d = nn.attention_grad %g, %x forward %y lse %lse
          {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>}
          : (tensor<2x5x8xf32>, tensor<2x5x24xf32>, tensor<2x5x8xf32>, tensor<2x2x5xf32>)
          -> tensor<2x5x24xf32>
      plan.yield %d : tensor<2x5x24xf32>
    })"};

const Texts apart = {
    R"(plan.kernel @k(%q: tensor<2x5x8xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x4xf32>)
        -> (tensor<2x5x8xf32>, tensor<2x2x5xf32>)
        attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
      %y, %lse = nn.attention %q, %k, %v {heads = #nn.heads<2, kv = 1, scale = 0.5>, mask = #nn.mask<full>}
          : (tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>)
          -> (tensor<2x5x8xf32>, tensor<2x2x5xf32>)
      plan.yield %y, %lse : tensor<2x5x8xf32>, tensor<2x2x5xf32>
    })",
    R"(plan.kernel @k(%g: tensor<2x5x8xf32>, %y: tensor<2x5x8xf32>, %lse: tensor<2x2x5xf32>,
                      %q: tensor<2x5x8xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x4xf32>)
        -> (tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>)
        attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1, -1>} {
      %d:3 = nn.attention_grad %g, %q, %k, %v forward %y lse %lse
          {heads = #nn.heads<2, kv = 1, scale = 0.5>, mask = #nn.mask<full>}
          : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>,
             tensor<2x5x8xf32>, tensor<2x2x5xf32>)
          -> (tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>)
      plan.yield %d#0, %d#1, %d#2 : tensor<2x5x8xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>
    })"};

/// One part of the keys, as a ring of ranks meets it: seen by all queries, by
/// some, by none. `layout` is the type of a layout; empty without one.
std::array<std::string, 2> inTurn(const std::string &rest, bool hasLengths,
                                  const std::string &layout) {
  std::string lengths = hasLengths ? " lengths %n" : "";
  if (!layout.empty())
    lengths += " layout %layout";
  std::string types = "tensor<2x$Tx8xf32>, tensor<2x$Tx4xf32>, "
                      "tensor<2x$Tx4xf32>",
              random = std::string(hasLengths ? ", tensor<2xi32>" : "") +
                       (layout.empty() ? "" : ", " + layout) +
                       ", tensor<4xi32>, index, index, index, index";
  std::string at = lengths +
                   " rng %rng layer %l micro_batch %m sequence_shard %p "
                   "ring_step %t {heads = "
                   "#nn.heads<2, kv = 1, scale = 0.5>, placement = "
                   "#nn.placement<sequence_shards = "
                   "3>, dropout = #nn.dropout<" +
                   rest + "} : (";
  std::string scalars =
      std::string(hasLengths ? ", %n: tensor<2xi32>" : "") +
      (layout.empty() ? "" : ", %layout: " + layout + " {test.bits = 0.4}") +
      ", %rng: tensor<4xi32>, %l: index, %m: index, %p: "
      "index, %t: index)";
  std::string inputs =
      "%q: tensor<2x$Tx8xf32>, %k: tensor<2x$Tx4xf32>, %v: tensor<2x$Tx4xf32>";
  std::string results = "(tensor<2x$Tx8xf32>, tensor<2x2x$Txf32>)";
  std::string forward =
      "plan.kernel @k(" + inputs + scalars + " -> " + results +
      R"( attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
      %y, %lse = nn.attention %q, %k, %v)" +
      at + types + random + ") -> " + results +
      "\n plan.yield %y, %lse : tensor<2x$Tx8xf32>, tensor<2x2x$Txf32> }";
  std::string gradient =
      "plan.kernel @k(%g: tensor<2x$Tx8xf32>, " + inputs +
      ", %y: tensor<2x$Tx8xf32>, %lse: tensor<2x2x$Txf32>" + scalars + " -> (" +
      types +
      R"() attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1, -1>} {
      %d:3 = nn.attention_grad %g, %q, %k, %v forward %y lse %lse)" +
      at + "tensor<2x$Tx8xf32>, " + types +
      ", tensor<2x$Tx8xf32>, tensor<2x2x$Txf32>" + random + ") -> (" + types +
      ")\n plan.yield %d#0, %d#1, %d#2 : " + types + " }";
  return {forward, gradient};
}

/// A length of a part, place and turn.
using Turn = std::tuple<const char *, int64_t, int64_t>;

/// With one of `rests` for each turn, or with all in a long run.
void checkInTurns(ArrayRef<const char *> rests, ArrayRef<Turn> turns,
                  bool hasLengths, const std::string &layout = "") {
  for (auto [number, rest] : llvm::enumerate(rests))
    for (auto [other, turnOf] : llvm::enumerate(turns)) {
      if (!isLong() && (other + number + 1) % rests.size() != 0)
        continue;
      auto [length, place, turn] = turnOf;
      for (const std::string &text : inTurn(rest, hasLengths, layout)) {
        KernelCheck check{instantiate(text, {{"T", length}}), 1e-5};
        check.scalars = {11, 3, place, turn};
        // Lengths are of all three places.
        check.least = hasLengths ? 0 : -2000000000;
        check.limit = hasLengths ? 3 * std::stoll(length) + 1 : 2000000000;
        check.run();
      }
    }
}

TEST(AttentionKernels, InTurns) {
  // Keys of the same place, of one before, and of one behind.
  checkInTurns(
      {"0.0, site = 0>, mask = #nn.mask<causal>",
       "0.0, site = 0>, mask = #nn.mask<full>",
       "0.25, site = 7>, mask = #nn.mask<causal>"},
      {{"1", 1, 0}, {"8", 2, 1}, {"20", 1, 2}, {"70", 1, 0}, {"70", 2, 1}},
      /*hasLengths=*/false);
}

TEST(AttentionKernels, LengthsInTurns) {
  checkInTurns({"0.0, site = 0>, mask = #nn.mask<full>",
                "0.25, site = 7>, mask = #nn.mask<causal>"},
               {{"20", 1, 2}, {"70", 1, 0}, {"70", 2, 1}}, /*hasLengths=*/true);
}

/// The layout is that of the whole sequence: its 33 blocks need two words.
TEST(AttentionKernels, LayoutsInTurns) {
  checkInTurns(
      {"0.0, site = 0>, mask = #nn.mask<full, block = 16, density = 0.4>",
       "0.25, site = 7>, mask = #nn.mask<causal, block = 16, density = 0.4>"},
      {{"176", 1, 0}, {"176", 2, 1}, {"176", 0, 1}, {"176", 0, 2}},
      /*hasLengths=*/true, "tensor<2x33x2xi32>");
}

void checkGradient(const Texts &texts) {
  KernelCheck check{texts.gradient, 1e-5};
  check.forward = texts.forward;
  check.run();
}

// The gradient is defined by the forward pass that it is given, whatever that
// was: another mask of dropout, for one, than its own.
TEST(AttentionKernels, AnyForwardPass) {
  for (const Texts *texts : {&packed, &apart})
    KernelCheck{texts->gradient, 1e-5}.run();
}

TEST(AttentionKernels, PackedGradient) { checkGradient(packed); }

TEST(AttentionKernels, GradientWithFewerKeyHeads) { checkGradient(apart); }

} // namespace
