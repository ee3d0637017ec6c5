//===- OptimizerTexts.cpp - Optimizers' kernels for tests -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OptimizerTexts.h"
#include "KernelReference.h"
#include "llvm/ADT/StringExtras.h"

namespace heddle::test {

std::string UpdateText::types() const { return llvm::join(results, ", "); }

std::string UpdateText::values() const {
  std::string all;
  for (size_t i = 0; i < results.size(); ++i)
    all += (i ? ", %" : "%") + std::to_string(i);
  return all;
}

static UpdateText fill(UpdateText text, int64_t size,
                       const std::string &gradient,
                       const std::string &positive) {
  auto fillOne = [&](std::string &part) {
    part = instantiate(part, {{"G", "tensor<$Nx" + gradient + ">"},
                              {"S", "tensor<$Nxf32>"},
                              {"B", "tensor<$Nx$C>"},
                              {"C", gradient == "f16" ? "f16" : "bf16"},
                              {"N", std::to_string(size)},
                              {"P", positive}});
  };
  fillOne(text.arguments);
  fillOne(text.body);
  for (std::string &result : text.results)
    fillOne(result);
  for (int64_t &each : text.bytes)
    if (each != 4)
      each = each / 8 * size;
  return text;
}

UpdateText adamText(int64_t size, const std::string &gradient,
                    const std::string &positive, const std::string &condition) {
  UpdateText text;
  text.arguments = "%p: $S, %g: $G, %m: $S, %v: $S$P, %lr: tensor<f32>$P, "
                   "%b1: tensor<f32>$P, %b2: tensor<f32>$P, "
                   "%clip: tensor<f32>$P";
  text.results = {"$S", "$S", "$S", "$B"};
  text.body = R"(
      %0, %1, %2, %3 = nn.update "adamw" %p, %g states(%m, %v)
          with(%lr, %b1, %b2, %clip) )" +
              (condition.empty() ? "" : "if " + condition) + R"(
          : ($S, $G, $S, $S, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
             )" +
              (condition.empty() ? "" : ", tensor<f32>") +
              R"() -> ($S, $S, $S, $B) {
      ^bb0(%a: f64, %b: f64, %c: f64, %d: f64, %e: f64, %f: f64, %h: f64,
           %i: f64):
        %clipped = arith.mulf %b, %i : f64
        %beta = arith.constant 0.9 : f64
        %old = arith.mulf %beta, %c : f64
        %rest = arith.constant 0.1 : f64
        %add = arith.mulf %rest, %clipped : f64
        %avg = arith.addf %old, %add : f64
        %square = arith.mulf %clipped, %clipped : f64
        %sq = arith.addf %d, %square : f64
        %root = math.sqrt %sq : f64
        %corrected = math.sqrt %h : f64
        %quotient = arith.divf %root, %corrected : f64
        %eps = arith.constant 1.0e-8 : f64
        %denominator = arith.addf %quotient, %eps : f64
        %step = arith.divf %e, %f : f64
        %direction = arith.divf %avg, %denominator : f64
        %move = arith.mulf %step, %direction : f64
        %next = arith.subf %a, %move : f64
        nn.return %next, %avg, %sq : f64, f64, f64
      })";
  int64_t ofGradient = gradient == "f32" ? 32 : 16;
  text.bytes = {32, ofGradient, 32, 32, 4, 4, 4, 4, 32, 32, 32, 16};
  return fill(text, size, gradient, positive);
}

UpdateText lionText(int64_t size, const std::string &gradient,
                    const std::string &positive) {
  UpdateText text;
  text.arguments = "%p: $S, %g: $G, %m: $S, %lr: tensor<f32>$P, "
                   "%clip: tensor<f32>$P";
  text.results = {"$S", "$S", "$B"};
  text.body = R"(
      %0, %1, %2 = nn.update "lion" %p, %g states(%m) with(%lr, %clip)
          : ($S, $G, $S, tensor<f32>, tensor<f32>) -> ($S, $S, $B) {
      ^bb0(%a: f64, %b: f64, %c: f64, %d: f64, %e: f64):
        %clipped = arith.mulf %b, %e : f64
        %beta1 = arith.constant 0.9 : f64
        %old = arith.mulf %beta1, %c : f64
        %rest1 = arith.constant 0.1 : f64
        %new = arith.mulf %rest1, %clipped : f64
        %mean = arith.addf %old, %new : f64
        %zero = arith.constant 0.0 : f64
        %isBelow = arith.cmpf ogt, %zero, %mean : f64
        %minus = arith.constant -1.0 : f64
        %below = arith.select %isBelow, %minus, %zero : f64
        %isAbove = arith.cmpf ogt, %mean, %zero : f64
        %one = arith.constant 1.0 : f64
        %sign = arith.select %isAbove, %one, %below : f64
        %decay = arith.constant 0.1 : f64
        %decayed = arith.mulf %decay, %a : f64
        %step = arith.addf %sign, %decayed : f64
        %beta2 = arith.constant 0.99 : f64
        %kept = arith.mulf %beta2, %c : f64
        %rest2 = arith.constant 0.01 : f64
        %added = arith.mulf %rest2, %clipped : f64
        %momentum = arith.addf %kept, %added : f64
        %move = arith.mulf %d, %step : f64
        %next = arith.subf %a, %move : f64
        nn.return %next, %momentum : f64, f64
      })";
  int64_t ofGradient = gradient == "f32" ? 32 : 16;
  text.bytes = {32, ofGradient, 32, 4, 4, 32, 32, 16};
  return fill(text, size, gradient, positive);
}

UpdateText lambText(int64_t size, const std::string &gradient,
                    const std::string &positive) {
  UpdateText text;
  text.arguments = "%p: $S, %g: $G, %m: $S, %v: $S$P, %lr: tensor<f32>$P, "
                   "%b1: tensor<f32>$P, %b2: tensor<f32>$P, "
                   "%clip: tensor<f32>$P, %scaled: $S";
  text.results = {"$S", "$S", "$S", "$B"};
  text.body = R"(
      %0, %1, %2, %3 = nn.update "lamb" %p, %g states(%m, %v)
          with(%lr, %b1, %b2, %clip, %scaled)
          : ($S, $G, $S, $S, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>,
             $S) -> ($S, $S, $S, $B) {
      ^bb0(%a: f64, %b: f64, %c: f64, %d: f64, %e: f64, %f: f64, %h: f64,
           %i: f64, %j: f64):
        %clipped = arith.mulf %b, %i : f64
        %beta1 = arith.constant 0.9 : f64
        %old = arith.mulf %beta1, %c : f64
        %rest1 = arith.constant 0.1 : f64
        %new = arith.mulf %rest1, %clipped : f64
        %avg = arith.addf %old, %new : f64
        %beta2 = arith.constant 0.999 : f64
        %kept = arith.mulf %beta2, %d : f64
        %square = arith.mulf %clipped, %clipped : f64
        %rest2 = arith.constant 0.001 : f64
        %added = arith.mulf %rest2, %square : f64
        %sq = arith.addf %kept, %added : f64
        %root = math.sqrt %h : f64
        %rate = arith.mulf %e, %root : f64
        %step = arith.divf %rate, %f : f64
        %move = arith.mulf %step, %j : f64
        %next = arith.subf %a, %move : f64
        nn.return %next, %avg, %sq : f64, f64, f64
      })";
  int64_t ofGradient = gradient == "f32" ? 32 : 16;
  text.bytes = {32, ofGradient, 32, 32, 4, 4, 4, 4, 32, 32, 32, 32, 16};
  return fill(text, size, gradient, positive);
}

} // namespace heddle::test
